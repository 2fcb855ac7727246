"""Stretches: the time a running task computes without interruption (docs/replay-semantics.md, section 5)."""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.simulator.engine.codes import cpu_event
from wastedcores.simulator.engine.events import queue_jit
from wastedcores.simulator.engine.events.queue_jit import event_of
from wastedcores.simulator.engine.world import table
from wastedcores.simulator.engine.world.rows_jit import cpu_rq
from wastedcores.simulator.engine.world.structs import Clock, Kernel, TaskStruct


@inner
def needed_ns(k: Kernel, cpu: int, work: int) -> int:
    """Return the time that the CPU needs at its present speed for some work."""
    first = k.clock0
    if first == 0:
        return work
    speed = Clock(k, first + cpu).speed
    return (work * table.SPEED_UNIT + speed - 1) // speed


@inner
def done(k: Kernel, cpu: int, elapsed_ns: int) -> int:
    """Return the work that the CPU does at its present speed in some time."""
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
    """Interrupt the running task: subtract what it ran from TaskStruct.left."""
    queue_jit.cancel(k, event_of(cpu_event.RUN, cpu))
    ran = k.now_ns - cpu_rq(k, cpu).stretch_start
    if ran > 0 and p.left < table.INFINITE:
        p.left -= done(k, cpu, ran)
    p.left = max(p.left, 0)
