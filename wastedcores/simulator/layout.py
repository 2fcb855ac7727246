"""The sections of the world's table: how many rows each one has and where it begins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from wastedcores.simulator.engine.world import cpuset, log_column, sim
from wastedcores.simulator.engine.world.table import (
    INFINITE,
    LIST,
    LOW,
    SHIFT,
    WIDTH,
    new_table,
    rows_for,
)

#: six rows of scratch, the globals of v6.12, the four named CPU sets and the core row
_SCRATCH_ROWS = 12


@dataclass(frozen=True)
class Sizes:
    """How many of everything the table has to hold."""

    cpus: int
    task_groups: int
    domains: int
    sched_groups: int
    capacities: int
    waits: int
    templates: int
    hotplug_steps: int
    extra_rows: int
    cpusets: int
    list_items: int
    ops: int
    tasks: int
    log_records: int


def allocate(sizes: Sizes) -> np.ndarray:
    """Return a table with these sections, int64 (rows, WIDTH): row numbers in row 0, no events, everything else zero."""
    n = sizes.cpus
    # both are powers of two: a CPU has at most two ticks in the ring, one of which its event has left behind
    runs = 1 << (n - 1).bit_length()
    ticks = 4 * runs
    sections = (
        (sim.CFS_RQ0, n * sizes.task_groups),
        (sim.ENTITY0, n * sizes.task_groups),
        (sim.TASK_GROUP0, sizes.task_groups),
        (sim.DOMAIN0, sizes.domains),
        (sim.SCHED_GROUP0, sizes.sched_groups),
        (sim.CAPACITY0, sizes.capacities),
        (sim.WAIT0, sizes.waits),
        (sim.TEMPLATE0, sizes.templates),
        (sim.STEP0, sizes.hotplug_steps),
        (sim.SCRATCH, _SCRATCH_ROWS + sizes.extra_rows),
        (sim.CPUSET0, sizes.cpusets),
        (sim.LIST0, rows_for(sizes.list_items)),
        (sim.TICKS0, rows_for(4 * ticks)),
        (sim.RUNS0, rows_for(2 * runs)),
        (sim.OP0, sizes.ops),
        (sim.TASK0, sizes.tasks),
    )
    g = np.zeros(WIDTH, dtype=np.int64)
    row = n
    for column, rows in sections:
        g[column] = row
        row += rows
    g[sim.CPUS], g[sim.TASK_GROUPS], g[sim.TASK_ROOM] = n, sizes.task_groups, sizes.tasks
    g[sim.TICKS_LOW], g[sim.RUNS] = ticks - 1, runs
    g[sim.SETS] = g[sim.SCRATCH] + _SCRATCH_ROWS - 1
    g[sim.CPUSET_WORDS] = (n >> cpuset.WORD_SHIFT) + 1
    m = _with_heap_and_log(new_table(row), g, sizes.hotplug_steps, sizes.log_records)
    # no event is pending, and the place before the first of the ring is in the past
    m[g[sim.TICKS0] : g[sim.RUNS0], :LIST:4] = INFINITE
    last = 4 * (ticks - 1)
    m[g[sim.TICKS0] + (last >> SHIFT), last & LOW] = 0
    nodes = m[g[sim.RUNS0] : g[sim.OP0], :LIST]
    nodes[:] = INFINITE + (np.arange(nodes.size).reshape(nodes.shape) << 12)
    return m


def _with_heap_and_log(head: np.ndarray, g: np.ndarray, steps: int, records: int) -> np.ndarray:
    """Return the table ``head``, whose last section is the tasks, with the heap and the log behind it."""
    room = 2 * (8 * int(g[sim.CPUS]) + steps + int(g[sim.TASK_ROOM])) + 64
    heap = rows_for(4 * (room + 3))
    g[sim.HEAP0], g[sim.HEAP_ROOM] = len(head), room
    g[sim.LOG0], g[sim.LOG_ROOM] = len(head) + heap, records
    m = new_table(len(head) + heap + rows_for(records * log_column.WIDTH))
    m[: len(head)] = head
    m[len(head) : len(head) + heap, :LIST:4] = INFINITE
    m[0, sim.FIRST :] = g[sim.FIRST :]
    return m


def grown(m: np.ndarray, tasks: int, steps: int) -> np.ndarray:
    """Return a copy of the world with room for more tasks; its log must be empty."""
    g = m[0].copy()
    heap, log = int(g[sim.HEAP0]), int(g[sim.LOG0])
    head = np.concatenate([m[:heap], new_table(tasks - int(g[sim.TASK_ROOM]))])
    g[sim.TASK_ROOM] = tasks
    out = _with_heap_and_log(head, g, steps, int(g[sim.LOG_ROOM]))
    start = int(out[0, sim.HEAP0])
    out[start : start + log - heap] = m[heap:log]
    return out


def write_list(m: np.ndarray, row: int, values: Any) -> None:
    """Write numbers into the table as a list that runs over rows."""
    rows = rows_for(len(values))
    padded = np.zeros(rows * LIST, dtype=np.int64)
    padded[: len(values)] = values
    m[row : row + rows, :LIST] = padded.reshape(rows, LIST)
