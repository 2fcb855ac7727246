"""The place where the scheduler tells the clocks what happens: one call through an address that is in the table.

A replay on a machine whose CPUs run at one constant speed neither compiles nor loads the clocks, as with designs
(``design/seam_jit.py``).
"""

from __future__ import annotations

from wastedcores.jit.compile import config, inner
from wastedcores.simulator.engine.design.seam_jit import call_at
from wastedcores.simulator.engine.world.structs import ClockConstants, Kernel

#: a CPU switched between two tasks or between a task and idle, and a busy CPU ticks
SWITCHED, TICKED = range(2)

if config.DISABLE_JIT:

    def ask_clock(k: Kernel, what: int, cpu: int) -> int:
        """Tell the clocks what happened on a CPU; return the exit latency of the idle state that it left."""
        if k.clock0 == 0:
            return 0
        from wastedcores.simulator.engine.clocks.clocks_jit import follow

        return follow(k, what, cpu, 0, 0)

else:

    @inner
    def ask_clock(k: Kernel, what: int, cpu: int) -> int:
        """Tell the clocks what happened on a CPU; return the exit latency of the idle state that it left."""
        first = k.clock0
        if first == 0:
            return 0
        return call_at(k, ClockConstants(k, first + k.nr_cpus).entry, what, cpu, 0, 0)  # type: ignore[call-arg]
