"""What happens to the machine during a soak: loads, each a small program that ends by itself, and provoked violations."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from soak.systemd import UNTIL_KILLED
from soak.witness import BUSY_CPU, IDLE_CPU, Witness, ahead, run_delay_ns
from wastedcores.capture.demonstration import balancing_off, pile_up, push_work_away

#: one attempt holds for so long; attempts are repeated until one is established, at most for REPEAT_S
HOLD_S, REPEAT_S = 6.0, 60.0
STEP_S = 0.1
#: the share of each step for which the CPU must be idle, and the others wait, to count as established
IDLE_SHARE, WAIT_SHARE = 0.9, 0.8
#: the share of the whole time for which the CPU must be idle. The checker drops a suspicion if three of its 21 looks find no
#: idle CPU. Other work on the CPU for a tenth of the time makes it do so in one of three cases, for 2 % in one of a hundred
IDLE_IN_ALL = 0.98


def provoke(
    witness: Witness, needed_s: float, end: threading.Event, raised: Callable[[int], bool]
) -> dict[str, Any]:
    """Turn load balancing off while three processes pile up on one CPU, until the witness has seen the violation.

    A busy machine may leave no CPU idle for so long. Then it is tried again, unless all watchers have raised an alarm already.
    """
    start_ns, on_ns, attempts, held = time.monotonic_ns(), 0, 0, (0, 0)
    until = time.monotonic() + REPEAT_S
    while not attempts or (
        held[1] - held[0] < needed_s * 1e9 and time.monotonic() < until and not raised(start_ns)
    ):
        if end.is_set():
            break
        attempts += 1
        with balancing_off():
            push_work_away(IDLE_CPU)
            with pile_up(3, HOLD_S + 1, BUSY_CPU) as forker:
                on_ns = on_ns or time.monotonic_ns()
                ahead()
                try:
                    longest = longest_hold(witness, forker, needed_s, end)
                finally:
                    ahead(False)  # what this thread starts has its priority
                held = max(held, longest, key=lambda h: h[1] - h[0])
    return {
        "start_ns": start_ns,
        "on_ns": on_ns,
        "end_ns": time.monotonic_ns(),
        "established": held[1] - held[0] >= needed_s * 1e9,
        "attempts": attempts,
        "held_ns": list(held),
    }


def longest_hold(
    witness: Witness, forker: int, needed_s: float, end: threading.Event
) -> tuple[int, int]:
    """Return from when to when the CPU was idle beside the waiting processes; stop as soon as it is long enough."""
    longest = (0, 0)
    until = time.monotonic() + HOLD_S
    before_ns, waited_ns = time.monotonic_ns(), children_waited_ns(forker)
    began_ns = before_ns
    while (
        time.monotonic() < until and longest[1] - longest[0] < needed_s * 1e9 and not end.is_set()
    ):
        time.sleep(STEP_S)
        now_ns, now_waited_ns = time.monotonic_ns(), children_waited_ns(forker)
        waiting = (now_waited_ns - waited_ns) / (now_ns - before_ns)
        idle = _idle(witness, before_ns - 30_000_000, now_ns)
        if (
            waiting >= WAIT_SHARE
            and idle >= IDLE_SHARE
            and _idle(witness, began_ns, now_ns) >= IDLE_IN_ALL
        ):
            longest = max(longest, (began_ns, now_ns), key=lambda h: h[1] - h[0])
        else:
            began_ns = now_ns
        before_ns, waited_ns = now_ns, now_waited_ns
    return longest


def _idle(witness: Witness, start_ns: int, end_ns: int) -> float:
    """Return the share of a span for which the CPU was idle or had work of any watcher, at least; idle time has ticks."""
    reading = witness.between(start_ns, end_ns)
    if reading is None:
        return 0.0
    own = min(reading.own.values(), default=0.0)  # to each watcher the others are other work
    return reading.idle.get(IDLE_CPU, 0.0) + own + 0.01 / reading.seconds


def children_waited_ns(forker: int) -> int:
    """Return for how long the forker's children have waited so far."""
    try:
        children = Path(f"/proc/{forker}/task/{forker}/children").read_text().split()
    except OSError:
        return 0
    return sum(run_delay_ns(int(c), int(c)) for c in children)


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
    # a client wakes its server over a pipe, 30 times a second, and both work for 0.2 ms, as programs of a desktop do
    "wake-up pairs": """
for _ in range(3):
    there, back = os.pipe(), os.pipe()
    if not os.fork():
        os.close(there[1])
        while os.read(there[0], 1): compute(0.0002); os.write(back[1], b"x")
        os._exit(0)
    if not os.fork():
        while time.monotonic() < end: time.sleep(1 / 30); compute(0.0002); os.write(there[1], b"x"); os.read(back[0], 1)
        os._exit(0)
time.sleep(max(0, end - time.monotonic()))
""",
}
#: the machine idles with this one, then the four loads take turns
IDLE, LOADS = "wake-up pairs", ("half", "forks", "pipes", "real-time")
#: these run beside a load for a part of its time each, so that limits and affinity meet other work
LIMITS = (None, "quota", "cpuset", "pinned")


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
        # a process namespace of its own, so that its forks end with it when the soak is killed
        apart = (*UNTIL_KILLED, "unshare", "--fork", "--kill-child", "--pid")
        child = subprocess.Popen(
            [
                *apart,
                sys.executable,
                "-I",
                "-S",
                "-c",
                _HEAD + PROGRAMS[load],
                f"{seconds:g}",
                group,
            ],
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
