"""Columns of the core row, ``m[m[0, sim.SETS]]``: the state of a design (docs/design-mode.md)."""

from __future__ import annotations

(
    ENTRY,  # address of the compiled core module, 0 if Linux decides
    SYNC,  # whether the waker of the present wakeup is about to sleep
    NODES,
    COUNTS,  # first row of the counts: one row per module, moments by answers
    BUSY,  # first row of the busy CPUs, counted by node or by cache
    NEAR,  # first row of the CPUs by nearness: all CPUs for each CPU
    MODULES,  # how many modules to ask
    MODULE0,  # their codes, in order
) = range(8)
