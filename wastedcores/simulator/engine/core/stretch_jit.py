"""Stretches: the time a running task computes without interruption (docs/replay-semantics.md, section 5)."""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.simulator.engine.codes import cpu_event
from wastedcores.simulator.engine.events import queue_jit
from wastedcores.simulator.engine.events.queue_jit import event_of
from wastedcores.simulator.engine.world import clock, rq, sim, table, task


@inner
def needed_ns(m, cpu, work):
    """Return the time that the CPU needs at its present speed for some work."""
    first = m[0, sim.CLOCK0]
    if first == 0:
        return work
    speed = m[first + cpu, clock.SPEED]
    return (work * clock.UNIT + speed - 1) // speed


@inner
def done(m, cpu, elapsed_ns):
    """Return the work that the CPU does at its present speed in some time."""
    first = m[0, sim.CLOCK0]
    if first == 0:
        return elapsed_ns
    return elapsed_ns * m[first + cpu, clock.SPEED] // clock.UNIT


@inner
def start_stretch(m, cpu, p, delay):
    """Let the running task do the work task.LEFT, beginning after ``delay``. The event RUN ends the stretch."""
    begin = m[0, sim.NOW] + delay
    m[cpu, rq.STRETCH_START] = begin
    if m[p, task.LEFT] < table.INFINITE:
        queue_jit.push_run(m, cpu, begin + needed_ns(m, cpu, m[p, task.LEFT]))
    else:
        queue_jit.cancel(m, event_of(cpu_event.RUN, cpu))


@inner
def stop_stretch(m, cpu, p):
    """Interrupt the running task: subtract what it ran from task.LEFT."""
    queue_jit.cancel(m, event_of(cpu_event.RUN, cpu))
    ran = m[0, sim.NOW] - m[cpu, rq.STRETCH_START]
    if ran > 0 and m[p, task.LEFT] < table.INFINITE:
        m[p, task.LEFT] -= done(m, cpu, ran)
    m[p, task.LEFT] = max(m[p, task.LEFT], 0)
