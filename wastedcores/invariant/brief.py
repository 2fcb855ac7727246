"""Runqueues without the overloads that end before moving a thread would have paid off.

A thread that waits for 50 us beside an idle CPU is no worse off than a thread that is moved, because its data stay in the caches
of its CPU. The kernel takes 0.5 ms as the price of a move (``sysctl_sched_migration_cost``, kernel/sched/fair.c, v4.1 to v6.12).
The measurements in docs/verdict.md ask for three times this price.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wastedcores.invariant import brief_jit
from wastedcores.runqueues.batch import Batch, no_changes

#: shorter overloads do not count towards a verdict
FLOOR_NS = 1_500_000


class WithoutBrief:
    """Passes changes on, but where a CPU holds two or more tasks for less than ``FLOOR_NS``, it shows one task."""

    def __init__(self, cpus: int) -> None:
        self._cpus = cpus
        self._overloads = brief_jit.new_overloads(cpus)
        self._held = no_changes()

    def push(self, batch: Batch) -> Batch:
        """Take changes, and return those that later changes can no longer alter."""
        both = _joined(self._held, batch) if self._held.ts_ns.size else batch
        size = both.ts_ns.size
        rows = int(np.searchsorted(both.ts_ns, both.ts_ns[-1] - FLOOR_NS)) if size else 0
        self._held = _part(both, rows, size)
        return self._changed(both, rows)

    def rest(self) -> Batch:
        """Return the changes that are left at the end."""
        held, self._held = self._held, no_changes()
        return self._changed(held, held.ts_ns.size)

    def _changed(self, batch: Batch, rows: int) -> Batch:
        nr = batch.nr.copy()
        brief_jit.drop_brief(
            batch.ts_ns, batch.cpu, nr, batch.mask, rows, FLOOR_NS, self._overloads
        )
        return _part(replace(batch, nr=nr), 0, rows)


def without_brief(batches: Iterable[Batch], cpus: int) -> Iterator[Batch]:
    """Stream changes without the overloads that are too brief to count."""
    brief = WithoutBrief(cpus)
    for batch in batches:
        yield brief.push(batch)
    yield brief.rest()


def _joined(a: Batch, b: Batch) -> Batch:
    ts_ns, cpu, nr, free, mask, code = (
        np.concatenate(pair) for pair in zip(_columns(a), _columns(b), strict=True)
    )
    return Batch(ts_ns, cpu, nr, free, mask, code)


def _part(batch: Batch, first: int, end: int) -> Batch:
    ts_ns, cpu, nr, free, mask, code = (column[first:end] for column in _columns(batch))
    return Batch(ts_ns, cpu, nr, free, mask, code)


def _columns(batch: Batch) -> tuple[NDArray[Any], ...]:
    return batch.ts_ns, batch.cpu, batch.nr, batch.free, batch.mask, batch.code
