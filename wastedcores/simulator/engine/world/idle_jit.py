"""Whether a CPU runs its idle task."""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.simulator.engine.world import rq, rq_v6_12, sim


@inner
def runs_idle(m, cpu):
    """Return whether the idle task runs, and neither a task nor the stopper."""
    return m[cpu, rq.CURR] < 0 and m[m[0, sim.CPUS] + cpu, rq_v6_12.STOPPER_RUNS] == 0
