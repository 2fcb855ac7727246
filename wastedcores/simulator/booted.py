"""What the boot parameters isolcpus and noautogroup make of a workload."""

from __future__ import annotations

from dataclasses import replace

from wastedcores.errors import WorkloadError
from wastedcores.kernels import KernelModel
from wastedcores.topology.machine import Machine
from wastedcores.workload import ops
from wastedcores.workload.program import Program, Row, TaskSpec


def as_booted(program: Program, machine: Machine, kernel: KernelModel) -> Program:
    """Return the program as it runs on a machine with isolated CPUs, or under a kernel without autogroups.

    Tasks without an affinity of their own inherit that of init, which leaves the isolated CPUs out (kernel/sched/core.c:
    sched_init_smp(), v4.1 and v6.12.107). Without autogroups every task is in the root group.
    """
    rest = frozenset(range(machine.cpus)) - frozenset(machine.isolated)
    if not rest:
        raise WorkloadError(
            f"machine {machine.name!r}: all {machine.cpus} CPUs are isolated; leave one for the tasks."
        )

    def spec(task: TaskSpec) -> TaskSpec:
        if machine.isolated and task.allowed is None:
            start = task.start_cpu if task.start_cpu in rest else min(rest)
            task = replace(task, allowed=rest, start_cpu=start)
        if kernel.noautogroup:
            task = replace(task, group=0, rows=tuple(_ungrouped(row) for row in task.rows))
        return task

    if not machine.isolated and not kernel.noautogroup:
        return program
    templates = program.templates
    if kernel.noautogroup:  # a child inherits the affinity of its parent
        templates = tuple(replace(spec(t), allowed=t.allowed) for t in templates)
    return replace(program, tasks=tuple(spec(t) for t in program.tasks), templates=templates)


def _ungrouped(row: Row) -> Row:
    """Return an operation that stays in the root group."""
    op, a, b, c, d = row
    if op == ops.OP_SESSION:
        return op, 0, b, c, d
    return (op, a, -1, c, d) if op == ops.OP_FORK else row
