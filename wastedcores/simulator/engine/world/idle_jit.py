"""Whether a CPU runs its idle task."""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.simulator.engine.world.rows_jit import cpu_cfs_rq, cpu_rq
from wastedcores.simulator.engine.world.structs import NO_TASK, Kernel


@inner
def runs_idle(k: Kernel, cpu: int) -> bool:
    """Return whether the idle task runs, and neither a task nor the stopper."""
    return cpu_rq(k, cpu).curr == NO_TASK and cpu_cfs_rq(k, cpu).rq_modern.stopper_runs == 0
