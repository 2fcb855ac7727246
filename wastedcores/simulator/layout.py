"""The sections of the world's table: how many rows each one has and where it begins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from wastedcores.simulator.engine.world import cpuset, log_column
from wastedcores.simulator.engine.world.structs import Kernel
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
        (Kernel.cfs_rq0, n * sizes.task_groups),
        (Kernel.entity0, n * sizes.task_groups),
        (Kernel.task_group0, sizes.task_groups),
        (Kernel.domain0, sizes.domains),
        (Kernel.sched_group0, sizes.sched_groups),
        (Kernel.capacity0, sizes.capacities),
        (Kernel.wait0, sizes.waits),
        (Kernel.template0, sizes.templates),
        (Kernel.step0, sizes.hotplug_steps),
        (Kernel.scratch, _SCRATCH_ROWS + sizes.extra_rows),
        (Kernel.cpuset0, sizes.cpusets),
        (Kernel.list0, rows_for(sizes.list_items)),
        (Kernel.ticks0, rows_for(4 * ticks)),
        (Kernel.runs0, rows_for(2 * runs)),
        (Kernel.op0, sizes.ops),
        (Kernel.task0, sizes.tasks),
    )
    g = np.zeros(WIDTH, dtype=np.int64)
    row = n
    for column, rows in sections:
        g[column] = row
        row += rows
    g[Kernel.nr_cpus], g[Kernel.task_groups], g[Kernel.task_room] = (
        n,
        sizes.task_groups,
        sizes.tasks,
    )
    g[Kernel.ticks_low], g[Kernel.runs] = ticks - 1, runs
    g[Kernel.design] = g[Kernel.scratch] + _SCRATCH_ROWS - 1
    g[Kernel.cpuset_words] = (n >> cpuset.WORD_SHIFT) + 1
    m = _with_heap_and_log(new_table(row), g, sizes.hotplug_steps, sizes.log_records)
    # no event is pending, and the place before the first of the ring is in the past
    m[g[Kernel.ticks0] : g[Kernel.runs0], :LIST:4] = INFINITE
    last = 4 * (ticks - 1)
    m[g[Kernel.ticks0] + (last >> SHIFT), last & LOW] = 0
    nodes = m[g[Kernel.runs0] : g[Kernel.op0], :LIST]
    nodes[:] = INFINITE + (np.arange(nodes.size).reshape(nodes.shape) << 12)
    return m


def _with_heap_and_log(head: np.ndarray, g: np.ndarray, steps: int, records: int) -> np.ndarray:
    """Return the table ``head``, whose last section is the tasks, with the heap and the log behind it."""
    room = 2 * (8 * int(g[Kernel.nr_cpus]) + steps + int(g[Kernel.task_room])) + 64
    heap = rows_for(4 * (room + 3))
    g[Kernel.heap0], g[Kernel.heap_room] = len(head), room
    g[Kernel.log0], g[Kernel.log_room] = len(head) + heap, records
    m = new_table(len(head) + heap + rows_for(records * log_column.WIDTH))
    m[: len(head)] = head
    m[len(head) : len(head) + heap, :LIST:4] = INFINITE
    m[0, Kernel.load_v4_4 :] = g[Kernel.load_v4_4 :]
    return m


def grown(m: np.ndarray, tasks: int, steps: int) -> np.ndarray:
    """Return a copy of the world with room for more tasks; its log must be empty."""
    g = m[0].copy()
    heap, log = int(g[Kernel.heap0]), int(g[Kernel.log0])
    head = np.concatenate([m[:heap], new_table(tasks - int(g[Kernel.task_room]))])
    g[Kernel.task_room] = tasks
    out = _with_heap_and_log(head, g, steps, int(g[Kernel.log_room]))
    start = int(out[0, Kernel.heap0])
    out[start : start + log - heap] = m[heap:log]
    return out


def write_list(m: np.ndarray, row: int, values: Any) -> None:
    """Write numbers into the table as a list that runs over rows."""
    rows = rows_for(len(values))
    padded = np.zeros(rows * LIST, dtype=np.int64)
    padded[: len(values)] = values
    m[row : row + rows, :LIST] = padded.reshape(rows, LIST)
