"""Real recordings of some CPUs or some processes, and with other clocks: what was not recorded is unknown, never idle."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from wastedcores.invariant import check
from wastedcores.trace.io import open_trace

EVENTS = ",".join(f"sched:sched_{e}" for e in ("switch", "wakeup", "wakeup_new", "migrate_task"))
BUSY = "while :; do :; done"


@pytest.fixture
def hog():
    """A process that computes on CPU 0, which is not recorded: on the recorded CPU it would prove that this CPU is never idle."""
    process = subprocess.Popen(["sh", "-c", BUSY])
    os.sched_setaffinity(process.pid, {0})
    yield process.pid
    process.kill()
    process.wait()


@pytest.fixture(scope="module")
def recorded(root, tmp_path_factory):
    """Record a part of the machine once; a name of :data:`PARTS` gives its file."""
    if shutil.which("perf") is None:
        pytest.skip("needs perf")
    folder = tmp_path_factory.mktemp("perf")

    def record(which: str, hog: int) -> Path:
        file = folder / f"{which}.data"
        if not file.exists():
            part = [word.format(hog) for word in PARTS[which]]
            command = ["perf", "record", "-q", "-e", EVENTS, *part, "-o", str(file), "--"]
            subprocess.run([*command, "sh", "-c", "for i in 1 2 3; do sleep 0.1; done"], check=True)
        return file

    return record


PARTS = {"cpu": ["-C", "1"], "process": ["-p", "{}"], "thread": ["--per-thread"], "own": []}


@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize("which", PARTS)
def test_what_perf_did_not_record_is_unknown(recorded, hog, tmp_path, which, text):
    file = recorded(which, hog)
    if text:
        script = ["perf", "script", "-i", str(file), "-F", "+cpu", "--header", "--show-lost-events"]
        lines = subprocess.run(script, capture_output=True, check=True).stdout
        file = tmp_path / "perf.txt"
        file.write_bytes(lines)
    trace = open_trace(file)
    assert trace.header.some_tasks == (which != "cpu")
    found = check(trace)
    assert found.verdict == "unknown"
    if which == "cpu":
        assert 0 in found.unknown_cpus
        assert not any(0 in cpus for cpus in found.episodes["idle_cpus"])


@pytest.mark.parametrize("clock", ["local", "global", "mono", "boot"])
def test_clocks_of_ftrace_that_count_time(root, tmp_path, clock):
    """The length of a recording is that of the sleep in it, from text and from trace.dat."""
    instances = Path("/sys/kernel/tracing/instances")
    if not instances.is_dir() or shutil.which("trace-cmd") is None:
        pytest.skip("needs tracefs and trace-cmd (tools/ci_packages.sh)")
    instance = instances / "wastedcores-test-clock"
    instance.mkdir()
    try:
        (instance / "trace_clock").write_text(clock)
        for event in ("switch", "wakeup", "wakeup_new", "migrate_task", "process_fork"):
            (instance / "events/sched" / f"sched_{event}" / "enable").write_text("1")
        subprocess.run(["sleep", "0.5"], check=True)
        (instance / "tracing_on").write_text("0")
        text = tmp_path / "trace.txt"
        text.write_bytes((instance / "trace").read_bytes())
        dat = tmp_path / "trace.dat"
        extract = ["trace-cmd", "extract", "-B", instance.name, "-o", str(dat)]
        subprocess.run(extract, capture_output=True, check=True)
    finally:
        if instance.is_dir():
            instance.rmdir()
    for file in (text, dat):
        trace = open_trace(file)
        length_ns = trace.header.end_ns - trace.header.start_ns
        assert 450_000_000 <= length_ns <= 3_000_000_000, (file.name, clock)
        assert trace.header.lost_total == 0
        found = check(trace)
        assert found.end_ns - found.start_ns == length_ns
        assert found.busy_ns + found.idle_ns <= length_ns * found.cpus
