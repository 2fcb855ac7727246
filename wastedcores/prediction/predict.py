"""Answers "what if" for a trace: :func:`whatif`."""

from __future__ import annotations

import os
import pickle
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from wastedcores.errors import NotRecoverableError, UsageError
from wastedcores.invariant import check
from wastedcores.kernels import KernelModel, balancer_of
from wastedcores.prediction.machines_and_kernels import (
    balancer_on,
    check_modelled,
    check_recoverable,
    elsewhere,
    place_of,
    task_of,
    variants_of,
)
from wastedcores.prediction.one_replay import Task
from wastedcores.prediction.result import Variant, WhatIf
from wastedcores.recovery import Recovered, recover
from wastedcores.sweep.driver import on_processes
from wastedcores.sweep.run import Run
from wastedcores.topology.machine import Machine
from wastedcores.trace.header import TaskFacts, Window
from wastedcores.trace.named import TraceLike
from wastedcores.trace.named import open as opened
from wastedcores.trace.trace import Trace
from wastedcores.trace.window import Moment, asked
from wastedcores.workload.program import costs_of

ONCE = "wastedcores.prediction.one_replay:replay_once"
SEEDS = 20

#: rows of replays by the name of their kernel; None stands for the recorded kernel
Rows = dict[str | None, list[dict[str, Any]]]


def whatif(
    trace: TraceLike,
    *,
    machine: Machine | str | None = None,
    kernel: KernelModel | str | None = None,
    to: Sequence[str] | None = None,
    to_machine: Machine | str | None = None,
    between: Sequence[Moment] | None = None,
    cpus: str | Sequence[int] | None = None,
    whole: bool = False,
    tasks: Sequence[TaskFacts | Mapping[str, Any]] | None = None,
    sessions: Iterable[str] = (),
    pin: Iterable[int] | None = None,
    refill_ns: int = 0,
    seeds: int = SEEDS,
    workers: int | None = None,
    progress: bool = False,
) -> WhatIf:
    """Predict how the recorded work would have run under other kernels, from its trace alone.

    Parameters
    ----------
    trace
        A trace with switches and wakeups.
    machine, kernel
        The machine, with its hotplug history, and the kernel of the recording; default: what the trace names.
    to
        The kernels to compare with; default: the recorded kernel with each fix that it lacks, with all these fixes, and ``core``.
    to_machine
        Another machine for the variants.
    between, cpus
        The window whose time is predicted, and the CPUs that count; default: what the recording names.
    whole
        Predict the time of the whole trace on all CPUs instead of the window and the CPUs that the recording names.
    tasks, sessions
        As for :func:`wastedcores.recover`.
    pin
        CPUs to which the variants bind every task that was free to move.
    refill_ns
        The time in ns that a task loses when it first runs on a CPU with another last-level cache than before, also under the
        recorded kernel. What the recorded moves cost is already part of the recorded work.
    seeds
        Number of replays of each kernel.
    workers
        Number of processes; default: one per CPU.
    progress
        Show a progress bar on stderr.

    Returns
    -------
    WhatIf
        What was recorded, replayed and predicted.

    Raises
    ------
    NotRecoverableError
        The work cannot be recovered: too little of it was recorded, events were lost, or the engine does not have the kernel.
    TopologyError
        The machine has fewer CPUs than the trace.
    """
    if seeds < 1:
        raise UsageError(f"{seeds} seeds; expected 1 or more.")
    if refill_ns < 0:
        raise UsageError(f"refill_ns={refill_ns}; expected 0 or more.")
    trace = opened(trace)
    window, counted = asked(trace, between, cpus, whole=whole)
    trace = trace.with_header(window=window)
    on, model, assumed = place_of(trace, machine, kernel)
    balancer = balancer_on(trace, kernel)
    check_modelled(trace, balancer)
    names = list(dict.fromkeys(to)) if to else variants_of(model)
    for name in names:
        check_modelled(trace, balancer_of(KernelModel.named(name)), asked=name)
    recovered = recover(trace, tasks, sessions, costs=costs_of(on), machine=on)
    check_recoverable(trace, recovered)
    here = task_of(recovered, on, counted, refill_ns)
    other = elsewhere(here, to_machine, pin)
    rows = _replays(here, other, model.name, names, seeds, workers, progress)
    itself = _variant(model.name, rows[None], recovered.ends, None)
    variants = [_variant(name, rows[name], recovered.ends, itself) for name in names]
    start, end = recovered.window_ns
    return WhatIf(
        trace.name,
        model.name,
        on.name,
        end - start,
        recovered.busy_cpus(counted),
        _wasted_cpus(trace, recovered, counted),
        recovered,
        itself,
        tuple(sorted(variants, key=lambda v: -v.gain.median)),
        seeds,
        balancer.reason if balancer and balancer.stand_in else "",
        _recorded_as(trace, kernel) if balancer and balancer.stand_in else "",
        assumed,
        (here, other),
    )


def _wasted_cpus(trace: Trace, recovered: Recovered, counted: Sequence[int] | None) -> float:
    """Return the recorded mean number of wasted CPUs in the window, counted as in a replay."""
    start, end = (recovered.first_ns + ns for ns in recovered.window_ns)
    bounded = trace.with_header(window=Window(start_ns=start, end_ns=end), counted_cpus=None)
    found = check(bounded, cpus=counted, ignore_affinity=True, chronic_share=None)
    return found.mean(found.thread_ns)


def _recorded_as(trace: Trace, kernel: KernelModel | str | None) -> str:
    """Return the name of the recorded kernel as the user gave it, or as the trace has it."""
    if isinstance(kernel, KernelModel):
        return kernel.name
    return str(kernel or trace.header.kernel_model or trace.header.kernel_release)


def _replays(
    here: Task,
    other: Task,
    kernel: str,
    names: Sequence[str],
    seeds: int,
    workers: int | None,
    progress: bool,
) -> Rows:
    """Replay everything in processes."""
    from tqdm import tqdm

    with tempfile.TemporaryDirectory(prefix="wastedcores-") as folder:
        at_home, away = Path(folder) / "here", Path(folder) / "other"
        at_home.write_bytes(pickle.dumps(here))
        away.write_bytes(pickle.dumps(other))
        plan: dict[Run, list[str | None]] = {}
        for name in (None, *names):
            path = str(at_home if name is None or other is here else away)
            for seed in range(1, seeds + 1):
                run = Run.of(ONCE, path=path, kernel=name or kernel, seed=seed)
                plan.setdefault(run, []).append(name)
        rows: Rows = {name: [] for name in (None, *names)}
        done = on_processes(list(plan), workers or os.cpu_count() or 1)
        bar = tqdm(done, total=len(plan), unit="replay", file=sys.stderr, disable=not progress)
        for run, row in bar:
            told = dict(run.arguments)
            if row["error"]:
                raise NotRecoverableError(
                    f"the recovered work cannot be replayed under {told['kernel']}: {row['error']}"
                )
            if row["window_ns"] <= 0:
                raise NotRecoverableError(
                    f"the recovered work ended under {told['kernel']} before its window began, so nothing can be predicted; "
                    "name the window with --between."
                )
            for name in plan[run]:
                rows[name].append({**row, "seed": told["seed"]})
    return {name: sorted(found, key=lambda r: r["seed"]) for name, found in rows.items()}


def _variant(name: str, rows: list[dict[str, Any]], ends: bool, itself: Variant | None) -> Variant:
    """Return the replays of one kernel, with their gains against the replays of the recorded kernel."""
    windows = tuple(int(r["window_ns"]) for r in rows) if ends else None
    busy = tuple(float(r["busy_cpus"]) for r in rows)
    gains: tuple[float, ...] = ()
    if itself is not None and windows and itself.windows_ns:
        gains = tuple(1 - a / max(b, 1) for a, b in zip(windows, itself.windows_ns, strict=True))
    elif itself is not None:
        gains = tuple(a / max(b, 1e-9) - 1 for a, b in zip(busy, itself.busy, strict=True))
    moved = {
        key: None if any(r[key] is None for r in rows) else sum(r[key] for r in rows) / len(rows)
        for key in ("per_s", "across_caches_per_s", "across_nodes_per_s")
    }
    wasted = tuple(int(r["wasted_ns"]) for r in rows)
    late = sum(int(r["given_up"]) for r in rows) if ends else 0
    return Variant(name, windows, busy, wasted, gains, moved, late)
