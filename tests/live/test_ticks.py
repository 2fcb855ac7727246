"""Ticks with frequencies on the running kernel.

Virtual machines do not count APERF and MPERF, so two counters that every machine has take their places: the ns of the
software event cpu-clock for the actual cycles, and the TSC for the constant ones. By definition a CPU then runs at 10^6 kHz.
The reading of two counters, their ratio and the constant frequency are the same code as on a machine that counts cycles.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

import wastedcores
from wastedcores.analysis.examined import examine
from wastedcores.capture import backends
from wastedcores.capture.backends import bcc_python
from wastedcores.capture.collector import collectors_for_root
from wastedcores.errors import MissingEventsError
from wastedcores.figures.frequencies import frequency as frequency_figure
from wastedcores.trace.trace import Trace

pytestmark = pytest.mark.slow

#: computes on the second CPU until it has had so many seconds of CPU time
BUSY = """
import os, sys, time
os.sched_setaffinity(0, {1})
print(os.getpid(), flush=True)
while time.process_time() < float(sys.argv[1]): pass
"""
EVENTS = "nr_running,switch,wakeup,fork,exit,tick"


def ticks_of_a_busy_cpu(tmp_path, before: str = "") -> tuple[wastedcores.Trace, pl.DataFrame]:
    """Record two seconds, one with a task that computes on CPU 1, and return its ticks; run ``before`` in the collector."""
    out = tmp_path / "t.wct"
    code = (
        f"import sys; sys.path.insert(0, sys.argv.pop(1)); import _frequency, schedtrace; {before}"
    )
    code += "\nsys.exit(schedtrace.main())"
    argv = [bcc_python(), "-B", "-c", code, str(collectors_for_root()), "-o", str(out)]
    argv += ["--seconds", "2", "--events", EVENTS]
    collector = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True)
    for line in collector.stderr:
        if line.strip() == "ready":
            break
    busy = subprocess.run(
        [sys.executable, "-I", "-S", "-c", BUSY, "1"], check=True, capture_output=True, text=True
    )
    assert collector.wait(30) == 0
    collector.stderr.close()
    trace = wastedcores.open_trace(out)
    # the program begins on any CPU
    mine = pl.col("pid") == int(busy.stdout), pl.col("cpu") == 1
    return trace, trace.only("tick").filter(*mine).collect()


def test_a_busy_cpu_ticks_and_an_idle_one_does_not(bpf, tmp_path):
    trace, mine = ticks_of_a_busy_cpu(tmp_path)
    period = mine["ts_ns"].diff().median()
    # one second of CPU time, without the program's start on another CPU
    assert mine.height * period == pytest.approx(1e9, rel=0.1)
    assert trace.only("tick").filter(pl.col("pid") == 0).collect().is_empty()
    without = Trace(trace.without("tick"), trace.header)
    # a check begins with the first event, which may be a tick
    began = without.events.select(pl.col("ts_ns").min()).collect().item()
    with_ticks = Trace(trace.events.filter(pl.col("ts_ns") >= began), trace.header)
    assert wastedcores.check(with_ticks).to_json() == wastedcores.check(without).to_json()
    counted = any(s.works for s in backends.sources() if "perf" in s.name or "cur_freq" in s.name)
    assert trace.header.provenance["frequency"].startswith("unknown") == (not counted)
    if not counted:
        assert mine["value"].null_count() == mine.height
        with pytest.raises(MissingEventsError, match="its ticks have no frequency"):
            frequency_figure(examine(trace))


def test_two_counters_and_their_ratio(bpf, tmp_path):
    if not Path("/sys/bus/event_source/devices/msr/events/tsc").exists():
        pytest.skip("needs the perf counter msr/tsc/")
    software = "_frequency.COUNTERS = ((1, 0), _frequency.counter(*_frequency.TSC))"
    trace, mine = ticks_of_a_busy_cpu(tmp_path, software)
    assert trace.header.provenance["frequency"] == "perf counters msr/aperf/ and msr/mperf/"
    told = mine["value"].drop_nulls()
    assert len(told) > 0.9 * mine.height > 90
    # the rate of the TSC is measured over 50 ms
    assert told.median() == pytest.approx(1e6, rel=0.001)
    assert (told - 1e6).abs().quantile(0.9) < 0.01 * 1e6
    frequency_figure(examine(trace))


def test_cpufreq_tells_where_nothing_counts(bpf, tmp_path):
    for cpu, khz in ((0, 1_200_000), (1, 2_400_000)):
        folder = tmp_path / f"cpu{cpu}/cpufreq"
        folder.mkdir(parents=True)
        (folder / "scaling_cur_freq").write_text(f"{khz}\n")
    none = "_frequency.COUNTERS = (('none', 'a'), ('none', 'b'))"
    files = f"_frequency.CPUS = _frequency.Path({str(tmp_path)!r}); {none}"
    trace, mine = ticks_of_a_busy_cpu(tmp_path, files)
    assert trace.header.provenance["frequency"] == "scaling_cur_freq"
    assert set(mine["value"]) == {2_400_000}
    others = trace.only("tick").filter(pl.col("cpu") == 0).collect()
    assert set(others["value"]) <= {1_200_000}
