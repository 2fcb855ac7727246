"""Task programs: the next operation of a running task (docs/replay-semantics.md, sections 2 to 4)."""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.codes import (
    log_kind,
    log_op,
    sd_flag,
    status,
    task_state,
    waits_for,
)
from wastedcores.simulator.engine.core.schedule_jit import move_group, move_task
from wastedcores.simulator.engine.core.stretch_jit import start_stretch
from wastedcores.simulator.engine.core.wakeup_jit import fallback_cpu, select_task_rq
from wastedcores.simulator.engine.fair.cfs_jit import resched
from wastedcores.simulator.engine.fair.eevdf_seam_jit import (
    FAIR_NICE,
    FAIR_YIELD,
    ask_fair,
    has_eevdf,
)
from wastedcores.simulator.engine.fair.entity_jit import (
    clear_buddies,
    dequeue_task,
    enqueue_task,
    set_buddy,
)
from wastedcores.simulator.engine.fair.vruntime_jit import update_curr
from wastedcores.simulator.engine.realtime.seam_jit import SET_POLICY, YIELD, ask_rt, is_rt
from wastedcores.simulator.engine.tasks.lifecycle_jit import exit_task, fork, set_nice, sleep
from wastedcores.simulator.engine.tasks.signal_jit import signal_op
from wastedcores.simulator.engine.tasks.sync_jit import (
    GRANTED,
    barrier,
    begin_wait,
    begin_wake,
    block,
    end_wake,
    lock,
    post,
    unlock,
)
from wastedcores.simulator.engine.tasks.vmstat_jit import (
    page_counter_op,
    round_jiffies,
    sleep_jiffies,
)
from wastedcores.simulator.engine.tasks.weight_jit import SCHED_BATCH
from wastedcores.simulator.engine.world import cfs_rq, entity, rq, sim, task, wait
from wastedcores.simulator.engine.world.cpusets_jit import test
from wastedcores.simulator.engine.world.log_jit import log_affinity, pid_of, record
from wastedcores.simulator.engine.world.random_jit import draw_exponential, draw_uniform
from wastedcores.workload import ops

MAX_STEPS = 100_000


@inner
def loop_back(m, p, op):
    """Count a round at the bottom of a loop; return whether there is another round."""
    slot = m[op, 2]
    m[p, task.SLOT0 + slot] += 1
    m[p, task.UNITS0 + slot] += 1
    count = m[op, 3]
    again = count < 0 or m[p, task.SLOT0 + slot] < count
    last = m[op, 4]
    if m[op, 0] == ops.OP_LOOP_BARRIER:
        if m[m[0, sim.WAIT0] + last, wait.STOPPED] != 0:
            again = False
    elif last >= 0 and m[0, sim.NOW] >= m[p, task.STARTED] + last:
        again = False
    if not again:
        m[p, task.SLOT0 + slot] = 0
    return again


@inner
def timed_op(m, p, code, a, b, c):
    """Do an operation that takes or waits for time; return whether the program continues at once."""
    if code == ops.OP_COMPUTE:
        m[p, task.LEFT] = draw_uniform(m, p, a, b)
        return m[p, task.LEFT] <= 0
    if code == ops.OP_COMPUTE_EXP:
        m[p, task.LEFT] = draw_exponential(m, p, a, b, c)
        return m[p, task.LEFT] <= 0
    if code == ops.OP_SLEEP:
        sleep(m, p, draw_uniform(m, p, a, b))
    else:
        sleep(m, p, draw_exponential(m, p, a, b, c))
    return False


@apart(VALUE)
def wait_op(m, p, code, op):
    """Do an operation by which tasks wait for each other; return whether the program continues at once."""
    y = m[0, sim.WAIT0] + m[op, 1]
    if code == ops.OP_BARRIER:
        return barrier(m, p, y, m[op, 2], m[op, 3], m[op, 4])
    if code == ops.OP_LOCK:
        done = lock(m, p, y, m[op, 2], m[op, 3], m[op, 4])
        if not done and m[p, task.SPIN] == 0:
            m[p, task.PC] -= 1  # a sleeper that is woken tries again
        return done
    if code == ops.OP_UNLOCK:
        unlock(m, p, y, m[op, 4])
        return True
    if code == ops.OP_POST:
        post(m, p, y, m[op, 2])
        return True
    if m[y, wait.COUNT] > 0:
        m[y, wait.COUNT] -= 1
        return True
    begin_wait(m, p, waits_for.SEM, y, m[op, 2], m[op, 3])
    return False


@apart(VALUE)
def placement_op(m, p, code, a, b):
    """Do AFFINITY, SESSION, NICE, POLICY, EXEC or YIELD; return whether the program continues at once."""
    cpu = m[0, sim.CPU]
    if code == ops.OP_AFFINITY:
        m[p, task.CPUS_ALLOWED] = a
        total = 0
        for c in range(m[0, sim.CPUS]):
            if test(m, a, c):
                total += 1
        m[p, task.NR_CPUS_ALLOWED] = total
        log_affinity(m, p, cpu)
        if test(m, a, cpu):
            return True
        dst = fallback_cpu(m, p, cpu)
        if m[0, sim.STATUS] == status.RUNNING:
            move_task(m, p, dst, log_op.AFFINITY)
        return False
    if code == ops.OP_EXEC:
        dst = select_task_rq(m, p, sd_flag.BALANCE_EXEC, False)
        if dst == cpu:
            return True
        move_task(m, p, dst, log_op.EXEC)
        return False
    if code == ops.OP_SESSION:
        if a != m[p, task.GROUP]:
            move_group(m, p, a)
        return True
    if code == ops.OP_POLICY:
        ask_rt(m, SET_POLICY, p, a, b)
        return True
    if code == ops.OP_NICE and is_rt(m, p):
        m[p, task.NICE] = a
        return True
    if code == ops.OP_NICE:
        if has_eevdf(m):
            ask_fair(m, FAIR_NICE, p, a)
            return True
        change = a - m[p, task.NICE]
        dequeue_task(m, p, False)
        set_nice(m, p, a)
        enqueue_task(m, p, False, False)
        if change != 0:
            resched(m, cpu)
        return True
    if has_eevdf(m):
        ask_fair(m, FAIR_YIELD, p, 0)
    elif is_rt(m, p):
        ask_rt(m, YIELD, cpu, p, 0)
    elif m[cpu, rq.NR_RUNNING] > 1:  # yield_task_fair()
        clear_buddies(m, p)
        if m[p, task.POLICY] != SCHED_BATCH:
            update_curr(m, m[p, entity.CFS_RQ])
        set_buddy(m, p, cfs_rq.SKIP)
    m[cpu, rq.NEED_RESCHED] = 1
    return False


@apart(NOTHING)
def advance(m, p, delay):
    """Run the program of the task on CPU sim.CPU until an operation takes time, blocks the task or moves it.

    A stretch that begins here begins ``delay`` ns from now.
    """
    cpu = m[0, sim.CPU]
    if m[p, task.STARTED] < 0:
        m[p, task.STARTED] = m[0, sim.NOW]
    while m[0, sim.STEPS] < MAX_STEPS:
        if m[0, sim.STATUS] != status.RUNNING:
            return
        if m[p, task.WAKE_Q_HEAD] >= 0:
            begin_wake(m, p)
            if m[0, sim.WAKE_NS] > 0:
                m[p, task.LEFT] = m[0, sim.WAKE_NS]
                start_stretch(m, cpu, p, delay)
                return
            end_wake(m, p)
            continue
        m[0, sim.STEPS] += 1
        op = m[p, task.PC]
        m[p, task.PC] = op + 1
        code = m[op, 0]
        on = True
        if code == ops.OP_LOOP or code == ops.OP_LOOP_BARRIER:
            if loop_back(m, p, op):
                m[p, task.PC] = m[op, 1]
        elif code <= ops.OP_SLEEP_EXP and code != ops.OP_EXIT:
            on = timed_op(m, p, code, m[op, 1], m[op, 2], m[op, 3])
        elif code >= ops.OP_BARRIER and code <= ops.OP_WAIT:
            on = wait_op(m, p, code, op)
        elif code == ops.OP_FORK:
            if m[0, sim.NR_TASKS] >= m[0, sim.TASK_ROOM]:
                # simulate() enlarges the table, and then the task continues here
                m[p, task.PC] = op
                m[cpu, rq.SWITCHED_IN] = 1
                m[cpu, rq.DELAY] = delay
                m[0, sim.STATUS] = status.TASKS_FULL
                return
            fork(m, p, m[op, 1], m[op, 2], m[op, 3])
        elif code == ops.OP_WAIT_CHILDREN:
            m[p, task.WAITS_FOR] = waits_for.NOTHING
            if m[p, task.CHILDREN] > m[op, 1]:
                m[p, task.PC] = op
                m[p, task.WAITS_FOR] = waits_for.CHILDREN
                block(m, p)
                on = False
        elif code == ops.OP_MARK:
            record(m, log_kind.MARK, cpu, pid_of(m, p), -1, -1, m[op, 1], -1)
        elif code == ops.OP_EXIT:
            exit_task(m, p)
            on = False
        elif code == ops.OP_SLEEP_JIFFIES:
            ticks = m[op, 1]
            ticks = ticks if ticks > 0 else round_jiffies(m, m[op, 2], m[op, 3])
            sleep_jiffies(m, p, ticks, m[op, 4] - 1 if m[op, 4] > 0 else cpu)
            on = False
        elif code == ops.OP_SESSION or code == ops.OP_POLICY:
            on = placement_op(m, p, code, m[op, 1], m[op, 2])
        elif code >= ops.OP_TOUCH:
            on = page_counter_op(m, p, code, op)
        elif code >= ops.OP_SIGNAL:
            on = signal_op(m, p, op)
        else:
            on = placement_op(m, p, code, m[op, 1], 0)
        if not on:
            if (
                m[cpu, rq.CURR] == p
                and m[p, task.STATE] == task_state.READY
                and m[p, task.LEFT] > 0
            ):
                start_stretch(m, cpu, p, delay)
            return
    m[0, sim.STATUS] = status.ZERO_LOOP
    m[0, sim.CULPRIT] = p


@inner
def run_over(m, cpu):
    """The event RUN: the running task's stretch has ended."""
    p = m[cpu, rq.CURR]
    m[p, task.LEFT] = 0
    if m[p, task.SPIN] == 1:
        # it has spun long enough, so it blocks
        m[p, task.SPIN] = 0
        if m[p, task.WAITS_FOR] == waits_for.LOCK:
            m[p, task.PC] -= 1
        block(m, p)
        return
    if m[p, task.SPIN] == GRANTED:
        m[p, task.SPIN] = 0
        m[p, task.WAITS_FOR] = waits_for.NOTHING
    if m[p, task.WAKE_Q_HEAD] >= 0:
        end_wake(m, p)
    advance(m, p, 0)


@inner
def go_on(m, cpu):
    """Continue the program of the task that was just switched in, after the cost of the switch."""
    p = m[cpu, rq.CURR]
    m[cpu, rq.SWITCHED_IN] = 0
    if m[p, task.LEFT] > 0:
        start_stretch(m, cpu, p, m[cpu, rq.DELAY])
    else:
        advance(m, p, m[cpu, rq.DELAY])
