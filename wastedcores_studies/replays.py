"""The tasks of the scorecard's sweeps: each replays one workload with plain arguments and returns a flat row."""

from __future__ import annotations

from collections.abc import Callable
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
from wastedcores.simulator.measure import busy_share, running_ns
from wastedcores.topology.domains import Domains, build_domains, domain_events
from wastedcores.topology.machine import Machine
from wastedcores.topology.presets import BULLDOZER, grid, preset
from wastedcores.workload.database import resident_pools
from wastedcores.workload.program import Program
from wastedcores.workload.recorded.workloads import recorded_gi, recorded_ms
from wastedcores.workload.spmd import MARK, Spmd, program

#: a rate is measured after this time, in which the threads settle (which takes them half a second)
SETTLE_NS = 700_000_000
WINDOW_NS = 1_500_000_000
#: number of intervals that a rate needs; the window is extended until it has them, but not beyond LONGEST_NS
ENOUGH = 16
LONGEST_NS = 2_000_000_000_000
#: a whole run is stopped after this time and measured by the intervals that it has completed
WHOLE_NS = 400_000_000_000
TICK_NS = 4_000_000
_BALANCER = (log_op.NEWIDLE, log_op.PERIODIC, log_op.NOHZ, log_op.ACTIVE)


@lru_cache(maxsize=8)
def machine_named(name: str) -> Machine:
    """Return a machine, which is built once per process."""
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
    program: Program, machine: str, kernel: str, seed: int, tick_ns: int, **options: Any
) -> RawReplay:
    """Replay a program with the domains that were built once for all seeds."""
    where = machine_named(machine)
    costs = replace(costs_of(where), tick_ns=tick_ns)
    steps = tuple(("online" if up else "offline", cpu) for _, cpu, up in program.hotplug)
    return simulate(
        program,
        where,
        KernelModel.named(kernel),
        seed=seed,
        costs=costs,
        load=False,
        trees=_trees(machine, kernel, steps),
        **options,
    )


@lru_cache(maxsize=32)
def _trees(machine: str, kernel: str, steps: tuple[tuple[str, int], ...]) -> list[Domains]:
    """Return the domains at boot and after each hotplug step. They are the same for every seed and built once per process."""
    where = machine_named(machine)
    return domain_events(
        replace(where, hotplug=where.hotplug + steps), KernelModel.named(kernel).linux
    )


def _row(raw: RawReplay, machine: str, window: tuple[int, int], **results: Any) -> dict[str, Any]:
    """Return the row of a task: its results, the busy CPUs in a window (ns) on average, and the engine's events and seconds."""
    busy = busy_share(raw, machine_named(machine).cpus, *window)
    counts = {"busy_cpus": float(busy.sum()), "events": raw.events, "wall_s": raw.wall_s}
    return results | counts


def _moves(raw: RawReplay, machine: str, window: tuple[int, int]) -> dict[str, float]:
    """Count moves of threads in a window (ns): all moves, those to another node, and of these the balancer's per s."""
    node = machine_named(machine).node_of_cpu
    rows = raw.of(log_kind.MIGRATE)
    rows = rows[(rows[:, log_column.TS] >= window[0]) & (rows[:, log_column.TS] < window[1])]
    src, cpu, op = rows[:, [log_column.SRC, log_column.CPU, log_column.OP]].T
    away = node[src] != node[cpu]
    return {
        "migrations": len(rows),
        "node_migrations": int(away.sum()),
        "moves_per_s": int(np.sum(away & np.isin(op, _BALANCER))) / ((window[1] - window[0]) / 1e9),
    }


def _between(raw: RawReplay, program: Program, first: str, last: str) -> tuple[int, int]:
    """Return the times of two marks in ns."""
    at = marks(raw, program)
    return at[first], at[last]


def spmd(
    kernel: str,
    machine: str,
    seed: int,
    *,
    until_ns: int | None = None,
    tick_ns: int = TICK_NS,
    **spec: Any,
) -> dict[str, Any]:
    """Measure the time of one interval of a program of many equal threads, in its steady state or over a whole run."""
    if spec.get("nodes") is not None:
        spec["nodes"] = tuple(spec["nodes"])
    what = Spmd(**spec)
    threads = program(what, machine_named(machine), seed)

    def simulated(until_ns: int | None = None) -> RawReplay:
        return _simulate(threads, machine, kernel, seed, tick_ns, until_ns=until_ns)

    if what.kind == "none":
        raw = simulated()
        begin, end = raw.phase_ns + what.start_ns, raw.end_ns
        return _row(raw, machine, (begin, end), interval_s=(end - begin) / 1e9)
    if what.intervals is not None:
        raw = simulated(what.start_ns + WHOLE_NS)
        rows = raw.of(log_kind.MARK)[:, [log_column.TS, log_column.VALUE]].tolist()
        own = [ts for ts, text in rows if threads.texts[text] == MARK]
        if not own:
            raise WorkloadError(
                f"{what.kind} program of {what.threads} threads: it ended no interval in {WHOLE_NS / 1e9:.0f} "
                "simulated seconds."
            )
        begin, end = raw.phase_ns + what.start_ns, own[-1]
        return _row(raw, machine, (begin, end), interval_s=(end - begin) / len(own) / 1e9)
    raw, times = _steady(what, simulated, until_ns)
    begin, end = int(times[0]), int(times[-1])
    return _row(raw, machine, (begin, end), interval_s=(end - begin) / (len(times) - 1) / 1e9)


def _steady(
    what: Spmd, simulated: Callable[[int], RawReplay], until_ns: int | None
) -> tuple[RawReplay, np.ndarray]:
    """Simulate long enough for a rate in the steady state; return the replay and the times of its marks."""
    begin = what.start_ns + SETTLE_NS
    window = float(WINDOW_NS)
    while True:
        raw = simulated(until_ns or begin + round(window))
        times = raw.of(log_kind.MARK)[:, log_column.TS]
        times = times[times >= raw.phase_ns + begin]
        if len(times) > ENOUGH or until_ns:
            break
        tried, window = window, 4 * window
        if len(times) > 2:
            # the window holds enough intervals of the estimated length, and is a quarter longer
            length = float(times[-1] - times[0]) / (len(times) - 1)
            window = max(1.25 * (ENOUGH + 1) * length, 1.25 * tried)
        if window > LONGEST_NS:
            raise WorkloadError(
                f"{what.kind} program of {what.threads} threads: expected more than {ENOUGH} intervals in "
                f"{tried / 1e9:.0f} simulated seconds, got {len(times)}. Is its grain ({what.grain_ns} ns) too long?"
            )
    if len(times) < 2:
        raise WorkloadError(
            f"{what.kind} program: expected two intervals before {until_ns} ns, got {len(times)}. Give it more time."
        )
    return raw, times


def make_r(
    kernel: str,
    machine: str,
    seed: int,
    *,
    jobs: int,
    length: float = 1.0,
    tick_ns: int = TICK_NS,
) -> dict[str, Any]:
    """Replay a kernel build beside two R processes (Lozi et al. 2016, section 3.1)."""
    where = machine_named(machine)
    shortest, longest = round(20_000 * length), round(60_000 * length)
    build = recorded_gi(where, seed, jobs=jobs, lo_us=shortest, hi_us=longest).program()
    raw = _simulate(build, machine, kernel, seed, tick_ns)
    begin, end = _between(raw, build, "make start", "make end")
    # the last second is the tail of the last jobs; figure 2 of the paper shows the middle
    middle = begin + (end - begin) * 3 // 4
    busy = np.bincount(where.node_of_cpu, busy_share(raw, where.cpus, begin, middle), where.nodes)
    cpus = np.bincount(where.node_of_cpu, minlength=where.nodes)
    named = zip(raw.pids.tolist(), raw.comms(build), strict=True)
    hogs = [pid for pid, comm in named if comm.startswith("R-")]
    ts_ns, cpu, pid = raw.of(log_kind.SWITCH)[:, [log_column.TS, log_column.CPU, log_column.PID]].T
    ran = running_ns(ts_ns, cpu, np.isin(pid, hogs), where.cpus, begin, end)
    return _row(
        raw,
        machine,
        (begin, middle),
        make_s=(end - begin) / 1e9,
        r_share=float(ran.sum()) / (end - begin) / len(hogs),
        idle_nodes=int(np.sum(busy <= cpus - 1)),
        **_moves(raw, machine, (begin, end)),
    )


def tpch(
    kernel: str,
    machine: str,
    seed: int,
    *,
    pools: list[int],
    together: bool,
    stages: int,
    autogroups: bool = False,
    pin: bool = False,
    tick_ns: int = TICK_NS,
    **options: int,
) -> dict[str, Any]:
    """Replay some stages of a database's queries."""
    queries = resident_pools(
        machine_named(machine),
        seed,
        pools=tuple(pools),
        together=together,
        stages=stages,
        autogroups=autogroups,
        pin=pin,
        **options,
    )
    raw = _simulate(queries, machine, kernel, seed, tick_ns)
    spans = _spans(raw, queries, len(pools))
    stage_s = sum(end - begin for begin, end in spans) / len(spans) / 1e9 / stages
    window = _common(spans)
    return _row(raw, machine, window, stage_s=stage_s, **_moves(raw, machine, window))


def _spans(raw: RawReplay, program: Program, pools: int) -> list[tuple[int, int]]:
    """Return the times in ns at which each pool begins and ends its query."""
    return [_between(raw, program, f"query start {i}", f"query end {i}") for i in range(pools)]


def _common(spans: list[tuple[int, int]]) -> tuple[int, int]:
    """Return the interval in which all pools are in their query."""
    return max(begin for begin, _ in spans), min(end for _, end in spans)


def profiler_events(
    kernel: str, machine: str, seed: int, *, pools: list[int], together: bool, stages: int
) -> dict[str, Any]:
    """Count the events that the authors' profiler (Lozi et al. 2016, section 4.2) would record of a database."""
    where = machine_named(machine)
    queries = resident_pools(where, seed, pools=tuple(pools), together=together, stages=stages)
    raw = simulate(
        queries,
        where,
        KernelModel.named(kernel),
        seed=seed,
        costs=replace(costs_of(where), tick_ns=TICK_NS),
        load=True,
        considered=True,
    )
    begin, end = _common(_spans(raw, queries, len(pools)))
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


def looks_of_core0(kernel: str, machine: str, seed: int) -> dict[str, Any]:
    """Measure how often CPU 0 looks for work to steal (figure 5 of Lozi et al. 2016)."""
    where = machine_named(machine)
    children = recorded_ms(where, seed, n=16, limit_s=0.5).program()
    raw = _simulate(children, machine, kernel, seed, TICK_NS, considered=True)
    rows = raw.of(log_kind.CONSIDERED)
    looks = rows[:, log_column.OP] == log_op.UPDATE_SG_LB_STATS
    times = rows[looks & (rows[:, log_column.SRC] == 0), log_column.TS]
    times = np.unique(times[times > raw.phase_ns + SETTLE_NS])
    # several looks in one pass over the idle CPUs count as one look
    times = times[np.r_[True, np.diff(times) > TICK_NS // 2]]
    if len(times) < 3:
        raise WorkloadError(
            f"CPU 0 looked for work {len(times)} times in half a second; expected at least 3 times."
        )
    return {"period_ms": float(np.median(np.diff(times))) / 1e6, "looks": len(times)}


def machine_groups(kernel: str, machine: str, seed: int) -> dict[str, Any]:
    """Build the two scheduling groups that CPU 0 sees over the whole machine (Lozi et al. 2016, section 3.2)."""
    del seed
    where = machine_named(machine)
    top = build_domains(where, KernelModel.named(kernel)).of(0)[-1]
    node = where.node_of_cpu
    sets = [sorted({int(node[c]) for c in g.cpus}) for g in top.groups]
    return {"groups": ";".join("{" + ",".join(map(str, nodes)) + "}" for nodes in sets)}
