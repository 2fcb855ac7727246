"""The mixture of loads of a soak: each is a small program that ends by itself, and together they keep half of two CPUs busy."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_HEAD = """
import os, sys, time, random
end = time.monotonic() + float(sys.argv[1])
def compute(s):
    until = time.monotonic() + s
    while time.monotonic() < until: pass
def join(group):
    if group: open(group + "/cgroup.procs", "w").write(str(os.getpid()))
"""
#: name -> program; sys.argv[1] is its length in seconds, sys.argv[2] a control group or ""
PROGRAMS = {
    "half": """
for _ in range(2): os.fork()
while time.monotonic() < end: compute(random.uniform(0.001, 0.05)); time.sleep(random.uniform(0.02, 0.12))
""",
    "quota": """
join(sys.argv[2])
for _ in range(2): os.fork()
while time.monotonic() < end: pass
""",
    "cpuset": """
join(sys.argv[2])
for _ in range(2): os.fork()
while time.monotonic() < end: compute(0.15); time.sleep(0.3)
""",
    "pinned": """
os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
for _ in range(2): os.fork()
while time.monotonic() < end: compute(0.2); time.sleep(0.2)
""",
    "real-time": """
if os.fork():
    try: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
    except OSError: pass
    while time.monotonic() < end: compute(0.005); time.sleep(0.045)
else:
    os.fork()
    while time.monotonic() < end: compute(0.1); time.sleep(0.1)
""",
    "forks": """
def make(depth):
    kids = []
    for _ in range(random.randint(1, 3)):
        pid = os.fork()
        if not pid:
            compute(random.uniform(0.001, 0.02))
            if depth: make(depth - 1)
            os._exit(0)
        kids.append(pid)
    for k in kids: os.waitpid(k, 0)
while time.monotonic() < end: make(2); time.sleep(0.15)
""",
    "pipes": """
there, back = os.pipe(), os.pipe()
for _ in range(6):
    if not os.fork():
        os.close(there[1])
        while os.read(there[0], 64): os.write(back[1], b"x" * 64)
        os._exit(0)
while time.monotonic() < end:
    for _ in range(40):
        left = os.write(there[1], b"x" * 384)
        while left: left -= len(os.read(back[0], left))
    time.sleep(0.004)
""",
    "idle": "time.sleep(max(0, end - time.monotonic()))",
}
#: these run at the same time as another one, so that limits and affinity meet other work
BESIDE = ("half", "forks", "pipes")


@contextmanager
def control_group(load: str) -> Iterator[str]:
    """Make the control group that a load needs; an empty name if it needs none, or if none can be made (cgroup v1)."""
    root = {"quota": Path("/sys/fs/cgroup/cpu"), "cpuset": Path("/sys/fs/cgroup/cpuset")}.get(load)
    group = root / f"wastedcores-soak-{os.getpid()}" if root is not None else None
    if group is None or not (group.parent / "tasks").exists():
        yield ""
        return
    group.mkdir(exist_ok=True)
    try:
        if load == "quota":
            (group / "cpu.cfs_period_us").write_text("100000")
            (group / "cpu.cfs_quota_us").write_text("40000")
        else:
            last = max(os.sched_getaffinity(0))
            (group / "cpuset.mems").write_text("0")
            (group / "cpuset.cpus").write_text(str(last))
        yield str(group)
    finally:
        for _ in range(50):  # until its tasks are gone
            try:
                group.rmdir()
                break
            except OSError:
                time.sleep(0.05)


@contextmanager
def running(load: str, seconds: float) -> Iterator[None]:
    """Run a load inside the block."""
    with control_group(load) as group:
        child = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _HEAD + PROGRAMS[load], f"{seconds:g}", group],
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            yield
        finally:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()


def turns(rng: random.Random) -> Iterator[tuple[tuple[str, ...], float]]:
    """Yield for ever the loads that run next and for how many seconds: every load comes once per round, in a random order."""
    while True:
        names = list(PROGRAMS)
        rng.shuffle(names)
        for name in names:
            beside = (rng.choice(BESIDE),) if name in ("quota", "cpuset", "pinned") else ()
            yield (name, *beside), rng.uniform(8, 25)
