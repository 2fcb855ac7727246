"""How tasks wait, for a time or for each other (docs/replay-semantics.md, sections 2 to 4).

The module has barriers, locks and semaphores. For rt-app it also has periodic timers, and conditions, which do not store signals.
For kworkers it has timers of the timer wheel, and page counters, which a kworker folds once per second (mm/vmstat.c, v4.1).
"""

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.codes import status, task_state, waits_for
from wastedcores.simulator.engine.core.stretch_jit import start_stretch, stop_stretch
from wastedcores.simulator.engine.core.wakeup_jit import append, choose_cpu, queue_woken, unlink
from wastedcores.simulator.engine.events import queue_jit
from wastedcores.simulator.engine.world import table
from wastedcores.simulator.engine.world.rows_jit import cpu_rq
from wastedcores.simulator.engine.world.structs import NO_TASK, Kernel, Op, TaskStruct, WaitObject
from wastedcores.workload import ops

# TaskStruct.spin: 0 if the task does not spin, 1 while it spins, GRANTED while it spends its last spin_ns after the grant
GRANTED = 2
#: WaitObject.contended of a lock that tasks have shared: each UNLOCK wakes sleepers
ALWAYS = 2


@apart(VALUE)
def begin_wait(k: Kernel, p: TaskStruct, why: int, y: WaitObject, mode: int, limit: int) -> bool:
    """Spin or block until the wait is granted; return whether the task blocked."""
    p.waits_for = why
    p.wait_object = y.row
    append(k, y, p)
    if mode == ops.MODE_BLOCK:
        block(k, p)
        return True
    p.spin = 1
    if mode == ops.MODE_SPIN_BLOCK:
        p.left = limit
    else:
        p.left = table.INFINITE
        k.computing -= 1
    return False


@inner
def block(k: Kernel, p: TaskStruct) -> None:
    """Put the task to sleep at the schedule() that follows."""
    p.state = task_state.SLEEPING
    p.left = 0
    k.computing -= 1


@inner
def sleep(k: Kernel, p: TaskStruct, length: int) -> None:
    """Block a task until a timer wakes it after ``length`` ns."""
    length = max(length, 1)
    p.waits_for = waits_for.TIMER
    p.wait_object = k.this_cpu
    block(k, p)
    k.timers += 1
    queue_jit.push(k, (p.row << table.SHIFT) + TaskStruct.timer, k.now_ns + length)


@apart(NOTHING)
def grant(k: Kernel, p: TaskStruct, by: TaskStruct) -> None:
    """End the wait of ``p`` on behalf of ``by``: ``p`` stops spinning or, if it sleeps, joins the wake queue of ``by``."""
    if p.spin != 0:
        if p.left >= table.INFINITE:
            k.computing += 1
        cpu = p.cpu
        running = cpu_rq(k, cpu).curr == p
        if running:
            stop_stretch(k, cpu, p)
        p.spin = GRANTED
        p.left = k.spin_ns
        if running:
            start_stretch(k, cpu, p, 0)
        return
    p.wait_next = NO_TASK
    if not by.wake_q_head:
        by.wake_q_head = p
    else:
        by.wake_q_tail.wait_next = p
    by.wake_q_tail = p


@inner
def begin_wake(k: Kernel, p: TaskStruct) -> None:
    """Begin to wake the first task of the wake queue: choose its CPU.

    The waking operation is the one before the program counter. A POST to a pipe wakes with WF_SYNC (pipe_write(), fs/pipe.c).
    """
    first = p.wake_q_head
    if first.waits_for != waits_for.LOCK:
        first.waits_for = waits_for.NOTHING
    op = Op(k, p.pc.row - 1)
    choose_cpu(k, first, op.code == ops.OP_POST and op.arg3 != 0)


@inner
def end_wake(k: Kernel, p: TaskStruct) -> None:
    """Finish waking the first task of the wake queue: enqueue it."""
    first = p.wake_q_head
    p.wake_q_head = first.wait_next
    queue_woken(k, first)


@apart(VALUE)
def barrier(k: Kernel, p: TaskStruct, y: WaitObject, mode: int, limit: int, deadline: int) -> bool:
    """Arrive at a barrier; return whether the task continues at once."""
    y.count += 1
    if y.count < y.parties:
        begin_wait(k, p, waits_for.BARRIER, y, mode, limit)
        return False
    y.count = 0
    y.generation += 1
    if deadline >= 0 and k.now_ns >= k.t_start + deadline:
        y.stopped = 1
    other = y.head
    y.head = NO_TASK
    y.tail = NO_TASK
    while other:
        following = other.wait_next
        grant(k, other, p)
        other = following
    return True


@inner
def set_contended(y: WaitObject, contended: bool) -> None:
    """Note whether the next UNLOCK of an exclusive lock wakes a sleeper."""
    if y.contended != ALWAYS:
        y.contended = contended


@inner
def lock(k: Kernel, p: TaskStruct, y: WaitObject, mode: int, limit: int, shared: int) -> bool:
    """Take a lock or wait for it; return whether the task continues at once.

    The lock works as a mutex of glibc: a task that takes it after a sleep assumes that other tasks still sleep, but a task that
    finds it free does not assume this (__lll_lock_wait(), nptl/lowlevellock.c, glibc 2.33).
    """
    woken = p.waits_for == waits_for.LOCK
    if shared != 0:
        y.contended = ALWAYS
    if not y.owner and (shared != 0 or y.count == 0):
        if shared != 0:
            y.count += 1
        else:
            y.owner = p
            set_contended(y, woken)
        p.waits_for = waits_for.NOTHING
        return True
    if mode == ops.MODE_BLOCK:
        set_contended(y, True)
    begin_wait(k, p, waits_for.LOCK, y, mode, limit)
    return False


@inner
def shares(k: Kernel, p: TaskStruct) -> bool:
    """Return whether a waiter sleeps in a shared LOCK. The program counter of such a sleeper is at the LOCK."""
    return p.spin == 0 and p.pc.arg4 != 0


@apart(NOTHING)
def unlock(k: Kernel, p: TaskStruct, y: WaitObject, shared: int) -> None:
    """Give up a lock: hand it to the first spinner that runs, else wake the first sleeper, who tries again.

    No task is woken if the owner found the lock free and no task has begun to wait since then. Any sleepers that remain then rely
    on a task that was woken before and has yet to try. Sleepers that share the lock are woken together and own it at once.
    """
    if (shared == 0 and y.owner != p) or (shared != 0 and y.count == 0):
        k.status = status.BAD_UNLOCK
        k.culprit = p.row
        return
    if shared != 0:
        y.count -= 1
        if y.count > 0:
            return
    y.owner = NO_TASK
    other = y.head
    before = NO_TASK
    while other:
        if other.spin == 1 and cpu_rq(k, other.cpu).curr == other:
            unlink(k, y, other, before)
            y.owner = other
            grant(k, other, p)
            return
        before = other
        other = other.wait_next
    other = y.head if y.contended != 0 else NO_TASK
    before = NO_TASK
    while other:
        following = other.wait_next
        if other.spin == 0:
            unlink(k, y, other, before)
            if not shares(k, other):
                grant(k, other, p)
                return
            # a task that shares the lock owns it from now on
            y.count += 1
            other.pc = Op(k, other.pc.row + 1)
            other.waits_for = waits_for.NOTHING
            grant(k, other, p)
            if not following or not shares(k, following):
                return
        else:
            before = other
        other = following


@apart(NOTHING)
def post(k: Kernel, p: TaskStruct, y: WaitObject, units: int) -> None:
    """Raise a semaphore by ``units``."""
    for _ in range(units):
        first = y.head
        if not first:
            y.count += 1
        else:
            unlink(k, y, first, NO_TASK)
            grant(k, first, p)


@apart(VALUE)
def signal_op(k: Kernel, p: TaskStruct, op: Op) -> bool:
    """Do SIGNAL, CATCH, WAIT_SIGNAL or TIMER; return whether the program continues at once."""
    code = op.code
    y = WaitObject(k, k.wait0 + op.arg1)
    if code == ops.OP_SIGNAL:
        y.generation += 1
        while y.head:
            first = y.head
            unlink(k, y, first, NO_TASK)
            grant(k, first, p)
            if op.arg2 == 0:
                break
        return True
    if code == ops.OP_CATCH:
        p.signals_seen = y.generation
        return True
    now = k.now_ns
    if code == ops.OP_TIMER:
        if y.generation == 0:
            y.generation = now
        if op.arg2 == 0:
            return True
        y.generation += op.arg2
        if now < y.generation:
            sleep(k, p, y.generation - now)
            return False
        if op.arg3 == 0:
            y.generation = now
        return True
    # WAIT_SIGNAL: a signal that came after CATCH counts
    if y.generation != p.signals_seen:
        return True
    begin_wait(k, p, waits_for.SEM, y, op.arg2, op.arg3)
    return False


@apart(NOTHING)
def sleep_jiffies(k: Kernel, p: TaskStruct, ticks: int, cpu: int) -> None:
    """schedule_timeout(): block until the timer softirq, right after the CPU's tick, finds that the jiffy has been reached."""
    at = (k.jiffies + max(ticks, 1)) * k.tick_ns + cpu * k.skew_ns + k.irq_ns // 2
    p.waits_for = waits_for.JIFFY
    p.wait_object = cpu
    block(k, p)
    k.timers += 1
    queue_jit.push(k, (p.row << table.SHIFT) + TaskStruct.timer, at)


@inner
def round_jiffies(k: Kernel, offset: int, period: int) -> int:
    """round_jiffies_relative(): return the ticks to a multiple of the period, about one period away, less 3 per CPU number."""
    skew = 3 * k.this_cpu
    now = k.jiffies + offset
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
            cpu_rq(k, cpu).keep_tick_until = k.jiffies + k.idle_ticks
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
        if cpu_rq(k, c).touched != 0 and WaitObject(k, first + c).head:
            post(k, p, WaitObject(k, first + c), 1)
    return True
