"""The mixture of loads of a soak: each is a small program that ends by itself, and together they keep half of two CPUs busy."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from wastedcores.capture.demonstration import balancing_off, pile_up, push_work_away
from wastedcores.capture.soak.witness import Witness, run_delay_ns

#: one attempt holds for so long; attempts are repeated until one is established, at most for REPEAT_S
HOLD_S, REPEAT_S = 6.0, 60.0
STEP_S = 0.1
#: a violation counts as established if, in each step, the CPU is idle and the others wait for at least these shares
IDLE_SHARE, WAIT_SHARE = 0.9, 0.8
#: the share of the whole time for which the CPU must be idle. The checker drops a suspicion if three of its 21 looks find the
#: CPU busy. With other work on it for 10 % of the time this happens in one case of three, with 2 % in one of a hundred
IDLE_IN_ALL = 0.98
BUSY_CPU, IDLE_CPU = 0, 1


def provoke(
    witness: Witness, needed_s: float, end: threading.Event, raised: Callable[[int], bool]
) -> dict[str, Any]:
    """Turn load balancing off while three processes pile up on one CPU, until the witness has seen the violation.

    A busy machine may leave no CPU idle for so long. Then it is tried again, unless the checker has raised an alarm already.
    """
    start_ns, attempts, held = time.monotonic_ns(), 0, 0.0
    until = time.monotonic() + REPEAT_S
    while not attempts or (held < needed_s and time.monotonic() < until and not raised(start_ns)):
        if end.is_set():
            break
        attempts += 1
        with balancing_off():
            push_work_away(IDLE_CPU)
            with pile_up(3, HOLD_S + 1, BUSY_CPU) as forker:
                held = max(held, longest_hold(witness, forker, needed_s, end))
    return {
        "start_ns": start_ns,
        "end_ns": time.monotonic_ns(),
        "established": held >= needed_s,
        "attempts": attempts,
        "held_s": round(held, 1),
    }


def longest_hold(witness: Witness, forker: int, needed_s: float, end: threading.Event) -> float:
    """Measure for how long the CPU is idle while the processes wait, and return as soon as that is long enough."""
    longest = 0.0
    until = time.monotonic() + HOLD_S
    before_ns, waited_ns = time.monotonic_ns(), children_waited_ns(forker)
    began_ns = before_ns
    while time.monotonic() < until and longest < needed_s and not end.is_set():
        time.sleep(STEP_S)
        now_ns, now_waited_ns = time.monotonic_ns(), children_waited_ns(forker)
        waiting = (now_waited_ns - waited_ns) / (now_ns - before_ns)
        idle = _idle(witness, before_ns - 30_000_000, now_ns)
        if (
            waiting >= WAIT_SHARE
            and idle >= IDLE_SHARE
            and _idle(witness, began_ns, now_ns) >= IDLE_IN_ALL
        ):
            longest = max(longest, (now_ns - began_ns) / 1e9)
        else:
            began_ns = now_ns
        before_ns, waited_ns = now_ns, now_waited_ns
    return longest


def _idle(witness: Witness, start_ns: int, end_ns: int) -> float:
    """Return at most what share of a span the CPU ran nothing but the checker; idle time is counted in ticks."""
    reading = witness.between(start_ns, end_ns)
    if reading is None:
        return 0.0
    return reading.idle.get(IDLE_CPU, 0.0) + reading.own + 0.01 / reading.seconds


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
