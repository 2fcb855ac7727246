"""The structs of runqueues."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wastedcores.jit.structs import Struct, array, embedded, integer, pointer

if TYPE_CHECKING:
    from wastedcores.jit.structs import Embedded, Pointer
    from wastedcores.simulator.engine.world.domain_structs import SchedDomain
    from wastedcores.simulator.engine.world.task_structs import (
        SchedAvg,
        SchedEntity,
        TaskGroup,
        TaskStruct,
    )


class CfsRq(Struct):
    """``struct cfs_rq``. What a tick reads of it lies in two cache lines."""

    avg: Embedded[SchedAvg] = embedded("SchedAvg")
    rq_modern: Embedded[RqModern] = embedded("RqModern")
    curr: Pointer[SchedEntity] = pointer("SchedEntity", 0)
    leftmost: Pointer[SchedEntity] = pointer("SchedEntity", 1)
    min_vruntime = integer(2)
    nr_running = integer(3)
    load_weight = integer(4)  # load.weight
    cpu = integer(5)
    # the group's entity in the parent queue, -1 for a root queue
    entity: Pointer[SchedEntity] = pointer("SchedEntity", 6)
    task_group: Pointer[TaskGroup] = pointer("TaskGroup", 7)
    runnable_load_avg = integer(8)  # the second cache line begins here
    utilization_load_avg = integer(9)
    h_nr_running = integer(10)
    blocked_load_avg = integer(11)
    last_decay = integer(12)
    decay_counter = integer(13)
    removed_load = integer(14)
    tg_load_contrib = integer(15)
    next: Pointer[SchedEntity] = pointer("SchedEntity", 16)  # the three buddies
    last: Pointer[SchedEntity] = pointer("SchedEntity", 17)
    skip: Pointer[SchedEntity] = pointer("SchedEntity", 18)
    rightmost: Pointer[SchedEntity] = pointer("SchedEntity", 19)
    on_list = integer(20)
    tg_runnable_contrib = integer(21)
    h_load = integer(22)
    last_h_load_update = integer(23)
    avg_vruntime = integer(113)  # sums over the entities in the tree
    avg_load = integer(114)
    zero_vruntime = integer(115)
    h_nr_delayed = integer(116)
    propagate = integer(117)
    prop_runnable_sum = integer(118)
    last_update_tg = integer(119)
    # what tasks that woke elsewhere left behind (struct removed); its load is CfsRq.removed_load
    removed_nr = integer(120)
    removed_util = integer(121)
    removed_runnable = integer(122)


class Rq(Struct):
    """``struct rq``: row ``cpu`` of the table. A tick reads three cache lines of it."""

    curr: Pointer[TaskStruct] = pointer("TaskStruct", 0)  # the running task, -1 for idle
    nr_running = integer(1)
    wake_list: Pointer[TaskStruct] = pointer("TaskStruct", 2)  # first task of the wake list
    need_resched = integer(3)
    next_balance = integer(4)
    # 1: the running task was just switched in and its program has not gone on yet
    switched_in = integer(5)
    # the CPU's future events, seven kinds (codes/cpu_event.py): time and sequence number (0: not pending)
    events = integer(6)
    stretch_start = integer(20)  # when the present stretch of the running task began
    sd: Pointer[SchedDomain] = pointer("SchedDomain", 21)  # row of the innermost domain
    cpu_capacity = integer(22)
    delay = integer(23)  # ns before the task that was switched in goes on
    last_load_update_tick = integer(24)  # a cache line begins here
    cpu_load = array(25, 5)  # cpu_load[0..4]
    idle_balance = integer(30)
    nr_domains = integer(31)
    clock = integer(32)  # what update_rq_clock() read last, not the present time
    # row of sd_busy, -1 if there is none
    sd_busy: Pointer[SchedDomain] = pointer("SchedDomain", 33)
    nohz_idle = integer(34)  # sd_busy->nohz_idle
    in_nohz_mask = integer(35)  # whether the CPU is in nohz.idle_cpus_mask
    cpu_capacity_orig = integer(36)
    # 1 + the CPU that its pass as idle load balancer looks at next, 0: no pass under way
    ilb_next = integer(37)
    tick_stopped = integer(38)
    load_weight = integer(39)  # load.weight
    logged_weight = integer(40)  # the load.weight that was logged last
    cfs_tasks: Pointer[TaskStruct] = pointer("TaskStruct", 41)  # head and tail of cfs_tasks
    cfs_tasks_tail: Pointer[TaskStruct] = pointer("TaskStruct", 42)
    idle_stamp = integer(43)
    avg_idle = integer(44)
    max_idle_balance_cost = integer(45)
    nohz_kick = integer(46)  # whether a NOHZ kick is on its way or being handled
    active_balance = integer(47)
    push_cpu = integer(48)
    sd_llc: Pointer[SchedDomain] = pointer("SchedDomain", 49)  # row of sd_llc, -1 if there is none
    sd_llc_size = integer(50)
    sd_llc_id = integer(51)
    keep_tick_until = integer(52)  # the jiffy until which an idle CPU keeps its tick
    node = integer(53)
    touched = integer(54)  # whether its page counters changed since they were last folded

    @property
    def cpu(self) -> int:
        """Its CPU, for plain Python."""
        return self.row


class RqModern(Struct):
    """What ``struct rq`` has in modern kernels besides. It lies in the row of the CPU's root queue, behind its columns."""

    nohz_flags = integer(40)  # the kicks that wait for this CPU (nohz_flags())
    nohz_idle_balance = integer(41)  # those that its softirq handles
    has_blocked_load = integer(42)
    last_blocked_tick = integer(43)  # last_blocked_load_update_tick
    # from here on: the locals of _nohz_idle_balance(), while its pass is under way
    ilb_flags = integer(44)
    ilb_begun = integer(45)
    ilb_next_balance = integer(46)
    ilb_found = integer(47)
    ilb_blocked = integer(48)
    sibling = integer(49)  # the next CPU of the same core, in a ring; offline CPUs are in it
    share_id = integer(50)  # the first CPU of its cluster, or else of its LLC (sd_share_id)
    # from here on: whom timers on this CPU wake while it is idle, which counts for its idle task
    last_wakee: Pointer[TaskStruct] = pointer("TaskStruct", 51)
    wakee_flips = integer(52)
    wakee_flip_decay_ts = integer(53)
    # when the last newidle balancing ended: until then the CPU runs nothing else
    newidle_until = integer(54)
    # the task gives way when its CPU next enters the kernel (TIF_NEED_RESCHED_LAZY)
    lazy_resched = integer(55)
    hrtick = integer(56)  # the timer that ends slices: time and sequence number (0: not pending)
    in_schedule = integer(58)
    hrtick_delay = integer(59)  # what to set the timer to at the end of schedule(), 0: nothing
    stopper_runs = integer(60)  # Rq.curr is NULL then, too, but the CPU is not idle
    distribute_prev = integer(61)  # distribute_cpu_mask_prev: the CPU that this one chose last


class RtRq(Struct):
    """``struct rt_rq``: the real-time tasks of a CPU, row ``k.rt0 + cpu``."""

    # the queued tasks with the running one, the most urgent first
    head: Pointer[TaskStruct] = pointer("TaskStruct", 0)
    tail: Pointer[TaskStruct] = pointer("TaskStruct", 1)
    nr_running = integer(2)
    # how many of them rq->nr_running counts: all, or none while they are throttled (rt_queued)
    counted = integer(3)
    throttled = integer(4)
    time = integer(5)  # for how long they ran in this period, in ns
    push_later = integer(6)  # push when the switch is done (rq->post_schedule)


class RtShared(Struct):
    """What the real-time queues have in common: the row behind the last CPU's."""

    timer = integer(1)  # the timer of the period: time and sequence number (0: not pending)
    period_cpu = integer(3)  # the CPU of that timer, -1 if it does not run
    pushed = integer(4)  # how often a task became pushable
    time_slice = integer(5)  # the quantum of SCHED_RR in ticks
