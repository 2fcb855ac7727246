"""The structs of a replay's globals, of programs, of the objects that tasks wait for, and of the addresses of functions.

The structs of addresses hold functions that only some kernels or machines have; ``wastedcores/simulator/engine/classes.py`` fills
them. A replay compiles and loads only the functions that it needs. Each struct of addresses shares its row with another struct.
"""
# mypy: disable-error-code="empty-body"
# ruff: noqa: D102 (the methods are prototypes)

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from wastedcores.jit.structs import Struct, array, integer, method, pointer
from wastedcores.simulator.engine.world.cpuset import ACTIVE

if TYPE_CHECKING:
    from wastedcores.jit.structs import Pointer
    from wastedcores.simulator.engine.world.queue_structs import Rq, SchedEntity, TaskStruct
    from wastedcores.topology.machine import Machine


class Kernel(Struct):
    """The globals of a replay. They are in row 0, after the columns of CPU 0."""

    load_v4_4 = integer(55)  # whether load is tracked as in v4.4, and not as in v4.1
    now_ns = integer(56)
    seq = integer(57)  # the last sequence number that an event was given
    jiffies = integer(58)  # now_ns // tick_ns
    tick_ns = integer(59)
    nr_cpus = integer(60)
    this_cpu = integer(61)  # the CPU in whose context the code runs
    status = integer(62)  # codes/status.py
    irq_ns = integer(63)
    log_n = integer(64)  # records in the log
    log_room = integer(65)  # records that fit in the log
    log_margin = integer(66)  # records that one event may write
    live_tasks = integer(67)  # living tasks that are no daemons
    until_ns = integer(68)
    events = integer(69)  # events handled
    steps = integer(70)  # operations of tasks since simulated time last passed
    heap_hole = integer(71)  # 1: the root of the heap was taken out
    heap0 = integer(72)
    heap_n = integer(73)
    heap_room = integer(74)  # number of entries that fit in the heap
    ticks0 = integer(75)  # first row of the ring of ticks to come
    ticks_head = integer(76)  # how many ticks were taken out of the ring
    ticks_tail = integer(77)  # how many ticks were put into the ring
    ticks_low = integer(78)  # places of the ring, less one
    runs0 = integer(79)  # first row of the tournament, which holds the ends of stretches
    computing = integer(80)  # tasks that will continue without being woken
    timers = integer(81)  # timers and hotplug steps that are pending
    nohz_nr_cpus = integer(82)
    nohz_next_balance = integer(83)
    overload = integer(84)  # root_domain.overload
    log_load = integer(85)  # whether the weight of the runqueues is logged
    log_considered = integer(86)  # whether the CPUs that each decision looked at are logged
    # the core row, which follows the named CPU sets (cpuset.py)
    design: Pointer[Design] = pointer("Design", 87)
    runs = integer(88)  # leaves of the tournament
    culprit = integer(89)  # the task to which the status refers
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
    # the first rows of scratch: three of sg_lb_stats, one of sd_lb_stats, one of lb_env, one of the machine's random stream
    scratch = integer(102)
    cpuset0 = integer(103)
    list0 = integer(104)
    op0 = integer(105)
    task0 = integer(106)
    log0 = integer(107)
    # the start of a list with three numbers per CPU and tree: the CPU's first domain, its number of domains, the LLC's id
    domain_lists = integer(108)
    # the start of a list with the weights of the nice levels -20 to 19 and then their inverses
    weight_lists = integer(109)
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
    group_imbalance_fix = integer(124)  # codes/group_imbalance_fix.py
    overload_on_wakeup_fix = integer(125)
    t_start = integer(126)  # when the workload begins
    seed = integer(127)
    log_lost = integer(128)  # records that found no room in the log
    cpuset_words = integer(129)  # words of a CPU set
    clock0 = integer(130)  # first row of the clocks, 0 if all CPUs run at one constant speed
    fork_wait = integer(131)  # the strategy of the fork/wait paper, 0 for none
    # first row of the decision that is being made (Decision), 0 if decisions are not logged
    decisions = integer(132)
    rt0 = integer(133)  # first row of the real-time queues (RtRq), 0 if no task changes its policy
    is_modern = integer(134)  # whether the fair class and the balancer are those of a modern kernel
    base_slice = integer(135)  # sysctl_sched_base_slice (v6.12)
    # plain Python also sees:

    @property
    def rqs(self) -> Sequence[Rq]:
        """The runqueues of the CPUs."""
        return self.about.rqs  # type: ignore[no-any-return]

    @property
    def active(self) -> frozenset[int]:
        """The CPUs that are online."""
        return self.about.cpus_of(self.design.row + ACTIVE)  # type: ignore[no-any-return]

    @property
    def machine(self) -> Machine:
        """The machine."""
        return self.about.machine  # type: ignore[no-any-return]


class Modern(Struct):
    """The additional globals of modern kernels, among them the rules of a release (wastedcores/kernels/rules.py)."""

    # nohz.has_blocked: whether averages of tickless CPUs still have to be updated
    nohz_has_blocked = integer(1)
    # nohz.needs_update: whether Kernel.nohz_next_balance has to be computed anew
    nohz_needs_update = integer(2)
    # nohz.next_blocked: the jiffy at which the averages are due for an update
    nohz_next_blocked = integer(3)
    newidle = integer(4)  # when newidle balancing tries a level, codes/newidle.py
    delay_dequeue = integer(5)  # whether there is DELAY_DEQUEUE
    sis_util = integer(6)  # whether there is SIS_UTIL
    # 1: an idle CPU takes one tick before it stops its tick, as without a cpuidle governor
    idle_ticks_before_stop = integer(7)
    # wastedcores/kernels/rules.py explains this field and the next ones
    tg_load_avg_limited = integer(8)
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
    in_interrupt = integer(30)  # whether a timer, and not the running task, wakes a task
    scan_left = integer(31)  # in a search for an idle CPU: how many CPUs may still be examined
    scan_cpu = integer(32)  # the idle CPU that this search found, -1 for none
    scan_over = integer(33)
    # for all kernels: the time that a task loses when it starts to run under another last-level cache than the last time
    refill_ns = integer(34)
    # for all kernels: how long the end of a system call takes if the task waited or woke other tasks in the call
    syscall_ns = integer(35)


class Design(Struct):
    """The state of a design (docs/design-mode.md). Its row follows the named CPU sets."""

    decides = integer(0)  # 1 if a design decides, 0 if Linux does
    sync = integer(1)  # whether the waker of the current wakeup is about to sleep
    nodes = integer(2)
    # the first row of the modules' counts: each module has a row that counts its answers at each moment
    counts = integer(3)
    busy = integer(4)  # first row of the numbers of busy CPUs per node or per cache
    near_list = integer(5)  # first row of the list that has, for each CPU, all CPUs by nearness
    modules = integer(6)  # how many modules to ask
    module = array(7, 64)  # their codes, in order

    @property
    def near(self) -> Sequence[Sequence[int]]:
        """For each CPU, a list of all CPUs, the nearest first (only in plain Python)."""
        return self._kernel.about.near  # type: ignore[no-any-return]


class HotplugStep(Struct):
    """A CPU that goes offline or comes back at some time."""

    event = integer(0)
    cpu = integer(2)
    online = integer(3)


class Op(Struct):
    """An operation of a task's program: its code and four numbers (workload/ops.py)."""

    code = integer(0)  # workload/ops.py
    arg1 = integer(1)
    arg2 = integer(2)
    arg3 = integer(3)
    arg4 = integer(4)


class WaitObject(Struct):
    """A barrier, lock, semaphore, condition or periodic timer."""

    parties = integer(0)
    count = integer(1)
    # the first and the last of the waiting tasks, in order of arrival
    head: Pointer[TaskStruct] = pointer("TaskStruct", 2)
    tail: Pointer[TaskStruct] = pointer("TaskStruct", 3)
    generation = integer(4)
    stopped = integer(5)
    owner: Pointer[TaskStruct] = pointer("TaskStruct", 6)
    # of a lock: whether the next UNLOCK wakes a sleeper; sync_jit.ALWAYS if tasks have shared the lock
    contended = integer(7)


class Clock(Struct):
    """The clock of a CPU, row ``k.clock0 + cpu``.

    The clock of a core is in the row of its first CPU, and the number of active cores of a package in the row of the package's
    first CPU (docs/replay-semantics.md, section 12).
    """

    speed = integer(0)
    busy = integer(1)  # whether it runs a task
    idle_since = integer(2)
    core: Pointer[Clock] = pointer("Clock", 3)  # row of its core's first CPU
    sibling = integer(4)  # row of the next CPU of its core, -1 for the last one
    khz = integer(5)  # of a core
    busy_ticks = integer(6)  # of a core: ticks that found it busy
    last_tick = integer(7)  # of a core: the jiffy of the last such tick
    running = integer(8)  # of a core: CPUs that run a task
    core_idle_since = integer(9)
    package: Pointer[Clock] = pointer("Clock", 10)  # of a core: row of the first CPU of its package
    active = integer(11)  # of a package: cores that run a task


class ClockConstants(Struct):
    """The constants of all clocks of a machine. Their row follows the last CPU's clock."""

    min_khz = integer(1)  # 0: the frequency is constant
    nominal_khz = integer(2)
    ramp_ticks = integer(3)
    hold_ns = integer(4)
    shared_speed = integer(5)  # speed of a CPU whose core runs several tasks
    steps = integer(6)
    states = integer(7)
    step = array(8, 8)  # pairs of active cores and kHz
    state = array(72, 8)  # pairs of residency and exit latency


class FairClass(Struct):
    """A modern kernel's fair class (``fair_sched_class``), in the row of Modern. The functions of v4.1 are called directly."""

    # enqueue_task_fair(); ``how`` is one of codes/arrival.py.
    @method(60)
    def enqueue_task(self, k: Kernel, p: TaskStruct, how: int) -> None: ...
    # dequeue_task_fair(); ``flags`` are those of codes/dequeue.py.
    @method(61)
    def dequeue_task(self, k: Kernel, p: TaskStruct, flags: int) -> None: ...
    # pick_next_task_fair(), with newidle balancing; NULL for none.
    @method(62)
    def pick_next_task(self, k: Kernel, cpu: int, prev: TaskStruct) -> TaskStruct: ...
    @method(63)
    def put_prev_task(self, k: Kernel, p: TaskStruct) -> None: ...
    @method(64)
    def task_tick(self, k: Kernel, p: TaskStruct) -> None: ...
    # check_preempt_wakeup(), wakeup_preempt_fair() for a task that woke or is new.
    @method(65)
    def wakeup_preempt(self, k: Kernel, cpu: int, p: TaskStruct, new: int) -> None: ...
    @method(66)
    def reweight_entity(self, k: Kernel, se: SchedEntity, weight: int, inv: int) -> None: ...
    @method(67)
    def task_fork(self, k: Kernel, p: TaskStruct) -> None: ...
    @method(68)
    def post_init_entity_util_avg(self, k: Kernel, p: TaskStruct) -> None: ...
    # set_user_nice(), reweight_task(), prio_changed_fair().
    @method(69)
    def set_user_nice(self, k: Kernel, p: TaskStruct, nice: int) -> None: ...
    @method(70)
    def yield_task(self, k: Kernel, p: TaskStruct) -> None: ...
    @method(71)
    def task_change_group(self, k: Kernel, p: TaskStruct, group: int) -> None: ...
    # ttwu_runnable() of a task that is asleep and still queued; CFS has no such tasks.
    @method(72)
    def wake_delayed(self, k: Kernel, p: TaskStruct) -> None: ...
    @method(73)
    def migrate_task_rq(self, k: Kernel, p: TaskStruct) -> None: ...
    # Choose a task of a CPU that goes offline.
    @method(74)
    def pick_task(self, k: Kernel, cpu: int) -> TaskStruct: ...
    # Put back the task that ran, and set the one that was chosen.
    @method(75)
    def set_picked(self, k: Kernel, p: TaskStruct, prev: TaskStruct) -> None: ...
    @method(76)
    def rq_offline(self, k: Kernel, cpu: int) -> None: ...
    @method(77)
    def task_dead(self, k: Kernel, p: TaskStruct) -> None: ...
    # online_fair_sched_group() for one CPU.
    @method(78)
    def online_sched_group(self, k: Kernel, se: SchedEntity) -> None: ...
    # set_next_entity(); ``first`` is 0 if the entity already ran and only its weight or group has changed.
    @method(79)
    def set_next_entity(self, k: Kernel, se: SchedEntity, first: int) -> None: ...
    @method(80)
    def put_prev_entity(self, k: Kernel, se: SchedEntity) -> None: ...


class Balancer(Struct):
    """Placement and balancing of a modern kernel, in the row of Modern."""

    # Set the state that the LLCs have reached through balancing since boot.
    @method(40)
    def booted(self, k: Kernel) -> None: ...
    # Initialize the domains that every CPU has just got. ``now`` counts as the jiffy of their last balancing.
    @method(41)
    def attached(self, k: Kernel, now: int) -> None: ...
    # select_task_rq_fair().
    @method(42)
    def select_task_rq(self, k: Kernel, p: TaskStruct, flag: int, sync: int) -> int: ...
    # newidle_balance(): return whether tasks came.
    @method(43)
    def newidle_balance(self, k: Kernel, cpu: int) -> int: ...
    # trigger_load_balance(), sched_balance_trigger(), at a tick.
    @method(44)
    def trigger_load_balance(self, k: Kernel, cpu: int) -> None: ...
    # run_rebalance_domains(), sched_balance_softirq().
    @method(45)
    def run_rebalance_domains(self, k: Kernel, cpu: int) -> None: ...
    # nohz_csd_func().
    @method(46)
    def kick_arrives(self, k: Kernel, cpu: int) -> None: ...
    # active_load_balance_cpu_stop(), in the stopper's thread.
    @method(47)
    def active_load_balance(self, k: Kernel, cpu: int) -> None: ...
    # do_idle(): update averages of idle CPUs, and stop the tick.
    @method(48)
    def enters_idle(self, k: Kernel, cpu: int) -> None: ...
    @method(49)
    def update_idle_core(self, k: Kernel, cpu: int) -> None: ...
    @method(50)
    def nohz_balance_enter_idle(self, k: Kernel, cpu: int) -> None: ...
    # Update avg_idle of an idle CPU that gets a task by a wakeup.
    @method(51)
    def idle_cpu_woken(self, k: Kernel, cpu: int) -> None: ...
    # Drop the kicks of a CPU that goes offline.
    @method(52)
    def leaves(self, k: Kernel, cpu: int) -> None: ...


class RtClass(Struct):
    """The real-time class (``rt_sched_class``), in the row of RtShared. Only programs with policies have it."""

    @method(10)
    def enqueue_task(self, k: Kernel, p: TaskStruct, head: int) -> None: ...
    @method(11)
    def dequeue_task(self, k: Kernel, p: TaskStruct) -> None: ...
    # pick_next_task_rt(), NULL for none; ``before`` is the priority of the task that ran.
    @method(12)
    def pick_next_task(self, k: Kernel, cpu: int, prev: TaskStruct, before: int) -> TaskStruct: ...
    @method(13)
    def put_prev_task(self, k: Kernel, cpu: int, p: TaskStruct) -> None: ...
    @method(14)
    def task_tick(self, k: Kernel, cpu: int, p: TaskStruct) -> None: ...
    @method(15)
    def select_task_rq(self, k: Kernel, p: TaskStruct, flag: int) -> int: ...
    @method(16)
    def check_preempt_curr(self, k: Kernel, cpu: int, p: TaskStruct) -> None: ...
    @method(17)
    def task_woken(self, k: Kernel, cpu: int, p: TaskStruct) -> None: ...
    @method(18)
    def yield_task(self, k: Kernel, cpu: int, p: TaskStruct) -> None: ...
    @method(19)
    def post_schedule(self, k: Kernel, cpu: int) -> None: ...
    # sched_rt_period_timer().
    @method(20)
    def period_timer(self, k: Kernel) -> None: ...
    # sched_setscheduler().
    @method(21)
    def set_policy(self, k: Kernel, p: TaskStruct, policy: int, priority: int) -> None: ...
    # Give a new task its quantum.
    @method(22)
    def task_born(self, k: Kernel, p: TaskStruct) -> None: ...
    # rq_offline_rt(): end the throttling of a CPU, so that its tasks can be moved; return the most urgent task or NULL.
    @method(23)
    def rq_offline(self, k: Kernel, cpu: int) -> TaskStruct: ...


class CoreModule(Struct):
    """What a design decides instead of Linux (docs/design-mode.md), in the row of Design."""

    # Choose a CPU for a thread that becomes runnable.
    @method(100)
    def select_cpu(self, k: Kernel, p: TaskStruct, flag: int, sync: int) -> int: ...
    # Return whether a CPU that ran out of work got a thread.
    @method(101)
    def pull(self, k: Kernel, cpu: int) -> int: ...
    # Decide at a tick.
    @method(102)
    def task_tick(self, k: Kernel, cpu: int) -> None: ...
    # Hand over, after an event, every thread that waits although a CPU is free for it.
    @method(103)
    def settle(self, k: Kernel) -> None: ...


class ClockFunctions(Struct):
    """The functions that keep track of the speeds of CPUs, in the row of ClockConstants. Only machines with clocks have them."""

    # Follow a CPU's switch between two tasks, or between a task and idle; return the exit latency of the idle state that it left.
    @method(120)
    def switched(self, k: Kernel, cpu: int) -> int: ...
    # Handle the tick of a busy CPU.
    @method(121)
    def ticked(self, k: Kernel, cpu: int) -> None: ...
