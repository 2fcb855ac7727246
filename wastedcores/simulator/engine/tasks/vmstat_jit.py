"""Timers of the timer wheel, and the page counters that a kworker folds once per second (mm/vmstat.c, v4.1)."""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.codes import waits_for
from wastedcores.simulator.engine.events import queue_jit
from wastedcores.simulator.engine.fair.load_jit import jiffies
from wastedcores.simulator.engine.tasks.sync_jit import begin_wait, block, post
from wastedcores.simulator.engine.world import rq, sim, table, task, wait
from wastedcores.workload import ops


@apart(NOTHING)
def sleep_jiffies(m, p, ticks, cpu):
    """schedule_timeout(): block until the timer softirq of a CPU, right after its tick, finds that the jiffy is reached."""
    at = (
        (jiffies(m) + max(ticks, 1)) * m[0, sim.TICK_NS]
        + cpu * m[0, sim.SKEW_NS]
        + m[0, sim.IRQ_NS] // 2
    )
    m[p, task.WAITS_FOR] = waits_for.JIFFY
    m[p, task.WAIT_OBJECT] = cpu
    block(m, p)
    m[0, sim.TIMERS] += 1
    queue_jit.push(m, (p << table.SHIFT) + task.TIMER, at)


@inner
def round_jiffies(m, offset, period):
    """round_jiffies_relative(): return the ticks to a whole period about one period from now, staggered by 3 jiffies per CPU."""
    skew = 3 * m[0, sim.CPU]
    now = jiffies(m) + offset
    at = now + period + skew
    rest = at % period
    at -= rest + skew
    if rest >= period // 4:
        at += period
    return at - now if at > now else period


@apart(VALUE)
def page_counter_op(m, p, code, op):
    """Do TOUCH, FLUSH or SHEPHERD; return whether the program continues at once."""
    cpu = m[0, sim.CPU]
    if code == ops.OP_TOUCH:
        m[cpu, rq.TOUCHED] = 1
        if m[op, 1] != 0:
            m[cpu, rq.KEEP_TICK_UNTIL] = jiffies(m) + m[0, sim.IDLE_TICKS]
        return True
    first = m[0, sim.WAIT0] + m[op, 1]
    if code == ops.OP_FLUSH:
        if m[cpu, rq.TOUCHED] != 0:
            m[cpu, rq.TOUCHED] = 0
            sleep_jiffies(m, p, round_jiffies(m, m[op, 2], m[op, 3]), cpu)
        else:
            begin_wait(m, p, waits_for.SEM, first, ops.MODE_BLOCK, 0)
        return False
    for c in range(m[0, sim.CPUS]):
        if m[c, rq.TOUCHED] != 0 and m[first + c, wait.HEAD] >= 0:
            post(m, p, first + c, 1)
    return True
