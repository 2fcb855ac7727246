"""Live tests change or trace the running kernel. They need root, run one at a time, and put everything back."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from wastedcores.capture.backends import choose, command
from wastedcores.capture.demonstration import SETTING
from wastedcores.errors import CollectorError


def pytest_collection_modifyitems(items):
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.live)
            item.add_marker(pytest.mark.root)


@pytest.fixture(scope="session")
def root():
    if os.geteuid() != 0:
        pytest.skip("needs root")


@pytest.fixture(scope="session")
def bpf(root):
    """The BPF backend; tools/ci_packages.sh installs what it needs."""
    try:
        return choose("bpf")
    except CollectorError as e:
        pytest.skip(str(e))


@pytest.fixture
def balancing(root):
    """The cpuset switch of load balancing; it is on before and after the test."""
    if not SETTING.exists():
        pytest.skip(f"no {SETTING}: needs a cgroup v1 cpuset hierarchy")
    if os.cpu_count() < 2:
        pytest.skip("needs two CPUs")
    wait_until(lambda: SETTING.read_text().strip() == "1", 90.0)  # a soak may be provoking
    yield SETTING
    assert SETTING.read_text().strip() == "1"


class Tracer:
    """A collector that the test starts itself, so that it can stop, starve and kill it."""

    def __init__(self, bpf, file: Path, *arguments: str, script="schedtrace.py", env=None):
        self.file = file
        argv = command(script, ["-o", str(file), *arguments], bpf)
        self.process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env
        )
        for line in self.process.stderr:
            if line.strip() == "ready":
                return
        pytest.fail(f"the collector gave up with code {self.process.wait()}")

    def end(self, signal_number=2) -> int:
        self.process.send_signal(signal_number)
        code = self.process.wait(30)
        self.process.stderr.read()
        self.process.stderr.close()
        self.process.stdin.close()
        return code


@pytest.fixture
def tracer(bpf, tmp_path):
    """Start schedtrace; kill it after the test if it still runs."""
    running = []

    def start(*arguments, name="t.wct", **more):
        running.append(Tracer(bpf, tmp_path / name, *arguments, **more))
        return running[-1]

    yield start
    for t in running:
        if t.process.poll() is None:
            t.process.kill()
            t.process.wait()
        t.process.stderr.close()
        t.process.stdin.close()


@pytest.fixture
def sleeper():
    """Run a child with a name of its own that sleeps exactly the given number of times."""

    def run(times: int, name: str = "wc-sleeper", pause: float = 0.002) -> int:
        code = (
            "import sys, time\n"
            "open('/proc/self/comm', 'w').write(sys.argv[2])\n"
            "for _ in range(int(sys.argv[1])): time.sleep(float(sys.argv[3]))\n"
        )
        child = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", code, str(times), name, str(pause)]
        )
        child.wait()
        return child.pid

    return run


def wait_until(condition, seconds: float = 5.0) -> None:
    """Return when the condition holds; fail after the given time."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "did not happen in time"
        time.sleep(0.02)
