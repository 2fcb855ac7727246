"""Stretches, and the speeds of CPUs (docs/replay-semantics.md, sections 5 and 12).

A stretch is a period in which a running task computes without interruption.
"""

from wastedcores.jit.compile import inner
from wastedcores.simulator.engine.codes import cpu_event
from wastedcores.simulator.engine.events import queue_jit
from wastedcores.simulator.engine.events.queue_jit import event_of
from wastedcores.simulator.engine.world import table
from wastedcores.simulator.engine.world.rows_jit import clock_functions, cpu_rq
from wastedcores.simulator.engine.world.structs import Clock, ClockConstants, Kernel, TaskStruct


@inner
def needed_ns(k: Kernel, cpu: int, work: int) -> int:
    """Return the time in which the CPU does ``work`` at its present speed."""
    first = k.clock0
    if first == 0:
        return work
    speed = Clock(k, first + cpu).speed
    return (work * table.SPEED_UNIT + speed - 1) // speed


@inner
def done(k: Kernel, cpu: int, elapsed_ns: int) -> int:
    """Return the work that the CPU does in ``elapsed_ns`` at its present speed."""
    first = k.clock0
    if first == 0:
        return elapsed_ns
    return elapsed_ns * Clock(k, first + cpu).speed // table.SPEED_UNIT


@inner
def start_stretch(k: Kernel, cpu: int, p: TaskStruct, delay: int) -> None:
    """Let the running task do the work TaskStruct.left, beginning after ``delay``. The event RUN ends the stretch."""
    begin = k.now_ns + delay
    cpu_rq(k, cpu).stretch_start = begin
    if p.left < table.INFINITE:
        queue_jit.push_run(k, cpu, begin + needed_ns(k, cpu, p.left))
    else:
        queue_jit.cancel(k, event_of(cpu_event.RUN, cpu))


@inner
def stop_stretch(k: Kernel, cpu: int, p: TaskStruct) -> None:
    """Interrupt the running task: subtract the work that it did from TaskStruct.left."""
    queue_jit.cancel(k, event_of(cpu_event.RUN, cpu))
    ran = k.now_ns - cpu_rq(k, cpu).stretch_start
    if ran > 0 and p.left < table.INFINITE:
        p.left -= done(k, cpu, ran)
    p.left = max(p.left, 0)


@inner
def clock_switched(k: Kernel, cpu: int) -> int:
    """Follow a switch between tasks, or between a task and idle; return the exit latency of the idle state that the CPU left."""
    if k.clock0 == 0:
        return 0
    return clock_functions(k).switched(k, cpu)


@inner
def constants(k: Kernel) -> ClockConstants:
    """Return the constants of the machine's clocks."""
    return ClockConstants(k, k.clock0 + k.nr_cpus)


@inner
def has_cooled_down(k: Kernel, core: Clock) -> bool:
    """Return whether a core has been idle long enough to fall back to its lowest frequency."""
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
