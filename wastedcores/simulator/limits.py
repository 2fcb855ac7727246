"""Checks before a replay begins: is the kernel modelled, does the program end, are the machine, times and seed in range?

The functions at the end apply the boot parameters isolcpus and noautogroup to a workload.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from wastedcores.errors import UnknownKernelError, UsageError, WorkloadError
from wastedcores.kernels import KernelModel
from wastedcores.kernels.generations import replayed_listed
from wastedcores.limits import LONGEST_NS
from wastedcores.simulator.engine.world import cpuset, table
from wastedcores.topology.machine import Machine
from wastedcores.workload import ops
from wastedcores.workload.program import Program, Row, TaskSpec

#: a CPU set has to fit into one row of the engine's table
MOST_CPUS = table.LIST * (cpuset.WORD_LOW + 1)
#: a replay has no more tasks than this; each task takes 1 KiB
MOST_TASKS = 1_000_000
MOST_SEED = 2**63 - 1

#: operations that can take time; a loop without any of them is detected later, by the engine
_TIMED = {
    ops.OP_COMPUTE, ops.OP_COMPUTE_EXP, ops.OP_SLEEP, ops.OP_SLEEP_EXP, ops.OP_BARRIER, ops.OP_LOCK, ops.OP_WAIT,
    ops.OP_WAIT_CHILDREN, ops.OP_FORK, ops.OP_WAIT_SIGNAL, ops.OP_TIMER,
}  # fmt: skip


def check_seed(seed: Any) -> None:
    """Check a seed."""
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed <= MOST_SEED:
        raise UsageError(f"seed {seed!r}; expected a whole number from 0 to 2^63 - 1.")


def check_cpus(machine: Machine) -> None:
    """Check that the engine's CPU sets can hold the machine."""
    if machine.cpus > MOST_CPUS:
        raise UsageError(
            f"machine {machine.name!r} has {machine.cpus} CPUs; a replay has at most {MOST_CPUS}. Take a smaller machine; "
            "`wastedcores domains` and traces know larger ones."
        )


def check_until(until_ns: Any) -> None:
    """Check the end of a replay; None is fine."""
    if until_ns is None:
        return
    if (
        isinstance(until_ns, bool)
        or not isinstance(until_ns, int)
        or not 0 < until_ns <= LONGEST_NS
    ):
        raise UsageError(
            f"until_ns={until_ns!r}; expected a whole number of simulated nanoseconds above 0, at most 10^15 (11 days)."
        )


def check_places(program: Program, cpus: int) -> None:
    """Check that the machine has the CPUs that the tasks need: to begin on, and for timer wheels and flushers."""
    specs = (*program.tasks, *program.templates)
    named = (*program.masks, *(s.allowed for s in specs if s.allowed is not None))
    last = max((max(one, default=0) for one in named), default=0)
    if last >= MOST_CPUS:
        raise WorkloadError(
            f"a task of the workload may run on CPU {last}; a replay has CPUs 0 to {MOST_CPUS - 1} at most."
        )
    for spec in specs:
        if not 0 <= spec.start_cpu < cpus:
            raise WorkloadError(
                f"task {spec.comm!r} begins on CPU {spec.start_cpu}; the machine has CPUs 0 to {cpus - 1}."
            )
        for row in spec.rows:
            if row[0] == ops.OP_SLEEP_JIFFIES and row[4] > cpus:
                raise WorkloadError(
                    f"task {spec.comm!r} sleeps on the timer wheel of CPU {row[4] - 1}; the machine has CPUs 0 to {cpus - 1}."
                )
            if row[0] == ops.OP_SHEPHERD and row[1] + cpus > len(program.semaphores):
                raise WorkloadError(
                    f"task {spec.comm!r} wakes the flusher of each of {cpus} CPUs, at semaphores from {row[1]} on; the workload "
                    f"has {len(program.semaphores)}."
                )


def check_ends(program: Program) -> None:
    """Check that a program ends, which a replay without ``until_ns`` needs."""
    specs = (*program.tasks, *program.templates)
    forked = {row[1] for spec in specs for row in spec.rows if row[0] == ops.OP_FORK}
    deadlines = {
        row[1] for spec in specs for row in spec.rows if row[0] == ops.OP_BARRIER and row[4] >= 0
    }
    living = [*program.tasks, *(program.templates[i] for i in sorted(forked))]
    for spec in living:
        if not spec.daemon and any(
            _endless(spec.rows, at, deadlines) for at in range(len(spec.rows))
        ):
            raise WorkloadError(
                f"task {spec.comm!r} never ends: its loop has neither a number of rounds nor a time at which it stops. "
                "Give the loop one, make the task a daemon, or give the replay an end (until_ns; --until SECONDS)."
            )


def _endless(rows: Sequence[Row], at: int, deadlines: set[int]) -> bool:
    """Return whether row ``at`` closes a loop that takes time and never ends."""
    op, top, _, count, last = rows[at]
    if op == ops.OP_LOOP:
        ends = count >= 0 or last >= 0
    elif op == ops.OP_LOOP_BARRIER:
        ends = count >= 0 or last in deadlines
    else:
        return False
    return not ends and any(row[0] in _TIMED for row in rows[top:at])


def check_generation(kernel: KernelModel) -> None:
    """Check that a replay models the scheduler of this kernel."""
    if kernel.is_replayed or kernel.is_design:
        return
    near = (
        f"Take {kernel.stand_in}, the nearest release that it models"
        if kernel.stand_in
        else f"The nearest release whose balancer has been read is {kernel.nearest}"
    )
    raise UnknownKernelError(
        f"kernel {kernel.name!r}: the replay does not model the balancer of exactly this release. {near}. It models "
        f"{replayed_listed()} and, with only the domains of its own, every release before v5.5; `wastedcores domains` knows all "
        "of them."
    )


def as_booted(program: Program, machine: Machine, kernel: KernelModel) -> Program:
    """Return the program as it runs on a machine with isolated CPUs, or under a kernel without autogroups.

    Tasks without an affinity of their own inherit init's affinity, which leaves out the isolated CPUs (kernel/sched/core.c:
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
    """Return the operation, changed so that the task stays in the root group."""
    op, a, b, c, d = row
    if op == ops.OP_SESSION:
        return op, 0, b, c, d
    return (op, a, -1, c, d) if op == ops.OP_FORK else row
