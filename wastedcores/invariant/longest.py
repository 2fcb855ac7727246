"""The longest episodes, looked at while the changes of runqueues stream by, so that a trace is decoded only once.

This is for traces with nr_running events, which say nothing about waiting threads. After each batch it is known how long an
episode must be to be among the longest. So only longer episodes, and the episode that is still open, are looked at.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from wastedcores.invariant import longest_jit as lj
from wastedcores.runqueues.runqueues import Batch

I64 = NDArray[np.int64]


class Longest:
    """The longest episodes so far, with the times of each CPU in them.

    Parameters
    ----------
    cpus
        CPU numbers are below this.
    counted
        (cpus,) 1 for each CPU that counts.
    most
        Number of episodes that are kept.
    end_ns
        End of the window; what follows is not looked at.
    """

    def __init__(self, cpus: int, counted: NDArray[np.uint8], most: int, end_ns: int) -> None:
        self._counted, self._most, self._end_ns = counted, most, end_ns
        self._watch = lj.Watch(
            np.full(cpus, -1, np.int32),
            np.zeros(cpus, np.bool_),
            *(np.zeros(cpus, np.int64) for _ in range(3)),
        )
        self._open_ns = -1
        #: (-length, start) -> times per CPU (2, cpus): idle, overloaded
        self._kept: dict[tuple[int, int], I64] = {}

    def add(self, batch: Batch, ended: I64, open_ns: int) -> None:
        """Look at a batch that went through the sweep."""
        ts_ns, cpu, nr = batch.ts_ns, batch.cpu, batch.nr
        at = 0
        for start_ns, end_ns in ended[self._candidates(ended), :2].tolist():
            at = self._begin(ts_ns, cpu, nr, at, start_ns)
            at = lj.within(ts_ns, cpu, nr, self._counted, at, end_ns, self._watch)
            self._open_ns = -1
            self._keep(start_ns, end_ns)
        if open_ns >= 0:
            at = self._begin(ts_ns, cpu, nr, at, open_ns)
            last_ns = min(int(ts_ns[-1]), self._end_ns) if ts_ns.size else open_ns
            at = lj.within(ts_ns, cpu, nr, self._counted, at, last_ns, self._watch)
            self._open_ns = open_ns
        lj.state_before(cpu, nr, at, ts_ns.size, self._watch)

    def _begin(
        self, ts_ns: I64, cpu: NDArray[np.int32], nr: NDArray[np.int32], at: int, start_ns: int
    ) -> int:
        """Go to the beginning of an episode, unless it was open before this batch; return the first change after it."""
        if start_ns == self._open_ns:
            return at
        first = int(ts_ns.searchsorted(start_ns, side="right"))
        lj.state_before(cpu, nr, at, first, self._watch)
        lj.open_episode(start_ns, self._watch)
        return max(first, at)

    def _candidates(self, ended: I64) -> NDArray[np.int64]:
        """Return, in order, the rows of ``ended`` that may be among the longest, and always the episode that was open before."""
        length = ended[:, 1] - ended[:, 0]
        best = np.lexsort((ended[:, 0], -length))[: self._most]
        if len(self._kept) == self._most:
            shortest = -max(self._kept)[0]
            best = best[length[best] > shortest]
        if ended.shape[0] and ended[0, 0] == self._open_ns:
            best = np.union1d(best, [0])
        return np.sort(best)

    def _keep(self, start_ns: int, end_ns: int) -> None:
        times = np.array([self._watch.idle_ns, self._watch.over_ns])
        self._kept[start_ns - end_ns, start_ns] = times
        if len(self._kept) > self._most:
            del self._kept[max(self._kept)]

    def times(self, chosen: pl.DataFrame) -> tuple[I64, I64]:
        """Return the idle and the overloaded times of each CPU in episodes that are among the longest."""
        keys = [(s - e, s) for s, e in chosen.select("start_ns", "end_ns").iter_rows()]
        both = np.array([self._kept[k] for k in keys], np.int64).reshape(len(keys), 2, -1)
        return both[:, 0], both[:, 1]
