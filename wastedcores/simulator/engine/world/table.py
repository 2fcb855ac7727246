"""The world of a replay: one table of int64 that holds the whole state of the scheduler.

A row of the table is a struct (structs.py), and a pointer to a struct is the number of its row; -1 is NULL. Code reads
``p.se.vruntime`` and ``cpu_rq(k, cpu).curr``, where ``k`` is the table with the globals in row 0
(:mod:`wastedcores.jit.structs`). Python code outside of the engine reads ``m[p, TaskStruct.cpu]``.

CPU c is row c. After the CPUs come the CFS queues (group g on CPU c is row ``k.cfs_rq0 + g * k.nr_cpus + c``), the group
entities in the same order from ``k.entity0``, then task groups, domains, scheduling groups, capacities, wait objects, CPU sets,
the ticks and stretches to come, programs and tasks (each with its entity), and at the end the heap of other future events and
the log.

The world is one table because numba passes every array of a tuple by value and counts the references to each array. With an
array per field, or even with eight arrays, the engine took 130 s to compile and ran at a third of the speed (2026-11-21).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wastedcores.jit import TABLE_WIDTH as WIDTH
from wastedcores.topology import clocks

#: the machine booted this long before the replay begins
EPOCH_NS = 4_000_000_000
#: a time that never comes
INFINITE = 1 << 62
#: lists that span rows use the first 128 columns of each; SHIFT and LOW split the number of an element into row and column
LIST = 128
SHIFT = 7
LOW = 127
#: the row of the globals of modern kernels, counted from the first row of scratch
MODERN_ROW = 6
#: the number that stands for the speed at the nominal frequency
SPEED_UNIT = clocks.UNIT


def new_table(rows: int) -> Any:
    """Return a zeroed table of ``rows`` rows, int64 (rows, WIDTH), each of which begins a cache line."""
    words = np.zeros(rows * WIDTH + 8, dtype=np.int64)
    first = -(words.ctypes.data // 8) % 8
    return words[first : first + rows * WIDTH].reshape(rows, WIDTH)


def rows_for(elements: int) -> int:
    """Return how many rows a list of ``elements`` elements takes."""
    return -(-elements // LIST)


def write_list(m: np.ndarray, row: int, values: Any) -> None:
    """Write numbers into the table as a list that may span several rows."""
    rows = rows_for(len(values))
    padded = np.zeros(rows * LIST, dtype=np.int64)
    padded[: len(values)] = values
    m[row : row + rows, :LIST] = padded.reshape(rows, LIST)
