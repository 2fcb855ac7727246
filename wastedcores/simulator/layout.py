"""From Python objects to the engine's arrays, once: the door of the engine.

Takes the plain arrays of ``Domains.to_arrays()`` and the rows of a program; imports neither.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from wastedcores.jit.table import WIDTH
from wastedcores.simulator.engine.world import state as s
from wastedcores.simulator.engine.world.state import table

# kernel/sched/sched.h: prio_to_weight[], prio_to_wmult[], v4.1; index nice + 20
WEIGHTS = (
    88761,
    71755,
    56483,
    46273,
    36291,
    29154,
    23254,
    18705,
    14949,
    11916,
    9548,
    7620,
    6100,
    4904,
    3906,
    3121,
    2501,
    1991,
    1586,
    1277,
    1024,
    820,
    655,
    526,
    423,
    335,
    272,
    215,
    172,
    137,
    110,
    87,
    70,
    56,
    45,
    36,
    29,
    23,
    18,
    15,
)
INVERSES = (
    48388,
    59856,
    76040,
    92818,
    118348,
    147320,
    184698,
    229616,
    287308,
    360437,
    449829,
    563644,
    704093,
    875809,
    1099582,
    1376151,
    1717300,
    2157191,
    2708050,
    3363326,
    4194304,
    5237765,
    6557202,
    8165337,
    10153587,
    12820798,
    15790321,
    19976592,
    24970740,
    31350126,
    39045157,
    49367440,
    61356676,
    76695844,
    95443717,
    119304647,
    148102320,
    186737708,
    238609294,
    286331153,
)

_SD = {
    s.D_MIN_INT: "min_interval",
    s.D_MAX_INT: "max_interval",
    s.D_FACTOR: "busy_factor",
    s.D_PCT: "imbalance_pct",
    s.D_TRIES: "cache_nice_tries",
    s.D_BUSY_IDX: "busy_idx",
    s.D_IDLE_IDX: "idle_idx",
    s.D_NEWIDLE_IDX: "newidle_idx",
    s.D_WAKE_IDX: "wake_idx",
    s.D_FORK_IDX: "forkexec_idx",
    s.D_FLAGS: "domain_flags",
    s.D_WEIGHT: "domain_weight",
    s.D_INDEX: "domain_index",
}


class Layout:
    """Collects rows, sets and lists, then makes the world of them."""

    def __init__(self, cpus: int, groups: int, waits: int, templates: int, tasks: int) -> None:
        self.cpus = cpus
        self.groups = groups
        self.waits = waits
        self.templates = templates
        self.tasks = tasks
        self.masks: list[np.ndarray] = []
        self._mask_number: dict[frozenset[int], int] = {}
        self.lists: list[int] = []
        self.sd: list[np.ndarray] = []
        self.gr: list[np.ndarray] = []
        self.c: list[np.ndarray] = []
        self.epochs: list[list[int]] = []

    def mask(self, cpus: Iterable[int]) -> int:
        """Number of a set of CPUs, equal ones shared; becomes a row by adding G_MASK0."""
        key = frozenset(int(c) for c in cpus)
        if key not in self._mask_number:
            self._mask_number[key] = len(self.masks)
            self.masks.append(bits_of(key))
        return self._mask_number[key]

    def _list(self, cpus: Sequence[int]) -> tuple[int, int]:
        start = len(self.lists)
        self.lists.extend(int(c) for c in cpus)
        return start, len(cpus)

    def add_epoch(self, arrays: Any) -> None:
        """The domains of one rebuild; ``arrays``: DomainArrays."""
        a = arrays
        sets = [a.set_cpus[a.set_ptr[i] : a.set_ptr[i + 1]] for i in range(len(a.set_ptr) - 1)]
        spans = np.array([self._list(cpus) for cpus in sets], dtype=np.int64).reshape(-1, 2)
        masks = np.array([self.mask(cpus) for cpus in sets], dtype=np.int64)
        c0, gr0, sd0 = (sum(len(rows) for rows in part) for part in (self.c, self.gr, self.sd))
        _, first_of = np.unique(a.group_sgc, return_index=True)
        self.c.append(_rows_of(len(first_of), {s.C_CAPACITY: 1024 * a.group_weight[first_of]}))
        ring = a.ring_group
        span = a.group_span[ring]
        balance = a.group_mask[ring]
        groups = {
            s.GR_LIST: spans[span, 0],
            s.GR_N: spans[span, 1],
            s.GR_MASK: masks[span],
            s.GR_BLIST: spans[balance, 0],
            s.GR_BN: spans[balance, 1],
            s.GR_SGC: c0 + a.group_sgc[ring],
            s.GR_BAL: a.group_balance_cpu[ring],
        }
        self.gr.append(_rows_of(len(ring), groups))
        rows = np.arange(len(a.domain_cpu))
        # a CPU's domains lie one behind the other, innermost first
        inner = np.isin(rows, a.cpu_ptr[:-1])
        outer = np.isin(rows + 1, a.cpu_ptr[1:])
        domains = {column: getattr(a, name) for column, name in _SD.items()} | {
            s.D_LEVEL: a.domain_index,
            s.D_MASK: masks[a.domain_span],
            s.D_GROUPS: gr0 + a.ring_ptr[a.domain_ring],
            s.D_NGROUPS: np.diff(a.ring_ptr)[a.domain_ring],
            s.D_CHILD: np.where(inner, -1, sd0 + rows - 1),
            s.D_PARENT: np.where(outer, -1, sd0 + rows + 1),
        }
        self.sd.append(_rows_of(len(rows), domains))
        per_cpu: list[int] = []
        for cpu in range(self.cpus):
            first, last = int(a.cpu_ptr[cpu]), int(a.cpu_ptr[cpu + 1])
            llc = int(a.sd_llc[cpu])
            llc_id = int(sets[a.domain_span[llc]][0]) if llc >= 0 else cpu
            per_cpu += [sd0 + first, last - first, llc_id]
        self.epochs.append(per_cpu)

    def world(
        self,
        hotplug: Sequence[tuple[int, int, bool]],
        ops: np.ndarray,
        log_rows: int,
        node_of_cpu: np.ndarray,
        design_rows: int = 0,
    ) -> np.ndarray:
        """Allocate and link everything; the engine's ``start_state`` does the rest."""
        n = self.cpus
        g = np.zeros(WIDTH, dtype=np.int64)
        g[s.G_STATIC] = len(self.lists)
        g[s.G_TABLE] = len(self.lists) + 80
        lists = [*self.lists, *WEIGHTS, *INVERSES]
        starts = [len(lists) + 3 * i for i in range(n * len(self.epochs))]
        for epoch in self.epochs:
            lists += epoch
        # powers of two: a CPU has at most two ticks in the ring, one of them left behind
        runs = 1 << (n - 1).bit_length()
        ticks = 4 * runs
        sizes = (
            (s.G_Q0, n * self.groups),
            (s.G_SE0, n * self.groups),
            (s.G_TG0, self.groups),
            (s.G_SD0, sum(map(len, self.sd))),
            (s.G_GR0, sum(map(len, self.gr))),
            (s.G_C0, sum(map(len, self.c))),
            (s.G_Y0, self.waits),
            (s.G_TEMPLATE0, self.templates),
            (s.G_STEP0, len(hotplug)),
            # six scratch rows, the three sets, the core row and what it names
            (s.G_SCRATCH, 10 + design_rows),
            (s.G_MASK0, len(self.masks)),
            (s.G_LIST0, _rows(len(lists))),
            (s.G_TICKS0, _rows(4 * ticks)),
            (s.G_RUNS0, _rows(2 * runs)),
            (s.G_OP0, len(ops)),
            (s.G_T0, self.tasks),
        )
        g[s.G_TICKS_LOW], g[s.G_RUNS] = ticks - 1, runs
        row = n
        for column, size in sizes:
            g[column] = row
            row += size
        for i in starts:
            lists[i] += int(g[s.G_SD0])
        g[s.G_CPUS], g[s.G_GROUPS], g[s.G_TASKS] = n, self.groups, self.tasks
        g[s.G_SETS] = g[s.G_SCRATCH] + 9
        g[s.G_WORDS] = (n >> s.WORD_SHIFT) + 1
        m = _finish(table(row), g, self.tasks, len(hotplug), log_rows)
        for column, rows in (
            (s.G_SD0, self.sd),
            (s.G_GR0, self.gr),
            (s.G_C0, self.c),
            (s.G_MASK0, [self.masks]),
        ):
            if any(map(len, rows)):
                every = np.concatenate(rows)
                m[g[column] : g[column] + len(every)] = every
        self._link(m, g)
        # nothing is to happen; the place before the ring's first is in the past
        m[g[s.G_TICKS0] : g[s.G_RUNS0], : s.LIST : 4] = s.INFINITE
        m[g[s.G_TICKS0] + ((4 * (ticks - 1)) >> s.SHIFT), (4 * (ticks - 1)) & s.LOW] = 0
        nodes = m[g[s.G_RUNS0] : g[s.G_OP0], : s.LIST]
        nodes[:] = s.INFINITE + (np.arange(nodes.size).reshape(nodes.shape) << 12)
        m[:n, s.R_NODE] = node_of_cpu
        padded = np.zeros(_rows(len(lists)) * s.LIST, dtype=np.int64)
        padded[: len(lists)] = lists
        m[g[s.G_LIST0] : g[s.G_LIST0] + _rows(len(lists)), : s.LIST] = padded.reshape(-1, s.LIST)
        m[g[s.G_OP0] : g[s.G_OP0] + len(ops), : ops.shape[1]] = ops
        for i, (_, cpu, online) in enumerate(hotplug):
            m[g[s.G_STEP0] + i, [s.H_CPU, s.H_ONLINE]] = cpu, int(online)
        return m

    def _link(self, m: np.ndarray, g: np.ndarray) -> None:
        """Numbers counted from the start of a section become rows of the table."""
        sd = slice(int(g[s.G_SD0]), int(g[s.G_GR0]))
        gr = slice(int(g[s.G_GR0]), int(g[s.G_C0]))
        for column in (s.D_CHILD, s.D_PARENT):
            values = m[sd, column]
            m[sd, column] = np.where(values >= 0, values + g[s.G_SD0], -1)
        m[sd, s.D_GROUPS] += g[s.G_GR0]
        m[sd, s.D_MASK] += g[s.G_MASK0]
        m[gr, s.GR_MASK] += g[s.G_MASK0]
        m[gr, s.GR_SGC] += g[s.G_C0]


def bits_of(cpus: Iterable[int]) -> np.ndarray:
    """A set of CPUs as the engine keeps it."""
    row = np.zeros(WIDTH, dtype=np.int64)
    for cpu in cpus:
        row[cpu >> s.WORD_SHIFT] |= 1 << (cpu & s.WORD_LOW)
    return row


def cpus_of(row: np.ndarray, cpus: int) -> list[int]:
    """The CPUs of such a set."""
    return [c for c in range(cpus) if (int(row[c >> s.WORD_SHIFT]) >> (c & s.WORD_LOW)) & 1]


def _rows_of(number: int, values: dict[int, Any]) -> np.ndarray:
    out = np.zeros((number, WIDTH), dtype=np.int64)
    for column, of_each in values.items():
        out[:, column] = of_each
    return out


def _rows(elements: int) -> int:
    return -(-elements // s.LIST)


def _finish(head: np.ndarray, g: np.ndarray, tasks: int, steps: int, log_rows: int) -> np.ndarray:
    """Behind the tasks: heap and log."""
    room = 2 * (7 * int(g[s.G_CPUS]) + steps + tasks) + 64
    heap = _rows(4 * (room + 3))
    g[s.G_HEAP0] = len(head)
    g[s.G_HEAP_ROOM] = room
    g[s.G_LOG0] = len(head) + heap
    g[s.G_LOG_ROOM] = log_rows
    m = table(len(head) + heap + _rows(log_rows * s.RECORD))
    m[: len(head)] = head
    m[len(head) : len(head) + heap, : s.LIST : 4] = s.INFINITE
    m[0, s.G_FIRST :] = g[s.G_FIRST :]
    return m


def grown(m: np.ndarray, tasks: int, steps: int) -> np.ndarray:
    """The same world with room for ``tasks`` tasks; the log must be empty."""
    g = m[0].copy()
    heap, log = int(g[s.G_HEAP0]), int(g[s.G_LOG0])
    head = np.concatenate([m[:heap], table(tasks - int(g[s.G_TASKS]))])
    g[s.G_TASKS] = tasks
    out = _finish(head, g, tasks, steps, int(g[s.G_LOG_ROOM]))
    start = int(out[0, s.G_HEAP0])
    out[start : start + log - heap] = m[heap:log]
    return out
