"""Random programs under v6.12: anything on one CPU, or threads that are pinned to one of several CPUs."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from support.random_runs import Case, cases
from wastedcores.errors import WorkloadError
from wastedcores.kernels import KernelModel
from wastedcores.simulator import simulate
from wastedcores.simulator.engine.world.structs import CfsRq, SchedAvg, SchedEntity
from wastedcores.simulator.engine.world.structs import Kernel as Globals
from wastedcores.simulator.reference import Kernel, Simulation
from wastedcores.simulator.simulate import with_steps
from wastedcores.topology.domains import domain_events
from wastedcores.topology.machine import Machine
from wastedcores.workload import ops
from wastedcores.workload.program import Program

V6_12 = KernelModel.named("v6.12.107")
_SIGNALS = ("load", "runnable", "util")


@st.composite
def eevdf_cases(draw):
    """A random case of which v6.12 decides nothing but the order on each CPU."""
    cpus = draw(st.sampled_from([1, 1, 1, 2, 4]))
    machine = Machine.from_dict(
        {"name": "flat", "cpus": cpus, "node_of_cpu": [0] * cpus, "distance": [[10]]}
    )
    case = draw(cases(st.just(V6_12), st.just(machine)))
    program = without_policies(case.program)
    if cpus == 1:
        return replace(case, program=program)
    pinned = [replace(t, allowed=frozenset([t.start_cpu]), group=0) for t in program.tasks]
    templates = [replace(t, allowed=None, group=0) for t in program.templates]
    without = {
        "tasks": tuple(map(_ungrouped, pinned)),
        "templates": tuple(map(_ungrouped, templates)),
    }
    masks = tuple(frozenset([min(mask)]) for mask in program.masks)
    return replace(
        case, program=replace(program, **without, masks=masks, shares=(1024,), hotplug=())
    )


def without_policies(program: Program) -> Program:
    """Return a program whose tasks do not change their policies."""
    return replace(
        program,
        tasks=tuple(map(_normal, program.tasks)),
        templates=tuple(map(_normal, program.templates)),
    )


def _normal(spec):
    """Return a task without operations that change its policy."""
    mark = (ops.OP_MARK, 0, 0, 0, 0)
    return replace(spec, rows=tuple(mark if row[0] == ops.OP_POLICY else row for row in spec.rows))


def _ungrouped(spec):
    """Return a task without operations that name a task group."""
    rows = [
        (op, 0 if op == ops.OP_SESSION else a, -1 if op == ops.OP_FORK else b, c, d)
        for op, a, b, c, d in spec.rows
    ]
    return replace(spec, rows=tuple(rows))


def state_difference(case: Case) -> str:
    """Empty if both replays end with the same averages, sums and virtual times; else the first that differs."""
    try:
        raw = simulate(
            case.program, case.machine, case.kernel, seed=case.seed, until_ns=case.until_ns,
            costs=case.costs,
        )  # fmt: skip
        trees = domain_events(with_steps(case.machine, case.program), case.kernel.linux)
        k = Kernel(case.machine, case.kernel, trees, case.costs)
        sim_ = Simulation(k, case.program, case.seed)
        sim_.run(case.until_ns)
    except WorkloadError:  # both refuse; the events are compared elsewhere
        return ""
    first = int(raw.masks[0, Globals.cfs_rq0])
    for tg, group in enumerate(k.groups):
        for cpu, q in enumerate(group.cfs_rq):
            row = raw.masks[first + tg * case.machine.cpus + cpu]
            mine = [
                *_averages(row),
                *row[[CfsRq.avg_vruntime, CfsRq.avg_load, CfsRq.zero_vruntime, CfsRq.load_weight]],
            ]
            other = [*_of(q.avg), q.avg_vruntime, q.avg_load, q.zero_vruntime, q.weight]
            if list(map(int, mine)) != other:
                return f"queue {tg} of CPU {cpu}: engine {mine}, reference {other}"
    for p, row in zip(sim_.tasks, raw.tasks, strict=False):
        mine = [
            *_averages(row),
            *row[[SchedEntity.vruntime, SchedEntity.deadline, SchedEntity.vlag, SchedAvg.util_est]],
        ]
        other = [*_of(p.se.avg), p.se.vruntime, p.se.deadline, p.se.vlag, p.se.avg.util_est]
        if list(map(int, mine)) != other:
            return f"task {p.comm}: engine {mine}, reference {other}"
    return ""


def _averages(row) -> list[int]:
    columns = [
        SchedAvg.load_avg,
        SchedAvg.runnable_avg,
        SchedAvg.util_avg,
        SchedAvg.load_sum,
        SchedAvg.runnable_sum,
        SchedAvg.util_sum,
    ]
    return [int(row[c]) for c in columns]


def _of(avg) -> list[int]:
    return [getattr(avg, f"{s}_{kind}") for kind in ("avg", "sum") for s in _SIGNALS]
