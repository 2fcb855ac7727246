"""One replay of a recovered workload, in a process of the pool: :func:`replay_once`."""

from __future__ import annotations

import pickle
import warnings
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from wastedcores.analysis.moves import rates
from wastedcores.errors import ModelWarning
from wastedcores.kernels import KernelModel
from wastedcores.recovery.build import END_MARK
from wastedcores.simulator import RawReplay, log_column, log_kind, log_op, simulate
from wastedcores.simulator.measure import busy_share, marks
from wastedcores.simulator.simulate import trees_of
from wastedcores.topology.domains import Domains
from wastedcores.topology.machine import Machine
from wastedcores.workload.program import Costs, Program

#: a variant is given up when it takes this many times the recorded time
PATIENCE = 5


@dataclass(frozen=True)
class Task:
    """Everything that the replays of one question share."""

    #: the program, the machine on which it runs, and the machine's constants
    program: Program
    machine: Machine
    costs: Costs
    #: texts of the marks around the window; None: the window is bounded by times
    marks: tuple[str, str] | None
    lead_ns: int  #: how long the replay runs before the moment at which the recording began
    #: the recorded window, counted from the beginning of the recording
    start_ns: int
    end_ns: int
    finite: bool  #: whether the replay ends with its tasks, and not at the recorded time
    cpus: tuple[int, ...] | None = None  #: the CPUs that count; None: all


def replay_once(path: str, kernel: str, seed: int) -> dict[str, float | int | str | None]:
    """Replay once.

    * ``path``: file with the pickled :class:`Task`, which the parent of this process wrote.
    * ``kernel``, ``seed``: the kernel model and the seed.
    """
    task = _task(path)
    raw = run(task, KernelModel.named(kernel), seed, _trees(path, kernel))
    start, end = window_of(task, raw)
    cpus = list(range(task.machine.cpus) if task.cpus is None else task.cpus)
    return {
        "window_ns": end - start,
        "given_up": int(given_up(task, raw)),
        "busy_cpus": float(busy_share(raw, task.machine.cpus, start, end)[cpus].sum()),
        "wasted_ns": wasted_ns(raw, cpus, start, end),
        **moved(raw, task.machine, KernelModel.named(kernel), start, end),
    }


def run(
    task: Task, kernel: KernelModel, seed: int, trees: list[Domains] | None = None
) -> RawReplay:
    """Replay a task's program."""
    length = task.lead_ns + task.end_ns
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModelWarning)
        return simulate(
            task.program,
            task.machine,
            kernel,
            seed=seed,
            costs=task.costs,
            load=False,
            until_ns=PATIENCE * length if task.finite else length,
            trees=trees or trees_of(task.machine, task.program, kernel),
        )


@lru_cache(maxsize=2)
def _task(path: str) -> Task:
    task: Task = pickle.loads(Path(path).read_bytes())
    return task


@lru_cache(maxsize=16)
def _trees(path: str, kernel: str) -> list[Domains]:
    task = _task(path)
    return trees_of(task.machine, task.program, KernelModel.named(kernel))


def given_up(task: Task, raw: RawReplay) -> bool:
    """Tell whether the work that ends the window had not ended when the replay ended."""
    if task.marks is not None:
        return task.finite and task.marks[1] not in marks(raw, task.program)
    return task.finite and not raw.done


def window_of(task: Task, raw: RawReplay) -> tuple[int, int]:
    """Return a replay's window. It lasts until the end of the replay if that was given up, even if some tasks had ended."""
    begin = raw.phase_ns + task.lead_ns
    start = begin + task.start_ns
    at = marks(raw, task.program)
    if given_up(task, raw):
        return at.get(task.marks[0], start) if task.marks else start, raw.end_ns
    if task.marks is None:
        end = raw.end_ns if task.finite else min(begin + task.end_ns, raw.end_ns)
        return start, at.get(END_MARK, end)
    return at.get(task.marks[0], start), at.get(task.marks[1], raw.end_ns)


def moved(
    raw: RawReplay, machine: Machine, kernel: KernelModel, start: int, end: int
) -> dict[str, float]:
    """Return how often per second tasks move to another CPU, last-level cache and node, as far as kernel events would show it."""
    log = raw.of(log_kind.MIGRATE)
    if not kernel.fork_migrates:
        log = log[log[:, log_column.OP] != log_op.FORK]
    at, source, target = log[:, [log_column.TS, log_column.SRC, log_column.CPU]].T
    inside = (at >= start) & (at <= end) & (source != target)
    found = rates(source[inside], target[inside], max(end - start, 1), machine)
    return {name: rate or 0.0 for name, rate in found.items()}  # a replay logs every move


def wasted_ns(raw: RawReplay, cpus: list[int], start: int, end: int) -> int:
    """Return the wasted thread time of a replay: the waiting time beside idle CPUs, of at most one thread per idle CPU."""
    log = raw.of(log_kind.NR_RUNNING)
    log = log[np.isin(log[:, log_column.CPU], cpus)]
    order = np.lexsort((np.arange(len(log)), log[:, log_column.CPU]))
    cpu, nr = log[order][:, [log_column.CPU, log_column.VALUE]].T
    first = np.append(True, cpu[1:] != cpu[:-1])[: len(cpu)]
    before = np.where(first, 0, np.append(0, nr[:-1])[: len(nr)])
    idle, waiting = np.zeros(len(log), np.int64), np.zeros(len(log), np.int64)
    idle[order] = (nr == 0).astype(np.int64) - (before == 0)
    waiting[order] = np.maximum(nr - 1, 0) - np.maximum(before - 1, 0)
    both = np.minimum(len(cpus) + np.cumsum(idle), np.cumsum(waiting))
    ts = np.clip(log[:, log_column.TS], start, end)
    return int((both * np.diff(np.append(ts, end))).sum())
