"""State changes reduced to pixels: the length of each CPU's runqueue in every column of a heat map.

Changes are grouped by CPU (``index_by_cpu``), so a zoom costs one binary search per CPU plus the changes inside the
window. Times are exact integers. Pixel ``k`` of ``cols`` covers ``[edge(k), edge(k+1))`` with
``edge(k) = start + (end - start) * k // cols``.
"""

from __future__ import annotations

import numpy as np

from wastedcores.jit.compile import inner, jit

#: runqueue lengths that have a colour of their own: 0, 1, 2, 3, 4, 5 or more
CLASSES = 6


@jit
def index_by_cpu(ts, cpu, nr, n_cpus):
    """Group changes by CPU and keep their order in time."""
    offsets = np.zeros(n_cpus + 1, np.int64)
    for i in range(cpu.size):
        if 0 <= cpu[i] < n_cpus:
            offsets[cpu[i] + 1] += 1
    for c in range(n_cpus):
        offsets[c + 1] += offsets[c]
    at = offsets[:-1].copy()
    ts_out = np.empty(offsets[n_cpus], np.int64)
    nr_out = np.empty(offsets[n_cpus], np.int32)
    for i in range(cpu.size):
        c = cpu[i]
        if 0 <= c < n_cpus:
            ts_out[at[c]] = ts[i]
            nr_out[at[c]] = nr[i]
            at[c] += 1
    return ts_out, nr_out, offsets


@inner
def _share_out(held, edges, owed, out):
    """Choose a state for each pixel of a row, so that each state is painted for the share of the time in which it held.

    Of the states that occur in a pixel, the pixel gets the state that is furthest behind its share so far. The difference is
    carried over to the next pixels. ``held`` is (cols, states); the last state stands for the time in which no state is known.
    """
    states = held.shape[1]
    owed[:] = 0
    for c in range(held.shape[0]):
        width = edges[c + 1] - edges[c]
        rest = width
        for s in range(states - 1):
            rest -= held[c, s]
        held[c, states - 1] = rest
        chosen = -1
        for s in range(states):
            owed[s] += held[c, s]
            if held[c, s] > 0 and (chosen < 0 or owed[s] > owed[chosen]):
                chosen = s
        owed[chosen] -= width
        out[c] = chosen if chosen < states - 1 else -1


@jit
def bin_states(ts, nr, offsets, cpus, edges):
    """Reduce runqueue lengths to pixels."""
    rows, cols = cpus.size, edges.size - 1
    longest = np.full((rows, cols), -1, np.int8)
    share = np.full((rows, cols), -1, np.int8)
    last = np.full((rows, cols), -1, np.int32)
    peak = np.full((rows, cols), -1, np.int32)
    mean = np.zeros((rows, cols))
    idle, waiting, known = np.zeros(cols), np.zeros(cols), np.zeros(cols)
    held = np.zeros((cols, CLASSES + 1), np.int64)
    owed = np.zeros(CLASSES + 1, np.int64)
    start, end = edges[0], edges[cols]
    for r in range(rows):
        lo, hi = offsets[cpus[r]], offsets[cpus[r] + 1]
        held[:, :] = 0
        i = lo + np.searchsorted(ts[lo:hi], start, side="right")
        state = nr[i - 1] if i > lo else -1
        a, k = start, 0
        # pixels narrower than 1 ns would have equal borders; pixel_edges() makes none
        while True:
            b = ts[i] if i < hi and ts[i] < end else end
            slot = state if state < CLASSES else CLASSES - 1
            while b > a:
                # the part of [a, b) inside pixel k; a border belongs to the pixel after it
                cut = edges[k + 1] if edges[k + 1] < b else b
                d = cut - a
                if state >= 0:
                    held[k, slot] += d
                    mean[r, k] += d * state
                    peak[r, k] = max(peak[r, k], state)
                a = cut
                if cut == edges[k + 1]:
                    last[r, k] = state
                    k += 1
            if i >= hi or ts[i] >= end:
                break
            state = nr[i]
            i += 1
        for c in range(cols):
            total = 0
            most = 0
            for s in range(CLASSES):
                total += held[c, s]
                if held[c, s] > most:
                    most = held[c, s]
                    longest[r, c] = s
            # waiting = integral of max(nr - 1, 0) = integral of nr minus the time in which a task runs
            known[c] += total
            idle[c] += held[c, 0]
            waiting[c] += mean[r, c] - (total - held[c, 0])
            mean[r, c] = mean[r, c] / total if total > 0 else np.nan
        _share_out(held, edges, owed, share[r])
    return share, longest, last, peak, mean, idle, waiting, known


@jit
def bin_owner(intervals, edges, n_rows):
    """Find the interval that covers most of each pixel."""
    start, end, owner, row = intervals
    cols = edges.size - 1
    out = np.full((n_rows, cols), -1, np.int64)
    best = np.zeros((n_rows, cols), np.int64)
    run_owner = np.full((n_rows, cols), -1, np.int64)
    run_time = np.zeros((n_rows, cols), np.int64)
    for i in range(start.size):
        r, a, b = row[i], max(start[i], edges[0]), min(end[i], edges[cols])
        if b <= a:
            continue
        k = np.searchsorted(edges, a, side="right") - 1
        while k < cols and edges[k] < b:
            d = min(b, edges[k + 1]) - max(a, edges[k])
            # consecutive intervals of one task add up; a task that comes back after another one starts from 0
            if run_owner[r, k] != owner[i]:
                run_owner[r, k] = owner[i]
                run_time[r, k] = 0
            run_time[r, k] += d
            if run_time[r, k] > best[r, k]:
                best[r, k] = run_time[r, k]
                out[r, k] = i
            k += 1
    return out


@jit
def bin_share(start, end, code, offsets, edges, n_codes):
    """Choose a code for each pixel by how long each code holds in it, and find the longest interval of this code in the pixel.

    The intervals of row ``r`` are ``offsets[r]`` to ``offsets[r + 1]`` and do not overlap; -1 stands for time without an
    interval.
    """
    rows, cols = offsets.size - 1, edges.size - 1
    out = np.full((rows, cols), -1, np.int8)
    which = np.full((rows, cols), -1, np.int64)
    held = np.zeros((cols, n_codes + 1), np.int64)
    most = np.zeros((cols, n_codes), np.int64)
    best = np.zeros((cols, n_codes), np.int64)
    owed = np.zeros(n_codes + 1, np.int64)
    for r in range(rows):
        held[:, :] = 0
        most[:, :] = 0
        for i in range(offsets[r], offsets[r + 1]):
            a, b = max(start[i], edges[0]), min(end[i], edges[cols])
            if b <= a:
                continue
            k = np.searchsorted(edges, a, side="right") - 1
            while k < cols and edges[k] < b:
                d = min(b, edges[k + 1]) - max(a, edges[k])
                held[k, code[i]] += d
                if d > most[k, code[i]]:
                    most[k, code[i]] = d
                    best[k, code[i]] = i
                k += 1
        _share_out(held, edges, owed, out[r])
        for c in range(cols):
            if out[r, c] >= 0:
                which[r, c] = best[c, out[r, c]]
    return out, which


@jit
def bin_cover(start, end, edges):
    """Return how many ns of each pixel the intervals ``[start, end)`` (int64, not overlapping) cover."""
    cols = edges.size - 1
    out = np.zeros(cols, np.int64)
    for i in range(start.size):
        a, b = max(start[i], edges[0]), min(end[i], edges[cols])
        if b <= a:
            continue
        k = np.searchsorted(edges, a, side="right") - 1
        while k < cols and edges[k] < b:
            out[k] += min(b, edges[k + 1]) - max(a, edges[k])
            k += 1
    return out
