"""The structs of tasks, of the entities that are scheduled, and of runqueues."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wastedcores.jit.structs import Struct, array, embedded, integer, pointer

if TYPE_CHECKING:
    from wastedcores.jit.structs import Embedded, Pointer
    from wastedcores.simulator.engine.world.domain_structs import SchedDomain
    from wastedcores.simulator.engine.world.kernel_structs import Op


class RandomState(Struct):
    """A stream of random numbers: of a task, of a CPU, or of the machine."""

    state = integer(30)  # state of its random stream


class SchedAvg(Struct):
    """``struct sched_avg``, of an entity or of a queue (since v4.3)."""

    last_update = integer(96)
    load_sum = integer(97)
    runnable_sum = integer(98)
    util_sum = integer(99)
    period_contrib = integer(100)
    load_avg = integer(101)
    runnable_avg = integer(102)
    util_avg = integer(103)
    util_est = integer(104)
    unchanged = integer(105)  # UTIL_AVG_UNCHANGED


class SchedEntity(Struct):
    """``struct sched_entity``. The columns that a tick reads lie in two cache lines of eight columns each."""

    avg: Embedded[SchedAvg] = embedded("SchedAvg")
    weight = integer(0)  # load.weight
    # the queue that the entity is on, or will be enqueued on
    cfs_rq: Pointer[CfsRq] = pointer("CfsRq", 1)
    # the group entity above it, -1 at the root
    parent: Pointer[SchedEntity] = pointer("SchedEntity", 2)
    # the queue that a group entity stands for, -1 for a task
    my_q: Pointer[CfsRq] = pointer("CfsRq", 3)
    on_rq = integer(4)
    vruntime = integer(5)
    exec_start = integer(6)
    sum_exec_runtime = integer(7)
    last_runnable_update = integer(8)  # the second cache line begins here
    runnable_avg_sum = integer(9)
    running_avg_sum = integer(10)
    avg_period = integer(11)
    load_avg_contrib = integer(12)
    utilization_avg_contrib = integer(13)
    prev_sum_exec_runtime = integer(14)
    inv_weight = integer(15)  # load.inv_weight
    # neighbours in the queue, which is sorted by vruntime
    next: Pointer[SchedEntity] = pointer("SchedEntity", 16)
    prev: Pointer[SchedEntity] = pointer("SchedEntity", 17)
    decay_count = integer(18)
    deadline = integer(106)
    slice = integer(107)
    custom_slice = integer(108)
    # the lag at the last dequeue; while the entity runs under a kernel before v6.17: the deadline that it had when it was picked
    vlag = integer(109)
    rel_deadline = integer(110)
    sched_delayed = integer(111)
    runnable_weight = integer(112)
    vprot = integer(127)  # while the entity runs: the vruntime up to which it is protected (v6.17)


class TaskStruct(Struct):
    """The scheduling part of ``struct task_struct``, with the program that the task runs. Its entity lies in the same row."""

    se: Embedded[SchedEntity] = embedded("SchedEntity")
    random: Embedded[RandomState] = embedded("RandomState")
    cfs_tasks_next: Pointer[TaskStruct] = pointer("TaskStruct", 19)  # neighbours in rq->cfs_tasks
    cfs_tasks_prev: Pointer[TaskStruct] = pointer("TaskStruct", 20)
    cpu = integer(21)
    group = integer(22)  # number of its task group; 0 is the root group
    number = integer(23)  # tasks are numbered in the order of their birth
    state = integer(24)  # codes/task_state.py; a cache line begins here
    pc: Pointer[Op] = pointer("Op", 25)  # row of the next operation of its program
    # the work that remains in the present stretch, in ns at the nominal speed
    left = integer(26)
    spin = integer(27)  # 1: it spins, 2: its wait has been granted
    # first of the tasks that it is about to wake
    wake_q_head: Pointer[TaskStruct] = pointer("TaskStruct", 28)
    started = integer(29)  # when its program began, -1 before that
    waits_for = integer(31)  # codes/waits_for.py
    slot = array(32, 4)  # four loop counters
    units = array(36, 4)  # how many rounds each of the four loops has made
    timer = integer(40)  # its timer: time and sequence number (0: not pending)
    # the object for which the task waits; if it waits for a timer, the CPU of the timer
    wait_object = integer(42)
    cpus_allowed = integer(43)  # row of the CPU set
    nr_cpus_allowed = integer(44)
    last_wakee: Pointer[TaskStruct] = pointer("TaskStruct", 45)
    wakee_flips = integer(46)
    wakee_flip_decay_ts = integer(47)
    # next task in a wait list, wake queue or wake list
    wait_next: Pointer[TaskStruct] = pointer("TaskStruct", 48)
    wake_q_tail: Pointer[TaskStruct] = pointer("TaskStruct", 49)
    nice = integer(50)
    parent: Pointer[TaskStruct] = pointer("TaskStruct", 51)
    children = integer(52)  # how many of its children are alive
    daemon = integer(53)
    exited = integer(54)  # when it exited, -1 before that
    template = integer(55)
    signals_seen = integer(56)  # how often the condition had been signalled at the last CATCH
    home = integer(57)  # the node of the CPU where the task was placed at its birth
    policy = integer(58)  # number of the scheduling policy (workload/ops.py); 0 for SCHED_OTHER
    rt_priority = integer(59)  # 1 to 99 for a real-time task, 0 for others
    time_slice = integer(60)  # ticks left of the quantum of SCHED_RR
    # neighbours in the queue of real-time tasks
    rt_next: Pointer[TaskStruct] = pointer("TaskStruct", 61)
    rt_prev: Pointer[TaskStruct] = pointer("TaskStruct", 62)
    on_rt = integer(63)  # whether it is on the queue of real-time tasks
    # a number that grows with each task that becomes pushable; 0 if the task is not pushable
    pushable = integer(64)
    ran_llc = integer(65)  # 1 + the last-level cache of its last CPU, 0: it has not run
    recent_used_cpu = integer(123)
    # whether it has the name of a per-CPU kernel thread; templates have this column, too
    kthread = integer(124)
    # the two numbers of struct util_est; v6.1 uses the larger one
    util_ewma = integer(125)
    util_enqueued = integer(126)

    # plain Python also sees:

    @property
    def allowed(self) -> frozenset[int]:
        """The CPUs on which it may run."""
        return self._kernel.about.cpus_of(self.cpus_allowed)  # type: ignore[no-any-return]

    @property
    def pid(self) -> int:
        """Its pid in traces."""
        return self.number + 1 + len(self._kernel.rqs)

    @property
    def comm(self) -> str:
        """Its name."""
        return self._kernel.about.comms[self.template]  # type: ignore[no-any-return]


class TaskGroup(Struct):
    """``struct task_group``."""

    shares = integer(0)
    load_avg = integer(1)
    runnable_avg = integer(2)


class CfsRq(Struct):
    """``struct cfs_rq``. The columns that a tick reads lie in two cache lines."""

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
    # the averages of tasks that woke on other CPUs, still to be subtracted (struct removed); their load is in CfsRq.removed_load
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
    # 1: the running task was just switched in, and its program has not continued yet
    switched_in = integer(5)
    # the CPU's future events of seven kinds (codes/cpu_event.py): for each, its time and its sequence number (0: not pending)
    events = integer(6)
    stretch_start = integer(20)  # when the present stretch of the running task began
    sd: Pointer[SchedDomain] = pointer("SchedDomain", 21)  # row of the innermost domain
    cpu_capacity = integer(22)
    delay = integer(23)  # ns until the task that was switched in continues
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
    # 1 + the CPU that this CPU examines next in its pass as idle load balancer; 0: no pass is under way
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
    """The additional fields of ``struct rq`` in modern kernels: in the row of the CPU's root queue, after the queue's fields."""

    nohz_flags = integer(40)  # the kicks that wait for this CPU (nohz_flags())
    nohz_idle_balance = integer(41)  # the kicks that its softirq handles
    has_blocked_load = integer(42)
    last_blocked_tick = integer(43)  # last_blocked_load_update_tick
    # from here on: the local variables of _nohz_idle_balance() while its pass is under way
    ilb_flags = integer(44)
    ilb_begun = integer(45)
    ilb_next_balance = integer(46)
    ilb_found = integer(47)
    ilb_blocked = integer(48)
    # the next CPU of the same core; the CPUs of a core form a ring, which includes offline CPUs
    sibling = integer(49)
    share_id = integer(50)  # the first CPU of its cluster, or else of its LLC (sd_share_id)
    # from here on: the wakees of the idle task, which are the tasks that timers wake on this CPU while it is idle
    last_wakee: Pointer[TaskStruct] = pointer("TaskStruct", 51)
    wakee_flips = integer(52)
    wakee_flip_decay_ts = integer(53)
    # the time at which the last newidle balancing ends; until then the CPU runs nothing else
    newidle_until = integer(54)
    # whether the running task gives way when its CPU next enters the kernel (TIF_NEED_RESCHED_LAZY)
    lazy_resched = integer(55)
    hrtick = integer(56)  # the timer that ends slices: time and sequence number (0: not pending)
    in_schedule = integer(58)
    hrtick_delay = integer(59)  # how many ns after schedule() hrtick is to expire; 0: not set
    # whether the stopper runs; Rq.curr is then NULL although the CPU is not idle
    stopper_runs = integer(60)
    distribute_prev = integer(61)  # distribute_cpu_mask_prev: the CPU that this one chose last


class RtRq(Struct):
    """``struct rt_rq``: the real-time tasks of a CPU, row ``k.rt0 + cpu``."""

    # the queued tasks including the running one, the most urgent first
    head: Pointer[TaskStruct] = pointer("TaskStruct", 0)
    tail: Pointer[TaskStruct] = pointer("TaskStruct", 1)
    nr_running = integer(2)
    # how many of these tasks rq->nr_running counts: all, or none while they are throttled (rt_queued)
    counted = integer(3)
    throttled = integer(4)
    time = integer(5)  # for how long real-time tasks ran in this period, in ns
    push_later = integer(6)  # whether tasks are pushed when the switch is done (rq->post_schedule)


class RtShared(Struct):
    """The fields that the real-time queues have in common. Their row follows the last CPU's queue."""

    timer = integer(1)  # the timer of the period: time and sequence number (0: not pending)
    period_cpu = integer(3)  # the CPU of this timer, -1 if the timer does not run
    pushed = integer(4)  # how often a task became pushable
    time_slice = integer(5)  # the quantum of SCHED_RR in ticks
