"""Task programs: what a running task does next (docs/replay-semantics.md, sections 2 to 4)."""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.core.schedule_jit import move_group, move_task
from wastedcores.simulator.engine.core.stretch_jit import start_stretch
from wastedcores.simulator.engine.core.wakeup_jit import fallback_cpu, select_task_rq
from wastedcores.simulator.engine.fair.cfs_jit import resched
from wastedcores.simulator.engine.fair.entity_jit import (
    clear_buddies,
    dequeue_task,
    enqueue_task,
    set_buddy,
)
from wastedcores.simulator.engine.fair.vruntime_jit import update_curr
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
from wastedcores.simulator.engine.world.codes import (
    LOG_MARK,
    S_READY,
    SD_BALANCE_EXEC,
    ST_RUNNING,
    ST_TASKS_FULL,
    ST_ZERO_LOOP,
    W_CHILDREN,
    W_LOCK,
    W_NOTHING,
    W_SEM,
    WHY_AFFINITY,
    WHY_EXEC,
)
from wastedcores.simulator.engine.world.cpusets_jit import test
from wastedcores.simulator.engine.world.log_jit import pid_of, record
from wastedcores.simulator.engine.world.random_jit import draw_exponential, draw_uniform
from wastedcores.simulator.engine.world.state import (
    G_CPU,
    G_CPUS,
    G_CULPRIT,
    G_NOW,
    G_NTASKS,
    G_STATUS,
    G_STEPS,
    G_TASKS,
    G_WAKE,
    G_Y0,
    Q_SKIP,
    R_CURR,
    R_DELAY,
    R_FRESH,
    R_NEED,
    R_NR,
    SE_Q,
    T_CHILDREN,
    T_KHEAD,
    T_LEFT,
    T_MASK,
    T_NALLOWED,
    T_NICE,
    T_PC,
    T_SLOT0,
    T_SPIN,
    T_STARTED,
    T_STATE,
    T_TG,
    T_UNITS0,
    T_WAIT,
    Y_COUNT,
    Y_STOPPED,
)
from wastedcores.workload.ops import (
    OP_AFFINITY,
    OP_BARRIER,
    OP_COMPUTE,
    OP_COMPUTE_EXP,
    OP_EXEC,
    OP_EXIT,
    OP_FORK,
    OP_LOCK,
    OP_LOOP,
    OP_LOOP_BARRIER,
    OP_MARK,
    OP_NICE,
    OP_POST,
    OP_SESSION,
    OP_SIGNAL,
    OP_SLEEP,
    OP_SLEEP_EXP,
    OP_SLEEP_JIFFIES,
    OP_TOUCH,
    OP_UNLOCK,
    OP_WAIT,
    OP_WAIT_CHILDREN,
)

MAX_STEPS = 100_000


@inner
def loop_back(m, p, op):
    """Bottom of a loop: whether to go round again."""
    slot = m[op, 2]
    m[p, T_SLOT0 + slot] += 1
    m[p, T_UNITS0 + slot] += 1
    count = m[op, 3]
    again = count < 0 or m[p, T_SLOT0 + slot] < count
    last = m[op, 4]
    if m[op, 0] == OP_LOOP_BARRIER:
        if m[m[0, G_Y0] + last, Y_STOPPED] != 0:
            again = False
    elif last >= 0 and m[0, G_NOW] >= m[p, T_STARTED] + last:
        again = False
    if not again:
        m[p, T_SLOT0 + slot] = 0
    return again


@inner
def timed_op(m, p, code, a, b, c):
    """Ops that take or wait for time; whether the program goes on at once."""
    if code == OP_COMPUTE:
        m[p, T_LEFT] = draw_uniform(m, p, a, b)
        return m[p, T_LEFT] <= 0
    if code == OP_COMPUTE_EXP:
        m[p, T_LEFT] = draw_exponential(m, p, a, b, c)
        return m[p, T_LEFT] <= 0
    if code == OP_SLEEP:
        sleep(m, p, draw_uniform(m, p, a, b))
    else:
        sleep(m, p, draw_exponential(m, p, a, b, c))
    return False


@apart(VALUE)
def wait_op(m, p, code, op):
    """Ops by which tasks wait for each other; whether the program goes on at once."""
    y = m[0, G_Y0] + m[op, 1]
    if code == OP_BARRIER:
        return barrier(m, p, y, m[op, 2], m[op, 3], m[op, 4])
    if code == OP_LOCK:
        done = lock(m, p, y, m[op, 2], m[op, 3], m[op, 4])
        if not done and m[p, T_SPIN] == 0:
            m[p, T_PC] -= 1  # a woken sleeper tries again
        return done
    if code == OP_UNLOCK:
        unlock(m, p, y, m[op, 4])
        return True
    if code == OP_POST:
        post(m, p, y, m[op, 2])
        return True
    if m[y, Y_COUNT] > 0:
        m[y, Y_COUNT] -= 1
        return True
    begin_wait(m, p, W_SEM, y, m[op, 2], m[op, 3])
    return False


@apart(VALUE)
def placement_op(m, p, code, a):
    """AFFINITY, SESSION, NICE, EXEC, YIELD; whether the program goes on at once."""
    cpu = m[0, G_CPU]
    if code == OP_AFFINITY:
        m[p, T_MASK] = a
        total = 0
        for c in range(m[0, G_CPUS]):
            if test(m, a, c):
                total += 1
        m[p, T_NALLOWED] = total
        if test(m, a, cpu):
            return True
        dst = fallback_cpu(m, p, cpu)
        if m[0, G_STATUS] == ST_RUNNING:
            move_task(m, p, dst, WHY_AFFINITY)
        return False
    if code == OP_EXEC:
        dst = select_task_rq(m, p, SD_BALANCE_EXEC, False)
        if dst == cpu:
            return True
        move_task(m, p, dst, WHY_EXEC)
        return False
    if code == OP_SESSION:
        if a != m[p, T_TG]:
            move_group(m, p, a)
        return True
    if code == OP_NICE:
        change = a - m[p, T_NICE]
        dequeue_task(m, p, False)
        set_nice(m, p, a)
        enqueue_task(m, p, False, False)
        if change != 0:
            resched(m, cpu)
        return True
    # yield_task_fair()
    if m[cpu, R_NR] > 1:
        clear_buddies(m, p)
        update_curr(m, m[p, SE_Q])
        set_buddy(m, p, Q_SKIP)
    m[cpu, R_NEED] = 1
    return False


@apart(NOTHING)
def advance(m, p, delay):
    """Run the program of the task that runs on CPU G_CPU until an op takes time, blocks or moves it.

    A stretch that begins here begins ``delay`` ns from now.
    """
    cpu = m[0, G_CPU]
    if m[p, T_STARTED] < 0:
        m[p, T_STARTED] = m[0, G_NOW]
    while m[0, G_STEPS] < MAX_STEPS:
        if m[0, G_STATUS] != ST_RUNNING:
            return
        if m[p, T_KHEAD] >= 0:
            begin_wake(m, p)
            if m[0, G_WAKE] > 0:
                m[p, T_LEFT] = m[0, G_WAKE]
                start_stretch(m, cpu, p, delay)
                return
            end_wake(m, p)
            continue
        m[0, G_STEPS] += 1
        op = m[p, T_PC]
        m[p, T_PC] = op + 1
        code = m[op, 0]
        on = True
        if code == OP_LOOP or code == OP_LOOP_BARRIER:
            if loop_back(m, p, op):
                m[p, T_PC] = m[op, 1]
        elif code <= OP_SLEEP_EXP and code != OP_EXIT:
            on = timed_op(m, p, code, m[op, 1], m[op, 2], m[op, 3])
        elif code >= OP_BARRIER and code <= OP_WAIT:
            on = wait_op(m, p, code, op)
        elif code == OP_FORK:
            if m[0, G_NTASKS] >= m[0, G_TASKS]:
                # the table is made larger outside; then the task goes on from here
                m[p, T_PC] = op
                m[cpu, R_FRESH] = 1
                m[cpu, R_DELAY] = delay
                m[0, G_STATUS] = ST_TASKS_FULL
                return
            fork(m, p, m[op, 1], m[op, 2], m[op, 3])
        elif code == OP_WAIT_CHILDREN:
            m[p, T_WAIT] = W_NOTHING
            if m[p, T_CHILDREN] > m[op, 1]:
                m[p, T_PC] = op
                m[p, T_WAIT] = W_CHILDREN
                block(m, p)
                on = False
        elif code == OP_MARK:
            record(m, LOG_MARK, cpu, pid_of(m, p), -1, -1, m[op, 1], -1)
        elif code == OP_EXIT:
            exit_task(m, p)
            on = False
        elif code == OP_SLEEP_JIFFIES:
            ticks = m[op, 1]
            ticks = ticks if ticks > 0 else round_jiffies(m, m[op, 2], m[op, 3])
            sleep_jiffies(m, p, ticks, m[op, 4] - 1 if m[op, 4] > 0 else cpu)
            on = False
        elif code >= OP_TOUCH and code != OP_SESSION:
            on = page_counter_op(m, p, code, op)
        elif code >= OP_SIGNAL and code != OP_SESSION:
            on = signal_op(m, p, op)
        else:
            on = placement_op(m, p, code, m[op, 1])
        if not on:
            if m[cpu, R_CURR] == p and m[p, T_STATE] == S_READY and m[p, T_LEFT] > 0:
                start_stretch(m, cpu, p, delay)
            return
    m[0, G_STATUS] = ST_ZERO_LOOP
    m[0, G_CULPRIT] = p


@inner
def run_over(m, cpu):
    """RUN: the running task's stretch has ended."""
    p = m[cpu, R_CURR]
    m[p, T_LEFT] = 0
    if m[p, T_SPIN] == 1:
        # spun long enough: block
        m[p, T_SPIN] = 0
        if m[p, T_WAIT] == W_LOCK:
            m[p, T_PC] -= 1
        block(m, p)
        return
    if m[p, T_SPIN] == GRANTED:
        m[p, T_SPIN] = 0
        m[p, T_WAIT] = W_NOTHING
    if m[p, T_KHEAD] >= 0:
        end_wake(m, p)
    advance(m, p, 0)


@inner
def go_on(m, cpu):
    """The task that was just switched in continues, after the cost of the switch."""
    p = m[cpu, R_CURR]
    m[cpu, R_FRESH] = 0
    if m[p, T_LEFT] > 0:
        start_stretch(m, cpu, p, m[cpu, R_DELAY])
    else:
        advance(m, p, m[cpu, R_DELAY])
