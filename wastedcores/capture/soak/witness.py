"""An independent reading of the machine: how idle each CPU was and how long each task waited, from /proc alone.

The online checker reads runqueues by BPF. The witness shares nothing with it: idle time comes from /proc/stat, waiting from
the run delay in /proc/PID/task/TID/schedstat (Documentation/scheduler/sched-stats.rst) and, where the kernel has it, from
/proc/pressure/cpu.
"""

from __future__ import annotations

import os
import threading
import time
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

SAMPLE_S = 0.025
SCAN_S = 0.5
KEPT_S = 120.0
_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")


class Sample(NamedTuple):
    """Counters at one moment of the monotonic clock: per CPU the idle time, and the totals of waiting and of own work."""

    ts_ns: int
    idle_ns: dict[int, int]
    pressure_ns: int | None
    own_ns: int


class Scan(NamedTuple):
    """The run delay of every task at one moment."""

    ts_ns: int
    delay_ns: dict[int, int]


class Waited(NamedTuple):
    """A task that waited between two scans, and where it may run."""

    tid: int
    comm: str
    delay_ns: int
    allowed: frozenset[int]


class Between(NamedTuple):
    """What happened between two samples, as shares of the time between them."""

    seconds: float
    idle: dict[int, float]
    pressure: float | None
    own: float


def idle_ns() -> dict[int, int]:
    """Return the idle time of each online CPU so far (including the time in which it waited for a disk)."""
    found = {}
    for line in Path("/proc/stat").read_text().splitlines():
        name, *fields = line.split()
        if name.startswith("cpu") and name != "cpu":
            found[int(name[3:])] = (int(fields[3]) + int(fields[4])) * _TICK_NS
    return found


def pressure_ns() -> int | None:
    """Return for how long at least one task waited for a CPU so far; None if this kernel does not tell."""
    try:
        first = Path("/proc/pressure/cpu").read_text().splitlines()[0]
    except OSError:
        return None
    return int(first.rpartition("=")[2]) * 1000


def run_delay_ns(pid: int, tid: int) -> int:
    """Return for how long a thread has waited for a CPU so far; 0 if it has ended."""
    try:
        return int(Path(f"/proc/{pid}/task/{tid}/schedstat").read_bytes().split()[1])
    except (OSError, IndexError, ValueError):
        return 0


def scan() -> Scan:
    """Read the run delay of every task."""
    now, delays = time.monotonic_ns(), {}
    for pid in os.listdir("/proc"):
        if not pid.isdigit():
            continue
        try:
            tids = os.listdir(f"/proc/{pid}/task")
        except OSError:
            continue
        for tid in tids:
            with (
                suppress(OSError, IndexError, ValueError),
                open(f"/proc/{pid}/task/{tid}/schedstat", "rb") as f,
            ):
                delays[int(tid)] = int(f.read().split()[1])
    return Scan(now, delays)


class Witness(threading.Thread):
    """A thread that samples the machine until :meth:`stop`."""

    def __init__(self, own_ns: Callable[[], int]) -> None:
        super().__init__(daemon=True)
        self._own_ns = own_ns
        self._end = threading.Event()
        self._samples: deque[Sample] = deque(maxlen=int(KEPT_S / SAMPLE_S))
        self._scans: deque[Scan] = deque(maxlen=int(KEPT_S / SCAN_S))
        self._names: dict[int, tuple[str, frozenset[int]]] = {}

    def run(self) -> None:
        """Sample every 25 ms and scan every half second."""
        due = time.monotonic()
        while not self._end.is_set():
            self._samples.append(
                Sample(time.monotonic_ns(), idle_ns(), pressure_ns(), self._own_ns())
            )
            if time.monotonic() >= due:
                due = time.monotonic() + SCAN_S
                self._scan()
            self._end.wait(SAMPLE_S)

    def stop(self) -> None:
        """End the thread."""
        self._end.set()
        self.join()

    def _scan(self) -> None:
        new = scan()
        old = self._scans[-1].delay_ns if self._scans else {}
        self._scans.append(new)
        for tid, delay in new.delay_ns.items():
            if delay != old.get(tid, 0):  # who waited is asked for its name while it is there
                with suppress(OSError):
                    comm = Path(f"/proc/{tid}/comm").read_text().strip()
                    self._names[tid] = (comm, frozenset(os.sched_getaffinity(tid)))
        for tid in self._names.keys() - new.delay_ns.keys():
            if all(tid not in s.delay_ns for s in self._scans):
                del self._names[tid]

    def between(self, start_ns: int, end_ns: int) -> Between | None:
        """Return the shares between the first and the last sample inside a span; None if there are not two."""
        samples = list(self._samples)
        times = [s.ts_ns for s in samples]
        first, last = bisect_left(times, start_ns), bisect_right(times, end_ns) - 1
        if last <= first:
            return None
        a, b = samples[first], samples[last]
        ns = b.ts_ns - a.ts_ns
        pressure = None
        if a.pressure_ns is not None and b.pressure_ns is not None:
            pressure = (b.pressure_ns - a.pressure_ns) / ns
        idle = {c: (b.idle_ns[c] - a.idle_ns[c]) / ns for c in b.idle_ns if c in a.idle_ns}
        return Between(ns / 1e9, idle, pressure, (b.own_ns - a.own_ns) / ns)

    def waited(self, start_ns: int, end_ns: int) -> list[Waited] | None:
        """Return the tasks that waited between the scans around a span, longest first; None before the second scan."""
        scans = list(self._scans)
        times = [s.ts_ns for s in scans]
        first, last = max(0, bisect_right(times, start_ns) - 1), bisect_left(times, end_ns)
        if last >= len(scans) or times[first] > start_ns:
            return None
        before, after = scans[first].delay_ns, dict[int, int]()
        for s in scans[first + 1 : last + 1]:  # a task may end in between
            after.update(s.delay_ns)
        nowhere = ("", frozenset[int]())
        found = [
            Waited(tid, self._names.get(tid, nowhere)[0], grown, self._names.get(tid, nowhere)[1])
            for tid, delay in after.items()
            if (grown := delay - before.get(tid, 0)) > 0
        ]
        return sorted(found, key=lambda w: -w.delay_ns)
