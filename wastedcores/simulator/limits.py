"""Checks before a replay begins: endless programs, and machines, times and seeds that are out of range."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wastedcores.errors import UsageError, WorkloadError
from wastedcores.limits import LONGEST_NS
from wastedcores.simulator.engine.world import cpuset, table
from wastedcores.topology.machine import Machine
from wastedcores.workload import ops
from wastedcores.workload.program import Program, Row

#: a CPU set is one row of the engine's table
MOST_CPUS = table.LIST * (cpuset.WORD_LOW + 1)
#: a replay has no more tasks than this (1 KiB each)
MOST_TASKS = 1_000_000
MOST_SEED = 2**63 - 1

#: operations that can take time; the engine detects a loop without any of these
_TIMED = {
    ops.OP_COMPUTE,
    ops.OP_COMPUTE_EXP,
    ops.OP_SLEEP,
    ops.OP_SLEEP_EXP,
    ops.OP_BARRIER,
    ops.OP_LOCK,
    ops.OP_WAIT,
    ops.OP_WAIT_CHILDREN,
    ops.OP_FORK,
    ops.OP_WAIT_SIGNAL,
    ops.OP_TIMER,
}


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


def check_wheels(program: Program, cpus: int) -> None:
    """Check that no task sleeps on the timer wheel of a CPU that the machine does not have."""
    for spec in (*program.tasks, *program.templates):
        for row in spec.rows:
            if row[0] == ops.OP_SLEEP_JIFFIES and row[4] > cpus:
                raise WorkloadError(
                    f"task {spec.comm!r} sleeps on the timer wheel of CPU {row[4] - 1}; the machine has CPUs 0 to {cpus - 1}."
                )


def check_ends(program: Program) -> None:
    """Check that a program ends, for a replay that has no end of its own."""
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
    """Return whether row ``at`` is the bottom of a loop that takes time and that nothing ends."""
    op, top, _, count, last = rows[at]
    if op == ops.OP_LOOP:
        ends = count >= 0 or last >= 0
    elif op == ops.OP_LOOP_BARRIER:
        ends = count >= 0 or last in deadlines
    else:
        return False
    return not ends and any(row[0] in _TIMED for row in rows[top:at])
