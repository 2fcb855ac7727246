"""The operations of a task's program, one function each (docs/replay-semantics.md, section 2).

A row of a program is an operation code and four integers, named a, b, c and d in the docstrings. Each handler takes the
simulation, the running task and the row. It returns True if the program counter moves to the next row, False if it stays,
and None if the task left its CPU and continues elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from wastedcores.simulator.reference import (
    classes,
    fair,
    realtime,
    schedule,
    tasks_v6_12,
    waiting,
)
from wastedcores.simulator.reference.state import Task
from wastedcores.workload import ops
from wastedcores.workload.program import Row

if TYPE_CHECKING:
    from wastedcores.simulator.reference.simulation import Simulation


POLICY_NAMES = {number: name for name, number in ops.POLICIES.items()}


def exit_(sim: Simulation, p: Task, row: Row) -> bool:
    """EXIT: leave the autogroup, wake a parent that waits for its children, and die (do_exit(), kernel/exit.c, v4.1)."""
    k = sim.k
    k.emit("exit", pid=p.pid, cpu=p.cpu)
    if p.tg is not k.groups[0]:
        schedule.move_group(k, p, k.groups[0])
    k.rqs[p.cpu].keep_tick = k.jiffies + k.costs.idle_ticks
    parent = p.progress.parent
    if parent is not None and parent.state != "X":
        parent.progress.children -= 1
        if parent.state == "S" and parent.progress.waits_for == ("children", 0):
            parent.progress.waits_for = None
            schedule.try_to_wake_up(k, parent, p.cpu, sync=True)
    sim.block(p)
    p.state = "X"
    return False


def compute(sim: Simulation, p: Task, row: Row) -> bool:
    """COMPUTE a=lo, b=hi: use the CPU for a uniformly drawn time in ns."""
    p.progress.left = p.progress.rng.between(row[1], row[2])
    return True


def compute_exp(sim: Simulation, p: Task, row: Row) -> bool:
    """COMPUTE_EXP a=mean, b=cap, c=floor: use the CPU for an exponentially distributed time in ns."""
    p.progress.left = p.progress.rng.exponential(row[1], row[2], row[3])
    return True


def sleep(sim: Simulation, p: Task, row: Row) -> bool:
    """SLEEP a=lo, b=hi: sleep for a uniformly drawn time in ns."""
    _sleep(sim, p, p.progress.rng.between(row[1], row[2]))
    return True


def sleep_exp(sim: Simulation, p: Task, row: Row) -> bool:
    """SLEEP_EXP a=mean, b=cap, c=floor: sleep for an exponentially distributed time in ns."""
    _sleep(sim, p, p.progress.rng.exponential(row[1], row[2], row[3]))
    return True


def _sleep(sim: Simulation, p: Task, length: int) -> None:
    """Block until a high-resolution timer fires ``length`` ns from now."""
    p.progress.waits_for = ("timer", p.cpu)
    sim.k.push(sim.k.now_ns + max(length, 1), "TIMER", p)
    sim.block(p)


def loop(sim: Simulation, p: Task, row: Row) -> bool:
    """LOOP a=target, b=slot, c=count, d=until: jump back until ``count`` rounds are done or ``until`` ns have passed."""
    _, target, slot, count, until = row
    run = p.progress
    run.slots[slot] += 1
    run.units[slot] += 1
    again = (count < 0 or run.slots[slot] < count) and (
        until < 0 or sim.k.now_ns < run.started + until
    )
    return _jump(p, target, slot, again)


def loop_barrier(sim: Simulation, p: Task, row: Row) -> bool:
    """LOOP_BARRIER a=target, b=slot, c=count, d=barrier: jump back until ``count`` rounds, or until the barrier says stop."""
    _, target, slot, count, barrier = row
    run = p.progress
    run.slots[slot] += 1
    run.units[slot] += 1
    again = (count < 0 or run.slots[slot] < count) and not sim.barriers[barrier].stopped
    return _jump(p, target, slot, again)


def _jump(p: Task, target: int, slot: int, again: bool) -> bool:
    """Jump to the row ``target``, or leave the loop and reset its counter."""
    if again:
        p.progress.pc = target
        return False
    p.progress.slots[slot] = 0
    return True


def barrier(sim: Simulation, p: Task, row: Row) -> bool:
    """BARRIER a=barrier, b=mode, c=spin limit, d=deadline: wait until all parties have arrived."""
    waiting.arrive(sim, p, *row[1:])
    return True


def lock(sim: Simulation, p: Task, row: Row) -> bool:
    """LOCK a=lock, b=mode, c=spin limit, d=shared: take the lock; the program counter stays until it is taken."""
    return waiting.lock(sim, p, row[1], row[2], row[3], bool(row[4]))


def unlock(sim: Simulation, p: Task, row: Row) -> bool:
    """UNLOCK a=lock, d=shared: release the lock."""
    waiting.unlock(sim, p, row[1], bool(row[4]))
    return True


def post(sim: Simulation, p: Task, row: Row) -> bool:
    """POST a=semaphore, b=units, c=sync: raise the semaphore, waking as many waiters as there are units."""
    waiting.post(sim, p, row[1], row[2])
    return True


def wait(sim: Simulation, p: Task, row: Row) -> bool:
    """WAIT a=semaphore, b=mode, c=spin limit: lower the semaphore, waiting until that is possible."""
    waiting.wait_semaphore(sim, p, row[1], row[2], row[3])
    return True


def signal(sim: Simulation, p: Task, row: Row) -> bool:
    """SIGNAL a=condition, b=0 or 1: wake the first waiter (0) or all waiters (1); without a waiter the signal is lost."""
    it = sim.semaphores[row[1]]
    it.signals += 1
    for _ in range(len(it.waiters) if row[2] else min(1, len(it.waiters))):
        waiting.grant(sim, it.waiters.pop(0), p)
    return True


def catch(sim: Simulation, p: Task, row: Row) -> bool:
    """CATCH a=condition: from here on a signal ends the WAIT_SIGNAL that follows, as pthread_cond_wait() promises."""
    p.progress.seen = sim.semaphores[row[1]].signals
    return True


def wait_signal(sim: Simulation, p: Task, row: Row) -> bool:
    """WAIT_SIGNAL a=condition, b=mode, c=spin limit: wait for a signal unless one came after the last CATCH."""
    it = sim.semaphores[row[1]]
    if it.signals == p.progress.seen:
        it.waiters.append(p)
        waiting.wait(sim, p, ("semaphore", row[1]), row[2], row[3])
    return True


def timer(sim: Simulation, p: Task, row: Row) -> bool:
    """TIMER a=timer, b=period, c=absolute: sleep until the timer's next period (rt-app, src/rt-app.c: run_event())."""
    it, now = sim.semaphores[row[1]], sim.k.now_ns
    it.next_ns = (now if it.next_ns is None else it.next_ns) + row[2]
    if now < it.next_ns:
        _sleep(sim, p, it.next_ns - now)
    elif not row[3]:
        it.next_ns = now
    return True


def fork(sim: Simulation, p: Task, row: Row) -> bool:
    """FORK a=template, b=group or -1 for the parent's, c=thread: create a child; only a process leaves work for RCU."""
    k = sim.k
    spec = sim.program.templates[row[1]]
    tg = p.tg if row[2] < 0 else k.groups[row[2]]
    allowed = p.allowed if spec.allowed is None else spec.allowed
    child = sim._new_task(spec, p, tg, p.nice, allowed)
    p.progress.children += 1
    if not row[3]:
        k.rqs[p.cpu].keep_tick = k.jiffies + k.costs.idle_ticks
    schedule.wake_up_new_task(k, child, p.cpu, p.pid)
    return True


def wait_children(sim: Simulation, p: Task, row: Row) -> bool:
    """WAIT_CHILDREN a=n: wait until at most n children live; the condition is tested again after each wakeup."""
    if p.progress.children <= row[1]:
        return True
    p.progress.waits_for = ("children", 0)
    sim.block(p)
    return False


def affinity(sim: Simulation, p: Task, row: Row) -> bool | None:
    """AFFINITY a=mask: bind the task to CPUs, moving it at once if it is on another one (sched_setaffinity())."""
    k = sim.k
    p.allowed = sim.program.masks[row[1]]
    k.emit_affinity(p, p.cpu)
    if p.cpu in p.allowed:
        return True
    _leave(sim, p, k.fallback_cpu(p), "affinity")
    return None


def sleep_jiffies(sim: Simulation, p: Task, row: Row) -> bool:
    """SLEEP_JIFFIES a=ticks, b=offset, c=period, d=1 + CPU of the timer wheel: sleep on the timer wheel.

    With a=0 the sleep lasts to a round number of periods. With d=0 the wheel is that of the task's own CPU.
    """
    wheel = row[4] - 1 if row[4] else p.cpu
    _sleep_jiffies(sim, p, row[1] or _round_jiffies(sim, p.cpu, row[2], row[3]), wheel)
    return True


def _sleep_jiffies(sim: Simulation, p: Task, ticks: int, wheel: int) -> None:
    """Sleep until the timer softirq that follows a tick of the wheel's CPU (schedule_timeout(), v4.1)."""
    k = sim.k
    at = (k.jiffies + max(ticks, 1)) * k.tick_ns + wheel * k.costs.skew_ns + k.costs.irq_ns // 2
    p.progress.waits_for = ("wheel", wheel)
    k.push(at, "TIMER", p)
    sim.block(p)


def _round_jiffies(sim: Simulation, cpu: int, offset: int, period: int) -> int:
    """Return the ticks to the next round second, which comes 3 jiffies later on each CPU than on the one before.

    round_jiffies_relative(), kernel/time/timer.c, v4.1.
    """
    now = sim.k.jiffies + offset
    at = now + period + 3 * cpu
    rest = at % period
    at -= rest
    if rest >= period // 4:
        at += period
    at -= 3 * cpu
    return at - now if at > now else period


def touch(sim: Simulation, p: Task, row: Row) -> bool:
    """TOUCH a=rcu: change this CPU's page counters; with a=1 also leave work for RCU (call_rcu()), which keeps the tick."""
    k = sim.k
    k.rqs[p.cpu].touched = True
    if row[1]:
        k.rqs[p.cpu].keep_tick = k.jiffies + k.costs.idle_ticks
    return True


def flush(sim: Simulation, p: Task, row: Row) -> bool:
    """FLUSH a=semaphore, b=offset, c=period: fold this CPU's page counters and sleep, or wait for the shepherd.

    vmstat_update(), mm/vmstat.c, v4.1.
    """
    rq = sim.k.rqs[p.cpu]
    if rq.touched:
        rq.touched = False
        _sleep_jiffies(sim, p, _round_jiffies(sim, p.cpu, row[2], row[3]), p.cpu)
    else:
        sim.semaphores[row[1]].waiters.append(p)
        waiting.wait(sim, p, ("semaphore", row[1]), ops.MODE_BLOCK, 0)
    return True


def shepherd(sim: Simulation, p: Task, row: Row) -> bool:
    """SHEPHERD a=semaphore of CPU 0: wake the waiting flusher of each CPU whose counters changed.

    vmstat_shepherd(), mm/vmstat.c, v4.1.
    """
    for rq in sim.k.rqs:
        if rq.touched and sim.semaphores[row[1] + rq.cpu].waiters:
            waiting.post(sim, p, row[1] + rq.cpu, 1)
    return True


def exec_(sim: Simulation, p: Task, row: Row) -> bool | None:
    """EXEC: let the scheduler choose a CPU for the new program and move there (sched_exec(), core.c, v4.1)."""
    target = sim.k.select_task_rq(p, p.cpu, "exec", p.cpu, False)
    if target == p.cpu:
        return True
    _leave(sim, p, target, "exec")
    return None


def _leave(sim: Simulation, p: Task, target: int, op: str) -> None:
    """Let the stopper move the running task, which continues with the next row where it is picked next."""
    p.progress.pc += 1
    k = sim.k
    schedule.run_stopper(k, k.rqs[p.cpu], lambda: schedule.move_task(k, p, target, op))


def nice(sim: Simulation, p: Task, row: Row) -> bool:
    """NICE a=nice: change the weight of the task (set_user_nice(), core.c, v4.1)."""
    k, rq = sim.k, sim.k.rqs[p.cpu]
    if k.model.is_modern:
        tasks_v6_12.set_user_nice(k, p, row[1])
        return True
    change = row[1] - p.nice
    if p.rt_priority:
        p.nice = row[1]
        return True
    fair.dequeue_task(k, rq, p, sleep=False)
    p.nice = row[1]
    classes.set_load_weight(p)
    fair.enqueue_task(k, rq, p)
    if change:
        k.resched(rq)
    return True


def policy(sim: Simulation, p: Task, row: Row) -> bool:
    """POLICY a=policy, b=priority: change the scheduling policy of the task (sched_setscheduler())."""
    classes.set_scheduler(sim.k, p, POLICY_NAMES[row[1]], row[2])
    return True


def session(sim: Simulation, p: Task, row: Row) -> bool:
    """SESSION a=group: move the task to another autogroup (setsid())."""
    tg = sim.k.groups[row[1]]
    if tg is not p.tg:
        schedule.move_group(sim.k, p, tg)
    return True


def yield_(sim: Simulation, p: Task, row: Row) -> bool:
    """YIELD: give way to the others on the queue (yield_task_fair(), v4.1)."""
    k, rq = sim.k, sim.k.rqs[p.cpu]
    if p.rt_priority:
        realtime.requeue_task(rq, p, head=False)  # yield_task_rt()
    elif k.model.is_modern:
        k.fair.yield_task(k, rq, p)
    elif rq.nr_running > 1:
        fair.clear_buddies(p.se)
        if p.policy != "batch":
            fair.update_curr(k, p.se.cfs_rq)
        fair.set_buddy(p.se, "skip")
    rq.need_resched = True
    return True


def mark(sim: Simulation, p: Task, row: Row) -> bool:
    """MARK a=text: write a text into the log."""
    sim.k.emit("mark", text=sim.program.texts[row[1]], pid=p.pid, cpu=p.cpu)
    return True


HANDLERS: dict[int, Callable[[Simulation, Task, Row], bool | None]] = {
    ops.OP_EXIT: exit_,
    ops.OP_COMPUTE: compute,
    ops.OP_COMPUTE_EXP: compute_exp,
    ops.OP_SLEEP: sleep,
    ops.OP_SLEEP_EXP: sleep_exp,
    ops.OP_LOOP: loop,
    ops.OP_LOOP_BARRIER: loop_barrier,
    ops.OP_BARRIER: barrier,
    ops.OP_LOCK: lock,
    ops.OP_UNLOCK: unlock,
    ops.OP_POST: post,
    ops.OP_WAIT: wait,
    ops.OP_FORK: fork,
    ops.OP_WAIT_CHILDREN: wait_children,
    ops.OP_AFFINITY: affinity,
    ops.OP_NICE: nice,
    ops.OP_YIELD: yield_,
    ops.OP_MARK: mark,
    ops.OP_EXEC: exec_,
    ops.OP_SIGNAL: signal,
    ops.OP_CATCH: catch,
    ops.OP_WAIT_SIGNAL: wait_signal,
    ops.OP_TIMER: timer,
    ops.OP_SLEEP_JIFFIES: sleep_jiffies,
    ops.OP_TOUCH: touch,
    ops.OP_FLUSH: flush,
    ops.OP_SHEPHERD: shepherd,
    ops.OP_SESSION: session,
    ops.OP_POLICY: policy,
}
