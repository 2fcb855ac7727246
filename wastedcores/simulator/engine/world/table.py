"""The world of a replay: one table of int64 that holds the whole state of the scheduler.

A row of the table is a struct (structs.py), and a pointer to a struct is the number of its row; -1 is NULL. Code reads
``p.se.vruntime`` and ``cpu_rq(k, cpu).curr``, where ``k`` is the table with the globals in row 0
(:mod:`wastedcores.jit.structs`). Python code outside of the engine reads ``m[p, TaskStruct.cpu]``.

CPU c is row c. After the CPUs come, in this order: the CFS queues (the queue of group g on CPU c is row
``k.cfs_rq0 + g * k.nr_cpus + c``), the entities of the groups (in the order of the queues, from row ``k.entity0`` on), task
groups, domains, scheduling groups, capacities, wait objects, templates of tasks, hotplug steps, the rows of scratch, CPU sets,
lists, the coming ticks and ends of stretches, programs, tasks (each with its entity), the heap of other events, and the log.

The rows of scratch begin at ``k.scratch``. They hold the intermediate values of balancing (such as ``struct lb_env``), and some
structs of which a replay has only one. For example, the globals of modern kernels are in row ``k.scratch + MODERN_ROW``.

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
#: a list over several rows uses the first 128 columns of each row; SHIFT and LOW split an element's number into row and column
LIST = 128
SHIFT = 7
LOW = 127
#: the globals of modern kernels are in row ``k.scratch + MODERN_ROW``
MODERN_ROW = 6
#: the number that stands for the speed at the nominal frequency
SPEED_UNIT = clocks.UNIT


def new_table(rows: int) -> Any:
    """Return a table of zeros, int64 (rows, WIDTH). Each of its rows begins at a cache line."""
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
