"""The speeds of the CPUs: frequencies, shared cores and idle states (docs/replay-semantics.md, section 12)."""

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.codes import log_kind
from wastedcores.simulator.engine.core.stretch_jit import (
    constants,
    done,
    has_cooled_down,
    needed_ns,
)
from wastedcores.simulator.engine.events.queue_jit import push_run
from wastedcores.simulator.engine.world import table
from wastedcores.simulator.engine.world.log_jit import pid_of, record
from wastedcores.simulator.engine.world.rows_jit import cpu_rq
from wastedcores.simulator.engine.world.structs import NO_TASK, Clock, ClockConstants, Kernel


@inner
def limit_khz(k: Kernel, active: int) -> int:
    """Return the highest frequency of a package with this many active cores."""
    c = constants(k)
    last = ClockConstants.step + 2 * (c.steps - 1)
    i = ClockConstants.step
    while i < last and active > c[i]:
        i += 2
    return c[i + 1]


@inner
def exit_latency(k: Kernel, idle_ns: int) -> int:
    """Return the exit latency of the idle state that a CPU has reached after being idle for ``idle_ns``."""
    c = constants(k)
    out = 0
    for i in range(c.states):
        if c.state[2 * i] <= idle_ns:
            out = c.state[2 * i + 1]
    return out


@inner
def set_khz(k: Kernel, core: Clock, cpu: int, khz: int) -> None:
    """Change the frequency of a core and log it."""
    if khz != core.khz:
        core.khz = khz
        record(k, log_kind.FREQUENCY, cpu, -1, -1, -1, khz, -1)


@inner
def rescale(k: Kernel, cpu: int, speed: int, still: int) -> None:
    """Change the speed of a CPU. Its task has worked at the old speed until now; CPU ``still`` has no stretch under way."""
    p = cpu_rq(k, cpu).curr
    running = cpu != still and p != NO_TASK and p.left < table.INFINITE
    elapsed = k.now_ns - cpu_rq(k, cpu).stretch_start
    if running and elapsed > 0:
        p.left = max(p.left - done(k, cpu, elapsed), 1)
        cpu_rq(k, cpu).stretch_start = k.now_ns
    Clock(k, k.clock0 + cpu).speed = speed
    if running:
        push_run(k, cpu, cpu_rq(k, cpu).stretch_start + needed_ns(k, cpu, p.left))


@apart(NOTHING)
def update_speeds(k: Kernel, core: Clock, still: int) -> None:
    """Let each CPU of a core continue at the speed that it has now."""
    c = constants(k)
    speed = table.SPEED_UNIT
    if c.min_khz > 0:
        speed = core.khz * table.SPEED_UNIT // c.nominal_khz
    if core.running > 1:
        speed = max(speed * c.shared_speed // table.SPEED_UNIT, 1)
    row = core
    while row:
        if row.speed != speed:
            rescale(k, row.row - k.clock0, speed, still)
        row = Clock(k, row.sibling)


@apart(VALUE)
def switched(k: Kernel, cpu: int) -> int:
    """Follow a switch between a task and idle; return the exit latency of the idle state that the CPU left."""
    row = Clock(k, k.clock0 + cpu)
    busy = cpu_rq(k, cpu).curr != NO_TASK
    if (row.busy != 0) == busy:
        return 0
    core = row.core
    package = core.package
    exit_ns = 0
    if busy:
        row.busy = 1
        exit_ns = exit_latency(k, k.now_ns - row.idle_since)
        if has_cooled_down(k, core):
            core.busy_ticks = 0
            set_khz(k, core, cpu, constants(k).min_khz)
        if core.running == 0:
            package.active += 1
        core.running += 1
    else:
        row.busy = 0
        row.idle_since = k.now_ns
        core.running -= 1
        if core.running == 0:
            core.core_idle_since = k.now_ns
            package.active -= 1
    update_speeds(k, core, cpu)
    return exit_ns


@apart(NOTHING)
def ticked(k: Kernel, cpu: int) -> None:
    """Handle the tick of a busy CPU: let its core choose a frequency, and log the tick."""
    c = constants(k)
    lowest = c.min_khz
    if lowest == 0:
        return
    core = Clock(k, k.clock0 + cpu).core
    if core.last_tick != k.jiffies:
        core.last_tick = k.jiffies
        core.busy_ticks += 1
    khz = lowest
    if core.busy_ticks >= c.ramp_ticks:
        khz = limit_khz(k, core.package.active)
    set_khz(k, core, cpu, khz)
    update_speeds(k, core, -1)
    record(k, log_kind.TICK, cpu, pid_of(k, cpu_rq(k, cpu).curr), -1, -1, core.khz, -1)
