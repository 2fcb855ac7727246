"""The structs of the scheduler, each of which is a row of the world's table."""

from __future__ import annotations

from wastedcores.jit.structs import Array, Struct, array, embedded, integer, null, pointer


class Kernel(Struct):
    """Kernel."""

    load_v4_4: int = integer(55)  # whether load is tracked as v4.4 does, and not as v4.1 does
    now_ns: int = integer(56)
    seq: int = integer(57)  # the last sequence number that an event was given
    jiffies: int = integer(58)  # NOW // TICK_NS
    tick_ns: int = integer(59)
    nr_cpus: int = integer(60)
    this_cpu: int = integer(61)  # the CPU in whose context the code runs
    status: int = integer(62)  # codes/status.py
    irq_ns: int = integer(63)
    log_n: int = integer(64)  # records in the log
    log_room: int = integer(65)  # records that fit in the log
    log_margin: int = integer(66)  # records that one event may write
    live_tasks: int = integer(67)  # tasks that keep the replay going
    until_ns: int = integer(68)
    events: int = integer(69)  # events handled
    steps: int = integer(70)  # operations since time last passed
    heap_hole: int = integer(71)  # 1: the root of the heap was taken out
    heap0: int = integer(72)
    heap_n: int = integer(73)
    heap_room: int = integer(74)  # entries that fit in the heap
    ticks0: int = integer(75)  # first row of the ring of ticks to come
    ticks_head: int = integer(76)  # how many ticks were taken out of the ring
    ticks_tail: int = integer(77)  # how many ticks were put into the ring
    ticks_low: int = integer(78)  # places of the ring, less one
    runs0: int = integer(79)  # first row of the tournament of the ends of stretches
    computing: int = integer(80)  # tasks that will go on by themselves
    timers: int = integer(81)  # timers and hotplug steps that are pending
    nohz_nr_cpus: int = integer(82)
    nohz_next_balance: int = integer(83)
    overload: int = integer(84)  # root_domain.overload
    log_load: int = integer(85)  # whether the weight of the runqueues is logged
    log_considered: int = integer(86)  # whether the CPUs that each decision looked at are logged
    design: Design = pointer(
        "Design", 87
    )  # the row behind the named CPU sets (cpuset.py), which is the core row
    runs: int = integer(88)  # leaves of the tournament
    culprit: int = integer(89)  # the task that a status is about
    task_groups: int = integer(90)
    task_room: int = integer(91)  # tasks that fit in the table
    nr_tasks: int = integer(92)
    cfs_rq0: int = integer(93)  # from here on: first rows of the sections
    entity0: int = integer(94)
    task_group0: int = integer(95)
    domain0: int = integer(96)
    sched_group0: int = integer(97)
    capacity0: int = integer(98)
    wait0: int = integer(99)
    template0: int = integer(100)
    step0: int = integer(101)
    scratch: int = integer(
        102
    )  # three rows of sg_lb_stats, one each of sd_lb_stats and lb_env, and the machine's random stream
    cpuset0: int = integer(103)
    list0: int = integer(104)
    op0: int = integer(105)
    task0: int = integer(106)
    log0: int = integer(107)
    domain_lists: int = integer(
        108
    )  # place in the lists: per tree and CPU the first domain, the number of domains, the id of the LLC
    weight_lists: int = integer(
        109
    )  # place in the lists: weights and then inverse weights of nice -20..19
    idle_ticks: int = integer(110)
    skew_ns: int = integer(111)
    ipi_ns: int = integer(112)
    switch_ns: int = integer(113)
    wake_ns: int = integer(114)
    spin_ns: int = integer(115)
    lb_base_ns: int = integer(116)
    lb_cpu_ns: int = integer(117)
    hz: int = integer(118)
    sched_latency: int = integer(119)
    min_granularity: int = integer(120)
    wakeup_granularity: int = integer(121)
    max_lb_interval: int = integer(122)
    always_balance: int = integer(123)
    group_imbalance_fix: int = integer(124)  # GI_*
    overload_on_wakeup_fix: int = integer(125)
    t_start: int = integer(126)  # when the workload begins
    seed: int = integer(127)
    log_lost: int = integer(128)  # records that found no room in the log
    cpuset_words: int = integer(129)  # words of a CPU set
    clock0: int = integer(
        130
    )  # first row of the clocks (clock.py), 0 if all CPUs run at one constant speed
    fork_wait: int = integer(131)  # the strategy of the fork/wait paper, 0 for none
    decisions: Decision = pointer(
        "Decision", 132
    )  # first row of the decision that is being made (decision.py), 0 if decisions are not logged
    rt0: int = integer(
        133
    )  # first row of the real-time queues (rt_rq.py), 0 if no task changes its policy
    fair_entry: int = integer(134)  # address of the fair class of v6.12, 0 for v4.1's
    base_slice: int = integer(135)  # sysctl_sched_base_slice (v6.12)


class Modern(Struct):
    """Modern."""

    entry: int = integer(0)  # address of the balancer of v6.12, 0 if it does not balance
    nohz_has_blocked: int = integer(
        1
    )  # nohz.has_blocked: averages of tickless CPUs are left to update
    nohz_needs_update: int = integer(
        2
    )  # nohz.needs_update: sim.NOHZ_NEXT_BALANCE has to be computed anew
    nohz_next_blocked: int = integer(3)  # nohz.next_blocked: the jiffy at which they are due
    newidle: int = integer(4)  # when newidle balancing tries a level, codes/newidle.py
    delay_dequeue: int = integer(5)  # likewise DELAY_DEQUEUE
    sis_util: int = integer(6)  # likewise SIS_UTIL
    idle_ticks_before_stop: int = integer(
        7
    )  # 1: an idle CPU takes one tick before it stops its tick, as without a cpuidle governor
    tg_load_avg_limited: int = integer(
        8
    )  # this and the following as in wastedcores/kernels/rules.py
    whole_cores_balance: int = integer(9)
    siblings_counted: int = integer(10)
    prefer_sibling_of_child: int = integer(11)
    last_fully_busy: int = integer(12)
    placement_masked: int = integer(13)
    waiting_is_use: int = integer(14)
    clusters_scanned: int = integer(15)
    sleepers_counted: int = integer(16)
    sleepers_pulled: int = integer(17)
    ineligible_wait: int = integer(18)
    slice_end_stored: int = integer(19)
    reweight: int = integer(20)  # 0 lag, 1 place, 2 average
    exact_averages: int = integer(21)
    sleepers_lag_kept: int = integer(22)
    wakeup_picks: int = integer(23)
    util_est_at_dequeue: int = integer(24)
    idle_time_at_exit: int = integer(25)
    slice_timer: int = integer(26)
    lazy_preemption: int = integer(27)
    smt_active: int = integer(28)  # sched_smt_active()
    clusters: int = integer(29)  # sched_cluster_active
    in_interrupt: int = integer(30)  # a timer wakes a task, and not the task that runs
    scan_left: int = integer(31)  # of a search for an idle CPU: how many CPUs it may still examine
    scan_cpu: int = integer(32)  # the idle CPU that it found, -1 for none
    scan_over: int = integer(33)
    refill_ns: int = integer(
        34
    )  # of all kernels: what a task pays when it first runs behind another last-level cache


class Design(Struct):
    """Design."""

    entry: int = integer(0)  # address of the compiled core module, 0 if Linux decides
    sync: int = integer(1)  # whether the waker of the present wakeup is about to sleep
    nodes: int = integer(2)
    counts: int = integer(3)  # first row of the counts: one row per module, moments by answers
    busy: int = integer(4)  # first row of the busy CPUs, counted by node or by cache
    near: int = integer(5)  # first row of the CPUs by nearness: all CPUs for each CPU
    modules: int = integer(6)  # how many modules to ask
    module: Array = array(7, 8)  # their codes, in order


class Rq(Struct):
    """Rq."""

    curr: TaskStruct = pointer("TaskStruct", 0)  # the running task, -1 for idle
    nr_running: int = integer(1)
    wake_list: TaskStruct = pointer("TaskStruct", 2)  # first task of the wake list
    need_resched: int = integer(3)
    next_balance: int = integer(4)
    switched_in: int = integer(
        5
    )  # 1: the running task was just switched in and its program has not gone on yet
    events: int = integer(
        6
    )  # the CPU's future events, seven kinds (codes/cpu_event.py): time and sequence number (0: not pending)
    stretch_start: int = integer(20)  # when the present stretch of the running task began
    sd: SchedDomain = pointer("SchedDomain", 21)  # row of the innermost domain
    cpu_capacity: int = integer(22)
    delay: int = integer(23)  # ns before the task that was switched in goes on
    last_load_update_tick: int = integer(24)  # a cache line begins here
    cpu_load: Array = array(25, 5)  # cpu_load[0..4]
    idle_balance: int = integer(30)
    nr_domains: int = integer(31)
    clock: int = integer(32)  # what update_rq_clock() read last, not the present time
    sd_busy: SchedDomain = pointer("SchedDomain", 33)  # row of sd_busy, -1 if there is none
    nohz_idle: int = integer(34)  # sd_busy->nohz_idle
    in_nohz_mask: int = integer(35)  # whether the CPU is in nohz.idle_cpus_mask
    cpu_capacity_orig: int = integer(36)
    ilb_next: int = integer(
        37
    )  # 1 + the CPU that its pass as idle load balancer looks at next, 0: no pass under way
    tick_stopped: int = integer(38)
    load_weight: int = integer(39)  # load.weight
    logged_weight: int = integer(40)  # the load.weight that was logged last
    cfs_tasks: TaskStruct = pointer("TaskStruct", 41)  # head and tail of cfs_tasks
    cfs_tasks_tail: TaskStruct = pointer("TaskStruct", 42)
    idle_stamp: int = integer(43)
    avg_idle: int = integer(44)
    max_idle_balance_cost: int = integer(45)
    nohz_kick: int = integer(46)  # whether a NOHZ kick is on its way or being handled
    active_balance: int = integer(47)
    push_cpu: int = integer(48)
    sd_llc: SchedDomain = pointer("SchedDomain", 49)  # row of sd_llc, -1 if there is none
    sd_llc_size: int = integer(50)
    sd_llc_id: int = integer(51)
    keep_tick_until: int = integer(52)  # the jiffy until which an idle CPU keeps its tick
    node: int = integer(53)
    touched: int = integer(54)  # whether its page counters changed since they were last folded


class RqModern(Struct):
    """RqModern."""

    nohz_flags: int = integer(40)  # the kicks that wait for this CPU (nohz_flags())
    nohz_idle_balance: int = integer(41)  # those that its softirq handles
    has_blocked_load: int = integer(42)
    last_blocked_tick: int = integer(43)  # last_blocked_load_update_tick
    ilb_flags: int = integer(
        44
    )  # from here on: the locals of _nohz_idle_balance(), while its pass is under way
    ilb_begun: int = integer(45)
    ilb_next_balance: int = integer(46)
    ilb_found: int = integer(47)
    ilb_blocked: int = integer(48)
    sibling: int = integer(49)  # the next CPU of the same core, in a ring; offline CPUs are in it
    share_id: int = integer(50)  # the first CPU of its cluster, or else of its LLC (sd_share_id)
    last_wakee: TaskStruct = pointer(
        "TaskStruct", 51
    )  # from here on: whom timers on this CPU wake while it is idle, which counts for its idle task
    wakee_flips: int = integer(52)
    wakee_flip_decay_ts: int = integer(53)
    newidle_until: int = integer(
        54
    )  # when the last newidle balancing ended: until then the CPU runs nothing else
    lazy_resched: int = integer(
        55
    )  # the task gives way when its CPU next enters the kernel (TIF_NEED_RESCHED_LAZY)
    hrtick: int = integer(
        56
    )  # the timer that ends slices: time and sequence number (0: not pending)
    in_schedule: int = integer(58)
    hrtick_delay: int = integer(59)  # what to set the timer to at the end of schedule(), 0: nothing


class Clock(Struct):
    """Clock."""

    speed: int = integer(0)
    busy: int = integer(1)  # whether it runs a task
    idle_since: int = integer(2)
    core: Clock = pointer("Clock", 3)  # row of its core's first CPU
    sibling: int = integer(4)  # row of the next CPU of its core, -1 for the last one
    khz: int = integer(5)  # of a core
    busy_ticks: int = integer(6)  # of a core: ticks that found it busy
    last_tick: int = integer(7)  # of a core: the jiffy of the last one
    running: int = integer(8)  # of a core: CPUs that run a task
    core_idle_since: int = integer(9)
    package: Clock = pointer("Clock", 10)  # of a core: row of the first CPU of its package
    active: int = integer(11)  # of a package: cores that run a task


class ClockConstants(Struct):
    """ClockConstants."""

    entry: int = integer(0)  # address of the compiled clocks
    min_khz: int = integer(1)  # 0: the frequency is constant
    nominal_khz: int = integer(2)
    ramp_ticks: int = integer(3)
    hold_ns: int = integer(4)
    shared_speed: int = integer(5)  # speed of a CPU whose core runs several tasks
    steps: int = integer(6)
    states: int = integer(7)
    step: Array = array(8, 8)  # pairs of active cores and kHz
    state: Array = array(72, 8)  # pairs of residency and exit latency


class RtRq(Struct):
    """RtRq."""

    head: TaskStruct = pointer(
        "TaskStruct", 0
    )  # the queued tasks with the running one, the most urgent first
    tail: TaskStruct = pointer("TaskStruct", 1)
    nr_running: int = integer(2)
    counted: int = integer(
        3
    )  # how many of them rq->nr_running counts: all, or none while they are throttled (rt_queued)
    throttled: int = integer(4)
    time: int = integer(5)  # for how long they ran in this period, in ns
    push_later: int = integer(6)  # push when the switch is done (rq->post_schedule)


class RtShared(Struct):
    """RtShared."""

    entry: int = integer(0)  # address of the compiled real-time class
    timer: int = integer(1)  # the timer of the period: time and sequence number (0: not pending)
    period_cpu: int = integer(3)  # the CPU of that timer, -1 if it does not run
    pushed: int = integer(4)  # how often a task became pushable
    time_slice: int = integer(5)  # the quantum of SCHED_RR in ticks


class CfsRq(Struct):
    """CfsRq."""

    avg: SchedAvg = embedded("SchedAvg")
    rq_modern: RqModern = embedded("RqModern")
    curr: SchedEntity = pointer("SchedEntity", 0)
    leftmost: SchedEntity = pointer("SchedEntity", 1)
    min_vruntime: int = integer(2)
    nr_running: int = integer(3)
    load_weight: int = integer(4)  # load.weight
    cpu: int = integer(5)
    entity: SchedEntity = pointer(
        "SchedEntity", 6
    )  # the group's entity in the parent queue, -1 for a root queue
    task_group: TaskGroup = pointer("TaskGroup", 7)
    runnable_load_avg: int = integer(8)  # the second cache line begins here
    utilization_load_avg: int = integer(9)
    h_nr_running: int = integer(10)
    blocked_load_avg: int = integer(11)
    last_decay: int = integer(12)
    decay_counter: int = integer(13)
    removed_load: int = integer(14)
    tg_load_contrib: int = integer(15)
    next: SchedEntity = pointer("SchedEntity", 16)  # the three buddies
    last: SchedEntity = pointer("SchedEntity", 17)
    skip: SchedEntity = pointer("SchedEntity", 18)
    rightmost: SchedEntity = pointer("SchedEntity", 19)
    on_list: int = integer(20)
    tg_runnable_contrib: int = integer(21)
    h_load: int = integer(22)
    last_h_load_update: int = integer(23)
    avg_vruntime: int = integer(113)  # sums over the entities in the tree
    avg_load: int = integer(114)
    zero_vruntime: int = integer(115)
    h_nr_delayed: int = integer(116)
    propagate: int = integer(117)
    prop_runnable_sum: int = integer(118)
    last_update_tg: int = integer(119)
    removed_nr: int = integer(
        120
    )  # what tasks that woke elsewhere left behind (struct removed); its load is cfs_rq.REMOVED_LOAD
    removed_util: int = integer(121)
    removed_runnable: int = integer(122)


class SchedAvg(Struct):
    """SchedAvg."""

    last_update: int = integer(96)
    load_sum: int = integer(97)
    runnable_sum: int = integer(98)
    util_sum: int = integer(99)
    period_contrib: int = integer(100)
    load_avg: int = integer(101)
    runnable_avg: int = integer(102)
    util_avg: int = integer(103)
    util_est: int = integer(104)
    unchanged: int = integer(105)  # UTIL_AVG_UNCHANGED


class SchedEntity(Struct):
    """SchedEntity."""

    avg: SchedAvg = embedded("SchedAvg")
    weight: int = integer(0)  # load.weight
    cfs_rq: CfsRq = pointer("CfsRq", 1)  # the queue that the entity is on, or will be enqueued on
    parent: SchedEntity = pointer("SchedEntity", 2)  # the group entity above it, -1 at the root
    my_q: CfsRq = pointer("CfsRq", 3)  # the queue that a group entity stands for, -1 for a task
    on_rq: int = integer(4)
    vruntime: int = integer(5)
    exec_start: int = integer(6)
    sum_exec_runtime: int = integer(7)
    last_runnable_update: int = integer(8)  # the second cache line begins here
    runnable_avg_sum: int = integer(9)
    running_avg_sum: int = integer(10)
    avg_period: int = integer(11)
    load_avg_contrib: int = integer(12)
    utilization_avg_contrib: int = integer(13)
    prev_sum_exec_runtime: int = integer(14)
    inv_weight: int = integer(15)  # load.inv_weight
    next: SchedEntity = pointer(
        "SchedEntity", 16
    )  # neighbours in the queue, which is sorted by vruntime
    prev: SchedEntity = pointer("SchedEntity", 17)
    decay_count: int = integer(18)
    deadline: int = integer(106)
    slice: int = integer(107)
    custom_slice: int = integer(108)
    vlag: int = integer(
        109
    )  # lag at the last dequeue; before v6.17, while the entity runs, the deadline that it had when it was picked
    rel_deadline: int = integer(110)
    sched_delayed: int = integer(111)
    runnable_weight: int = integer(112)
    vprot: int = integer(127)  # the vruntime up to which it is protected (v6.17)


class TaskStruct(Struct):
    """TaskStruct."""

    se: SchedEntity = embedded("SchedEntity")
    random: RandomState = embedded("RandomState")
    cfs_tasks_next: TaskStruct = pointer("TaskStruct", 19)  # neighbours in rq->cfs_tasks
    cfs_tasks_prev: TaskStruct = pointer("TaskStruct", 20)
    cpu: int = integer(21)
    group: int = integer(22)  # number of its task group; 0 is the root group
    number: int = integer(23)  # tasks are numbered in the order of their birth
    state: int = integer(24)  # codes/task_state.py; a cache line begins here
    pc: Op = pointer("Op", 25)  # row of the next operation of its program
    left: int = integer(
        26
    )  # work of the present stretch that is still to do, in ns at the nominal speed
    spin: int = integer(27)  # 1: it spins, 2: what it spun for has been granted
    wake_q_head: TaskStruct = pointer(
        "TaskStruct", 28
    )  # first of the tasks that it is about to wake
    started: int = integer(29)  # when its program began, -1 before that
    waits_for: int = integer(31)  # codes/waits_for.py
    slot: Array = array(32, 4)  # four loop counters
    units: Array = array(36, 4)  # how many times each of the four loops went round
    timer: int = integer(40)  # its timer: time and sequence number (0: not pending)
    wait_object: int = integer(42)  # the wait object or, for a timer, the CPU that it waits for
    cpus_allowed: int = integer(43)  # row of the CPU set
    nr_cpus_allowed: int = integer(44)
    last_wakee: TaskStruct = pointer("TaskStruct", 45)
    wakee_flips: int = integer(46)
    wakee_flip_decay_ts: int = integer(47)
    wait_next: TaskStruct = pointer(
        "TaskStruct", 48
    )  # next task in a wait list, wake queue or wake list
    wake_q_tail: TaskStruct = pointer("TaskStruct", 49)
    nice: int = integer(50)
    parent: TaskStruct = pointer("TaskStruct", 51)
    children: int = integer(52)  # how many of its children are alive
    daemon: int = integer(53)
    exited: int = integer(54)  # when it exited, -1 before that
    template: int = integer(55)
    signals_seen: int = integer(56)  # how often the condition had been signalled at the last CATCH
    home: int = integer(57)  # the node of the CPU where the task was placed at its birth
    policy: int = integer(
        58
    )  # number of the scheduling policy (workload/ops.py); 0 for SCHED_OTHER
    rt_priority: int = integer(59)  # 1 to 99 for a real-time task, 0 for others
    time_slice: int = integer(60)  # ticks left of the quantum of SCHED_RR
    rt_next: TaskStruct = pointer("TaskStruct", 61)  # neighbours in the queue of real-time tasks
    rt_prev: TaskStruct = pointer("TaskStruct", 62)
    on_rt: int = integer(63)  # whether it is on that queue
    pushable: int = integer(
        64
    )  # when it joined the pushable tasks, as a growing number; 0 if it is none of them
    ran_llc: int = integer(
        65
    )  # 1 + the last-level cache behind which it ran last, 0: it has not run
    recent_used_cpu: int = integer(123)
    kthread: int = integer(
        124
    )  # whether it has the name of a kernel thread of which each CPU has one; templates have this column, too
    util_ewma: int = integer(
        125
    )  # the two numbers of which v6.1 takes the larger one as UTIL_EST (struct util_est)
    util_enqueued: int = integer(126)


class RandomState(Struct):
    """RandomState."""

    state: int = integer(30)  # state of its random stream


class TaskGroup(Struct):
    """TaskGroup."""

    shares: int = integer(0)
    load_avg: int = integer(1)
    runnable_avg: int = integer(2)


class WaitObject(Struct):
    """WaitObject."""

    parties: int = integer(0)
    count: int = integer(1)
    head: TaskStruct = pointer(
        "TaskStruct", 2
    )  # first and last of the tasks that wait, in order of arrival
    tail: TaskStruct = pointer("TaskStruct", 3)
    generation: int = integer(4)
    stopped: int = integer(5)
    owner: TaskStruct = pointer("TaskStruct", 6)


class HotplugStep(Struct):
    """HotplugStep."""

    event: int = integer(0)
    cpu: int = integer(2)
    online: int = integer(3)


class SchedDomain(Struct):
    """SchedDomain."""

    flags: int = integer(0)
    last_balance: int = integer(1)  # jiffies
    balance_interval: int = integer(2)  # ms
    busy_factor: int = integer(3)
    max_newidle_lb_cost: int = integer(4)
    next_decay_max_lb_cost: int = integer(5)
    parent: SchedDomain = pointer("SchedDomain", 6)
    groups: SchedGroup = pointer(
        "SchedGroup", 7
    )  # row of the first group; the rows of the ring are contiguous
    span_weight: int = integer(8)
    level: int = integer(9)
    child: SchedDomain = pointer("SchedDomain", 10)
    nr_groups: int = integer(11)
    span: int = integer(12)  # row of the CPU set
    min_interval: int = integer(13)
    max_interval: int = integer(14)
    imbalance_pct: int = integer(15)
    cache_nice_tries: int = integer(16)
    busy_idx: int = integer(17)
    idle_idx: int = integer(18)
    newidle_idx: int = integer(19)
    wake_idx: int = integer(20)
    forkexec_idx: int = integer(21)
    nr_balance_failed: int = integer(22)
    index: int = integer(23)  # entry of the level table
    fork_margin: int = integer(
        24
    )  # within this a group's load is about equal for a new task (v4.10), 0 before
    stays_on_node: int = integer(
        25
    )  # whether another group has to be less loaded than the local one by more than that (v4.17, SD_NUMA)
    lb_count: Array = array(
        26, 21
    )  # 3 x 7 numbers of load_balance() calls, by idle type and result
    newidle_call: int = integer(48)
    newidle_success: int = integer(49)
    newidle_ratio: int = integer(50)
    last_decay_max_lb_cost: int = integer(51)  # jiffies
    nohz_idle: int = integer(52)
    imb_numa_nr: int = integer(53)
    shared: SchedDomainShared = pointer(
        "SchedDomainShared", 54
    )  # row of what the CPUs of an LLC have in common (domain_shared.py), -1 for none
    span_cpus: int = integer(55)  # place of its CPUs in the lists
    newidle_stamp: int = integer(56)  # when the ratio was computed last, ns since boot


class SchedDomainShared(Struct):
    """SchedDomainShared."""

    nr_busy_cpus: int = integer(0)
    has_idle_cores: int = integer(1)
    nr_idle_scan: int = integer(2)  # how many CPUs a wakeup may examine


class SchedGroup(Struct):
    """SchedGroup."""

    cpus: int = integer(0)  # place of its CPUs in the lists
    group_weight: int = integer(1)  # their number
    span: int = integer(2)  # row of the CPU set
    sgc: SchedGroupCapacity = pointer("SchedGroupCapacity", 3)  # row of its capacity
    balance_cpu: int = integer(4)  # group_balance_cpu()
    balance_cpus: int = integer(5)  # place in the lists of those CPUs that are in its balance mask
    nr_balance_cpus: int = integer(6)
    flags: int = integer(7)  # those of the domain below it (v6.12), as are
    cores: int = integer(8)  # the number of its cores


class SchedGroupCapacity(Struct):
    """SchedGroupCapacity."""

    capacity: int = integer(0)
    imbalance: int = integer(1)
    nr_busy_cpus: int = integer(2)
    next_update: int = integer(3)


class LbEnv(Struct):
    """LbEnv."""

    sd: SchedDomain = pointer("SchedDomain", 0)
    dst_cpu: int = integer(1)
    idle: int = integer(2)
    src_cpu: int = integer(3)
    flags: int = integer(4)
    loop: int = integer(5)
    loop_max: int = integer(6)
    loop_break: int = integer(7)
    imbalance: int = integer(8)
    new_dst_cpu: int = integer(9)
    tasks: TaskStruct = pointer(
        "TaskStruct", 10
    )  # the detached tasks, linked by task.CFS_TASKS_NEXT
    why: int = integer(11)  # codes/log_op.py
    dst_group: SchedGroup = pointer(
        "SchedGroup", 12
    )  # the group whose CPUs are dst_grpmask, -1 for none
    this_cpu: int = integer(13)  # the CPU for which load_balance() was called
    moved: int = integer(14)  # the tasks that it moved
    held_back: Array = array(
        15, 4
    )  # from here on, for the log of decisions: looks at a task that affinity kept where it is,
    running: int = integer(16)  # that was running,
    hot: int = integer(17)  # that was cache-hot,
    heavy: int = integer(18)  # or whose load was more than twice the imbalance
    migration: int = integer(19)  # what is to move (v6.12)
    reason: int = integer(
        20
    )  # the comparison that found the domain balanced (codes/balanced.py, v6.12)
    moves: int = integer(
        21
    )  # 1 + what the last calculate_imbalance() decided to move, 0 if it was not called (v6.12)


class SdLbStats(Struct):
    """SdLbStats."""

    busiest: SchedGroup = pointer("SchedGroup", 0)  # row of the busiest group, -1 if there is none
    imbalance: int = integer(1)
    total_load: int = integer(2)
    total_capacity: int = integer(3)
    avg_load: int = integer(4)
    prefer_sibling: int = integer(5)  # (v6.12)


class SgLbStatsV4(Struct):
    """SgLbStatsV4."""

    group_load: int = integer(0)
    group_usage: int = integer(1)
    sum_nr_running: int = integer(2)
    sum_weighted_load: int = integer(3)
    idle_cpus: int = integer(4)
    group_capacity: int = integer(5)
    avg_load: int = integer(6)
    load_per_task: int = integer(7)
    group_weight: int = integer(8)
    group_no_capacity: int = integer(9)
    group_type: int = integer(10)
    min_load: int = integer(11)
    max_load: int = integer(12)


class SgLbStats(Struct):
    """SgLbStats."""

    group: SchedGroup = pointer("SchedGroup", 20)  # row of the group, -1 for none
    avg_load: int = integer(21)
    load: int = integer(22)
    util: int = integer(23)
    runnable: int = integer(24)
    capacity: int = integer(25)
    sum_nr: int = integer(26)  # rq->nr_running
    sum_h_nr: int = integer(27)  # fair tasks
    idle_cpus: int = integer(28)
    weight: int = integer(29)
    type: int = integer(30)
    smt_balance: int = integer(31)


class Decision(Struct):
    """Decision."""

    by_cpu: int = integer(
        0
    )  # the CPU that executed the call: the idle load balancer calls it on behalf of others
    idle: int = integer(1)  # codes/idle_type.py
    designated: int = integer(2)  # the CPU that may balance for the local group
    dst_cpu: int = integer(
        3
    )  # the CPU that pulled in the end, another one of the group if a task may not run on the first
    busiest: int = integer(4)  # place of the busiest group in the ring, -1 if there is none
    imbalance: int = integer(5)  # load to move
    average: int = integer(6)  # average load of the domain
    imbalance_pct: int = integer(7)
    tries: int = integer(
        8
    )  # how often a busiest group was looked for: once more after each queue with pinned tasks only
    failed: int = integer(9)  # nr_balance_failed before the call
    interval: int = integer(10)  # balance_interval before the call, ms
    held_back: Array = array(11, 4)  # looks at a task that did not move, by reason
    running: int = integer(12)
    hot: int = integer(13)
    heavy: int = integer(14)
    src_nr_running: int = integer(15)  # nr_running of the source before the call took anything
    nr_groups: int = integer(16)
    prefer_sibling: int = integer(
        17
    )  # 1: the level below prefers to spread tasks over its siblings; v6.12 adds two more values


class DecisionGroup(Struct):
    """DecisionGroup."""

    span: int = integer(0)  # row of the CPU set
    local: int = integer(1)
    type: int = integer(2)  # sgs.py
    load: int = integer(3)
    avg_load: int = integer(4)
    min_load: int = integer(5)  # -1 if no CPU was considered
    max_load: int = integer(6)
    nr_running: int = integer(7)
    idle_cpus: int = integer(8)
    capacity: int = integer(9)
    usage: int = integer(10)
    load_per_task: int = integer(11)


class Op(Struct):
    """Op."""

    code: int = integer(0)  # workload/ops.py
    arg1: int = integer(1)
    arg2: int = integer(2)
    arg3: int = integer(3)
    arg4: int = integer(4)


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
