"""The speeds of the CPUs: frequencies, shared cores and idle states (docs/replay-semantics.md, section 12).

Its plain Python counterpart is wastedcores/simulator/reference/clocks.py.
"""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.clocks.khz_jit import constants, has_cooled_down
from wastedcores.simulator.engine.clocks.seam_jit import SWITCHED
from wastedcores.simulator.engine.codes import log_kind
from wastedcores.simulator.engine.core.stretch_jit import done, needed_ns
from wastedcores.simulator.engine.events.queue_jit import push_run
from wastedcores.simulator.engine.fair.load_jit import jiffies
from wastedcores.simulator.engine.world import clock, rq, sim, table, task
from wastedcores.simulator.engine.world.log_jit import pid_of, record


@inner
def limit_khz(m, active):
    """Return the highest frequency of a package with this many active cores."""
    c = constants(m)
    last = clock.STEP0 + 2 * (m[c, clock.STEPS] - 1)
    i = clock.STEP0
    while i < last and active > m[c, i]:
        i += 2
    return m[c, i + 1]


@inner
def exit_latency(m, idle_ns):
    """Return the exit latency of the state that a CPU is in after being idle for some time."""
    c = constants(m)
    out = 0
    for i in range(m[c, clock.STATES]):
        if m[c, clock.STATE0 + 2 * i] <= idle_ns:
            out = m[c, clock.STATE0 + 2 * i + 1]
    return out


@inner
def set_khz(m, core, cpu, khz):
    """Change the frequency of a core and log it."""
    if khz != m[core, clock.KHZ]:
        m[core, clock.KHZ] = khz
        record(m, log_kind.FREQUENCY, cpu, -1, -1, -1, khz, -1)


@inner
def rescale(m, cpu, speed, still):
    """Change the speed of a CPU: what its task did so far was done at the old speed. CPU ``still`` has no stretch under way."""
    p = m[cpu, rq.CURR]
    running = cpu != still and p >= 0 and m[p, task.LEFT] < table.INFINITE
    elapsed = m[0, sim.NOW] - m[cpu, rq.STRETCH_START]
    if running and elapsed > 0:
        m[p, task.LEFT] = max(m[p, task.LEFT] - done(m, cpu, elapsed), 1)
        m[cpu, rq.STRETCH_START] = m[0, sim.NOW]
    m[m[0, sim.CLOCK0] + cpu, clock.SPEED] = speed
    if running:
        push_run(m, cpu, m[cpu, rq.STRETCH_START] + needed_ns(m, cpu, m[p, task.LEFT]))


@apart(NOTHING)
def update_speeds(m, core, still):
    """Let each CPU of a core continue at the speed that it has now."""
    c = constants(m)
    speed = clock.UNIT
    if m[c, clock.MIN_KHZ] > 0:
        speed = m[core, clock.KHZ] * clock.UNIT // m[c, clock.NOMINAL_KHZ]
    if m[core, clock.RUNNING] > 1:
        speed = max(speed * m[c, clock.SHARED_SPEED] // clock.UNIT, 1)
    row = core
    while row >= 0:
        if m[row, clock.SPEED] != speed:
            rescale(m, row - m[0, sim.CLOCK0], speed, still)
        row = m[row, clock.SIBLING]


@inner
def switched(m, cpu):
    """Follow a switch between a task and idle; return the exit latency of the idle state that was left."""
    row = m[0, sim.CLOCK0] + cpu
    busy = m[cpu, rq.CURR] >= 0
    if (m[row, clock.BUSY] != 0) == busy:
        return 0
    core = m[row, clock.CORE]
    package = m[core, clock.PACKAGE]
    exit_ns = 0
    if busy:
        m[row, clock.BUSY] = 1
        exit_ns = exit_latency(m, m[0, sim.NOW] - m[row, clock.IDLE_SINCE])
        if has_cooled_down(m, core):
            m[core, clock.BUSY_TICKS] = 0
            set_khz(m, core, cpu, m[constants(m), clock.MIN_KHZ])
        if m[core, clock.RUNNING] == 0:
            m[package, clock.ACTIVE] += 1
        m[core, clock.RUNNING] += 1
    else:
        m[row, clock.BUSY] = 0
        m[row, clock.IDLE_SINCE] = m[0, sim.NOW]
        m[core, clock.RUNNING] -= 1
        if m[core, clock.RUNNING] == 0:
            m[core, clock.CORE_IDLE_SINCE] = m[0, sim.NOW]
            m[package, clock.ACTIVE] -= 1
    update_speeds(m, core, cpu)
    return exit_ns


@inner
def ticked(m, cpu):
    """Let the core of a busy CPU that ticks choose its frequency, and log the tick."""
    c = constants(m)
    lowest = m[c, clock.MIN_KHZ]
    if lowest == 0:
        return
    core = m[m[0, sim.CLOCK0] + cpu, clock.CORE]
    if m[core, clock.LAST_TICK] != jiffies(m):
        m[core, clock.LAST_TICK] = jiffies(m)
        m[core, clock.BUSY_TICKS] += 1
    khz = lowest
    if m[core, clock.BUSY_TICKS] >= m[c, clock.RAMP_TICKS]:
        khz = limit_khz(m, m[m[core, clock.PACKAGE], clock.ACTIVE])
    set_khz(m, core, cpu, khz)
    update_speeds(m, core, -1)
    record(m, log_kind.TICK, cpu, pid_of(m, m[cpu, rq.CURR]), -1, -1, m[core, clock.KHZ], -1)


@apart(VALUE, entry=True)
def follow(m, what, cpu, _b, _c):
    """Follow what the scheduler's own code tells through the seam."""
    if what == SWITCHED:
        return switched(m, cpu)
    ticked(m, cpu)
    return 0
