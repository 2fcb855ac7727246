"""A replay in numbers: the workload's own result, busy CPUs and wasted cores, computed from the engine's raw log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from wastedcores.simulator.engine.codes import log_kind
from wastedcores.simulator.engine.world import log_column
from wastedcores.simulator.engine.world.structs import TaskStruct

if TYPE_CHECKING:
    from wastedcores.simulator.decisions import Decided
    from wastedcores.topology.machine import Machine
    from wastedcores.workload.builder import Measure
    from wastedcores.workload.program import Program


@dataclass
class RawReplay:
    """What the engine leaves behind.

    Attributes
    ----------
    log
        int64 (records, 8). The columns are named in ``wastedcores.simulator.log_column``, the kinds of records in
        ``log_kind`` and the operations in ``log_op``.
    masks
        int64 (rows, WIDTH): the rows of the table before the tasks. The PID column of a ``considered`` record holds
        the row of its CPU set in this array.
    tasks
        int64 (tasks, WIDTH): the task rows of the engine, in the order of birth.
    pids
        int64 (tasks,): the pid of each task.
    counts
        int64 (levels, 3, 7): the number of load_balance() calls by entry of the level table, idle type and result.
    end_ns, events, done, wall_s
        The simulated time of the end; how many events the engine handled; whether every task finished; how many seconds the
        engine took.
    phase_ns
        The simulated time at which the workload began.
    decided
        The values of the decisions in the log; None if they were not logged.
    """

    log: np.ndarray
    masks: np.ndarray
    tasks: np.ndarray
    pids: np.ndarray
    counts: np.ndarray
    end_ns: int
    events: int
    done: bool
    wall_s: float
    phase_ns: int
    decided: Decided | None = None

    def of(self, *kinds: int) -> np.ndarray:
        """Return the log's records of these kinds (``log_kind``), int64 (records, 8)."""
        return self.log[np.isin(self.log[:, log_column.KIND], kinds)]

    def comms(self, program: Program) -> list[str]:
        """Return the name of each task; ``program`` is what was replayed."""
        specs = (*program.templates, *program.tasks)
        return [specs[t].comm for t in self.tasks[:, TaskStruct.template]]


@dataclass(frozen=True)
class Summary:
    """One replay in numbers.

    Attributes
    ----------
    result
        Value of the workload's measure; None if it has none.
    start_ns, end_ns
        The measured window.
    busy_per_cpu
        float (cpus,): the share of the window in which each CPU ran something.
    idle_while_overloaded
        The share of the window in which a CPU was idle while another had two tasks or more. Only the CPUs of the counted
        nodes (:func:`summarize`) are considered, and affinity is ignored.
    """

    result: float | None
    start_ns: int
    end_ns: int
    busy_per_cpu: np.ndarray
    idle_while_overloaded: float


def marks(raw: RawReplay, program: Program) -> dict[str, int]:
    """Find the time of the last mark with each text.

    Parameters
    ----------
    raw, program
        A replay and the program that it ran.

    Returns
    -------
    dict
        The time in ns for each text.
    """
    rows = raw.of(log_kind.MARK)[:, [log_column.VALUE, log_column.TS]]
    return {program.texts[text]: ts for text, ts in rows.tolist()}


def busy_share(raw: RawReplay, cpus: int, start: int, end: int) -> np.ndarray:
    """Compute the share of a window in which each CPU ran a task other than its idle task."""
    ts_ns, cpu, pid = raw.of(log_kind.SWITCH)[:, [log_column.TS, log_column.CPU, log_column.PID]].T
    return running_ns(ts_ns, cpu, pid != 0, cpus, start, end) / max(end - start, 1)


def running_ns(
    ts_ns: np.ndarray, cpu: np.ndarray, counts: np.ndarray, cpus: int, start: int, end: int
) -> np.ndarray:
    """Compute for each CPU how much of a window lies between a switch that ``counts`` selects and the CPU's next switch."""
    order = np.argsort(cpu, kind="stable")
    cpu = cpu[order]
    length = durations_ns(ts_ns[order], cpu, start, end)
    return np.bincount(cpu, np.where(counts[order], length, 0), cpus)


def durations_ns(ts_ns: np.ndarray, owner: np.ndarray, start: int, end: int) -> np.ndarray:
    """Compute how much of a window lies between each event and the next event of the same owner."""
    ts_ns = np.clip(ts_ns, start, end)
    last = np.append(owner[1:] != owner[:-1], True)[: len(owner)]
    until = np.append(ts_ns[1:], end)[: len(ts_ns)]
    return np.where(last, end, until) - ts_ns


def overload_share(raw: RawReplay, counted: np.ndarray, start: int, end: int) -> float:
    """Compute the share of a window in which one of the counted CPUs was idle while another had two tasks or more."""
    log = raw.of(log_kind.NR_RUNNING)
    log = log[counted[log[:, log_column.CPU]]]
    ts, cpu, nr = log[:, [log_column.TS, log_column.CPU, log_column.VALUE]].T
    idle = int(counted.sum()) - over_cpus(cpu, nr > 0)
    wasted = (idle > 0) & (over_cpus(cpu, nr >= 2) > 0)
    return _mean(ts, wasted, start, end)


def cpus_wasted(
    ts_ns: np.ndarray, cpu: np.ndarray, nr: np.ndarray, cpus: int, start: int, end: int
) -> float:
    """Compute the mean number of CPUs that were idle although waiting threads could have used them. Affinity is ignored.

    Parameters
    ----------
    ts_ns, cpu, nr
        int64 (changes,): the lengths of runqueues, in order of time.
    cpus
        The number of CPUs. A CPU is idle until its first change.
    start, end
        The window in ns.

    Returns
    -------
    float
        The mean over time of the smaller of two numbers: the idle CPUs and the waiting threads.
    """
    idle = cpus - over_cpus(cpu, nr > 0)
    return _mean(ts_ns, np.minimum(idle, over_cpus(cpu, np.maximum(nr - 1, 0))), start, end)


def over_cpus(cpu: np.ndarray, value: np.ndarray) -> np.ndarray:
    """Compute, after each change of one CPU's value, the sum of the values of all CPUs. Every value is 0 at first."""
    order = np.argsort(cpu, kind="stable")
    now, where = value[order].astype(np.int64), cpu[order]
    before = np.r_[0, now[:-1]][: len(now)]
    before[np.r_[True, where[1:] != where[:-1]][: len(now)]] = 0
    change = np.empty(len(now), dtype=np.int64)
    change[order] = now - before
    return np.cumsum(change)


def _mean(ts_ns: np.ndarray, value: np.ndarray, start: int, end: int) -> float:
    """Compute the mean of a value over a window. The value is given after each event, and is 0 before the first event."""
    length = np.diff(np.r_[np.clip(ts_ns, start, end), end])
    return float((length * value).sum() / max(end - start, 1))


def summarize(
    raw: RawReplay,
    program: Program,
    machine: Machine,
    measure: Measure | None,
    counted_nodes: tuple[int, ...] | None,
) -> Summary:
    """Compute the numbers of one replay.

    Parameters
    ----------
    raw, program, machine
        A replay, its program and its machine.
    measure
        The workload's own measure. None: the window is the whole replay.
    counted_nodes
        The nodes whose CPUs count for ``idle_while_overloaded``. None: all nodes.

    Returns
    -------
    Summary
        The result, the window and the CPUs.
    """
    start, end, result = 0, raw.end_ns, None
    if measure is not None:
        at = marks(raw, program)
        start = at.get(measure.start, 0)
        end = at.get(measure.end, raw.end_ns)
        # a duration is known only if the end mark was reached; a rate can also be computed if the replay stopped before this mark
        reached = {measure.start, measure.end} <= at.keys() or measure.name.endswith("_per_s")
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
    """Return the measure's value. A measure that is no duration is None if no task has done any of the measured work."""
    if measure.name.endswith("_s") and not measure.name.endswith("_per_s"):
        return seconds
    if measure.name == "share_of_first":
        return share_of_first(raw, program, measure)
    mine = [comm.startswith(measure.of) for comm in raw.comms(program)]
    units = raw.tasks[mine][:, TaskStruct.units]
    if not units.any():
        return None
    if measure.name.endswith("_per_s"):
        return float(units.sum()) / seconds
    if measure.name == "cpus_of_work":
        return float(units.sum()) * measure.unit_ns / 1e9 / seconds
    return seconds / int(units.max())


def share_of_first(raw: RawReplay, program: Program, measure: Measure) -> float | None:
    """Compute the share of the first thread in the CPU time of all measured threads."""
    at = marks(raw, program)
    pids = raw.pids[[comm.startswith(measure.of) for comm in raw.comms(program)]]
    ts_ns, cpu, pid = raw.of(log_kind.SWITCH)[:, [log_column.TS, log_column.CPU, log_column.PID]].T
    cpus = int(cpu.max(initial=0)) + 1
    window = at[measure.start], at.get(measure.end, raw.end_ns)
    ran = [running_ns(ts_ns, cpu, pid == p, cpus, *window).sum() for p in pids]
    return float(ran[0] / sum(ran)) if sum(ran) else None
