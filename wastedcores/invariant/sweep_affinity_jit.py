"""Algorithm 2 with the paper's ``can_steal``: a waiting thread counts for an idle CPU only if it may run there.

The number of waiting threads that the idle CPUs could run is a maximum matching between idle CPUs and waiting
threads. Threads that may run anywhere take the idle CPUs that the other threads leave over. So the matching is searched only for
these other threads, by classes of equal affinity mask, and only if there are any.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wastedcores.invariant.sweep_jit import (
    IDLE,
    LAST_TS,
    N_EPISODES,
    STARTED,
    Episodes,
    SweepState,
    account,
    apply,
    close_episode,
)
from wastedcores.jit.compile import callee, jit

I64 = NDArray[np.int64]
I32 = NDArray[np.int32]
U64 = NDArray[np.uint64]

# indices into StealState.totals
FREE_WAITING, FREE_CPUS, RESTRICTED, DIRTY, THREADS, CPUS = range(6)


class StealState(NamedTuple):
    """Where threads wait and may run; carried along with :class:`SweepState`."""

    free: I32  # (cpus,) waiting tasks that may run anywhere
    free_now: I32  # (cpus,) the same, but at most nr - 1
    restricted: I32  # (cpus, masks) waiting tasks by mask id
    masks: U64  # (masks, words) the allowed CPUs of a mask id
    idle_mask: U64  # (words,) idle CPUs, whether or not they could help
    totals: I64  # (6,)


def new_steal_state(cpus: int, masks: U64) -> StealState:
    """Return a state in which no thread waits."""
    totals = np.zeros(6, np.int64)
    totals[DIRTY] = 1
    return StealState(
        np.zeros(cpus, np.int32),
        np.zeros(cpus, np.int32),
        np.zeros((cpus, masks.shape[0]), np.int32),
        masks,
        np.zeros(masks.shape[1], np.uint64),
        totals,
    )


@callee
def _allowed(masks: U64, m: int, cpu: int) -> bool:
    """Return whether mask ``m`` contains ``cpu``."""
    return (masks[m, cpu >> 6] >> np.uint64(cpu & 63)) & np.uint64(1) != 0


@jit
def match(allowed: NDArray[np.uint8], room: I64) -> int:
    """Return the largest number of items that find a place in classes with limited room (Kuhn's augmenting paths)."""
    n, k = allowed.shape
    place = np.full(n, -1, np.int32)
    used = np.zeros(k, np.int64)
    total = 0
    came_from = np.empty(k, np.int32)
    via = np.empty(k, np.int32)
    queue = np.empty(k, np.int32)
    for item in range(n):
        came_from[:] = -2
        head = 0
        tail = 0
        for m in range(k):
            if allowed[item, m] != 0:
                came_from[m] = -1
                via[m] = item
                queue[tail] = m
                tail += 1
        found = -1
        while head < tail and found < 0:
            m = queue[head]
            head += 1
            if used[m] < room[m]:
                found = m
                break
            for other in range(n):
                if place[other] == m:
                    for m2 in range(k):
                        if allowed[other, m2] != 0 and came_from[m2] == -2:
                            came_from[m2] = m
                            via[m2] = other
                            queue[tail] = m2
                            tail += 1
        if found >= 0:
            total += 1
            used[found] += 1
            m = found
            while True:
                mover = via[m]
                place[mover] = m
                if came_from[m] == -1:
                    break
                m = came_from[m]
    return total


@callee
def _settled(s: SweepState, a: StealState) -> bool:
    """Set THREADS and CPUS, the waiting threads and overloaded CPUs that idle CPUs could help; return whether both are final."""
    tot = a.totals
    tot[DIRTY] = 0
    idle = s.scalars[IDLE]
    for w in range(a.idle_mask.size):
        s.idle_mask[w] = a.idle_mask[w]
    none = idle == 0 or (tot[RESTRICTED] == 0 and tot[FREE_WAITING] == 0)
    tot[THREADS] = 0 if none else min(idle, tot[FREE_WAITING])
    tot[CPUS] = 0 if none else min(idle, tot[FREE_CPUS])
    return none or tot[RESTRICTED] == 0 or idle <= tot[FREE_CPUS]


@jit
def _search(s: SweepState, a: StealState) -> None:
    """Set THREADS and CPUS where some waiting threads may not run everywhere."""
    tot, idle = a.totals, s.scalars[IDLE]
    cpus = a.free.size
    n_masks = a.masks.shape[0]
    idle_cpus = np.empty(idle, np.int32)
    n = 0
    for c in range(cpus):
        if s.counted[c] != 0 and s.nr[c] == 0:
            idle_cpus[n] = c
            n += 1
    room = np.zeros(n_masks, np.int64)
    busy = np.empty(cpus, np.int32)
    n_busy = 0
    for c in range(cpus):
        if s.counted[c] == 0 or s.nr[c] < 2:
            continue
        left = s.nr[c] - 1  # if no task runs yet, one of the queued ones is about to run
        for m in range(1, n_masks):
            take = min(a.restricted[c, m], left)
            room[m] += take
            left -= take
        if left < s.nr[c] - 1 and a.free_now[c] == 0:
            busy[n_busy] = c
            n_busy += 1
    allowed = np.zeros((n, n_masks), np.uint8)
    helps = np.zeros((n, n_busy), np.uint8)
    for i in range(n):
        for m in range(1, n_masks):
            if room[m] > 0 and _allowed(a.masks, m, idle_cpus[i]):
                allowed[i, m] = 1
        for j in range(n_busy):
            for m in range(1, n_masks):
                if a.restricted[busy[j], m] > 0 and allowed[i, m] != 0:
                    helps[i, j] = 1
                    break
    tot[THREADS] = min(idle, match(allowed, room) + tot[FREE_WAITING])
    tot[CPUS] = min(idle, match(helps, np.ones(n_busy, np.int64)) + tot[FREE_CPUS])
    if tot[FREE_WAITING] == 0:  # idle CPUs that may run none of the waiting threads are left out
        for i in range(n):
            if allowed[i].max() == 0:
                c = idle_cpus[i]
                s.idle_mask[c >> 6] &= ~(np.uint64(1) << np.uint64(c & 63))


@callee
def _update(s: SweepState, a: StealState, c: int) -> None:
    """Recompute the share of CPU ``c`` in the totals, and whether it has a waiting thread that may be moved."""
    tot = a.totals
    spare = max(s.nr[c] - 1, 0)
    restricted = 0
    for m in range(1, a.masks.shape[0]):
        restricted += a.restricted[c, m]
    new = min(a.free[c], max(spare - restricted, 0))
    old = a.free_now[c]
    tot[FREE_WAITING] += new - old
    tot[FREE_CPUS] += (1 if new > 0 else 0) - (1 if old > 0 else 0)
    a.free_now[c] = new
    word = c >> 6
    bit = np.uint64(1) << np.uint64(c & 63)
    if s.nr[c] == 0:
        a.idle_mask[word] |= bit
    else:
        a.idle_mask[word] &= ~bit
    if spare > 0 and (new > 0 or restricted > 0):
        s.over_mask[word] |= bit
    else:
        s.over_mask[word] &= ~bit
    tot[DIRTY] = 1


@jit
def sweep(
    s: SweepState,
    a: StealState,
    out: Episodes,
    ts_ns: I64,
    cpu: I32,
    nr: I32,
    free: I32,
    mask: I32,
    first: int,
) -> int:
    """Do the same as :func:`wastedcores.invariant.sweep_jit.sweep` on rows of :class:`wastedcores.runqueues.stream.Batch`."""
    c = s.scalars
    c[N_EPISODES] = 0
    room = out.times.shape[0]
    for i in range(first, ts_ns.size):
        t = ts_ns[i]
        if t > c[LAST_TS] or c[STARTED] == 0:
            if c[STARTED] == 1:
                if c[N_EPISODES] == room:
                    return i
                if a.totals[DIRTY] != 0 and not _settled(s, a):
                    _search(s, a)
                account(s, out, t, a.totals[CPUS], a.totals[THREADS])
            c[STARTED] = 1
            c[LAST_TS] = t
        where = cpu[i]
        if s.counted[where] == 0:
            continue
        if mask[i] > 0:
            a.totals[RESTRICTED] += free[i] - a.restricted[where, mask[i]]
            a.restricted[where, mask[i]] = free[i]
        else:
            apply(s, where, nr[i])
            a.free[where] = free[i]
        _update(s, a, where)
    return ts_ns.size


@jit
def finish(s: SweepState, a: StealState, out: Episodes, end_ns: int) -> None:
    """Account up to the end of the window and close the open episode; ``out`` needs room for two."""
    c = s.scalars
    c[N_EPISODES] = 0
    if c[STARTED] == 1:
        if a.totals[DIRTY] != 0 and not _settled(s, a):
            _search(s, a)
        account(s, out, end_ns, a.totals[CPUS], a.totals[THREADS])
        c[LAST_TS] = max(c[LAST_TS], end_ns)
    close_episode(s, out, min(c[LAST_TS], s.window[1]))
