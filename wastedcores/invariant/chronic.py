"""Chronic waste: many short violations that add up, found in slices as long as a violation must last to be persistent.

A trace wastes chronically if, in some window of ten consecutive slices, at least five slices each waste a given share (0.75 % by
default) or more of the CPU time that was used in them, and at least 0.5 % of the machine's CPU time. The rule of five in ten
leaves out the burst at the start of a program, but finds a balancer that repairs each imbalance within M and never prevents the
next one. Overloads that are shorter than moving a thread costs do not count (:mod:`wastedcores.invariant.brief`). The share of
the machine's time is required because on a nearly idle machine an occasional wait is a large share of the little CPU time that is
used. docs/verdict.md has the measurements behind the three numbers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from wastedcores.invariant.sweep_jit import SLICE_NS, SLICES_DONE, SweepState
from wastedcores.runqueues.facts import offline_spans
from wastedcores.runqueues.runqueues import Runqueues
from wastedcores.units import human_ns

#: a slice must also waste this share of the time of all CPUs, besides limits.CHRONIC_SHARE of the used time
MACHINE_SHARE = 0.005
#: slices in a window, and how many of them must waste so much
WINDOW, NEEDED = 10, 5
#: more slices than this are not kept (24 bytes each); the check then says that it looked for persistent violations only
MOST_SLICES = 1 << 22
#: windows that are compared at a time, which bounds the memory
_BLOCK = 1 << 16


class Chronic(NamedTuple):
    """The worst window of ten slices."""

    start_ns: int
    window_ns: int
    #: the waste in the fifth-worst of its slices, as a share of the CPU time used in this slice; a slice that wasted too little
    #: of the machine's time counts as 0
    share: float
    #: whether there are ten slices; in a shorter trace the slice in the middle counts, and it can only make the verdict unknown
    enough: bool


def slice_ns(persist_ns: int, start_ns: int, end_ns: int) -> int:
    """Return the length of the slices of a window; 0 if chronic waste cannot be judged in it."""
    if persist_ns <= 0 or not 1 <= (end_ns - start_ns) // persist_ns <= MOST_SLICES:
        return 0
    return persist_ns


def worst(
    state: SweepState,
    offline: NDArray[np.int64],
    *,
    more: NDArray[np.int64] | None = None,
    at_least: NDArray[np.int64] | None = None,
    surely: bool = False,
) -> Chronic | None:
    """Find the window of ten slices whose fifth-worst slice wasted most.

    * ``state``: a finished sweep with slices.
    * ``offline``: (slices,) CPU time in ns of each slice that CPUs spent offline, see :func:`offline_ns`.
    * ``more``: (slices,) CPU time in ns that each slice may waste in addition; its waste cannot exceed its unused CPU time.
    * ``at_least``: (slices,) ns of each slice in which some CPU was certainly wasted.
    * ``surely``: if true, a CPU that may or may not have been busy counts as used, otherwise as not used.
    * Returns the window; None if the sweep had no slices.
    """
    done, length = int(state.scalars[SLICES_DONE]), int(state.scalars[SLICE_NS])
    if not done:
        return None
    window = min(WINDOW, done)
    rank = window - (window * NEEDED + WINDOW - 1) // WINDOW
    best, at = -1.0, 0
    for first in range(0, done - window + 1, _BLOCK):
        block = slice(first, min(first + _BLOCK + window - 1, done))
        shares = _shares(state, block, offline, more, at_least, surely)
        fifth = np.partition(sliding_window_view(shares, window), rank, axis=1)
        k = int(np.argmax(fifth[:, rank]))
        if fifth[k, rank] > best:
            best, at = float(fifth[k, rank]), first + k
    start_ns = int(state.window[0]) + at * length
    return Chronic(start_ns, window * length, best, window == WINDOW)


def _shares(
    state: SweepState,
    block: slice,
    offline: NDArray[np.int64],
    more: NDArray[np.int64] | None,
    at_least: NDArray[np.int64] | None,
    surely: bool,
) -> NDArray[np.float64]:
    """Return what each of some slices wasted, as a share of the CPU time used in it."""
    before = state.slices[block.start - 1] if block.start else np.zeros(3, np.int64)
    busy, wasted, idle = np.diff(state.slices[block], axis=0, prepend=before[None]).T.astype(float)
    machine = int(state.counted.sum()) * int(state.scalars[SLICE_NS]) - offline[block]
    used = machine - idle if surely else busy
    if more is not None:
        wasted = np.maximum(wasted, np.minimum(wasted + more[block], machine - busy))
    if at_least is not None:
        wasted = np.maximum(wasted, at_least[block])
    shares = np.where(wasted > 0, np.inf, 0.0)
    np.divide(wasted, used, out=shares, where=used > 0)
    shares[wasted < MACHINE_SHARE * machine] = 0.0
    return shares


def covered_ns(spans: pl.DataFrame, state: SweepState) -> NDArray[np.int64]:
    """Return how much of each slice the spans cover, together: where two overlap, both count."""
    ends = int(state.window[0]) + int(state.scalars[SLICE_NS]) * np.arange(
        state.slices.shape[0] + 1
    )
    if not spans.height:
        return np.zeros(ends.size - 1, np.int64)
    # at each end of a slice: the sum of the times since the spans began, minus the sum of the times since they ended
    since = [_since(spans[column].to_numpy(), ends) for column in ("start_ns", "end_ns")]
    return np.diff(since[0] - since[1])


def _since(begun_ns: NDArray[np.int64], at_ns: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return, for each moment, the sum of the times that have passed since each beginning before it."""
    begun_ns = np.sort(begun_ns) - at_ns[0]
    k = np.searchsorted(begun_ns, at_ns - at_ns[0], side="right")
    return k * (at_ns - at_ns[0]) - np.concatenate([[0], np.cumsum(begun_ns)])[k]


def offline_ns(rq: Runqueues, state: SweepState) -> NDArray[np.int64]:
    """Return how much CPU time each slice has on CPUs that nobody could use: isolated ones, and those known to be offline."""
    spans = offline_spans(rq.trace, rq.start_ns, rq.end_ns)
    counted = {*np.flatnonzero(state.counted).tolist()}
    usable = sorted(counted - {*rq.isolated})
    isolated_ns = (len(counted) - len(usable)) * int(state.scalars[SLICE_NS])
    return isolated_ns + covered_ns(spans.filter(pl.col("cpu").is_in(usable)), state)


def not_judged(persist_ns: int, start_ns: int, end_ns: int) -> str:
    """Say why only persistent violations were looked for, in a window for which :func:`slice_ns` is 0."""
    if persist_ns > 0 and end_ns - start_ns < WINDOW * persist_ns:
        return (
            f"the window is shorter than {human_ns(WINDOW * persist_ns)} (ten times --persist), so chronic waste "
            "cannot be told"
        )
    return "--persist is too short to look for chronic violations, so only persistent ones were looked for"
