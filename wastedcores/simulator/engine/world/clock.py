"""Columns of the clocks: row ``m[0, sim.CLOCK0] + cpu`` has the clock of a CPU, and a last row has the machine's constants.

The clock of a core is in the row of its first CPU, and the number of active cores of a package in the row of the package's
first CPU (docs/replay-semantics.md, section 12).
"""

from __future__ import annotations

from wastedcores.topology import clocks

#: speeds are counted in parts of the speed at the nominal frequency
UNIT = clocks.UNIT

(
    SPEED,
    BUSY,  # whether it runs a task
    IDLE_SINCE,
    CORE,  # row of its core's first CPU
    SIBLING,  # row of the next CPU of its core, -1 for the last one
    KHZ,  # of a core
    BUSY_TICKS,  # of a core: ticks that found it busy
    LAST_TICK,  # of a core: the jiffy of the last one
    RUNNING,  # of a core: CPUs that run a task
    CORE_IDLE_SINCE,
    PACKAGE,  # of a core: row of the first CPU of its package
    ACTIVE,  # of a package: cores that run a task
) = range(12)

# columns of the last row
(
    ENTRY,  # address of the compiled clocks
    MIN_KHZ,  # 0: the frequency is constant
    NOMINAL_KHZ,
    RAMP_TICKS,
    HOLD_NS,
    SHARED_SPEED,  # speed of a CPU whose core runs several tasks
    STEPS,
    STATES,
    STEP0,  # pairs of active cores and kHz
) = range(9)
#: pairs of residency and exit latency
STATE0 = STEP0 + 2 * clocks.MOST_STEPS
