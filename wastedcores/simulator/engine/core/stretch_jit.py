"""Stretches: how long the running task has been going on, and when that ends (docs/replay-semantics.md, section 5)."""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.simulator.engine.codes import cpu_event
from wastedcores.simulator.engine.events import queue_jit
from wastedcores.simulator.engine.events.queue_jit import event_of
from wastedcores.simulator.engine.world import rq, sim, table, task


@inner
def start_stretch(m, cpu, p, delay):
    """The running task goes on for T_LEFT ns after ``delay``; RUN tells when that is over."""
    begin = m[0, sim.NOW] + delay
    m[cpu, rq.STRETCH_START] = begin
    if m[p, task.LEFT] < table.INFINITE:
        queue_jit.push_run(m, cpu, begin + m[p, task.LEFT])
    else:
        queue_jit.cancel(m, event_of(cpu_event.RUN, cpu))


@inner
def stop_stretch(m, cpu, p):
    """The running task is interrupted: what it ran is taken off T_LEFT."""
    queue_jit.cancel(m, event_of(cpu_event.RUN, cpu))
    ran = m[0, sim.NOW] - m[cpu, rq.STRETCH_START]
    if ran > 0 and m[p, task.LEFT] < table.INFINITE:
        m[p, task.LEFT] -= ran
    m[p, task.LEFT] = max(m[p, task.LEFT], 0)
