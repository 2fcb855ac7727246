"""The frequency of a core, which the clocks and the module fast_core ask for."""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.simulator.engine.world import clock, sim


@inner
def constants(m):
    """Return the row of the machine's constants."""
    return m[0, sim.CLOCK0] + m[0, sim.CPUS]


@inner
def has_cooled_down(m, core):
    """Return whether a core has been idle for so long that it has fallen back to its lowest frequency."""
    c = constants(m)
    if m[c, clock.MIN_KHZ] == 0 or m[core, clock.RUNNING] > 0:
        return False
    return m[0, sim.NOW] - m[core, clock.CORE_IDLE_SINCE] >= m[c, clock.HOLD_NS]


@inner
def khz_of(m, cpu):
    """Return the frequency at which a CPU would begin to run a task now."""
    core = m[m[0, sim.CLOCK0] + cpu, clock.CORE]
    if has_cooled_down(m, core):
        return m[constants(m), clock.MIN_KHZ]
    return m[core, clock.KHZ]
