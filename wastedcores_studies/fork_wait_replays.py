"""The replays of the fork/wait study: each replays one build with given assumptions about the CPUs' clocks.

A recorded build is replayed, too: its work is recovered from the trace and replayed on the machine of the fork/wait paper.

The trace tells how long each process computed and how processes waited for each other, so none of this is assumed. Two
assumptions remain. One is about the clocks of the paper's machine. The other is that at the nominal frequency of that machine, a
piece of work takes as long as in the recording.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from wastedcores.errors import ModelWarning
from wastedcores.kernels import KernelModel
from wastedcores.prediction.machines_and_kernels import check_recoverable, task_of
from wastedcores.prediction.one_replay import Task, run, window_of
from wastedcores.recovery import recover
from wastedcores.recovery.facts import family_of
from wastedcores.simulator import RawReplay, log_column, log_kind, marks, simulate
from wastedcores.simulator.measure import busy_share, over_cpus
from wastedcores.topology.clocks import Frequency
from wastedcores.topology.machine import Machine
from wastedcores.topology.presets import XEON_E7_FREQUENCY, preset
from wastedcores.trace.named import open as opened
from wastedcores.workload.kbuild import kbuild
from wastedcores.workload.program import costs_of

#: the bundled recording of a build of kernel/sched
TRACE = "kernel-build"
#: the command whose processes are replayed
ROOT = "make"


def recorded(kernel: str, seed: int, trace: str = TRACE, **clocks: float) -> dict[str, Any]:
    """Replay a recorded build on the machine of the fork/wait paper.

    Parameters
    ----------
    kernel, seed
        Name of the kernel model, and the seed.
    trace
        The recording: a file that ``wastedcores capture -- make -j32`` wrote, or a data set of this kind. It may be from a
        smaller machine.
    **clocks
        As for :func:`wastedcores_studies.fork_wait_replays.machine`.

    Returns
    -------
    dict
        ``build_s``, and the measures of :func:`wastedcores_studies.fork_wait_replays.measured` over the whole build.
    """
    task = work(trace, tuple(sorted(clocks.items())))
    raw = run(task, KernelModel.named(kernel), seed)
    start, end = window_of(task, raw)
    return {"build_s": (end - start) / 1e9} | measured(raw, task.machine, start, end)


@lru_cache(maxsize=4)
def work(trace: str = TRACE, clocks: tuple[tuple[str, float], ...] = ()) -> Task:
    """Recover the work of a build for the machine of the fork/wait paper."""
    where = machine(**dict(clocks))  # type: ignore[arg-type]  # whole numbers of ticks come as such
    found = family_of(opened(trace), ROOT)
    recovered = recover(found, costs=costs_of(where))
    check_recoverable(found, recovered)
    return task_of(recovered, where, None)


MACHINE = "xeon-e7-8870-turbo"
#: The energy model: a package and its memory use PACKAGE_W all the time. An active core uses CORE_W, and, at the nominal
#: frequency, DYNAMIC_W more. DYNAMIC_W grows with the cube of the frequency. The paper reports measured energy but no powers, so
#: these values are assumptions.
PACKAGE_W, CORE_W, DYNAMIC_W = 60.0, 0.5, 3.0
#: the lower edges of the paper's classes of frequencies, in kHz; the paper shows the highest class in red (figures 1 and 3)
CLASSES_KHZ = (1_200_000, 1_600_000, 2_100_000, 2_600_000)
TICK_NS = 4_000_000


def machine(
    ramp_ticks: int = XEON_E7_FREQUENCY.ramp_ticks,
    hold_ticks: int = XEON_E7_FREQUENCY.hold_ticks,
    turbo: float = 1.0,
    smt_speed: float = 0.65,
) -> Machine:
    """Return the machine of the fork/wait paper with other clocks; ``turbo`` multiplies its turbo frequencies."""
    steps = tuple((n, round(khz * turbo)) for n, khz in XEON_E7_FREQUENCY.turbo)
    f = Frequency(
        XEON_E7_FREQUENCY.min_khz, XEON_E7_FREQUENCY.nominal_khz, steps, ramp_ticks, hold_ticks
    )
    return replace(preset(MACHINE), frequency=f, smt_speed=smt_speed)


def build(
    kernel: str,
    seed: int,
    tree: str,
    jobs: int,
    *,
    stretch: float = 1.0,
    recipes: float = 1.0,
    exec: bool = False,
    **clocks: float,
) -> dict[str, Any]:
    """Replay one build."""
    where = machine(**clocks)  # type: ignore[arg-type]  # whole numbers of ticks come as such
    program = kbuild(where, seed, tree, jobs, exec, stretch, recipes).program()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModelWarning)
        raw = simulate(program, where, KernelModel.named(kernel), seed=seed, load=False)
    at = marks(raw, program)
    start, end = at["make start"], at["make end"]
    parallel = measured(raw, where, at["compile"], at["finish"])
    return {
        "build_s": (end - start) / 1e9,
        "initial_s": (at["burst"] - start) / 1e9,
        "compile_s": (at["finish"] - at["compile"]) / 1e9,
        "finish_s": (end - at["finish"]) / 1e9,
        "initial_cpus": most_busy(raw, where.cpus, start, at["burst"]),
        **{f"compile_{name}": parallel[name] for name in ("cpus", "most", "busy", "khz")},
        **{name: measured(raw, where, start, end)[name] for name in ("slow", "fast", "energy_j")},
        "wall_s": raw.wall_s,
    }


def measured(raw: RawReplay, where: Machine, start: int, end: int) -> dict[str, Any]:
    """Measure how many CPUs a replay uses in a window, and how fast these CPUs are."""
    ticks = raw.of(log_kind.TICK)
    ticks = ticks[(ticks[:, log_column.TS] >= start) & (ticks[:, log_column.TS] < end)]
    khz = ticks[:, log_column.VALUE]
    busy = busy_share(raw, where.cpus, start, end)
    return {
        "cpus": int((busy > 0).sum()),
        "most": most_busy(raw, where.cpus, start, end),
        "busy": float(busy.sum()),
        "khz": float(khz.mean()),
        "slow": float(np.mean(khz < CLASSES_KHZ[1])),
        "fast": float(np.mean(khz > CLASSES_KHZ[3])),
        "energy_j": energy_j(ticks, where, end - start),
    }


def most_busy(raw: RawReplay, cpus: int, start: int, end: int) -> int:
    """Return the largest number of CPUs that run tasks at the same moment of a window."""
    ts_ns, cpu, pid = raw.of(log_kind.SWITCH)[:, [log_column.TS, log_column.CPU, log_column.PID]].T
    inside = ts_ns < end
    busy = over_cpus(cpu[inside], pid[inside] != 0)
    return int(busy[ts_ns[inside] >= start].max(initial=0))


def energy_j(ticks: np.ndarray, where: Machine, length_ns: int) -> float:
    """Estimate the energy of packages and memory during a build; each tick stands for 4 ms."""
    assert where.frequency is not None
    core = where.core_of_cpu[ticks[:, log_column.CPU]]
    samples = np.stack([core, ticks[:, log_column.TS] // TICK_NS], axis=1)
    _, once = np.unique(samples, axis=0, return_index=True)
    speed = ticks[once, log_column.VALUE] / where.frequency.nominal_khz
    packages = len(set(where.package_of_cpu.tolist()))
    active = (CORE_W + DYNAMIC_W * speed**3).sum() * TICK_NS / 1e9
    return float(PACKAGE_W * packages * length_ns / 1e9 + active)
