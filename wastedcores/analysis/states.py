"""Runqueue lengths over time, stored so that any window can be reduced to pixels quickly."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from wastedcores.errors import UsageError

#: the largest number of columns that a heat map sends to the browser
MAX_COLS = 2000
#: wasted cores are counted in parts of at most this many changes, if a part has several pixels
AT_ONCE = 4_000_000


@dataclass(frozen=True)
class Bins:
    """A window of :class:`States` reduced to pixels."""

    edges: np.ndarray  #: borders of the pixels in ns, int64 (cols + 1,)
    cpus: np.ndarray  #: the CPUs of the rows, int64 (rows,)
    #: The following arrays are (rows, cols); an unknown length is -1 (mean: NaN). ``share``: a length that occurs in the pixel,
    #: chosen so that over many pixels each length gets its share of the time. ``longest``: the length that held longest. (In
    #: ``share`` and ``longest``, 5 means "5 or more".) ``last``: the length at the pixel's end. ``peak``: the greatest length.
    #: ``mean``: the time-weighted mean of the length.
    share: np.ndarray
    longest: np.ndarray
    last: np.ndarray
    peak: np.ndarray
    mean: np.ndarray
    #: (cols,): mean number of idle CPUs, of threads queued behind another thread, and of CPUs whose state is known
    idle: np.ndarray
    waiting: np.ndarray
    known: np.ndarray
    #: (cols,): mean number of wasted cores: at each moment the number of idle CPUs or of waiting threads, whichever is smaller.
    #: Where idle CPUs and waiting threads take turns, this is less than the smaller of their means. NaN: it was not asked for.
    wasted: np.ndarray | float = np.nan


def pixel_edges(start_ns: int, end_ns: int, cols: int) -> np.ndarray:
    """Divide a window into pixels of at least one ns."""
    if end_ns <= start_ns:
        raise UsageError(
            f"window {start_ns}..{end_ns} ns: it must end after it starts. Zoom out, or give other ends (--from, --to)."
        )
    cols = int(min(cols, MAX_COLS, end_ns - start_ns))
    # with integers of Python, because a product of ns and columns can exceed 63 bits
    return np.array(
        [start_ns + (end_ns - start_ns) * k // cols for k in range(cols + 1)], dtype=np.int64
    )


@dataclass(frozen=True)
class States:
    """Changes of one number per CPU (runqueue length, load), indexed by CPU."""

    #: as :func:`wastedcores.analysis.binning_jit.index_by_cpu` returns them; value -1 is unknown
    ts: np.ndarray
    values: np.ndarray
    offsets: np.ndarray
    #: the interval the states describe
    start_ns: int
    end_ns: int

    @classmethod
    def collect(
        cls,
        batches: Iterable[tuple[np.ndarray, np.ndarray, np.ndarray]],
        n_cpus: int,
        start_ns: int | None = None,
        end_ns: int | None = None,
    ) -> States:
        """Gather streamed changes and index them by CPU."""
        from wastedcores.analysis.binning_jit import index_by_cpu

        parts = [
            (ts.astype(np.int64, copy=False), cpu.astype(np.int32), value.astype(np.int32))
            for ts, cpu, value in batches
        ]
        if not parts:
            parts = [(np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.int32))]
        ts, cpu, values = (np.concatenate(column) for column in zip(*parts, strict=True))
        del parts
        first = int(ts[0]) if start_ns is None and ts.size else int(start_ns or 0)
        final = int(ts[-1]) if end_ns is None and ts.size else int(end_ns or first + 1)
        by_cpu, lengths, offsets = index_by_cpu(ts, cpu, values, n_cpus)
        return cls(by_cpu, lengths, offsets, first, max(final, first + 1))

    @property
    def n_cpus(self) -> int:
        """The number of CPUs in the index."""
        return self.offsets.size - 1

    def bin(
        self,
        start_ns: int | None = None,
        end_ns: int | None = None,
        cols: int = 1000,
        cpus: Sequence[int] | None = None,
        *,
        wasted: bool = False,
    ) -> Bins:
        """Reduce a window to pixels; ``wasted`` asks for the wasted cores, too, which takes longer."""
        from wastedcores.analysis.binning_jit import bin_states

        edges = pixel_edges(
            self.start_ns if start_ns is None else int(start_ns),
            self.end_ns if end_ns is None else int(end_ns),
            cols,
        )
        rows = np.arange(self.n_cpus) if cpus is None else np.asarray(list(cpus), dtype=np.int64)
        if rows.size and (rows.min() < 0 or rows.max() >= self.n_cpus):
            bad = int(rows.max() if rows.max() >= self.n_cpus else rows.min())
            raise UsageError(f"CPU {bad}: this trace has CPUs 0-{self.n_cpus - 1}.")
        share, longest, last, peak, mean, idle, waiting, known = bin_states(
            self.ts, self.values, self.offsets, rows.astype(np.int64), edges
        )
        width = np.diff(edges).astype(float)
        return Bins(
            edges,
            rows,
            share,
            longest,
            last,
            peak,
            mean,
            idle / width,
            waiting / width,
            known / width,
            self._wasted(edges, rows) / width if wasted else np.nan,
        )

    def _wasted(self, edges: np.ndarray, cpus: np.ndarray) -> np.ndarray:
        """Return the wasted core time of each pixel in ns."""
        parts = []
        for cpu in cpus.tolist():
            low, high = self.offsets[cpu : cpu + 2].tolist()
            first, last = np.searchsorted(self.ts[low:high], edges[[0, -1]], side="right").tolist()
            # the last change before the window tells the state at its beginning
            parts.append(slice(low + max(first - 1, 0), low + last))
        if not parts:
            return np.zeros(edges.size - 1)
        if edges.size > 2 and sum(part.stop - part.start for part in parts) > AT_ONCE:
            half = edges.size // 2
            return np.r_[self._wasted(edges[: half + 1], cpus), self._wasted(edges[half:], cpus)]
        times = np.concatenate([np.maximum(self.ts[part], edges[0]) for part in parts])
        order = np.argsort(times, kind="stable")
        lengths = [self.values[part].astype(np.int64) for part in parts]
        idle, waiting = (
            np.cumsum(np.concatenate([np.diff(count, prepend=0) for count in counts])[order])
            for counts in (
                [(n == 0).astype(np.int64) for n in lengths],
                [np.maximum(n - 1, 0) for n in lengths],
            )
        )
        # all times count from the first border, so that a float holds them exactly
        at = np.r_[edges[0], times[order], edges[-1]] - edges[0]
        fewer = np.r_[0, np.minimum(idle, waiting)]
        so_far = np.r_[0, np.cumsum(fewer * np.diff(at))]
        return np.diff(np.interp(edges - edges[0], at, so_far))
