"""Where threads stayed, and when an idle CPU could have run a thread that stayed there both before and after its wait."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wastedcores.jit.compile import jit
from wastedcores.runqueues.state import FORK, MIGRATE, SWITCH, WAKEUP, WAKEUP_NEW

I64 = NDArray[np.int64]
I32 = NDArray[np.int32]
U64 = NDArray[np.uint64]

MAX_NS = 2**63 - 1


class Stays(NamedTuple):
    """Stays of threads on CPUs, in order of their beginning; the first ``n[0]`` rows are valid."""

    task: I32
    cpu: I32  # -1: a thread with this number is born
    start_ns: I64
    n: I64  # (1,)


@jit
def _on(s: Stays, last: I32, p: int, c: int, t: int) -> None:
    """Thread ``p`` is on CPU ``c``, or born (-1)."""
    if p <= 0 or last[p] == c + 2:
        return
    last[p] = c + 2
    k = s.n[0]
    s.task[k], s.cpu[k], s.start_ns[k] = p, c, t
    s.n[0] = k + 1


@jit
def stays(
    code: NDArray[np.int8], ts_ns: I64, cpu: I32, pid: I32, prev_pid: I32, wakings: bool, span: I64,
    last: I32, s: Stays,
) -> None:  # fmt: skip
    """Write the stays that events within ``span`` show; ``last`` (tasks,) is carried along, ``s`` has room for two per event.

    A sched_waking names the CPU on which the thread was, so it shows nothing.
    """
    for i in range(ts_ns.size):
        t = ts_ns[i]
        if t < span[0] or t > span[1]:
            continue
        k, c = code[i], cpu[i]
        if k == SWITCH:
            _on(s, last, prev_pid[i], c, t)
            _on(s, last, pid[i], c, t)
        elif k == MIGRATE or ((k == WAKEUP or k == WAKEUP_NEW) and not wakings):
            _on(s, last, pid[i], c, t)
        elif k == FORK:
            _on(s, last, pid[i], -1, t)


@jit
def surrounded(
    task: I32, cpu: I32, since_ns: I64, of_stay: I32, start_ns: I64, end_ns: I64, repin_ns: I64, near_ns: int,
    words: int,
) -> U64:  # fmt: skip
    """For each wait: the CPUs on which the thread was both before and after it, at most ``near_ns`` away, as (waits, words).

    ``task``, ``cpu`` and ``since_ns`` are the stays, ordered by thread and time; ``of_stay`` is the stay in which the wait lies.
    None of the times ``repin_ns`` lies between a stay before the wait and a stay after it.
    """
    found = np.zeros((of_stay.size, words), np.uint64)
    before, after = np.zeros(words, np.uint64), np.zeros(words, np.uint64)
    for w in range(of_stay.size):
        before[:], after[:] = 0, 0
        stay = of_stay[w]
        k = np.searchsorted(repin_ns, start_ns[w], side="right")
        # a stay is seen at its beginning; a thread may sleep until its next stay
        first = repin_ns[k - 1] if k > 0 else -MAX_NS
        last = min(end_ns[w] + near_ns, repin_ns[k] if k < repin_ns.size else MAX_NS)
        j = stay - 1
        while (
            j >= 0 and task[j] == task[stay] and cpu[j + 1] >= 0 and cpu[j] >= 0
            and since_ns[j + 1] >= start_ns[w] - near_ns and since_ns[j] >= first
        ):  # fmt: skip
            before[cpu[j] >> 6] |= np.uint64(1) << np.uint64(cpu[j] & 63)
            j -= 1
        j = stay + 1
        while (
            j < task.size and task[j] == task[stay] and cpu[j] >= 0
            and since_ns[j] <= last
        ):  # fmt: skip
            after[cpu[j] >> 6] |= np.uint64(1) << np.uint64(cpu[j] & 63)
            j += 1
        for i in range(words):
            found[w, i] = before[i] & after[i]
    return found


@jit
def lengths(
    ts_ns: I64, cpu: I32, nr: I32, mask: I32, span: I64, now: I32, since: I64,
    out: I64,
) -> int:  # fmt: skip
    """Write the intervals within ``span`` in which a CPU was idle or overloaded as (cpu, start, end, 1 if idle) to ``out``.

    ``now`` and ``since`` (cpus,) are carried along.
    """
    n = 0
    for i in range(ts_ns.size):
        c = cpu[i]
        if mask[i] > 0:
            continue
        kind = 1 if nr[i] == 0 else 2 if nr[i] >= 2 else 0
        if kind == now[c]:
            continue
        start, end = max(since[c], span[0]), min(ts_ns[i], span[1])
        if now[c] > 0 and end > start:
            out[n, 0], out[n, 1], out[n, 2], out[n, 3] = c, start, end, now[c]
            n += 1
        now[c], since[c] = kind, ts_ns[i]
    return n


@jit
def shared(
    cpu: I32, start_ns: I64, end_ns: I64, places: U64,
    over: I64, over_first: I32, idle: I64, idle_first: I32, room: int,
) -> I64:  # fmt: skip
    """Return at most ``room`` spans (n, 2) in which the CPU of a waiting thread was overloaded and one of its ``places`` idle.

    ``over`` and ``idle`` are (n, 2), ordered by CPU and time; the rows of CPU c begin at ``over_first[c]`` and ``idle_first[c]``.
    """
    out = np.zeros((room, 2), np.int64)
    n = 0
    for k in range(cpu.size):
        row = places[k]
        c = cpu[k]
        for j in range(over_first[c], over_first[c + 1]):
            lo, hi = max(over[j, 0], start_ns[k]), min(over[j, 1], end_ns[k])
            if hi <= lo:
                if over[j, 0] >= end_ns[k]:
                    break
                continue
            for i in range(idle_first.size - 1):
                if (row[i >> 6] >> np.uint64(i & 63)) & np.uint64(1) == 0 or i == c:
                    continue
                first = idle_first[i]
                at = first + np.searchsorted(idle[first : idle_first[i + 1], 1], lo, side="right")
                while at < idle_first[i + 1] and idle[at, 0] < hi:
                    if n == room:
                        return out
                    out[n, 0] = max(lo, idle[at, 0])
                    out[n, 1] = min(hi, idle[at, 1])
                    n += 1
                    at += 1
    return out[:n]
