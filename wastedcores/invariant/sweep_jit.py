"""The invariant of the paper's Algorithm 2 as one pass over nr_running changes, in constant memory.

The invariant is "no core remains idle while another core is overloaded". The sweep integrates over time by how much the
invariant is broken, as a whole and up to the end of each slice of equal length, and finds the maximal intervals (episodes) in
which it is broken. All changes of one timestamp are applied before the state is looked at. A CPU whose runqueue is not known
counts neither as idle nor as overloaded.

A CPU that runs only SCHED_IDLE tasks is busy, as it is for the kernel's idle_cpu(): sched_idle_cpu() makes it a target of
wakeups, but no core is idle (kernel/sched/fair.c, v6.12). A SCHED_IDLE task that waits beside an idle CPU is waste, too.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wastedcores.jit.compile import callee, jit, lean, rare

I64 = NDArray[np.int64]
I32 = NDArray[np.int32]
U64 = NDArray[np.uint64]

UNKNOWN = -1

# indices into SweepState.scalars
LAST_TS, IDLE, OVERLOADED, WAITING, BUSY = 0, 1, 2, 3, 4
WALL_NS, CPU_NS, THREAD_NS, BUSY_NS, IDLE_NS, WAITING_NS = 5, 6, 7, 8, 9, 10
EP_START, EP_WASTED, N_EPISODES, STARTED, KNOWN_NS = 11, 12, 13, 14, 15
SLICE_NS, SLICES_DONE = 16, 17
N_SCALARS = 18


class SweepState(NamedTuple):
    """The state that the sweep carries from one batch to the next.

    Shapes are (cpus,) unless stated otherwise; masks are (words,) with CPU c at bit c % 64 of word c // 64.
    """

    nr: I32  # tasks on each runqueue, -1 unknown
    counted: NDArray[np.uint8]  # 1: the CPU takes part
    scalars: I64  # (N_SCALARS,)
    window: I64  # (2,) ns: only the time between them counts
    idle_mask: U64  # CPUs idle now
    over_mask: U64  # CPUs overloaded now
    ep_idle: U64  # CPUs idle at some time of the open episode
    ep_over: U64  # CPUs overloaded at some time of the open episode
    slices: I64  # (slices, 3) BUSY_NS, THREAD_NS, IDLE_NS at the end of each slice of SLICE_NS from the window's start on


class Episodes(NamedTuple):
    """Episodes that ended during one call; the first ``scalars[N_EPISODES]`` are valid."""

    times: I64  # (room, 3): start_ns, end_ns, wasted_ns
    idle: U64  # (room, words)
    over: U64  # (room, words)


def new_state(
    cpus: int, counted: NDArray[np.uint8], start_ns: int, end_ns: int, slice_ns: int = 0
) -> SweepState:
    """Return the state before the first change, in which every CPU is unknown."""
    words = (cpus + 63) // 64
    scalars = np.zeros(N_SCALARS, np.int64)
    scalars[EP_START] = -1
    scalars[SLICE_NS] = slice_ns
    slices = (end_ns - start_ns) // slice_ns if slice_ns else 0
    return SweepState(
        np.full(cpus, UNKNOWN, np.int32),
        counted.astype(np.uint8),
        scalars,
        np.array([start_ns, end_ns], np.int64),
        np.zeros(words, np.uint64),
        np.zeros(words, np.uint64),
        np.zeros(words, np.uint64),
        np.zeros(words, np.uint64),
        np.zeros((max(slices, 0), 3), np.int64),
    )


def new_episodes(cpus: int, room: int) -> Episodes:
    """Return empty arrays for the episodes of one call."""
    words = (cpus + 63) // 64
    return Episodes(
        np.zeros((room, 3), np.int64),
        np.zeros((room, words), np.uint64),
        np.zeros((room, words), np.uint64),
    )


@callee
def close_episode(s: SweepState, out: Episodes, end_ns: int) -> None:
    """End the open episode, if there is one, at ``end_ns`` and write it to ``out``."""
    c = s.scalars
    if c[EP_START] < 0:
        return
    if end_ns > c[EP_START]:
        k = c[N_EPISODES]
        out.times[k, 0] = c[EP_START]
        out.times[k, 1] = end_ns
        out.times[k, 2] = c[EP_WASTED]
        for w in range(s.ep_idle.size):
            out.idle[k, w] = s.ep_idle[w]
            out.over[k, w] = s.ep_over[w]
        c[N_EPISODES] = k + 1
    c[EP_START] = -1
    c[EP_WASTED] = 0


@callee
def next_slice_end(s: SweepState) -> int:
    """Return when the first slice that is not written yet ends; the end of all time if there is none."""
    k = s.scalars[SLICES_DONE]
    if k >= s.slices.shape[0]:
        return np.iinfo(np.int64).max
    return s.window[0] + (k + 1) * s.scalars[SLICE_NS]


@rare
def end_slices(
    s: SweepState, lo: int, hi: int, busy_ns: int, thread_ns: int, idle_ns: int,
    busy: int, threads: int, idle: int,
) -> int:  # fmt: skip
    """Write the slices that end in (lo, hi], in which the state did not change; return the next one's end.

    ``busy_ns``, ``thread_ns`` and ``idle_ns`` are the integrals at ``lo``; ``busy``, ``threads`` and ``idle`` are added to them
    per ns from then on.
    """
    end_ns = next_slice_end(s)
    # next_slice_end() returns the largest time when no slice is left, and a damaged trace may last that long
    while end_ns <= hi and s.scalars[SLICES_DONE] < s.slices.shape[0]:
        k = s.scalars[SLICES_DONE]
        s.slices[k, 0] = busy_ns + (end_ns - lo) * busy
        s.slices[k, 1] = thread_ns + (end_ns - lo) * threads
        s.slices[k, 2] = idle_ns + (end_ns - lo) * idle
        s.scalars[SLICES_DONE] = k + 1
        end_ns = next_slice_end(s)
    return end_ns


@callee
def account(s: SweepState, out: Episodes, upto_ns: int, cpus: int, threads: int) -> None:
    """Add the time from the last timestamp to ``upto_ns``, in which the state did not change.

    ``cpus``: overloaded CPUs that idle CPUs could have helped; ``threads``: waiting threads that idle CPUs could have run.
    """
    c = s.scalars
    lo = max(c[LAST_TS], s.window[0])
    hi = min(upto_ns, s.window[1])
    if hi <= lo:
        return
    dt = hi - lo
    end_slices(s, lo, hi, c[BUSY_NS], c[THREAD_NS], c[IDLE_NS], c[BUSY], threads, c[IDLE])
    c[BUSY_NS] += dt * c[BUSY]
    c[IDLE_NS] += dt * c[IDLE]
    c[KNOWN_NS] += dt * (c[BUSY] + c[IDLE])
    c[WAITING_NS] += dt * c[WAITING]
    if threads > 0:
        c[WALL_NS] += dt
        c[CPU_NS] += dt * cpus
        c[THREAD_NS] += dt * threads
        if c[EP_START] < 0:
            c[EP_START] = lo
            c[EP_WASTED] = 0
            for w in range(s.ep_idle.size):
                s.ep_idle[w] = s.idle_mask[w]
                s.ep_over[w] = s.over_mask[w]
        else:
            for w in range(s.ep_idle.size):
                s.ep_idle[w] |= s.idle_mask[w]
                s.ep_over[w] |= s.over_mask[w]
        c[EP_WASTED] += dt * threads
    elif c[EP_START] >= 0:
        close_episode(s, out, lo)


@callee
def apply(s: SweepState, cpu: int, new: int) -> None:
    """Set the length of the runqueue of ``cpu`` to ``new`` tasks (-1: unknown)."""
    c = s.scalars
    old = s.nr[cpu]
    if old == new:
        return
    s.nr[cpu] = new
    word = cpu >> 6
    bit = np.uint64(1) << np.uint64(cpu & 63)
    if old == 0:
        c[IDLE] -= 1
        s.idle_mask[word] &= ~bit
    elif old > 0:
        c[BUSY] -= 1
        if old > 1:
            c[OVERLOADED] -= 1
            c[WAITING] -= old - 1
            s.over_mask[word] &= ~bit
    if new == 0:
        c[IDLE] += 1
        s.idle_mask[word] |= bit
    elif new > 0:
        c[BUSY] += 1
        if new > 1:
            c[OVERLOADED] += 1
            c[WAITING] += new - 1
            s.over_mask[word] |= bit


@jit
def sweep(s: SweepState, out: Episodes, ts_ns: I64, cpu: I32, nr: I32, first: int) -> int:
    """Process changes from ``first`` on until the end or until ``out`` is full; return the index to continue at.

    * ``ts_ns``, ``cpu``, ``nr``: (changes,) ordered by time; CPU numbers are within the state's range (runqueues/events.py
      checks that).
    """
    # one loop over local variables without branches on data, because such branches would be mispredicted for random runqueues
    c = s.scalars
    state = s.nr
    counted = s.counted
    idle_mask, over_mask, ep_idle, ep_over = s.idle_mask, s.over_mask, s.ep_idle, s.ep_over
    from_ns, to_ns = s.window[0], s.window[1]
    words = idle_mask.size
    room = out.times.shape[0]
    last = c[LAST_TS]
    started = c[STARTED]
    idle, over, waiting, busy = c[IDLE], c[OVERLOADED], c[WAITING], c[BUSY]
    wall_ns, cpu_ns, thread_ns = c[WALL_NS], c[CPU_NS], c[THREAD_NS]
    busy_ns, idle_ns, waiting_ns = c[BUSY_NS], c[IDLE_NS], c[WAITING_NS]
    ep_start, wasted = c[EP_START], c[EP_WASTED]
    slice_end = next_slice_end(s)
    n_episodes = 0
    stopped_at = ts_ns.size
    for i in range(first, ts_ns.size):
        t = ts_ns[i]
        if t > last or started == 0:
            lo = max(last, from_ns)
            hi = min(t, to_ns)
            if started == 1 and hi > lo:
                if n_episodes == room:
                    stopped_at = i
                    break
                dt = hi - lo
                threads = min(idle, waiting)
                if hi >= slice_end:
                    slice_end = end_slices(
                        s, lo, hi, busy_ns, thread_ns, idle_ns, busy, threads, idle
                    )
                busy_ns += dt * busy
                idle_ns += dt * idle
                waiting_ns += dt * waiting
                if threads > 0:
                    wall_ns += dt
                    cpu_ns += dt * min(idle, over)
                    thread_ns += dt * threads
                    if ep_start < 0:
                        ep_start = lo
                        wasted = 0
                        for w in range(words):
                            ep_idle[w] = 0
                            ep_over[w] = 0
                    for w in range(words):
                        ep_idle[w] |= idle_mask[w]
                        ep_over[w] |= over_mask[w]
                    wasted += dt * threads
                elif ep_start >= 0:
                    out.times[n_episodes, 0] = ep_start
                    out.times[n_episodes, 1] = lo
                    out.times[n_episodes, 2] = wasted
                    for w in range(words):
                        out.idle[n_episodes, w] = ep_idle[w]
                        out.over[n_episodes, w] = ep_over[w]
                    n_episodes += 1 if lo > ep_start else 0
                    ep_start = -1
            started = 1
            last = t
        where = np.uint64(cpu[i])  # numba does not test whether an unsigned index is below 0
        old = state[where]
        new = nr[i] if counted[where] != 0 else old
        state[where] = new
        idle_change = (1 if new == 0 else 0) - (1 if old == 0 else 0)
        over_change = (1 if new > 1 else 0) - (1 if old > 1 else 0)
        idle += idle_change
        over += over_change
        busy += (1 if new > 0 else 0) - (1 if old > 0 else 0)
        waiting += max(new - 1, 0) - max(old - 1, 0)
        word = where >> np.uint64(6)
        shift = where & np.uint64(63)
        idle_mask[word] ^= np.uint64(idle_change & 1) << shift
        over_mask[word] ^= np.uint64(over_change & 1) << shift
    c[LAST_TS], c[STARTED] = last, started
    c[IDLE], c[OVERLOADED], c[WAITING], c[BUSY] = idle, over, waiting, busy
    c[WALL_NS], c[CPU_NS], c[THREAD_NS] = wall_ns, cpu_ns, thread_ns
    c[BUSY_NS], c[IDLE_NS], c[WAITING_NS] = busy_ns, idle_ns, waiting_ns
    c[KNOWN_NS] = busy_ns + idle_ns
    c[EP_START], c[EP_WASTED] = ep_start, wasted
    c[N_EPISODES] = n_episodes
    return stopped_at


@lean
def finish(s: SweepState, out: Episodes, end_ns: int) -> None:
    """Account up to the end of the window and close the open episode; ``out`` needs room for two."""
    c = s.scalars
    c[N_EPISODES] = 0
    if c[STARTED] == 1:
        account(s, out, end_ns, min(c[IDLE], c[OVERLOADED]), min(c[IDLE], c[WAITING]))
        c[LAST_TS] = max(c[LAST_TS], end_ns)
    close_episode(s, out, min(c[LAST_TS], s.window[1]))
