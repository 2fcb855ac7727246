"""Choosing, switching and waking tasks: schedule(), try_to_wake_up(), fork, the stopper (kernel/sched/core.c, v4.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wastedcores.simulator.reference import (
    balance,
    balance_v6_12,
    classes,
    eevdf_class,
    newidle_v6_12,
    nohz,
    nohz_v6_12,
    pelt_v4_4,
    realtime,
    signals_v6_12,
    tasks_v6_12,
)
from wastedcores.simulator.reference.idle_sibling_v6_12 import update_idle_core
from wastedcores.simulator.reference.placement import record_wakee
from wastedcores.simulator.reference.preemption import hrtick_exit, hrtick_start
from wastedcores.simulator.reference.state import Entity, Rq, Task, TaskGroup

if TYPE_CHECKING:
    from wastedcores.simulator.reference.kernel import Kernel


def pick_next_task(k: Kernel, rq: Rq, prev: Task) -> Task:
    """Choose the next task, a real-time one first, after newidle balancing if there is none (pick_next_task(), v4.1).

    If ``prev`` is a fair task, only the levels that differ are put back and set.
    """
    task = realtime.pick_next_task(k, rq, prev)
    if task is not None:
        return task
    if prev.rt_priority:
        realtime.put_prev_task(k, rq, prev)
    if k.model.is_modern:
        return _pick_next_task_v6_12(k, rq, prev)
    while not rq.cfs.nr_running:
        if not (k.core.pull(k, rq) if k.core else nohz.idle_balance(k, rq)):
            if _is_fair(rq, prev):
                k.fair.put_prev_task(k, prev)
            return rq.idle_task
    if not _is_fair(rq, prev):
        return _pick_from_root(k, rq)
    cfs_rq = rq.cfs
    while True:
        curr = cfs_rq.curr
        if curr is not None and curr.on_rq:
            k.fair.update_curr(k, cfs_rq)
        else:
            curr = None
        se = k.fair.pick_next_entity(k, cfs_rq, curr)
        if se.my_q is None:
            break
        cfs_rq = se.my_q
    assert se.task is not None
    if se.task is not prev:
        _switch_entities(k, prev.se, se)
    return se.task


def _pick_next_task_v6_12(k: Kernel, rq: Rq, prev: Task) -> Task:
    """Choose the next task, after newidle balancing if there is none (pick_next_task_fair(), v6.12.107).

    A pulled task may be asleep, and leave the queue when it is chosen: then newidle balancing is tried again.
    """
    task = k.fair.pick_task(k, rq)
    while task is None and newidle_v6_12.idle_balance(k, rq):
        task = k.fair.pick_task(k, rq)
    if task is None:
        if _is_fair(rq, prev):
            k.fair.put_prev_task(k, prev)
        return rq.idle_task
    if not _is_fair(rq, prev):
        k.fair.set_next_task(k, task)
    elif task is not prev:
        _switch_entities(k, prev.se, task.se)
    if task is not prev:
        hrtick_start(k, rq, task)
    return task


def _is_fair(rq: Rq, task: Task) -> bool:
    """Tell whether a task belongs to the fair class: it is neither the idle task nor the stopper nor a real-time task."""
    return task is not rq.idle_task and not rq.stopper and not task.rt_priority


def _pick_from_root(k: Kernel, rq: Rq) -> Task:
    """Choose and set the next entity on every level (label simple in pick_next_task_fair())."""
    cfs_rq = rq.cfs
    while True:
        se = k.fair.pick_next_entity(k, cfs_rq, None)
        k.fair.set_next_entity(k, cfs_rq, se)
        if se.my_q is None:
            assert se.task is not None
            return se.task
        cfs_rq = se.my_q


def _switch_entities(k: Kernel, prev: Entity, se: Entity) -> None:
    """Put ``prev`` back and set ``se``, up to the queue that both share."""
    while prev.cfs_rq is not se.cfs_rq:
        se_depth, prev_depth = len(se.levels()), len(prev.levels())
        if se_depth <= prev_depth:
            k.fair.put_prev_entity(k, prev.cfs_rq, prev)
            assert prev.parent is not None
            prev = prev.parent
        if se_depth >= prev_depth:
            k.fair.set_next_entity(k, se.cfs_rq, se)
            assert se.parent is not None
            se = se.parent
    k.fair.put_prev_entity(k, prev.cfs_rq, prev)
    k.fair.set_next_entity(k, se.cfs_rq, se)


def schedule(k: Kernel, rq: Rq) -> None:
    """Let a CPU choose its next task and switch to it (__schedule(), v4.1)."""
    rq.need_resched = rq.lazy_resched = False
    rq.clock_ns = k.now_ns
    rq.in_schedule = True
    prev = rq.curr
    if prev.state in ("S", "X") and prev.on_rq:
        classes.dequeue_task(k, rq, prev, sleep=True)
    task = pick_next_task(k, rq, prev)
    rq.need_resched = rq.lazy_resched = False
    if task is not prev:
        switch(k, rq, prev, task, prev.state if prev.state in ("S", "X") else "R")
        if prev.state == "X" and k.model.is_modern:
            signals_v6_12.task_dead(prev)
        elif prev.state == "X" and k.model.tracks_load_v4_4:
            k.pelt.remove(prev.se)  # task_dead_fair()
    elif task is rq.idle_task:
        enter_idle(k, rq)
    hrtick_exit(k, rq)
    realtime.post_schedule(k, rq)
    k.on_switch(rq, prev, task)


def switch(k: Kernel, rq: Rq, prev: Task, task: Task, prev_state: str) -> None:
    """Switch tasks, starting or stopping the tick as the idle loop does (context_switch(), v4.1)."""
    if prev is rq.idle_task and rq.tick_stopped:
        nohz.update_cpu_load_nohz(k, rq)
        rq.tick_stopped = False
        k.start_tick(rq.cpu)
    if prev is rq.idle_task and k.model.is_modern and k.rules.idle_time_at_exit:
        nohz_v6_12.update_wakeup_idle(k, rq)  # put_prev_task_idle(), v7.2.13
    k.emit("switch", cpu=rq.cpu, pid=task.pid, prev_pid=prev.pid, prev_state=prev_state)
    rq.curr = task
    if task is rq.idle_task:
        if k.model.is_modern:
            update_idle_core(k, rq)
        enter_idle(k, rq)


def enter_idle(k: Kernel, rq: Rq) -> None:
    """Count the CPU as idle and stop its tick unless RCU needs it (tick_nohz_idle_enter(), v4.1)."""
    if not k.model.is_modern:
        nohz.set_cpu_sd_state_idle(k, rq)
        stop_tick(k, rq)
        return
    nohz_v6_12.run_idle_balance(k, rq)
    if k.idle_ticks_before_stop == 0:
        stop_tick(k, rq)
    elif rq.tick_stopped:
        # tick_nohz_idle_exit(): the CPU left the idle loop to schedule, and found nothing
        rq.tick_stopped = False
        k.start_tick(rq.cpu)


def stop_tick(k: Kernel, rq: Rq) -> None:
    """Stop the tick of an idle CPU, unless RCU needs it (tick_nohz_stop_sched_tick(), v4.1)."""
    if rq.tick_stopped or k.jiffies < rq.keep_tick:
        return
    rq.tick_stopped = True
    k.cancel("TICK", rq.cpu)
    k.nohz.nohz_balance_enter_idle(k, rq)


# --- wakeup -----------------------------------------------------------------------------------------------------------


def try_to_wake_up(k: Kernel, p: Task, cpu: int, sync: bool) -> None:
    """Wake a task; ``cpu`` executes the code (try_to_wake_up(), v4.1)."""
    choose_cpu(k, p, cpu, sync)
    queue_woken(k, p, cpu)


def choose_cpu(k: Kernel, p: Task, cpu: int, sync: bool) -> None:
    """Choose the CPU of a task that is woken: the first part of try_to_wake_up()."""
    if p.se.sched_delayed:
        p.state = "waking"  # it is still queued, and stays on its CPU
        return
    if p.on_rq:
        # ttwu_remote(): it blocked a moment ago, and its CPU has not scheduled since then, because it balances for others
        p.state = "R"
        k.rqs[p.cpu].need_resched = True
        return
    waker = k.current(cpu)
    if not p.rt_priority and not k.model.is_modern:  # task_waking_fair()
        p.se.vruntime -= p.se.cfs_rq.min_vruntime
        if waker is not k.rqs[cpu].idle_task:
            record_wakee(k, waker, p)
    p.state = "waking"
    target = k.select_task_rq(p, p.cpu, "wake", cpu, sync)
    k.log_op = "wakeup"
    k.set_task_cpu(p, target)


def queue_woken(k: Kernel, p: Task, cpu: int) -> None:
    """Queue a woken task: the second part of try_to_wake_up() (ttwu_queue(), v4.1).

    It goes on the run queue, or on the wake list for its CPU to take from there; ``cpu`` executes the code.
    """
    if p.state != "waking":
        k.emit("wakeup", cpu=p.cpu, pid=p.pid, src_cpu=cpu, by_pid=k.current(cpu).pid)
        return
    if p.cpu not in k.active:
        # the CPU went offline in the meantime
        gone, up = p.cpu, k.fallback_cpu(p)
        k.emit("migrate", pid=p.pid, cpu=up, src_cpu=gone, op="wakeup")
        # v4.1 leaves the load where it was
        if k.model.is_modern or (k.model.tracks_load_v4_4 and not pelt_v4_4.is_detached(p.se)):
            k.fair.migrate_task(k, p)
        k.fair.set_task_rq(p, up)
    if p.se.sched_delayed:
        eevdf_class.wake_delayed(k, p)
        p.state = "R"
        k.emit("wakeup", cpu=p.cpu, pid=p.pid, src_cpu=cpu, by_pid=k.current(cpu).pid)
        return
    target = p.cpu
    if k.core or not needs_wake_list(k, p, cpu):
        # a design queues a thread at once, as Linux does without TTWU_QUEUE
        activate_woken(k, p, cpu)
        return
    wake_list = k.rqs[target].wake_list
    wake_list.append(p)
    if len(wake_list) == 1:
        k.push(k.now_ns + k.costs.ipi_ns, "TTWU", target)


def needs_wake_list(k: Kernel, p: Task, cpu: int) -> bool:
    """Tell whether a woken task is left to its CPU to queue (ttwu_queue(), v4.1; ttwu_queue_cond(), v6.12.107).

    Both versions do so if that CPU and ``cpu`` share no cache, and v6.12 also if that CPU is another one that is idle.
    """
    if k.llc_id[cpu] != k.llc_id[p.cpu]:
        return True
    return k.model.is_modern and p.cpu != cpu and k.rqs[p.cpu].nr_running == 0


def activate_woken(k: Kernel, p: Task, cpu: int) -> None:
    """Put a woken task on its run queue and preempt if needed (ttwu_do_activate(), v4.1)."""
    rq = k.rqs[p.cpu]
    by = k.current(cpu)
    classes.enqueue_task(k, rq, p, wakeup=True, waking=True)
    p.state = "R"
    k.check_preempt_curr(rq, p)
    k.emit("wakeup", cpu=rq.cpu, pid=p.pid, src_cpu=cpu, by_pid=by.pid)
    if p.rt_priority:
        realtime.task_woken(k, rq, p)
    if not (k.model.is_modern and k.rules.idle_time_at_exit):
        k.nohz.update_wakeup_idle(k, rq)


def sched_ttwu_pending(k: Kernel, rq: Rq) -> None:
    """Activate the tasks of the wake list, the last one first, or in v6.12 the first one (sched_ttwu_pending())."""
    tasks, rq.wake_list = rq.wake_list, []
    for p in tasks if k.model.is_modern else reversed(tasks):
        activate_woken(k, p, rq.cpu)


def wake_up_new_task(k: Kernel, p: Task, cpu: int, by_pid: int) -> None:
    """Place and queue a new task; ``cpu`` executes the code (task_fork_fair() and wake_up_new_task(), v4.1)."""
    k.fair.set_task_rq(p, cpu)
    if not p.rt_priority:
        k.fair.task_fork(k, p)
    k.emit("fork", pid=p.pid, by_pid=by_pid, cpu=cpu)
    parent = p.progress.parent
    if p.allowed != (parent.allowed if parent else frozenset(range(k.machine.cpus))):
        k.emit_affinity(p, cpu)
    p.recent_used_cpu = cpu
    target = k.select_task_rq(p, cpu, "fork", cpu, False)
    k.log_op = "fork"
    k.set_task_cpu(p, target)
    k.fair.post_init(k, p)
    p.home_node = int(k.machine.node_of_cpu[target])
    rq = k.rqs[target]
    p.state = "R"
    classes.enqueue_task(k, rq, p, initial=True)
    k.emit("wakeup_new", cpu=target, pid=p.pid, src_cpu=cpu, by_pid=by_pid)
    k.check_preempt_curr(rq, p, new=True)
    if p.rt_priority:
        realtime.task_woken(k, rq, p)


def move_group(k: Kernel, p: Task, tg: TaskGroup) -> None:
    """Move the running task to another group (sched_move_task(), core.c, v4.1).

    An exiting task goes back to the root group before its parent is woken: cpu_cgroup_exit(), core.c, and
    task_wants_autogroup(), auto_group.c, v4.1 (PF_EXITING). Otherwise the sync wakeup of the parent would find a CPU that
    is as loaded as before, and would not pull the parent there. setsid() makes a new autogroup (autogroup_move_group()).
    """
    if k.model.is_modern:
        tasks_v6_12.move_group(k, p, tg)
        return
    rq = k.rqs[p.cpu]
    classes.dequeue_task(k, rq, p, sleep=False)
    classes.put_prev_task(k, rq, p)
    if k.model.tracks_load_v4_4:
        k.pelt.detach(p.se)
    p.tg = tg
    k.fair.set_task_rq(p, p.cpu)
    if k.model.tracks_load_v4_4:
        k.pelt.attach(p.se)
    classes.set_curr_task(k, p)
    classes.enqueue_task(k, rq, p)


# --- the stopper ------------------------------------------------------------------------------------------------------


def run_stopper(k: Kernel, rq: Rq, work: object) -> None:
    """Let the migration thread take the CPU, do ``work()`` in no time and leave (kernel/stop_machine.c, v4.1)."""
    prev = rq.curr
    rq.clock_ns = k.now_ns
    k.add_nr_running(rq, 1)
    k.emit("wakeup", cpu=rq.cpu, pid=k.stoppers[rq.cpu].pid, src_cpu=rq.cpu, by_pid=prev.pid)
    if prev is not rq.idle_task:
        classes.put_prev_task(k, rq, prev)
    stopper = k.stoppers[rq.cpu]
    switch(k, rq, prev, stopper, "R")
    rq.stopper = True
    k.on_switch(rq, prev, stopper)
    work()  # type: ignore[operator]
    k.add_nr_running(rq, -1)
    rq.in_schedule = True
    task = pick_next_task(k, rq, stopper)
    rq.stopper = False
    rq.need_resched = rq.lazy_resched = False
    switch(k, rq, stopper, task, "S")
    hrtick_exit(k, rq)
    realtime.post_schedule(k, rq)
    k.on_switch(rq, stopper, task)


def active_balance(k: Kernel, rq: Rq) -> None:
    """Let the migration thread do the active balance that another CPU asked for."""
    if rq.active_balance:
        k.log_op = "active"
        version = balance_v6_12 if k.model.is_modern else balance
        run_stopper(k, rq, lambda: version.active_load_balance(k, rq))


def move_task(k: Kernel, p: Task, target: int, op: str) -> None:
    """Move a queued task to another CPU (migration_cpu_stop() and move_queued_task(), v4.1)."""
    k.log_op = op
    classes.dequeue_task(k, k.rqs[p.cpu], p, sleep=False)
    k.set_task_cpu(p, target)
    classes.enqueue_task(k, k.rqs[target], p)
    k.check_preempt_curr(k.rqs[target], p)
