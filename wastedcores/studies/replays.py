"""One replay each, as sweep tasks: plain arguments in, a flat row out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from wastedcores.errors import TopologyError, WorkloadError
from wastedcores.kernels import KernelModel
from wastedcores.simulator import (
    RawReplay,
    costs_of,
    log_column,
    log_kind,
    log_op,
    marks,
    simulate,
)
from wastedcores.topology.domains import Domains, build_domains, domain_events
from wastedcores.topology.machine import Machine
from wastedcores.topology.presets import BULLDOZER, grid, preset
from wastedcores.workload.database import resident_pools
from wastedcores.workload.program import Program
from wastedcores.workload.recorded.workloads import recorded_gi, recorded_ms
from wastedcores.workload.spmd import MARK, Spmd, program

#: what a rate is measured over, and what comes before it: threads find their places in the first half second
SETTLE_NS = 700_000_000
WINDOW_NS = 1_500_000_000
#: intervals that a rate needs; the window is made longer until it has them
ENOUGH = 16
LONGEST_NS = 2_000_000_000_000
#: a whole run that takes longer is measured by what it did until then
WHOLE_NS = 400_000_000_000
TICK_NS = 4_000_000


@lru_cache(maxsize=8)
def machine_named(name: str) -> Machine:
    """A machine, built once a process.

    A preset; or ``bulldozer:N``: N CPUs (2, 4, 8: part of one node; 16, 32, 64: whole nodes) cut from the paper's
    machine; or ``desktop:N``: N CPUs that share one cache.

    Raises
    ------
    TopologyError
        Neither.
    """
    family, _, number = name.partition(":")
    if not number:
        return preset(name)
    cpus = int(number) if number.isdigit() else 0
    if family == "desktop" and cpus > 0:
        return grid(name, cores_per_llc=cpus)
    if family == "bulldozer" and cpus in (2, 4, 8):
        return grid(name, cores_per_llc=cpus // 2, threads=2)
    if family == "bulldozer" and cpus in (16, 32, 64):
        nodes = cpus // 8
        slit = [row[:nodes] for row in BULLDOZER[:nodes]]
        return grid(
            name,
            packages=nodes // 2,
            nodes_per_package=2,
            cores_per_llc=4,
            threads=2,
            distance=slit,
        )
    raise TopologyError(
        f"machine {name!r}: expected bulldozer:2, 4, 8, 16, 32 or 64, desktop:N, or the name of a preset."
    )


def _simulate(
    work: Program, machine: str, kernel: str, seed: int, tick_ns: int, **how: Any
) -> RawReplay:
    where = machine_named(machine)
    costs = replace(costs_of(where), tick_ns=tick_ns)
    steps = tuple(("online" if up else "offline", cpu) for _, cpu, up in work.hotplug)
    return simulate(
        work,
        where,
        KernelModel.named(kernel),
        seed=seed,
        costs=costs,
        load=False,
        trees=_trees(machine, kernel, steps),
        **how,
    )


@lru_cache(maxsize=32)
def _trees(machine: str, kernel: str, steps: tuple[tuple[str, int], ...]) -> list[Domains]:
    """Domains at boot and after each hotplug step, built once a process: the same for every seed."""
    where = machine_named(machine)
    return domain_events(
        replace(where, hotplug=where.hotplug + steps), KernelModel.named(kernel).linux
    )


def spmd(
    kernel: str,
    machine: str,
    seed: int,
    *,
    until_ns: int | None = None,
    tick_ns: int = TICK_NS,
    **spec: Any,
) -> dict:
    """Rate of a program of many equal threads: in its steady state; with ``intervals``, over the whole run.

    Returns
    -------
    dict
        ``interval_s`` (of kind ``none``: the whole run), ``busy_cpus``, ``events``, ``wall_s``.

    Raises
    ------
    WorkloadError
        No rate after minutes of simulated time.
    """
    if spec.get("nodes") is not None:
        spec["nodes"] = tuple(spec["nodes"])
    what = Spmd(**spec)
    work = program(what, machine_named(machine), seed)
    if what.kind == "none":
        raw = _simulate(work, machine, kernel, seed, tick_ns)
        begin = raw.phase_ns + what.start_ns
        return _row(raw, (raw.end_ns - begin) / 1e9, begin, raw.end_ns)
    if what.intervals is not None:
        return _whole(what, work, machine, kernel, seed, tick_ns)
    window = float(WINDOW_NS)
    while True:
        begin = what.start_ns + SETTLE_NS
        raw = _simulate(
            work, machine, kernel, seed, tick_ns, until_ns=until_ns or begin + round(window)
        )
        times = raw.of(log_kind.MARK)[:, log_column.TS]
        times = times[times >= raw.phase_ns + begin]
        if len(times) > ENOUGH or until_ns:
            break
        tried, window = window, 4 * window
        if len(times) > 2:  # as long as they seem to take, and a quarter more
            length = float(times[-1] - times[0]) / (len(times) - 1)
            window = max(1.25 * (ENOUGH + 1) * length, 1.25 * tried)
        if window > LONGEST_NS:
            raise WorkloadError(
                f"{what.kind} program of {what.threads} threads: {len(times)} intervals in {tried / 1e9:.0f} "
                f"simulated seconds, expected more than {ENOUGH}; is its grain ({what.grain_ns} ns) too long?"
            )
    if len(times) < 2:
        raise WorkloadError(
            f"{what.kind} program: no two intervals before {until_ns} ns; give more time."
        )
    span = int(times[-1] - times[0])
    return _row(raw, span / (len(times) - 1) / 1e9, int(times[0]), int(times[-1]))


def _whole(
    what: Spmd, work: Program, machine: str, kernel: str, seed: int, tick_ns: int
) -> dict[str, Any]:
    """Mean time of an interval from the program's start to its end, for a program that finds its places slowly."""
    raw = _simulate(work, machine, kernel, seed, tick_ns, until_ns=what.start_ns + WHOLE_NS)
    rows = raw.of(log_kind.MARK)[:, [log_column.TS, log_column.VALUE]]
    mine = [ts for ts, text in rows.tolist() if work.texts[text] == MARK]
    if not mine:
        raise WorkloadError(
            f"{what.kind} program of {what.threads} threads: no interval in {WHOLE_NS / 1e9:.0f} simulated seconds."
        )
    begin = raw.phase_ns + what.start_ns
    return _row(raw, (mine[-1] - begin) / len(mine) / 1e9, begin, mine[-1])


def _row(raw: RawReplay, interval_s: float, begin_ns: int, end_ns: int) -> dict:
    return {
        "interval_s": interval_s,
        "busy_cpus": busy_cpus(raw, begin_ns, end_ns),
        "events": raw.events,
        "wall_s": raw.wall_s,
    }


def busy_cpus(
    raw: RawReplay, begin_ns: int, end_ns: int, cpus: Sequence[int] | None = None
) -> float:
    """Mean number of CPUs (of these) with something to run between two times of the trace."""
    log = raw.of(log_kind.NR_RUNNING)
    if cpus is not None:
        log = log[np.isin(log[:, log_column.CPU], list(cpus))]
    total = 0
    for cpu in np.unique(log[:, log_column.CPU]):
        mine = log[log[:, log_column.CPU] == cpu]
        times = np.clip(np.append(mine[:, log_column.TS], end_ns), begin_ns, end_ns)
        total += int(np.sum(np.diff(times) * (mine[:, log_column.VALUE] > 0)))
    return total / max(end_ns - begin_ns, 1)


def make_r(
    kernel: str,
    machine: str,
    seed: int,
    *,
    jobs: int,
    length: float = 1.0,
    tick_ns: int = TICK_NS,
) -> dict:
    """``make -jN`` beside two R (paper 3.1), the compilers as the recorded ones: 20-60 ms each, times ``length``.

    Returns
    -------
    dict
        ``make_s``; ``r_share``: part of a CPU that each R had meanwhile; ``idle_nodes``: nodes that left at least one
        of their CPUs unused; ``busy_cpus``.
    """
    where = machine_named(machine)
    work = recorded_gi(
        where, seed, jobs=jobs, lo_us=round(20_000 * length), hi_us=round(60_000 * length)
    ).program()
    raw = _simulate(work, machine, kernel, seed, tick_ns)
    begin, end = _between(raw, work, "make start", "make end")
    # the last second is the tail of the last jobs; figure 2 shows the middle
    middle = begin + (end - begin) * 3 // 4
    per_node = [
        busy_cpus(raw, begin, middle, where.cpus_of_node(node)) for node in range(where.nodes)
    ]
    named = zip(raw.pids.tolist(), raw.comms(work), strict=True)
    hogs = [pid for pid, comm in named if comm.startswith("R-")]
    return {
        "make_s": (end - begin) / 1e9,
        "r_share": sum(_running(raw, pid, begin, end) for pid in hogs) / len(hogs),
        "idle_nodes": sum(
            busy <= len(where.cpus_of_node(node)) - 1 for node, busy in enumerate(per_node)
        ),
        "busy_cpus": sum(per_node),
        "events": raw.events,
        "wall_s": raw.wall_s,
    }


def tpch(
    kernel: str,
    machine: str,
    seed: int,
    *,
    pools: list[int],
    together: bool,
    stages: int,
    autogroups: bool = False,
    tick_ns: int = TICK_NS,
    **how: int,
) -> dict:
    """A database's workers (:func:`wastedcores.workload.database.resident_pools`, which takes ``how``).

    Returns
    -------
    dict
        ``stage_s``: time of one stage, mean over the pools; ``busy_cpus``.
    """
    work = resident_pools(
        machine_named(machine),
        seed,
        pools=tuple(pools),
        together=together,
        stages=stages,
        autogroups=autogroups,
        **how,
    )
    raw = _simulate(work, machine, kernel, seed, tick_ns)
    spans = _spans(raw, work, len(pools))
    begin, end = max(b for b, _ in spans), min(e for _, e in spans)
    return {
        "stage_s": sum(e - b for b, e in spans) / len(spans) / 1e9 / stages,
        "busy_cpus": busy_cpus(raw, begin, end),
        "events": raw.events,
        "wall_s": raw.wall_s,
    }


def profiler_events(
    kernel: str, machine: str, seed: int, *, pools: list[int], together: bool, stages: int
) -> dict:
    """Events a second that the authors' profiler (paper 4.2) would record of a database.

    Returns
    -------
    dict
        ``nr_running``, ``load`` and ``considered``: each kind's rate in 1/s.
    """
    where = machine_named(machine)
    work = resident_pools(where, seed, pools=tuple(pools), together=together, stages=stages)
    raw = simulate(
        work,
        where,
        KernelModel.named(kernel),
        seed=seed,
        costs=replace(costs_of(where), tick_ns=TICK_NS),
        load=True,
        considered=True,
    )
    spans = _spans(raw, work, len(pools))
    begin, end = max(b for b, _ in spans), min(e for _, e in spans)
    ts = raw.log[:, log_column.TS]
    inside = raw.log[(ts >= begin) & (ts < end), log_column.KIND]
    kinds = {
        "nr_running": log_kind.NR_RUNNING,
        "load": log_kind.LOAD,
        "considered": log_kind.CONSIDERED,
    }
    return {
        name: int(np.sum(inside == kind)) / ((end - begin) / 1e9) for name, kind in kinds.items()
    }


def looks_of_core0(kernel: str, machine: str, seed: int) -> dict:
    """Figure 5: median time between the moments at which CPU 0 looks for work to steal."""
    where = machine_named(machine)
    work = recorded_ms(where, seed, n=16, limit_s=0.5).program()
    raw = _simulate(work, machine, kernel, seed, TICK_NS, considered=True)
    rows = raw.of(log_kind.CONSIDERED)
    looks = rows[:, log_column.OP] == log_op.UPDATE_SG_LB_STATS
    times = rows[looks & (rows[:, log_column.SRC] == 0), log_column.TS]
    times = np.unique(times[times > raw.phase_ns + SETTLE_NS])
    # a pass over idle CPUs takes its time: one moment is one pass
    times = times[np.r_[True, np.diff(times) > TICK_NS // 2]]
    if len(times) < 3:
        raise WorkloadError(
            f"CPU 0 looked for work {len(times)} times in half a second; expected many."
        )
    return {"period_ms": float(np.median(np.diff(times))) / 1e6, "looks": len(times)}


def machine_groups(kernel: str, machine: str, seed: int) -> dict:
    """The two scheduling groups that CPU 0 sees over the whole machine, as sets of nodes (paper 3.2)."""
    del seed  # nothing is drawn
    where = machine_named(machine)
    top = build_domains(where, KernelModel.named(kernel)).of(0)[-1]
    node = where.node_of_cpu
    sets = [sorted({int(node[c]) for c in g.cpus}) for g in top.groups]
    return {"groups": ";".join("{" + ",".join(map(str, nodes)) + "}" for nodes in sets)}


def _spans(raw: RawReplay, work: Program, pools: int) -> list[tuple[int, int]]:
    """When each pool began and ended its query."""
    return [_between(raw, work, f"query start {i}", f"query end {i}") for i in range(pools)]


def _between(raw: RawReplay, work: Program, first: str, last: str) -> tuple[int, int]:
    """Times of two marks."""
    at = marks(raw, work)
    return at[first], at[last]


def _running(raw: RawReplay, pid: int, begin_ns: int, end_ns: int) -> float:
    """Part of the window in which a task ran."""
    log = raw.of(log_kind.SWITCH)
    on = np.clip(log[log[:, log_column.PID] == pid, log_column.TS], begin_ns, end_ns)
    off = np.clip(log[log[:, log_column.OTHER] == pid, log_column.TS], begin_ns, end_ns)
    off = np.append(off, end_ns) if len(off) < len(on) else off
    return float(np.sum(off - on)) / max(end_ns - begin_ns, 1)
