"""Stretches: how long the running task has been going on, and when that ends (docs/replay-semantics.md, section 5)."""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.simulator.engine.events import queue_jit
from wastedcores.simulator.engine.events.queue_jit import cpu_event
from wastedcores.simulator.engine.world.codes import EV_RUN
from wastedcores.simulator.engine.world.state import (
    G_NOW,
    INFINITE,
    R_START,
    T_LEFT,
    T_RAN_SPIN,
    T_SPIN,
)


@inner
def start_stretch(m, cpu, p, delay):
    """The running task goes on for T_LEFT ns after ``delay``; RUN tells when that is over."""
    begin = m[0, G_NOW] + delay
    m[cpu, R_START] = begin
    if m[p, T_LEFT] < INFINITE:
        queue_jit.push_run(m, cpu, begin + m[p, T_LEFT])
    else:
        queue_jit.cancel(m, cpu_event(EV_RUN, cpu))


@inner
def stop_stretch(m, cpu, p):
    """The running task is interrupted: what it ran is taken off T_LEFT."""
    queue_jit.cancel(m, cpu_event(EV_RUN, cpu))
    ran = m[0, G_NOW] - m[cpu, R_START]
    if ran > 0:
        if m[p, T_SPIN] != 0:
            m[p, T_RAN_SPIN] += ran
        if m[p, T_LEFT] < INFINITE:
            m[p, T_LEFT] -= ran
    m[p, T_LEFT] = max(m[p, T_LEFT], 0)
