"""The part of a replay that only a program with policies has: the rows of the real-time tasks."""

from __future__ import annotations

import numpy as np

from wastedcores.errors import WorkloadError
from wastedcores.jit.plain import Plain
from wastedcores.kernels import KernelModel
from wastedcores.simulator.engine import classes
from wastedcores.simulator.engine.world.structs import Kernel, RtRq, RtShared
from wastedcores.workload import ops
from wastedcores.workload.program import Costs, Program

#: sched_rr_timeslice
RR_TIMESLICE_NS = 100_000_000


def has_policies(program: Program) -> bool:
    """Tell whether a task of the program changes its scheduling policy."""
    return any(
        row[0] == ops.OP_POLICY
        for spec in (*program.tasks, *program.templates)
        for row in spec.rows
    )


def check_policies(program: Program, kernel: KernelModel) -> None:
    """Check that only a kernel with the scheduler of v4.1 replays a program with policies."""
    if (kernel.modules is not None or kernel.is_modern or kernel.tracks_load_v4_4) and has_policies(
        program
    ):
        raise WorkloadError(
            f"kernel {kernel.name!r}: the replay has scheduling policies (FIFO, RR, batch, idle) only with the scheduler of "
            "v4.1; take that kernel, or a workload without policies."
        )


def rows_of(program: Program, cpus: int) -> int:
    """Count the rows: one per CPU and one for what they share; none without policies."""
    return cpus + 1 if has_policies(program) else 0


def install(m: np.ndarray, first: int, program: Program, costs: Costs, plain: Plain | None) -> None:
    """Write the real-time queues into the table; do nothing if no task changes its policy."""
    if not has_policies(program):
        return
    cpus = int(m[0, Kernel.nr_cpus])
    m[0, Kernel.rt0] = first
    m[first : first + cpus, [RtRq.head, RtRq.tail]] = -1
    last = m[first + cpus]
    last[RtShared.period_cpu] = -1
    last[RtShared.time_slice] = max(RR_TIMESLICE_NS // costs.tick_ns, 1)
    classes.realtime(last, plain)
