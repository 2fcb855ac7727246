"""Task programs: what a running task does next, and how tasks wait for each other (docs/replay-semantics.md, 2-4)."""

from __future__ import annotations

import math

import numpy as np

from wastedcores.engine import queue_jit
from wastedcores.engine._apart import NOTHING, VALUE, apart
from wastedcores.engine._jit import inner
from wastedcores.engine.cfs_jit import (
    clear_buddies,
    dequeue_task,
    enqueue_task,
    resched,
    set_buddy,
    update_curr,
)
from wastedcores.engine.codes import (
    LOG_EXIT,
    LOG_MARK,
    MODE_BLOCK,
    MODE_SPIN_BLOCK,
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
    OP_SLEEP,
    OP_SLEEP_EXP,
    OP_UNLOCK,
    OP_WAIT,
    OP_WAIT_CHILDREN,
    S_DEAD,
    S_NEW,
    S_READY,
    S_SLEEPING,
    SD_BALANCE_EXEC,
    ST_BAD_UNLOCK,
    ST_RUNNING,
    ST_TASKS_FULL,
    ST_ZERO_LOOP,
    W_BARRIER,
    W_CHILDREN,
    W_LOCK,
    W_NOTHING,
    W_SEM,
    W_TIMER,
    WHY_AFFINITY,
    WHY_EXEC,
)
from wastedcores.engine.load_jit import jiffies
from wastedcores.engine.log_jit import pid_of, record
from wastedcores.engine.memory_jit import item, test
from wastedcores.engine.sched_jit import (
    fallback_cpu,
    fork_task,
    leave_autogroup,
    move_task,
    select_task_rq,
    start_stretch,
    stop_stretch,
    try_to_wake_up,
)
from wastedcores.engine.state import (
    G_COMPUTING,
    G_CPU,
    G_CPUS,
    G_CULPRIT,
    G_IDLE_TICKS,
    G_LIVE,
    G_NOW,
    G_NTASKS,
    G_SEED,
    G_SPIN,
    G_STATIC,
    G_STATUS,
    G_STEPS,
    G_T0,
    G_T_START,
    G_TASKS,
    G_TEMPLATE0,
    G_TIMERS,
    G_WAKE,
    G_Y0,
    INFINITE,
    Q_SKIP,
    R_CURR,
    R_DELAY,
    R_FRESH,
    R_KEEP_TICK,
    R_NEED,
    R_NR,
    SE_INV,
    SE_MYQ,
    SE_Q,
    SE_WEIGHT,
    SHIFT,
    T_CHILDREN,
    T_CPU,
    T_DAEMON,
    T_DONE,
    T_EV,
    T_KHEAD,
    T_KTAIL,
    T_LAST_WAKEE,
    T_LEFT,
    T_MASK,
    T_NALLOWED,
    T_NICE,
    T_NUM,
    T_OBJ,
    T_PARENT,
    T_PC,
    T_RNG,
    T_SLOT0,
    T_SPIN,
    T_STARTED,
    T_STATE,
    T_TEMPLATE,
    T_TG,
    T_UNITS0,
    T_WAIT,
    T_WNEXT,
    WIDTH,
    Y_COUNT,
    Y_GEN,
    Y_HEAD,
    Y_OWNER,
    Y_PARTIES,
    Y_STOPPED,
    Y_TAIL,
)
from wastedcores.engine.waits_jit import append, unlink

MAX_STEPS = 100_000
# T_SPIN: 0 not spinning, 1 waiting, 2 granted: runs out its last spin_ns
GRANTED = 2


# --- random numbers: splitmix64, one stream a task --------------------------------------------------------------------------


@inner
def mix(z):
    """splitmix64's output function, uint64."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@inner
def stream(seed, number):
    """State of task ``number``'s stream; number -1 is the machine's."""
    return np.int64(
        mix(
            np.uint64(seed) * np.uint64(0x9E3779B97F4A7C15)
            + np.uint64(number + 1) * np.uint64(0xD1342543DE82EF95)
        )
    )


@inner
def draw(m, p):
    """Next number of the task's stream, uint64."""
    state = np.uint64(m[p, T_RNG]) + np.uint64(0x9E3779B97F4A7C15)
    m[p, T_RNG] = np.int64(state)
    return mix(state)


@inner
def draw_uniform(m, p, low, high):
    """An integer of [low, high]; no draw if they are equal."""
    if low >= high:
        return low
    return low + np.int64(draw(m, p) % np.uint64(high - low + 1))


@inner
def draw_exponential(m, p, mean, cap, floor):
    """Exponential, cut at both ends."""
    u = (float(np.int64(draw(m, p) >> np.uint64(11))) + 0.5) * 2.0**-53
    value = np.int64(-mean * math.log(u))
    return min(max(value, floor), cap)


# --- waiting ------------------------------------------------------------------------------------------------------------


@apart(VALUE)
def begin_wait(m, p, why, y, mode, limit):
    """Spin or block until granted; whether the task blocked."""
    m[p, T_WAIT] = why
    m[p, T_OBJ] = y
    append(m, y, p)
    if mode == MODE_BLOCK:
        block(m, p)
        return True
    m[p, T_SPIN] = 1
    if mode == MODE_SPIN_BLOCK:
        m[p, T_LEFT] = limit
    else:
        m[p, T_LEFT] = INFINITE
        m[0, G_COMPUTING] -= 1
    return False


@inner
def block(m, p):
    """The task goes to sleep at the schedule() that follows."""
    m[p, T_STATE] = S_SLEEPING
    m[p, T_LEFT] = 0
    m[0, G_COMPUTING] -= 1


@apart(NOTHING)
def grant(m, p, by):
    """What ``p`` waited for has come, through ``by``: a spinner notices, a sleeper joins the wake queue of ``by``."""
    if m[p, T_SPIN] != 0:
        if m[p, T_LEFT] >= INFINITE:
            m[0, G_COMPUTING] += 1
        cpu = m[p, T_CPU]
        running = m[cpu, R_CURR] == p
        if running:
            stop_stretch(m, cpu, p)
        m[p, T_SPIN] = GRANTED
        m[p, T_LEFT] = m[0, G_SPIN]
        if running:
            start_stretch(m, cpu, p, 0)
        return
    m[p, T_WNEXT] = -1
    if m[by, T_KHEAD] < 0:
        m[by, T_KHEAD] = p
    else:
        m[m[by, T_KTAIL], T_WNEXT] = p
    m[by, T_KTAIL] = p


@inner
def wake_next(m, p):
    """Wake the first of the task's wake queue."""
    first = m[p, T_KHEAD]
    m[p, T_KHEAD] = m[first, T_WNEXT]
    if m[first, T_WAIT] != W_LOCK:
        m[first, T_WAIT] = W_NOTHING
    try_to_wake_up(m, first, False)


@apart(VALUE)
def barrier(m, p, y, mode, limit, deadline):
    """Arrive at a barrier; whether the task goes on at once."""
    m[y, Y_COUNT] += 1
    if m[y, Y_COUNT] < m[y, Y_PARTIES]:
        begin_wait(m, p, W_BARRIER, y, mode, limit)
        return False
    m[y, Y_COUNT] = 0
    m[y, Y_GEN] += 1
    if deadline >= 0 and m[0, G_NOW] >= m[0, G_T_START] + deadline:
        m[y, Y_STOPPED] = 1
    other = m[y, Y_HEAD]
    m[y, Y_HEAD] = -1
    m[y, Y_TAIL] = -1
    while other >= 0:
        following = m[other, T_WNEXT]
        grant(m, other, p)
        other = following
    return True


@inner
def lock(m, p, y, mode, limit):
    """Take a lock or wait for it; whether the task goes on at once."""
    if m[y, Y_OWNER] < 0:
        m[y, Y_OWNER] = p
        m[p, T_WAIT] = W_NOTHING
        return True
    begin_wait(m, p, W_LOCK, y, mode, limit)
    return False


@apart(NOTHING)
def unlock(m, p, y):
    """Give a lock up: to the first spinner that runs, else wake the first sleeper, who tries again."""
    if m[y, Y_OWNER] != p:
        m[0, G_STATUS] = ST_BAD_UNLOCK
        m[0, G_CULPRIT] = p
        return
    m[y, Y_OWNER] = -1
    other = m[y, Y_HEAD]
    before = -1
    while other >= 0:
        if m[other, T_SPIN] == 1 and m[m[other, T_CPU], R_CURR] == other:
            unlink(m, y, other, before)
            m[y, Y_OWNER] = other
            grant(m, other, p)
            return
        before = other
        other = m[other, T_WNEXT]
    other = m[y, Y_HEAD]
    before = -1
    while other >= 0:
        if m[other, T_SPIN] == 0:
            unlink(m, y, other, before)
            grant(m, other, p)
            return
        before = other
        other = m[other, T_WNEXT]


@apart(NOTHING)
def post(m, p, y, units):
    """Raise a semaphore."""
    for _ in range(units):
        first = m[y, Y_HEAD]
        if first < 0:
            m[y, Y_COUNT] += 1
        else:
            unlink(m, y, first, -1)
            grant(m, first, p)


# --- birth, death, sleep ------------------------------------------------------------------------------------------------


@inner
def set_nice(m, p, nice):
    """set_load_weight()."""
    m[p, T_NICE] = nice
    m[p, SE_WEIGHT] = item(m, m[0, G_STATIC] + nice + 20)
    m[p, SE_INV] = item(m, m[0, G_STATIC] + 40 + nice + 20)


@apart(VALUE)
def new_task(m, template, parent, group):
    """Fill the next free task row from a template; ``parent`` -1: a top-level task."""
    number = m[0, G_NTASKS]
    m[0, G_NTASKS] = number + 1
    p = m[0, G_T0] + number
    t = m[0, G_TEMPLATE0] + template
    for i in range(WIDTH):
        m[p, i] = 0
    m[p, T_NUM] = number
    m[p, T_TEMPLATE] = template
    m[p, T_PC] = m[t, T_PC]
    m[p, T_DAEMON] = m[t, T_DAEMON]
    m[p, SE_MYQ] = -1
    m[p, T_STATE] = S_NEW
    m[p, T_PARENT] = parent
    m[p, T_LAST_WAKEE] = -1
    m[p, T_KHEAD] = -1
    m[p, T_DONE] = -1
    m[p, T_STARTED] = -1
    m[p, T_MASK] = m[t, T_MASK]
    m[p, T_NALLOWED] = m[t, T_NALLOWED]
    nice = m[t, T_NICE]
    tg = group
    if parent >= 0:
        if m[t, T_MASK] < 0:
            m[p, T_MASK] = m[parent, T_MASK]
            m[p, T_NALLOWED] = m[parent, T_NALLOWED]
        if nice < -20:
            nice = m[parent, T_NICE]
        if group < 0:
            tg = m[parent, T_TG]
        m[parent, T_CHILDREN] += 1
    m[p, T_TG] = tg
    set_nice(m, p, nice)
    m[p, T_RNG] = stream(m[0, G_SEED], number)
    if m[p, T_DAEMON] == 0:
        m[0, G_LIVE] += 1
    return p


@inner
def sleep(m, p, length):
    """Block until a timer wakes the task."""
    length = max(length, 1)
    m[p, T_WAIT] = W_TIMER
    block(m, p)
    m[0, G_TIMERS] += 1
    queue_jit.push(m, (p << SHIFT) + T_EV, m[0, G_NOW] + length)


@apart(NOTHING)
def exit_task(m, p):
    """do_exit(): tell the parent, leave."""
    cpu = m[0, G_CPU]
    record(m, LOG_EXIT, cpu, pid_of(m, p), -1, -1, -1, -1)
    m[p, T_DONE] = m[0, G_NOW]
    if m[p, T_DAEMON] == 0:
        m[0, G_LIVE] -= 1
    if m[p, T_TG] > 0:
        leave_autogroup(m, p)
    m[cpu, R_KEEP_TICK] = jiffies(m) + m[0, G_IDLE_TICKS]
    parent = m[p, T_PARENT]
    if parent >= 0 and m[parent, T_STATE] != S_DEAD:
        m[parent, T_CHILDREN] -= 1
        if m[parent, T_STATE] == S_SLEEPING and m[parent, T_WAIT] == W_CHILDREN:
            try_to_wake_up(m, parent, True)
    m[p, T_STATE] = S_DEAD
    m[0, G_COMPUTING] -= 1


@apart(NOTHING)
def fork(m, p, template, group):
    """FORK: a child from a template."""
    child = new_task(m, template, p, group)
    cpu = m[0, G_CPU]
    m[cpu, R_KEEP_TICK] = jiffies(m) + m[0, G_IDLE_TICKS]
    fork_task(m, child, cpu, p)


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
        done = lock(m, p, y, m[op, 2], m[op, 3])
        if not done and m[p, T_SPIN] == 0:
            m[p, T_PC] -= 1  # a woken sleeper tries again
        return done
    if code == OP_UNLOCK:
        unlock(m, p, y)
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
    """AFFINITY, NICE, EXEC, YIELD; whether the program goes on at once."""
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
            if m[0, G_WAKE] > 0:
                m[p, T_LEFT] = m[0, G_WAKE]
                start_stretch(m, cpu, p, delay)
                return
            wake_next(m, p)
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
            fork(m, p, m[op, 1], m[op, 2])
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
        else:
            on = placement_op(m, p, code, m[op, 1])
        if not on:
            if m[cpu, R_CURR] == p and m[p, T_STATE] == S_READY and m[p, T_LEFT] > 0:
                start_stretch(m, cpu, p, delay)
            return
    m[0, G_STATUS] = ST_ZERO_LOOP
    m[0, G_CULPRIT] = p


@apart(NOTHING)
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
        wake_next(m, p)
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
