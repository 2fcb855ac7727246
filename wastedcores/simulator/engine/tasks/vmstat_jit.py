"""Timers of the wheel, and the page counters a kworker folds once a second (mm/vmstat.c, v4.1)."""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.events import queue_jit
from wastedcores.simulator.engine.fair.load_jit import jiffies
from wastedcores.simulator.engine.tasks.sync_jit import begin_wait, block, post
from wastedcores.simulator.engine.world.codes import W_JIFFY, W_SEM
from wastedcores.simulator.engine.world.state import (
    G_CPU,
    G_CPUS,
    G_IDLE_TICKS,
    G_IRQ,
    G_SKEW,
    G_TICK,
    G_TIMERS,
    G_Y0,
    R_KEEP_TICK,
    R_TOUCHED,
    SHIFT,
    T_EV,
    T_OBJ,
    T_WAIT,
    Y_HEAD,
)
from wastedcores.workload.ops import MODE_BLOCK, OP_FLUSH, OP_TOUCH


@apart(NOTHING)
def sleep_jiffies(m, p, ticks, cpu):
    """schedule_timeout(): block until a CPU's timer softirq finds the jiffy reached, right after its tick."""
    at = (jiffies(m) + max(ticks, 1)) * m[0, G_TICK] + cpu * m[0, G_SKEW] + m[0, G_IRQ] // 2
    m[p, T_WAIT] = W_JIFFY
    m[p, T_OBJ] = cpu
    block(m, p)
    m[0, G_TIMERS] += 1
    queue_jit.push(m, (p << SHIFT) + T_EV, at)


@inner
def round_jiffies(m, offset, period):
    """round_jiffies_relative(): ticks to a whole period about one from now, less 3 jiffies for each CPU before this."""
    skew = 3 * m[0, G_CPU]
    now = jiffies(m) + offset
    at = now + period + skew
    rest = at % period
    at -= rest + skew
    if rest >= period // 4:
        at += period
    return at - now if at > now else period


@apart(VALUE)
def page_counter_op(m, p, code, op):
    """TOUCH, FLUSH, SHEPHERD; whether the program goes on at once."""
    cpu = m[0, G_CPU]
    if code == OP_TOUCH:
        m[cpu, R_TOUCHED] = 1
        if m[op, 1] != 0:
            m[cpu, R_KEEP_TICK] = jiffies(m) + m[0, G_IDLE_TICKS]
        return True
    first = m[0, G_Y0] + m[op, 1]
    if code == OP_FLUSH:
        if m[cpu, R_TOUCHED] != 0:
            m[cpu, R_TOUCHED] = 0
            sleep_jiffies(m, p, round_jiffies(m, m[op, 2], m[op, 3]), cpu)
        else:
            begin_wait(m, p, W_SEM, first, MODE_BLOCK, 0)
        return False
    for c in range(m[0, G_CPUS]):
        if m[c, R_TOUCHED] != 0 and m[first + c, Y_HEAD] >= 0:
            post(m, p, first + c, 1)
    return True
