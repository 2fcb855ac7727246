"""The collector that reads the kernel's pages, compared with the kernel's own text of the same buffers."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest
from support import ROOT

from wastedcores.trace.io import open_trace

SCRIPT = ROOT / "collectors" / "tracefs.py"
WORK = "for i in $(seq 60); do /bin/true | /bin/cat & done; wait"


@pytest.fixture
def tracefs(root, monkeypatch):
    if not Path("/sys/kernel/tracing/instances").is_dir():
        pytest.skip("tracefs is not mounted")
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    yield importlib.import_module("tracefs")
    for name in ("tracefs", "_mount", "_options", "_output"):
        sys.modules.pop(name, None)


def test_pages_hold_exactly_what_the_kernel_prints(tracefs, tmp_path):
    instance = tracefs.Instance(8)
    try:
        subprocess.run(["sh", "-c", WORK], check=True)
        instance.enable(False)
        text = tmp_path / "text.txt"
        text.write_bytes((instance.path / "trace").read_bytes())
        with (tmp_path / "pages").open("wb") as out:
            tracefs.write_all(out.fileno(), tracefs.head(instance))
            buffers = tracefs.Buffers(instance, out.fileno())
            buffers.copy()
            told, lost = instance.counts()
            buffers.write(tracefs.END, told.encode())
            buffers.close()
    finally:
        instance.close()
    assert lost == 0
    pages, kernel = (open_trace(p).events.collect() for p in (tmp_path / "pages", text))
    assert pages.height == kernel.height > 500
    # the text has rounded microseconds, so the order within one differs
    columns = ["ts_ns", "kind", "cpu", "pid", "prev_pid", "prev_state", "src_cpu", "by_pid"]
    columns += ["comm", "prev_comm", "prio"]
    both = [
        t.select(columns).with_columns(
            (pl.col("ts_ns") + 500) // 1000,
            *(pl.col(c).cast(pl.String) for c in ("kind", "prev_state")),
        )
        for t in (pages, kernel)
    ]
    for column in columns:
        ours, theirs = (t[column].sort() for t in both)
        assert ours.equals(theirs, null_equal=True), column


def overrun(instance: Path) -> int:
    """Return how many events the kernel dropped from the buffers of an instance."""
    stats = (f.read_text() for f in instance.glob("per_cpu/cpu*/stats"))
    return sum(
        int(line.split()[-1])
        for text in stats
        for line in text.splitlines()
        if line.startswith(("overrun:", "dropped events:"))
    )


def test_full_buffers_are_counted_and_a_killed_collector_leaves_what_it_had(tracefs, tmp_path):
    before = set(Path("/sys/kernel/tracing/instances").iterdir())
    raw = tmp_path / "raw"
    command = ["/usr/bin/python3", "-B", str(SCRIPT), "--buffer", "0.06", "-o", str(raw)]
    collector = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert collector.stderr.readline() == "ready\n"
        time.sleep(0.3)
        collector.send_signal(signal.SIGSTOP)
        # how many events a process makes, and thus how many processes fill a buffer, depends on the kernel
        (instance,) = set(Path("/sys/kernel/tracing/instances").iterdir()) - before
        for _ in range(50):
            subprocess.run(["sh", "-c", WORK], check=True)
            if overrun(instance) > 100:
                break
        collector.send_signal(signal.SIGCONT)
        time.sleep(1.5)
        so_far = raw.read_bytes()
    finally:
        collector.send_signal(signal.SIGINT)
    with collector.stderr:
        said = collector.stderr.read()
    assert collector.wait(60) == 0
    trace = open_trace(raw)
    assert trace.header.lost_total > 100
    assert said.startswith(f"{trace.header.lost_total} events lost"), said
    assert trace.kinds()["lost"] >= 1
    assert trace.header.truncated_last_line is None
    killed = tmp_path / "killed"
    killed.write_bytes(so_far)
    assert "missing" in open_trace(killed).header.truncated_last_line
    assert set(Path("/sys/kernel/tracing/instances").iterdir()) == before
    assert os.path.getsize(raw) >= len(so_far)


def instances():
    return {p.name for p in Path("/sys/kernel/tracing/instances").iterdir()}


@pytest.mark.parametrize("moment", ["before ready", "recording"])
def test_a_killed_collector_leaves_no_instance(root, tmp_path, moment):
    before = instances()
    command = ["/usr/bin/python3", "-B", str(SCRIPT), "-o", str(tmp_path / "raw")]
    collector = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    if moment == "recording":
        assert collector.stderr.readline() == "ready\n"
    else:
        while instances() == before and collector.poll() is None:
            time.sleep(0.001)
    assert instances() != before
    collector.kill()
    collector.wait()
    collector.stderr.close()
    until = time.monotonic() + 10
    while instances() != before and time.monotonic() < until:
        time.sleep(0.05)
    assert instances() == before


def test_the_next_collector_and_doctor_find_what_a_killed_guard_left(root, tmp_path):
    from wastedcores.capture import doctor

    before = instances()
    orphan = Path("/sys/kernel/tracing/instances/wastedcores-4194303")  # no process has this number
    orphan.mkdir()
    found = doctor.check_instances()
    assert (found.state, orphan.name in found.says) == ("limited", True)
    command = [
        "/usr/bin/python3",
        "-B",
        str(SCRIPT),
        "--seconds",
        "0.1",
        "-o",
        str(tmp_path / "raw"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert f"removed {orphan}" in done.stderr
    assert instances() == before


@pytest.mark.skipif(
    not Path("/sys/kernel/debug").is_dir() or Path("/proc/sched_debug").exists(),
    reason="needs CONFIG_DEBUG_FS and Linux 5.13 or later",
)
def test_the_kernels_own_counts_are_found_where_nobody_has_mounted_debugfs(root):
    """In a mount namespace of its own, so that the machine's mounts stay."""
    counts = f"exec /usr/bin/python3 -B {SCRIPT.parent}/debugfs.py --seconds 0.2"
    script = f"umount -lR /sys/kernel/debug 2>/dev/null; mount | grep /sys/kernel/debug; {counts}"
    argv = ["unshare", "-m", "sh", "-c", script]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "debugfs: mounted /sys/kernel/debug\n")
    assert done.stdout.startswith('{"event": "ready"')
