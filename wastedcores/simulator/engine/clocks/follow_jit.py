"""What the scheduler tells the clocks, if the speeds of CPUs change."""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.simulator.engine.world.rows_jit import clock_functions
from wastedcores.simulator.engine.world.structs import Kernel


@inner
def clock_switched(k: Kernel, cpu: int) -> int:
    """A CPU switched between two tasks or between a task and idle; return the exit latency of the idle state that it left."""
    if k.clock0 == 0:
        return 0
    return clock_functions(k).switched(k, cpu)


@inner
def clock_ticked(k: Kernel, cpu: int) -> None:
    """A busy CPU ticks."""
    if k.clock0 != 0:
        clock_functions(k).ticked(k, cpu)
