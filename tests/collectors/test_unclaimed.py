"""The loop of the online checker, without a kernel: a checker whose timer is gone ends with an error."""

from __future__ import annotations

import errno
import importlib
import sys
from types import SimpleNamespace

import pytest
from support import ROOT


class Clock:
    """A clock that moves only while somebody sleeps."""

    now = 1000.0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds

    def strftime(self, form):
        return form


class Looked:
    """A checker that counts a look at each question about its state."""

    timer_cpu, tally, deficits = 0, None, 0

    def __init__(self, step=1, hold=0, starts=True):
        self.step, self.hold, self.starts, self.looks = step, hold, starts, 0
        self.started = []
        self.r = SimpleNamespace(
            programs=SimpleNamespace(way="none"),
            no_object=[],
            totals=lambda: (0, 0),
            close=lambda: None,
        )

    def state(self):
        self.looks += self.step
        state = dict.fromkeys(self.fields, 0)
        return state | {"last_look": self.looks, "hold": self.hold, "suspected_at": 1}

    def may_be_chronic(self, s):
        return False

    def start_timers(self, cpu):
        if not self.starts:
            raise PermissionError(1, "Operation not permitted")
        self.timer_cpu = cpu
        self.started.append(cpu)


@pytest.fixture
def unclaimed(monkeypatch):
    """The collector's module, which imports its neighbours."""
    monkeypatch.syspath_prepend(str(ROOT / "collectors"))
    yield importlib.import_module("unclaimed")
    own = str(ROOT / "collectors")
    for name in [
        n for n, m in sys.modules.items() if (getattr(m, "__file__", "") or "").startswith(own)
    ]:
        del sys.modules[name]


@pytest.fixture
def run(unclaimed, monkeypatch):
    """Run the collector for ten seconds of a pretended clock, and return its exit code."""
    Looked.fields = importlib.import_module("_checker").FIELDS
    for name in ("least_privilege", "drop_all"):
        monkeypatch.setattr(unclaimed._privilege, name, lambda *a, **k: "none")
    monkeypatch.setattr(unclaimed._options, "stop_signals", list)
    monkeypatch.setattr(unclaimed._bpf, "online", lambda: [0, 1])
    monkeypatch.setattr(unclaimed, "time", Clock())

    def run(checker, *options):
        monkeypatch.setattr(unclaimed, "Checker", lambda a: checker)
        return unclaimed.main(["--seconds", "10", *options])

    return run


def test_a_checker_that_looks_or_is_held_ends_well(run):
    assert run(Looked()) == 0
    assert run(Looked(step=0, hold=1)) == 0  # it waits until a violation is recorded


def test_a_checker_that_looks_no_more_ends_with_an_error(run, capsys):
    """As after its CPU went offline and came back, between two questions which CPUs are online."""
    assert run(Looked(step=0)) == 2
    assert "no look for 7 s" in capsys.readouterr().err


@pytest.mark.parametrize(("options", "recorded"), [((), 0), (("--chronic",), 1)])
def test_slices_are_recorded_only_where_chronic_waste_is_looked_for(run, options, recorded):
    """The looks of suspicions and of the event-driven mode find pairs in slices, too."""
    checker, taken = Looked(), []
    checker.may_be_chronic = lambda s: True
    checker.recording_of_slices = lambda: taken.append(1) or b""
    assert run(checker, *options) == 0
    assert len(taken) == recorded


def test_a_timer_whose_cpu_went_offline_is_started_on_another_one(run, capsys):
    checker = Looked()
    checker.timer_cpu = 7
    assert run(checker) == 0
    assert checker.started == [0]
    checker = Looked(starts=False)
    checker.timer_cpu = 7
    assert run(checker) == 2
    assert "went offline" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("cpus", "mib"), [(2, 8), (64, 8), (65, 4), (240, 2), (1024, 0.5), (2048, 0.25), (8192, 0.25)]
)
def test_the_rings_of_all_cpus_have_512_mib_at_most(unclaimed, monkeypatch, cpus, mib):
    """They belong to the service's memory, also those of CPUs that may be plugged in later."""
    monkeypatch.setattr(unclaimed._bpf, "possible", lambda: cpus)
    assert unclaimed.parse([]).buffer == mib
    assert unclaimed.parse(["--buffer", "16"]).buffer == 16


def test_a_recording_that_cannot_be_written_is_told_and_leaves_no_half(
    unclaimed, monkeypatch, tmp_path, capsys
):
    """The checker looks on, and its line about the violation is not lost."""

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    a = SimpleNamespace(dir=str(tmp_path / "e"), framed=False)
    found = dict.fromkeys(("idle_cpu", "lasted_ms", "pid", "busy_nr", "busy_cpu"), 1)
    unclaimed.keep(a, "violation", b"blob", number=1, **found)
    monkeypatch.setattr(unclaimed.os, "replace", full)
    unclaimed.keep(a, "violation", b"blob", number=2, **found)
    assert [p.name for p in (tmp_path / "e").iterdir()] == ["violation-1.wct"]
    said = capsys.readouterr()
    assert said.out.count("CPU 1 was idle") == 2
    assert "violation-2.wct: cannot write: No space left on device" in said.err
