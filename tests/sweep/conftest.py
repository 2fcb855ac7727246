"""A Dask cluster of processes, and tasks that workers can import."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
from support import TESTS as HERE
from support.waiting import wait_for


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    """Let workers import the tasks of the tests."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(HERE), str(HERE.parent)]))


def start(name, *args, log):
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", f"distributed.cli.{name}", *args],
        stdout=log,
        stderr=log,
    )


@pytest.fixture
def cluster(tmp_path):
    """Start a scheduler and two workers, each in a process of its own; yield the address and the processes."""
    pytest.importorskip("distributed", reason="wastedcores[dask] is not installed")
    texts = [tmp_path / f"dask{i}.log" for i in range(3)]
    logs = [t.open("w") for t in texts]
    processes = [
        start("dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", log=logs[0])
    ]
    try:
        wait_for(lambda: "Scheduler at" in texts[0].read_text())
        address = re.search(r"tcp://127\.0\.0\.1:\d+", texts[0].read_text()).group()
        for log in logs[1:]:
            processes.append(
                start(
                    "dask_worker", address, "--nthreads", "1", "--no-nanny", "--no-dashboard",
                    "--local-directory", str(tmp_path), log=log,
                )
            )  # fmt: skip
        for text in texts[1:]:
            wait_for(lambda text=text: "Registered to" in text.read_text())
        yield address, processes
    finally:
        for process in processes:
            process.kill()
            process.wait()
        for log in logs:
            log.close()
