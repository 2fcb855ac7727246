"""An independent reading of the machine: how idle each CPU was and how long each task waited, from /proc alone.

The online checker reads runqueues by BPF, or records. The witness shares nothing with it: idle time comes from /proc/stat,
waiting from the run delay in /proc/PID/task/TID/schedstat (Documentation/scheduler/sched-stats.rst) and, where the kernel has
it, from /proc/pressure/cpu.
"""

from __future__ import annotations

import os
import threading
import time
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

#: the CPU was idle for at least this share of the alarm's time, apart from the checker's own work
IDLE_SHARE = 0.8
#: a task waited for at least this share of it
WAIT_SHARE = 0.5
#: a sample may be late by this much
AROUND_NS = 60_000_000
#: an alarm is false if a share is below this
NOTHING = 0.1


def explain(alarm: dict[str, Any], witness: Witness) -> dict[str, Any] | None:
    """Judge one alarm."""
    start, end = alarm["began_ns"], alarm["confirmed_ns"]
    waited = witness.waited(start, end)
    if waited is None:
        return None
    reading = witness.between(start, end)
    if reading is None or reading.seconds * 1e9 < (end - start) / 2:
        # if the CPUs are busy, the witness has to wait, too, so look at the samples around the alarm
        reading = witness.between(start - AROUND_NS, end + AROUND_NS)
    answer, why = _answer(alarm, reading, waited)
    longest = [[w.comm, w.tid, round(w.delay_ns / 1e6), sorted(w.allowed)] for w in waited[:5]]
    return {
        "answer": answer,
        "why": why,
        "idle_share": round(reading.idle.get(alarm["idle_cpu"], 0.0), 3) if reading else None,
        "own_share": round(reading.own[alarm["watcher"]], 3) if reading else None,
        "pressure_share": None
        if reading is None or reading.pressure is None
        else round(reading.pressure, 3),
        "waited_ms": longest,
    }


def _answer(
    alarm: dict[str, Any], reading: Between | None, waited: list[Waited]
) -> tuple[str, str]:
    cpu, lasted_ns = alarm["idle_cpu"], alarm["confirmed_ns"] - alarm["began_ns"]
    if reading is None or reading.seconds * 1e9 < lasted_ns / 3:
        return "unexplained", "the witness did not come to read in time"
    idle, own = reading.idle.get(cpu), reading.own[alarm["watcher"]]
    if idle is None:
        return "unexplained", f"CPU {cpu} was offline for the witness"
    # the kernel averages this over the CPUs, weighted by how busy they are (kernel/sched/psi.c, collect_percpu_times), so one
    # CPU with a waiting task may count for as little as its share of the CPUs
    pressure = 1.0 if reading.pressure is None else reading.pressure * len(reading.idle)
    could = max((w.delay_ns for w in waited if cpu in w.allowed), default=0) / lasted_ns
    any_task = max((w.delay_ns for w in waited), default=0) / lasted_ns
    tick = 0.01 / reading.seconds  # idle time is told in ticks of 10 ms
    if idle + own + tick >= IDLE_SHARE and idle + tick >= WAIT_SHARE:
        if could >= WAIT_SHARE and pressure >= WAIT_SHARE:
            return "true", f"CPU {cpu} was idle while a task that may run there waited"
        if any_task < NOTHING or pressure < NOTHING:
            return "false", "no task waited"
        if could < NOTHING:
            return "false", f"no task that waited may run on CPU {cpu}"
        return "unexplained", "the tasks waited for a part of the time only"
    if idle + own + tick < NOTHING:
        return "false", f"CPU {cpu} was busy"
    return "unexplained", f"CPU {cpu} was idle for {idle:.0%} of the time"


#: a violation is provoked with these; the witness itself runs on the one that is not left idle
BUSY_CPU, IDLE_CPU = 0, 1
SAMPLE_S = 0.025
SCAN_S = 0.5
#: an alarm of the recorder is known when its recording ends
KEPT_S = 400.0
_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")


class Sample(NamedTuple):
    """Counters at one moment of the monotonic clock: per CPU the idle time, all waiting, and per watcher its own work."""

    ts_ns: int
    idle_ns: dict[int, int]
    pressure_ns: int | None
    own_ns: dict[str, int]


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
    own: dict[str, float]


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


def ahead(really: bool = True) -> None:
    """Let this thread run before all others, also before the recorder's sampler, and on the CPU that is not left idle.

    One that kept Python's lock while it waits would keep the witness from reading. Two looks of 21 that meet other work on the
    idle CPU are all that the checker forgives, and none of them should be due to the soak.
    """
    kind, priority = (os.SCHED_FIFO, 20) if really else (os.SCHED_OTHER, 0)
    os.sched_setaffinity(0, {BUSY_CPU} if really else range(os.cpu_count() or 1))
    with suppress(PermissionError):
        os.sched_setscheduler(0, kind, os.sched_param(priority))


class Witness(threading.Thread):
    """A thread that samples the machine until :meth:`stop`."""

    def __init__(self, own_ns: Callable[[], dict[str, int]]) -> None:
        super().__init__(daemon=True)
        self._own_ns = own_ns
        self._end = threading.Event()
        self._samples: deque[Sample] = deque(maxlen=int(KEPT_S / SAMPLE_S))
        self._scans: deque[Scan] = deque(maxlen=int(KEPT_S / SCAN_S))
        self._names: dict[int, tuple[str, frozenset[int]]] = {}

    def run(self) -> None:
        """Sample every 25 ms and scan every half second."""
        ahead()
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
            if delay != old.get(tid, 0):
                # a task that waited is asked for its name while it still exists
                with suppress(OSError):
                    comm = Path(f"/proc/{tid}/comm").read_text(errors="replace").strip()
                    self._names[tid] = (comm, frozenset(os.sched_getaffinity(tid)))
        for tid in self._names.keys() - new.delay_ns.keys():
            if all(tid not in s.delay_ns for s in self._scans):
                del self._names[tid]

    def between(self, start_ns: int, end_ns: int) -> Between | None:
        """Return the shares between the first and the last sample inside a span; None if there are not two."""
        samples = list(self._samples)
        first = bisect_left(samples, start_ns, key=attrgetter("ts_ns"))
        last = bisect_right(samples, end_ns, key=attrgetter("ts_ns")) - 1
        if last <= first:
            return None
        a, b = samples[first], samples[last]
        ns = b.ts_ns - a.ts_ns
        pressure = None
        if a.pressure_ns is not None and b.pressure_ns is not None:
            pressure = (b.pressure_ns - a.pressure_ns) / ns
        idle = {c: (b.idle_ns[c] - a.idle_ns[c]) / ns for c in b.idle_ns if c in a.idle_ns}
        own = {w: (b.own_ns[w] - a.own_ns[w]) / ns for w in b.own_ns if w in a.own_ns}
        return Between(ns / 1e9, idle, pressure, own)

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
