"""How a machine tells its frequencies: a machine of files, and this one."""

from __future__ import annotations

import pytest

from wastedcores.capture import doctor
from wastedcores.capture.backends import APERF, sources


def write(path, data):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def works(root):
    return [s.works for s in sources(root)]


def test_sources__a_machine_without_any(tmp_path):
    assert works(tmp_path) == [False] * 4
    assert all(s.says for s in sources(tmp_path))


def test_sources__each_one_alone(tmp_path):
    events = tmp_path / "sys/bus/event_source/devices/msr/events"
    write(events / "aperf", b"event=0x01")
    assert works(tmp_path)[0] is False
    write(events / "mperf", b"event=0x02")
    assert works(tmp_path) == [True, False, False, False]
    write(tmp_path / "dev/cpu/0/msr", b"\0" * (APERF + 16))
    assert works(tmp_path)[1] is False  # registers that are always zero do not count
    write(tmp_path / "dev/cpu/0/msr", b"\1" * (APERF + 16))
    assert works(tmp_path)[1] is True
    (tmp_path / "sys/kernel/tracing/events/power/cpu_frequency").mkdir(parents=True)
    assert works(tmp_path)[2] is False  # nobody emits the event
    cpufreq = tmp_path / "sys/devices/system/cpu/cpu0/cpufreq"
    write(cpufreq / "scaling_driver", b"acpi-cpufreq\n")
    assert works(tmp_path) == [True, True, True, False]
    write(cpufreq / "scaling_cur_freq", b"1200000\n")
    assert works(tmp_path) == [True] * 4


@pytest.mark.parametrize("works_here", [True, False])
def test_doctor__a_machine_without_frequencies_is_a_finding_and_no_error(monkeypatch, works_here):
    from wastedcores.capture.backends import Source

    monkeypatch.setattr(doctor, "sources", lambda: [Source("counters", works_here, "none")])
    found = doctor.check_frequency()
    assert found.state == ("ok" if works_here else "limited")
    assert "counters" in found.says
