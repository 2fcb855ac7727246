"""The structs of the scheduler, each of which is a row of the world's table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wastedcores.jit.structs import Struct, array, embedded, integer, null, pointer

if TYPE_CHECKING:
    from wastedcores.jit.structs import Embedded, Pointer


class Kernel(Struct):
    """Kernel."""

    load_v4_4 = integer(55)  # whether load is tracked as v4.4 does, and not as v4.1 does
    now_ns = integer(56)
    seq = integer(57)  # the last sequence number that an event was given
    jiffies = integer(58)  # NOW // TICK_NS
    tick_ns = integer(59)
    nr_cpus = integer(60)
    this_cpu = integer(61)  # the CPU in whose context the code runs
    status = integer(62)  # codes/status.py
    irq_ns = integer(63)
    log_n = integer(64)  # records in the log
    log_room = integer(65)  # records that fit in the log
    log_margin = integer(66)  # records that one event may write
    live_tasks = integer(67)  # tasks that keep the replay going
    until_ns = integer(68)
    events = integer(69)  # events handled
    steps = integer(70)  # operations since time last passed
    heap_hole = integer(71)  # 1: the root of the heap was taken out
    heap0 = integer(72)
    heap_n = integer(73)
    heap_room = integer(74)  # entries that fit in the heap
    ticks0 = integer(75)  # first row of the ring of ticks to come
    ticks_head = integer(76)  # how many ticks were taken out of the ring
    ticks_tail = integer(77)  # how many ticks were put into the ring
    ticks_low = integer(78)  # places of the ring, less one
    runs0 = integer(79)  # first row of the tournament of the ends of stretches
    computing = integer(80)  # tasks that will go on by themselves
    timers = integer(81)  # timers and hotplug steps that are pending
    nohz_nr_cpus = integer(82)
    nohz_next_balance = integer(83)
    overload = integer(84)  # root_domain.overload
    log_load = integer(85)  # whether the weight of the runqueues is logged
    log_considered = integer(86)  # whether the CPUs that each decision looked at are logged
    design: Pointer[Design] = pointer(
        "Design", 87
    )  # the row behind the named CPU sets (cpuset.py), which is the core row
    runs = integer(88)  # leaves of the tournament
    culprit = integer(89)  # the task that a status is about
    task_groups = integer(90)
    task_room = integer(91)  # tasks that fit in the table
    nr_tasks = integer(92)
    cfs_rq0 = integer(93)  # from here on: first rows of the sections
    entity0 = integer(94)
    task_group0 = integer(95)
    domain0 = integer(96)
    sched_group0 = integer(97)
    capacity0 = integer(98)
    wait0 = integer(99)
    template0 = integer(100)
    step0 = integer(101)
    scratch = integer(
        102
    )  # three rows of sg_lb_stats, one each of sd_lb_stats and lb_env, and the machine's random stream
    cpuset0 = integer(103)
    list0 = integer(104)
    op0 = integer(105)
    task0 = integer(106)
    log0 = integer(107)
    domain_lists = integer(
        108
    )  # place in the lists: per tree and CPU the first domain, the number of domains, the id of the LLC
    weight_lists = integer(
        109
    )  # place in the lists: weights and then inverse weights of nice -20..19
    idle_ticks = integer(110)
    skew_ns = integer(111)
    ipi_ns = integer(112)
    switch_ns = integer(113)
    wake_ns = integer(114)
    spin_ns = integer(115)
    lb_base_ns = integer(116)
    lb_cpu_ns = integer(117)
    hz = integer(118)
    sched_latency = integer(119)
    min_granularity = integer(120)
    wakeup_granularity = integer(121)
    max_lb_interval = integer(122)
    always_balance = integer(123)
    group_imbalance_fix = integer(124)  # GI_*
    overload_on_wakeup_fix = integer(125)
    t_start = integer(126)  # when the workload begins
    seed = integer(127)
    log_lost = integer(128)  # records that found no room in the log
    cpuset_words = integer(129)  # words of a CPU set
    clock0 = integer(
        130
    )  # first row of the clocks (clock.py), 0 if all CPUs run at one constant speed
    fork_wait = integer(131)  # the strategy of the fork/wait paper, 0 for none
    decisions = integer(
        132
    )  # first row of the decision that is being made (decision.py), 0 if decisions are not logged
    rt0 = integer(
        133
    )  # first row of the real-time queues (rt_rq.py), 0 if no task changes its policy
    fair_entry = integer(134)  # address of the fair class of v6.12, 0 for v4.1's
    base_slice = integer(135)  # sysctl_sched_base_slice (v6.12)


class Modern(Struct):
    """Modern."""

    entry = integer(0)  # address of the balancer of v6.12, 0 if it does not balance
    nohz_has_blocked = integer(1)  # nohz.has_blocked: averages of tickless CPUs are left to update
    nohz_needs_update = integer(
        2
    )  # nohz.needs_update: sim.NOHZ_NEXT_BALANCE has to be computed anew
    nohz_next_blocked = integer(3)  # nohz.next_blocked: the jiffy at which they are due
    newidle = integer(4)  # when newidle balancing tries a level, codes/newidle.py
    delay_dequeue = integer(5)  # likewise DELAY_DEQUEUE
    sis_util = integer(6)  # likewise SIS_UTIL
    idle_ticks_before_stop = integer(
        7
    )  # 1: an idle CPU takes one tick before it stops its tick, as without a cpuidle governor
    tg_load_avg_limited = integer(8)  # this and the following as in wastedcores/kernels/rules.py
    whole_cores_balance = integer(9)
    siblings_counted = integer(10)
    prefer_sibling_of_child = integer(11)
    last_fully_busy = integer(12)
    placement_masked = integer(13)
    waiting_is_use = integer(14)
    clusters_scanned = integer(15)
    sleepers_counted = integer(16)
    sleepers_pulled = integer(17)
    ineligible_wait = integer(18)
    slice_end_stored = integer(19)
    reweight = integer(20)  # 0 lag, 1 place, 2 average
    exact_averages = integer(21)
    sleepers_lag_kept = integer(22)
    wakeup_picks = integer(23)
    util_est_at_dequeue = integer(24)
    idle_time_at_exit = integer(25)
    slice_timer = integer(26)
    lazy_preemption = integer(27)
    smt_active = integer(28)  # sched_smt_active()
    clusters = integer(29)  # sched_cluster_active
    in_interrupt = integer(30)  # a timer wakes a task, and not the task that runs
    scan_left = integer(31)  # of a search for an idle CPU: how many CPUs it may still examine
    scan_cpu = integer(32)  # the idle CPU that it found, -1 for none
    scan_over = integer(33)
    refill_ns = integer(
        34
    )  # of all kernels: what a task pays when it first runs behind another last-level cache


class Design(Struct):
    """Design."""

    entry = integer(0)  # address of the compiled core module, 0 if Linux decides
    sync = integer(1)  # whether the waker of the present wakeup is about to sleep
    nodes = integer(2)
    counts = integer(3)  # first row of the counts: one row per module, moments by answers
    busy = integer(4)  # first row of the busy CPUs, counted by node or by cache
    near = integer(5)  # first row of the CPUs by nearness: all CPUs for each CPU
    modules = integer(6)  # how many modules to ask
    module = array(7, 8)  # their codes, in order


class Rq(Struct):
    """Rq."""

    curr: Pointer[TaskStruct] = pointer("TaskStruct", 0)  # the running task, -1 for idle
    nr_running = integer(1)
    wake_list: Pointer[TaskStruct] = pointer("TaskStruct", 2)  # first task of the wake list
    need_resched = integer(3)
    next_balance = integer(4)
    switched_in = integer(
        5
    )  # 1: the running task was just switched in and its program has not gone on yet
    events = integer(
        6
    )  # the CPU's future events, seven kinds (codes/cpu_event.py): time and sequence number (0: not pending)
    stretch_start = integer(20)  # when the present stretch of the running task began
    sd: Pointer[SchedDomain] = pointer("SchedDomain", 21)  # row of the innermost domain
    cpu_capacity = integer(22)
    delay = integer(23)  # ns before the task that was switched in goes on
    last_load_update_tick = integer(24)  # a cache line begins here
    cpu_load = array(25, 5)  # cpu_load[0..4]
    idle_balance = integer(30)
    nr_domains = integer(31)
    clock = integer(32)  # what update_rq_clock() read last, not the present time
    sd_busy: Pointer[SchedDomain] = pointer(
        "SchedDomain", 33
    )  # row of sd_busy, -1 if there is none
    nohz_idle = integer(34)  # sd_busy->nohz_idle
    in_nohz_mask = integer(35)  # whether the CPU is in nohz.idle_cpus_mask
    cpu_capacity_orig = integer(36)
    ilb_next = integer(
        37
    )  # 1 + the CPU that its pass as idle load balancer looks at next, 0: no pass under way
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


class RqModern(Struct):
    """RqModern."""

    nohz_flags = integer(40)  # the kicks that wait for this CPU (nohz_flags())
    nohz_idle_balance = integer(41)  # those that its softirq handles
    has_blocked_load = integer(42)
    last_blocked_tick = integer(43)  # last_blocked_load_update_tick
    ilb_flags = integer(
        44
    )  # from here on: the locals of _nohz_idle_balance(), while its pass is under way
    ilb_begun = integer(45)
    ilb_next_balance = integer(46)
    ilb_found = integer(47)
    ilb_blocked = integer(48)
    sibling = integer(49)  # the next CPU of the same core, in a ring; offline CPUs are in it
    share_id = integer(50)  # the first CPU of its cluster, or else of its LLC (sd_share_id)
    last_wakee: Pointer[TaskStruct] = pointer(
        "TaskStruct", 51
    )  # from here on: whom timers on this CPU wake while it is idle, which counts for its idle task
    wakee_flips = integer(52)
    wakee_flip_decay_ts = integer(53)
    newidle_until = integer(
        54
    )  # when the last newidle balancing ended: until then the CPU runs nothing else
    lazy_resched = integer(
        55
    )  # the task gives way when its CPU next enters the kernel (TIF_NEED_RESCHED_LAZY)
    hrtick = integer(56)  # the timer that ends slices: time and sequence number (0: not pending)
    in_schedule = integer(58)
    hrtick_delay = integer(59)  # what to set the timer to at the end of schedule(), 0: nothing
    stopper_runs = integer(60)  # rq.CURR is NULL then, too, but the CPU is not idle


class Clock(Struct):
    """Clock."""

    speed = integer(0)
    busy = integer(1)  # whether it runs a task
    idle_since = integer(2)
    core: Pointer[Clock] = pointer("Clock", 3)  # row of its core's first CPU
    sibling = integer(4)  # row of the next CPU of its core, -1 for the last one
    khz = integer(5)  # of a core
    busy_ticks = integer(6)  # of a core: ticks that found it busy
    last_tick = integer(7)  # of a core: the jiffy of the last one
    running = integer(8)  # of a core: CPUs that run a task
    core_idle_since = integer(9)
    package: Pointer[Clock] = pointer("Clock", 10)  # of a core: row of the first CPU of its package
    active = integer(11)  # of a package: cores that run a task


class ClockConstants(Struct):
    """ClockConstants."""

    entry = integer(0)  # address of the compiled clocks
    min_khz = integer(1)  # 0: the frequency is constant
    nominal_khz = integer(2)
    ramp_ticks = integer(3)
    hold_ns = integer(4)
    shared_speed = integer(5)  # speed of a CPU whose core runs several tasks
    steps = integer(6)
    states = integer(7)
    step = array(8, 8)  # pairs of active cores and kHz
    state = array(72, 8)  # pairs of residency and exit latency


class RtRq(Struct):
    """RtRq."""

    head: Pointer[TaskStruct] = pointer(
        "TaskStruct", 0
    )  # the queued tasks with the running one, the most urgent first
    tail: Pointer[TaskStruct] = pointer("TaskStruct", 1)
    nr_running = integer(2)
    counted = integer(
        3
    )  # how many of them rq->nr_running counts: all, or none while they are throttled (rt_queued)
    throttled = integer(4)
    time = integer(5)  # for how long they ran in this period, in ns
    push_later = integer(6)  # push when the switch is done (rq->post_schedule)


class RtShared(Struct):
    """RtShared."""

    entry = integer(0)  # address of the compiled real-time class
    timer = integer(1)  # the timer of the period: time and sequence number (0: not pending)
    period_cpu = integer(3)  # the CPU of that timer, -1 if it does not run
    pushed = integer(4)  # how often a task became pushable
    time_slice = integer(5)  # the quantum of SCHED_RR in ticks


class CfsRq(Struct):
    """CfsRq."""

    avg: Embedded[SchedAvg] = embedded("SchedAvg")
    rq_modern: Embedded[RqModern] = embedded("RqModern")
    curr: Pointer[SchedEntity] = pointer("SchedEntity", 0)
    leftmost: Pointer[SchedEntity] = pointer("SchedEntity", 1)
    min_vruntime = integer(2)
    nr_running = integer(3)
    load_weight = integer(4)  # load.weight
    cpu = integer(5)
    entity: Pointer[SchedEntity] = pointer(
        "SchedEntity", 6
    )  # the group's entity in the parent queue, -1 for a root queue
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
    removed_nr = integer(
        120
    )  # what tasks that woke elsewhere left behind (struct removed); its load is cfs_rq.REMOVED_LOAD
    removed_util = integer(121)
    removed_runnable = integer(122)


class SchedAvg(Struct):
    """SchedAvg."""

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
    """SchedEntity."""

    avg: Embedded[SchedAvg] = embedded("SchedAvg")
    weight = integer(0)  # load.weight
    cfs_rq: Pointer[CfsRq] = pointer(
        "CfsRq", 1
    )  # the queue that the entity is on, or will be enqueued on
    parent: Pointer[SchedEntity] = pointer(
        "SchedEntity", 2
    )  # the group entity above it, -1 at the root
    my_q: Pointer[CfsRq] = pointer(
        "CfsRq", 3
    )  # the queue that a group entity stands for, -1 for a task
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
    next: Pointer[SchedEntity] = pointer(
        "SchedEntity", 16
    )  # neighbours in the queue, which is sorted by vruntime
    prev: Pointer[SchedEntity] = pointer("SchedEntity", 17)
    decay_count = integer(18)
    deadline = integer(106)
    slice = integer(107)
    custom_slice = integer(108)
    vlag = integer(
        109
    )  # lag at the last dequeue; before v6.17, while the entity runs, the deadline that it had when it was picked
    rel_deadline = integer(110)
    sched_delayed = integer(111)
    runnable_weight = integer(112)
    vprot = integer(127)  # the vruntime up to which it is protected (v6.17)


class TaskStruct(Struct):
    """TaskStruct."""

    se: Embedded[SchedEntity] = embedded("SchedEntity")
    random: Embedded[RandomState] = embedded("RandomState")
    cfs_tasks_next: Pointer[TaskStruct] = pointer("TaskStruct", 19)  # neighbours in rq->cfs_tasks
    cfs_tasks_prev: Pointer[TaskStruct] = pointer("TaskStruct", 20)
    cpu = integer(21)
    group = integer(22)  # number of its task group; 0 is the root group
    number = integer(23)  # tasks are numbered in the order of their birth
    state = integer(24)  # codes/task_state.py; a cache line begins here
    pc: Pointer[Op] = pointer("Op", 25)  # row of the next operation of its program
    left = integer(
        26
    )  # work of the present stretch that is still to do, in ns at the nominal speed
    spin = integer(27)  # 1: it spins, 2: what it spun for has been granted
    wake_q_head: Pointer[TaskStruct] = pointer(
        "TaskStruct", 28
    )  # first of the tasks that it is about to wake
    started = integer(29)  # when its program began, -1 before that
    waits_for = integer(31)  # codes/waits_for.py
    slot = array(32, 4)  # four loop counters
    units = array(36, 4)  # how many times each of the four loops went round
    timer = integer(40)  # its timer: time and sequence number (0: not pending)
    wait_object = integer(42)  # the wait object or, for a timer, the CPU that it waits for
    cpus_allowed = integer(43)  # row of the CPU set
    nr_cpus_allowed = integer(44)
    last_wakee: Pointer[TaskStruct] = pointer("TaskStruct", 45)
    wakee_flips = integer(46)
    wakee_flip_decay_ts = integer(47)
    wait_next: Pointer[TaskStruct] = pointer(
        "TaskStruct", 48
    )  # next task in a wait list, wake queue or wake list
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
    rt_next: Pointer[TaskStruct] = pointer(
        "TaskStruct", 61
    )  # neighbours in the queue of real-time tasks
    rt_prev: Pointer[TaskStruct] = pointer("TaskStruct", 62)
    on_rt = integer(63)  # whether it is on that queue
    pushable = integer(
        64
    )  # when it joined the pushable tasks, as a growing number; 0 if it is none of them
    ran_llc = integer(65)  # 1 + the last-level cache behind which it ran last, 0: it has not run
    recent_used_cpu = integer(123)
    kthread = integer(
        124
    )  # whether it has the name of a kernel thread of which each CPU has one; templates have this column, too
    util_ewma = integer(
        125
    )  # the two numbers of which v6.1 takes the larger one as UTIL_EST (struct util_est)
    util_enqueued = integer(126)


class RandomState(Struct):
    """RandomState."""

    state = integer(30)  # state of its random stream


class TaskGroup(Struct):
    """TaskGroup."""

    shares = integer(0)
    load_avg = integer(1)
    runnable_avg = integer(2)


class WaitObject(Struct):
    """WaitObject."""

    parties = integer(0)
    count = integer(1)
    head: Pointer[TaskStruct] = pointer(
        "TaskStruct", 2
    )  # first and last of the tasks that wait, in order of arrival
    tail: Pointer[TaskStruct] = pointer("TaskStruct", 3)
    generation = integer(4)
    stopped = integer(5)
    owner: Pointer[TaskStruct] = pointer("TaskStruct", 6)


class HotplugStep(Struct):
    """HotplugStep."""

    event = integer(0)
    cpu = integer(2)
    online = integer(3)


class SchedDomain(Struct):
    """SchedDomain."""

    flags = integer(0)
    last_balance = integer(1)  # jiffies
    balance_interval = integer(2)  # ms
    busy_factor = integer(3)
    max_newidle_lb_cost = integer(4)
    next_decay_max_lb_cost = integer(5)
    parent: Pointer[SchedDomain] = pointer("SchedDomain", 6)
    groups: Pointer[SchedGroup] = pointer(
        "SchedGroup", 7
    )  # row of the first group; the rows of the ring are contiguous
    span_weight = integer(8)
    level = integer(9)
    child: Pointer[SchedDomain] = pointer("SchedDomain", 10)
    nr_groups = integer(11)
    span = integer(12)  # row of the CPU set
    min_interval = integer(13)
    max_interval = integer(14)
    imbalance_pct = integer(15)
    cache_nice_tries = integer(16)
    busy_idx = integer(17)
    idle_idx = integer(18)
    newidle_idx = integer(19)
    wake_idx = integer(20)
    forkexec_idx = integer(21)
    nr_balance_failed = integer(22)
    index = integer(23)  # entry of the level table
    fork_margin = integer(
        24
    )  # within this a group's load is about equal for a new task (v4.10), 0 before
    stays_on_node = integer(
        25
    )  # whether another group has to be less loaded than the local one by more than that (v4.17, SD_NUMA)
    lb_count = array(26, 21)  # 3 x 7 numbers of load_balance() calls, by idle type and result
    newidle_call = integer(48)
    newidle_success = integer(49)
    newidle_ratio = integer(50)
    last_decay_max_lb_cost = integer(51)  # jiffies
    nohz_idle = integer(52)
    imb_numa_nr = integer(53)
    shared: Pointer[SchedDomainShared] = pointer(
        "SchedDomainShared", 54
    )  # row of what the CPUs of an LLC have in common (domain_shared.py), -1 for none
    span_cpus = integer(55)  # place of its CPUs in the lists
    newidle_stamp = integer(56)  # when the ratio was computed last, ns since boot


class SchedDomainShared(Struct):
    """SchedDomainShared."""

    nr_busy_cpus = integer(0)
    has_idle_cores = integer(1)
    nr_idle_scan = integer(2)  # how many CPUs a wakeup may examine


class SchedGroup(Struct):
    """SchedGroup."""

    cpus = integer(0)  # place of its CPUs in the lists
    group_weight = integer(1)  # their number
    span = integer(2)  # row of the CPU set
    sgc: Pointer[SchedGroupCapacity] = pointer("SchedGroupCapacity", 3)  # row of its capacity
    balance_cpu = integer(4)  # group_balance_cpu()
    balance_cpus = integer(5)  # place in the lists of those CPUs that are in its balance mask
    nr_balance_cpus = integer(6)
    flags = integer(7)  # those of the domain below it (v6.12), as are
    cores = integer(8)  # the number of its cores


class SchedGroupCapacity(Struct):
    """SchedGroupCapacity."""

    capacity = integer(0)
    imbalance = integer(1)
    nr_busy_cpus = integer(2)
    next_update = integer(3)


class LbEnv(Struct):
    """LbEnv."""

    sd: Pointer[SchedDomain] = pointer("SchedDomain", 0)
    dst_cpu = integer(1)
    idle = integer(2)
    src_cpu = integer(3)
    flags = integer(4)
    loop = integer(5)
    loop_max = integer(6)
    loop_break = integer(7)
    imbalance = integer(8)
    new_dst_cpu = integer(9)
    tasks: Pointer[TaskStruct] = pointer(
        "TaskStruct", 10
    )  # the detached tasks, linked by task.CFS_TASKS_NEXT
    why = integer(11)  # codes/log_op.py
    dst_group: Pointer[SchedGroup] = pointer(
        "SchedGroup", 12
    )  # the group whose CPUs are dst_grpmask, -1 for none
    this_cpu = integer(13)  # the CPU for which load_balance() was called
    moved = integer(14)  # the tasks that it moved
    held_back = array(
        15, 4
    )  # from here on, for the log of decisions: looks at a task that affinity kept where it is,
    running = integer(16)  # that was running,
    hot = integer(17)  # that was cache-hot,
    heavy = integer(18)  # or whose load was more than twice the imbalance
    migration = integer(19)  # what is to move (v6.12)
    reason = integer(20)  # the comparison that found the domain balanced (codes/balanced.py, v6.12)
    moves = integer(
        21
    )  # 1 + what the last calculate_imbalance() decided to move, 0 if it was not called (v6.12)


class SdLbStats(Struct):
    """SdLbStats."""

    busiest: Pointer[SchedGroup] = pointer(
        "SchedGroup", 0
    )  # row of the busiest group, -1 if there is none
    imbalance = integer(1)
    total_load = integer(2)
    total_capacity = integer(3)
    avg_load = integer(4)
    prefer_sibling = integer(5)  # (v6.12)


class SgLbStatsV4(Struct):
    """SgLbStatsV4."""

    group_load = integer(0)
    group_usage = integer(1)
    sum_nr_running = integer(2)
    sum_weighted_load = integer(3)
    idle_cpus = integer(4)
    group_capacity = integer(5)
    avg_load = integer(6)
    load_per_task = integer(7)
    group_weight = integer(8)
    group_no_capacity = integer(9)
    group_type = integer(10)
    min_load = integer(11)
    max_load = integer(12)


class SgLbStats(Struct):
    """SgLbStats."""

    group: Pointer[SchedGroup] = pointer("SchedGroup", 20)  # row of the group, -1 for none
    avg_load = integer(21)
    load = integer(22)
    util = integer(23)
    runnable = integer(24)
    capacity = integer(25)
    sum_nr = integer(26)  # rq->nr_running
    sum_h_nr = integer(27)  # fair tasks
    idle_cpus = integer(28)
    weight = integer(29)
    type = integer(30)
    smt_balance = integer(31)
    end = integer(32)  # the column behind the last one


class Decision(Struct):
    """Decision."""

    by_cpu = integer(
        0
    )  # the CPU that executed the call: the idle load balancer calls it on behalf of others
    idle = integer(1)  # codes/idle_type.py
    designated = integer(2)  # the CPU that may balance for the local group
    dst_cpu = integer(
        3
    )  # the CPU that pulled in the end, another one of the group if a task may not run on the first
    busiest = integer(4)  # place of the busiest group in the ring, -1 if there is none
    imbalance = integer(5)  # load to move
    average = integer(6)  # average load of the domain
    imbalance_pct = integer(7)
    tries = integer(
        8
    )  # how often a busiest group was looked for: once more after each queue with pinned tasks only
    failed = integer(9)  # nr_balance_failed before the call
    interval = integer(10)  # balance_interval before the call, ms
    held_back = array(11, 4)  # looks at a task that did not move, by reason
    running = integer(12)
    hot = integer(13)
    heavy = integer(14)
    src_nr_running = integer(15)  # nr_running of the source before the call took anything
    nr_groups = integer(16)
    prefer_sibling = integer(
        17
    )  # 1: the level below prefers to spread tasks over its siblings; v6.12 adds two more values


class DecisionGroup(Struct):
    """DecisionGroup."""

    span = integer(0)  # row of the CPU set
    local = integer(1)
    type = integer(2)  # sgs.py
    load = integer(3)
    avg_load = integer(4)
    min_load = integer(5)  # -1 if no CPU was considered
    max_load = integer(6)
    nr_running = integer(7)
    idle_cpus = integer(8)
    capacity = integer(9)
    usage = integer(10)
    load_per_task = integer(11)


class Op(Struct):
    """Op."""

    code = integer(0)  # workload/ops.py
    arg1 = integer(1)
    arg2 = integer(2)
    arg3 = integer(3)
    arg4 = integer(4)


NO_TASK = null(TaskStruct)
NO_ENTITY = null(SchedEntity)
NO_QUEUE = null(CfsRq)
NO_DOMAIN = null(SchedDomain)
NO_GROUP = null(SchedGroup)
NO_SHARED = null(SchedDomainShared)
NO_CAPACITY = null(SchedGroupCapacity)
NO_TASK_GROUP = null(TaskGroup)
NO_WAIT = null(WaitObject)
NO_OP = null(Op)
NO_CLOCK = null(Clock)
NO_DECISION = null(Decision)
NO_STATS = null(SgLbStats)
NO_STATS_V4 = null(SgLbStatsV4)
