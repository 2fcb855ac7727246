"""A real recording of perf: where its threads may run is unknown without a snapshot and decided with one."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path

import pytest

from wastedcores.capture.snapshot import read_snapshot, with_snapshot, write_snapshot
from wastedcores.invariant import check
from wastedcores.trace.io import open_trace


@pytest.fixture
def pinned():
    """Two threads that were pinned to CPU 0 before anybody recorded."""
    command = ["taskset", "-c", "0", "sh", "-c", "while :; do :; done"]
    hogs = [subprocess.Popen(command) for _ in range(2)]
    for hog in hogs:  # taskset becomes the shell when the shell is pinned
        while Path(f"/proc/{hog.pid}/comm").read_text() != "sh\n":
            time.sleep(0.01)
    yield {hog.pid for hog in hogs}
    for hog in hogs:
        hog.kill()
        hog.wait()


@pytest.mark.slow  # it needs a machine on which nothing else runs
def test_pinned_threads_beside_an_idle_cpu(root, pinned, tmp_path):
    if shutil.which("perf") is None:
        pytest.skip("needs perf")
    perf, tasks = tmp_path / "perf.data", tmp_path / "tasks.json"
    command = ["perf", "sched", "record", "-o", perf, "--", "sleep", "0.5"]
    for _ in range(8):
        write_snapshot(tasks)
        subprocess.run(command, check=True, capture_output=True)
        without = open_trace(perf)
        told = with_snapshot(without, read_snapshot(tasks), tasks)
        assert pinned <= {t.pid for t in told.header.tasks if t.allowed == "0"}
        found = check(without), check(told)
        assert found[1].affinity_unknown <= found[0].affinity_unknown - len(pinned)
        verdicts = [f.verdict for f in found]
        assert "violations" not in verdicts
        if verdicts == ["unknown", "clean"]:
            return
        if "contradicted_often" in found[1].doubts["reason"]:
            # this kernel hides tasks from perf, so the snapshot decides nothing
            assert verdicts[0] == verdicts[1]
            return
    pytest.skip("other work kept the other CPU busy")
