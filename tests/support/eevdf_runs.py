"""Random programs under v6.12: anything on one CPU, or threads that are pinned to one of several CPUs."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from support.random_runs import cases
from wastedcores.kernels import KernelModel
from wastedcores.topology.machine import Machine
from wastedcores.workload import ops
from wastedcores.workload.program import Program

V6_12 = KernelModel.named("v6.12.107")


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
