"""The frequency of a core, which the clocks and the module fast_core ask for."""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.simulator.engine.world.structs import Clock, ClockConstants, Kernel


@inner
def constants(k: Kernel) -> ClockConstants:
    """Return the row of the machine's constants."""
    return ClockConstants(k, k.clock0 + k.nr_cpus)


@inner
def has_cooled_down(k: Kernel, core: Clock) -> bool:
    """Return whether a core has been idle for so long that it has fallen back to its lowest frequency."""
    c = constants(k)
    if c.min_khz == 0 or core.running > 0:
        return False
    return k.now_ns - core.core_idle_since >= c.hold_ns


@inner
def khz_of(k: Kernel, cpu: int) -> int:
    """Return the frequency at which a CPU would begin to run a task now."""
    core = Clock(k, k.clock0 + cpu).core
    if has_cooled_down(k, core):
        return constants(k).min_khz
    return core.khz
