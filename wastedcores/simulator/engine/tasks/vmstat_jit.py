"""Timers of the timer wheel, and the page counters that a kworker folds once per second (mm/vmstat.c, v4.1)."""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.codes import waits_for
from wastedcores.simulator.engine.events import queue_jit
from wastedcores.simulator.engine.fair.load_jit import jiffies
from wastedcores.simulator.engine.tasks.sync_jit import begin_wait, block, post
from wastedcores.simulator.engine.world import table
from wastedcores.simulator.engine.world.rows_jit import cpu_rq
from wastedcores.simulator.engine.world.structs import NO_TASK, Kernel, Op, TaskStruct, WaitObject
from wastedcores.workload import ops


@apart(NOTHING)
def sleep_jiffies(k: Kernel, p: TaskStruct, ticks: int, cpu: int) -> None:
    """schedule_timeout(): block until the timer softirq of a CPU, right after its tick, finds that the jiffy is reached."""
    at = (jiffies(k) + max(ticks, 1)) * k.tick_ns + cpu * k.skew_ns + k.irq_ns // 2
    p.waits_for = waits_for.JIFFY
    p.wait_object = cpu
    block(k, p)
    k.timers += 1
    queue_jit.push(k, (p.row << table.SHIFT) + TaskStruct.timer, at)


@inner
def round_jiffies(k: Kernel, offset: int, period: int) -> int:
    """round_jiffies_relative(): return the ticks to a whole period about one period from now, staggered by 3 jiffies per CPU."""
    skew = 3 * k.this_cpu
    now = jiffies(k) + offset
    at = now + period + skew
    rest = at % period
    at -= rest + skew
    if rest >= period // 4:
        at += period
    return at - now if at > now else period


@apart(VALUE)
def page_counter_op(k: Kernel, p: TaskStruct, code: int, op: Op) -> bool:
    """Do TOUCH, FLUSH or SHEPHERD; return whether the program continues at once."""
    cpu = k.this_cpu
    if code == ops.OP_TOUCH:
        cpu_rq(k, cpu).touched = 1
        if op.arg1 != 0:
            cpu_rq(k, cpu).keep_tick_until = jiffies(k) + k.idle_ticks
        return True
    first = k.wait0 + op.arg1
    if code == ops.OP_FLUSH:
        if cpu_rq(k, cpu).touched != 0:
            cpu_rq(k, cpu).touched = 0
            sleep_jiffies(k, p, round_jiffies(k, op.arg2, op.arg3), cpu)
        else:
            begin_wait(k, p, waits_for.SEM, WaitObject(k, first), ops.MODE_BLOCK, 0)
        return False
    for c in range(k.nr_cpus):
        if cpu_rq(k, c).touched != 0 and WaitObject(k, first + c).head != NO_TASK:
            post(k, p, WaitObject(k, first + c), 1)
    return True
