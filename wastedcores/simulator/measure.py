"""What a replay did, in numbers: the workload's own result, busy CPUs, wasted ones. Works on the engine's raw log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from wastedcores.simulator.engine.world import codes
from wastedcores.simulator.engine.world import state as s

if TYPE_CHECKING:
    from wastedcores.topology.machine import Machine
    from wastedcores.workload.builder import Measure
    from wastedcores.workload.program import Program


@dataclass
class RawReplay:
    """What the engine leaves behind.

    Attributes
    ----------
    log
        int64 (events, 8): ts_ns, kind (codes.LOG_*), cpu, pid, other pid, src cpu, value, op.
    masks
        int64 (rows, WIDTH): sets of CPUs that ``considered`` records point at (their pid column), see build.cpus_of.
    tasks
        int64 (tasks, WIDTH): the task rows of the engine.
    counts
        int64 (levels, 3, 7): load_balance calls by level table entry, kind of idleness, result.
    end_ns, events, done, wall_s
        Simulated end; engine events handled; whether every task finished; time spent in the engine.
    phase_ns
        When the workload began.
    """

    log: np.ndarray
    masks: np.ndarray
    tasks: np.ndarray
    counts: np.ndarray
    end_ns: int
    events: int
    done: bool
    wall_s: float
    phase_ns: int


@dataclass(frozen=True)
class Summary:
    """One replay in numbers.

    Attributes
    ----------
    result
        Value of the workload's measure; None if it has none.
    start_ns, end_ns
        Measured window.
    busy_per_cpu
        float (cpus,): share of the window each CPU ran something.
    idle_while_overloaded
        Share of the window in which a counted CPU was idle while another had 2 tasks or more; affinity
        is not looked at.
    """

    result: float | None
    start_ns: int
    end_ns: int
    busy_per_cpu: np.ndarray
    idle_while_overloaded: float


def marks(raw: RawReplay, program: Program) -> dict[str, int]:
    """Time of the last mark of each text."""
    rows = raw.log[raw.log[:, 1] == codes.LOG_MARK]
    return {program.texts[int(r[6])]: int(r[0]) for r in rows}


def busy_share(raw: RawReplay, cpus: int, start: int, end: int) -> np.ndarray:
    """Share of [start, end) each CPU ran something else than idle."""
    log = raw.log[raw.log[:, 1] == codes.LOG_SWITCH]
    out = np.zeros(cpus)
    order = np.argsort(log[:, 2], kind="stable")
    log = log[order]
    ts = np.clip(log[:, 0], start, end)
    cpu = log[:, 2]
    last = np.r_[cpu[1:] != cpu[:-1], True] if len(cpu) else np.zeros(0, bool)
    until = np.where(last, end, np.r_[ts[1:], end] if len(ts) else end)
    np.add.at(out, cpu, np.where(log[:, 3] != 0, until - ts, 0))
    return out / max(end - start, 1)


def overload_share(raw: RawReplay, counted: np.ndarray, start: int, end: int) -> float:
    """Share of [start, end) with an idle and an overloaded CPU among ``counted`` (bool per CPU)."""
    log = raw.log[raw.log[:, 1] == codes.LOG_NR_RUNNING]
    log = log[counted[log[:, 2]]]
    # state of all CPUs after each event, by adding up changes of "is idle" and "is overloaded"
    order = np.lexsort((np.arange(len(log)), log[:, 2]))
    by_cpu = log[order]
    first = np.r_[True, by_cpu[1:, 2] != by_cpu[:-1, 2]] if len(by_cpu) else np.zeros(0, bool)
    change = np.zeros((len(log), 2), dtype=np.int64)
    for column, now in enumerate((by_cpu[:, 6] == 0, by_cpu[:, 6] >= 2)):
        before = np.r_[False, now[:-1]]
        before[first] = column == 0  # unseen CPUs are idle
        change[order, column] = now.astype(np.int64) - before
    idle = int(counted.sum()) + np.cumsum(change[:, 0])
    over = np.cumsum(change[:, 1])
    ts = np.clip(log[:, 0], start, end)
    length = np.diff(np.r_[ts, end])
    return float(length[(idle > 0) & (over > 0)].sum() / max(end - start, 1))


def summarize(
    raw: RawReplay,
    program: Program,
    machine: Machine,
    measure: Measure | None,
    counted_nodes: tuple[int, ...] | None,
) -> Summary:
    """Numbers of one replay; without a measure the window is the whole replay."""
    start, end, result = 0, raw.end_ns, None
    if measure is not None:
        at = marks(raw, program)
        start = at.get(measure.start, 0)
        end = at.get(measure.end, raw.end_ns)
        # seconds are known only when the end was reached; a rate is one also of a part
        reached = {measure.start, measure.end} <= at.keys()
        if reached or (measure.start in at and not measure.name.endswith("_s")):
            result = _result(raw, program, measure, (end - start) / 1e9)
    nodes = np.asarray(machine.node_of_cpu)
    counted = np.isin(nodes, counted_nodes) if counted_nodes else np.ones(machine.cpus, bool)
    return Summary(
        result,
        start,
        end,
        busy_share(raw, machine.cpus, start, end),
        overload_share(raw, counted, start, end),
    )


def _result(raw: RawReplay, program: Program, measure: Measure, seconds: float) -> float | None:
    """The measure's value; None: a rate of nothing, because the replay ended before any task could work."""
    if measure.name.endswith("_s"):
        return seconds
    specs = (*program.templates, *program.tasks)
    mine = [specs[t].comm.startswith(measure.of) for t in raw.tasks[:, s.T_TEMPLATE]]
    units = raw.tasks[mine][:, s.T_UNITS0]
    if not units.any():
        return None
    if measure.name == "cpus_of_work":
        return float(units.sum()) * measure.unit_ns / 1e9 / seconds
    return seconds / int(units.max())
