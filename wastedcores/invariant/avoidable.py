"""Avoidable waiting: how long each thread waited for a CPU while another CPU that it may use was idle.

Several threads may wait beside the same idle CPU, and each of them counts. So the sum over the threads is not the CPU time
that was wasted: it says how much time the threads lost, not how much work the CPUs could have done.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from wastedcores.invariant import avoidable_jit as aj
from wastedcores.runqueues.runqueues import Batch, Runqueues

SCHEMA = pl.Schema(
    {
        "pid": pl.Int32(),
        "waits": pl.Int64(),
        "waited_ns": pl.Int64(),
        "avoidable_ns": pl.Int64(),
        "longest_ns": pl.Int64(),
    }
)


class IdleTime:
    """For each set of allowed CPUs, the total time in which at least one was idle, up to any moment that is still needed.

    ``part`` gives each CPU a number, by which each set is split: the CPUs of set m and part p form the set m * parts + p.
    """

    def __init__(
        self, rq: Runqueues, counted: NDArray[np.uint8], part: NDArray[np.int32] | None = None
    ) -> None:
        masks = rq.affinity.masks
        bits = np.unpackbits(masks.view(np.uint8), axis=1, bitorder="little")[:, : rq.cpus]
        bits[0] = 1  # the mask of threads that may run anywhere
        bits &= counted
        #: (cpus,) the number of the part to which each CPU belongs; and the number of parts
        self.part = np.zeros(rq.cpus, np.int32) if part is None else part
        self.parts = int(self.part.max()) + 1
        per_cpu = [
            np.flatnonzero(column) * self.parts + p
            for column, p in zip(bits.T, self.part, strict=True)
        ]
        first = np.concatenate([[0], np.cumsum([len(m) for m in per_cpu])])
        n = len(masks) * self.parts
        self._state = aj.IdleState(
            np.full(rq.cpus, -1, np.int32),
            counted,
            first.astype(np.int32),
            np.concatenate(per_cpu).astype(np.int32),
            np.zeros(n, np.int32),
            np.zeros(n, np.int64),
            np.zeros(n, np.int64),
        )
        nothing = np.zeros(n, np.int64)
        #: steps ordered by mask and time: mask, time, idle time up to then, whether it grows from then on
        self._steps = (np.arange(n, dtype=np.int32), nothing, nothing, np.zeros(n, np.uint8))

    def add(self, batch: Batch) -> None:
        """Take the changes of a batch."""
        ts_ns, cpu, nr = batch.runqueues()
        room = int(np.diff(self._state.first)[cpu].sum())
        ints, longs = np.zeros(room, np.int32), (np.zeros(room, np.int64), np.zeros(room, np.int64))
        out = aj.Steps(ints, *longs, np.zeros(room, np.uint8), np.zeros(1, np.int64))
        aj.steps(self._state, out, ts_ns, cpu, nr)
        n = int(out.n[0])
        new = (out.mask[:n], out.ts_ns[:n], out.sum_ns[:n], out.grows[:n])
        order = np.argsort(np.concatenate([self._steps[0], new[0]]), kind="stable")
        self._steps = tuple(  # type: ignore[assignment]
            np.concatenate([old, more])[order]  # type: ignore[list-item]
            for old, more in zip(self._steps, new, strict=True)
        )

    def forget(self, before_ns: int) -> None:
        """Drop the steps that are not needed for any moment from ``before_ns`` on."""
        mask, ts_ns, _, _ = self._steps
        keep = ts_ns >= before_ns
        # keep, for each mask, the last step up to that time
        keep[:-1] |= ~((mask[1:] == mask[:-1]) & (ts_ns[1:] <= before_ns))
        keep[-1] = True
        self._steps = tuple(column[keep] for column in self._steps)  # type: ignore[assignment]

    def until(self, mask: NDArray[np.int32], moment_ns: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return, for pairs of a mask and a moment, the total time for which the mask has had an idle CPU up to that moment."""
        masks, ts_ns, sum_ns, grows = self._steps
        out = np.zeros(moment_ns.size, np.int64)
        for m in np.unique(mask[mask >= 0]).tolist():
            lo, hi = np.searchsorted(masks, (m, m + 1))
            mine = np.flatnonzero(mask == m)
            at = lo + np.searchsorted(ts_ns[lo:hi], moment_ns[mine], side="right") - 1
            out[mine] = sum_ns[at] + grows[at] * (moment_ns[mine] - ts_ns[at])
        return out


class AvoidableWaits:
    """Adds up the avoidable waiting of every thread, batch by batch."""

    def __init__(
        self, rq: Runqueues, counted: NDArray[np.uint8], start_ns: int, end_ns: int
    ) -> None:
        self._rq, self._counted = rq, counted
        self._window = start_ns, end_ns
        self._idle = IdleTime(rq, counted)
        self._threads = np.zeros((rq.tasks.count, aj.WIDTH), np.int64)
        #: avoidable waiting by the evidence that the thread could have moved, see wastedcores.runqueues.task_row
        self.by_evidence_ns = np.zeros(3, np.int64)

    def add(self, batch: Batch) -> None:
        """Take the changes of a batch and the waits that ended in it."""
        self._idle.add(batch)
        waits = batch.waits
        if waits is not None and waits.height:
            task, cpu = waits["task"].to_numpy(), waits["cpu"].to_numpy()
            start = np.clip(waits["start_ns"].to_numpy(), *self._window)
            end = np.clip(waits["end_ns"].to_numpy(), *self._window)
            mine = (self._counted[cpu] > 0) & (end > start)
            task, start, end = task[mine], start[mine], end[mine]
            mask = waits["mask"].to_numpy()[mine]
            avoidable = self._idle.until(mask, end) - self._idle.until(mask, start)
            aj.collect(task, start, end, avoidable, self._threads)
            np.add.at(self.by_evidence_ns, waits["evidence"].to_numpy()[mine], avoidable)
        self._idle.forget(batch.oldest_wait_ns)

    def by_thread(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return for each task of ``rq.tasks`` how long it waited, and how much of that time a CPU that it may use was idle."""
        return self._threads[:, aj.WAITED], self._threads[:, aj.AVOIDABLE]

    def table(self) -> pl.DataFrame:
        """Return the threads that waited avoidably; the threads that lost most time come first."""
        task = np.flatnonzero(self._threads[:, aj.WAITS])
        rows = self._threads[task]
        return pl.DataFrame(
            {
                "pid": self._rq.tasks.pids(task),
                "waits": rows[:, aj.WAITS],
                "waited_ns": rows[:, aj.WAITED],
                "avoidable_ns": rows[:, aj.AVOIDABLE],
                "longest_ns": rows[:, aj.LONGEST],
            },
            schema=SCHEMA,
        ).sort("avoidable_ns", "pid", descending=[True, False])
