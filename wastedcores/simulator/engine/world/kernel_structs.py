"""The structs of a replay's globals, of programs and of what tasks wait for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from wastedcores.jit.structs import Struct, array, integer, pointer
from wastedcores.simulator.engine.world.cpuset import ACTIVE

if TYPE_CHECKING:
    from wastedcores.jit.structs import Pointer
    from wastedcores.simulator.engine.world.queue_structs import Rq
    from wastedcores.simulator.engine.world.task_structs import TaskStruct
    from wastedcores.topology.machine import Machine


class Kernel(Struct):
    """The globals of a replay: row 0, behind the columns of CPU 0."""

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
    # the row behind the named CPU sets (cpuset.py), which is the core row
    design: Pointer[Design] = pointer("Design", 87)
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
    # three rows of sg_lb_stats, one each of sd_lb_stats and lb_env, and the machine's random stream
    scratch = integer(102)
    cpuset0 = integer(103)
    list0 = integer(104)
    op0 = integer(105)
    task0 = integer(106)
    log0 = integer(107)
    # where a list begins that has three numbers for each CPU of each tree: the first domain, how many there are, the LLC's id
    domain_lists = integer(108)
    # where a list begins that has the weights of the nice levels -20 to 19, and then their inverses
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
    group_imbalance_fix = integer(124)  # GI_*
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
    # plain Python sees besides:

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
    """The globals that modern kernels have besides, among them the rules of a release (wastedcores/kernels/rules.py)."""

    nohz_has_blocked = integer(1)  # nohz.has_blocked: averages of tickless CPUs are left to update
    # nohz.needs_update: Kernel.nohz_next_balance has to be computed anew
    nohz_needs_update = integer(2)
    nohz_next_blocked = integer(3)  # nohz.next_blocked: the jiffy at which they are due
    newidle = integer(4)  # when newidle balancing tries a level, codes/newidle.py
    delay_dequeue = integer(5)  # likewise DELAY_DEQUEUE
    sis_util = integer(6)  # likewise SIS_UTIL
    # 1: an idle CPU takes one tick before it stops its tick, as without a cpuidle governor
    idle_ticks_before_stop = integer(7)
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
    # of all kernels: what a task pays when it first runs behind another last-level cache
    refill_ns = integer(34)


class Design(Struct):
    """The state of a design (docs/design-mode.md); its row is the one behind the named CPU sets."""

    decides = integer(0)  # 1 if a design decides, 0 if Linux does
    sync = integer(1)  # whether the waker of the present wakeup is about to sleep
    nodes = integer(2)
    # the first row of the modules' counts: each module has a row that counts its answers at each moment
    counts = integer(3)
    busy = integer(4)  # first row of the busy CPUs, counted by node or by cache
    near_list = integer(5)  # first row of the CPUs by nearness: all CPUs for each CPU
    modules = integer(6)  # how many modules to ask
    module = array(7, 64)  # their codes, in order

    @property
    def near(self) -> Sequence[Sequence[int]]:
        """For each CPU all CPUs, the nearest first; for plain Python."""
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
    # first and last of the tasks that wait, in order of arrival
    head: Pointer[TaskStruct] = pointer("TaskStruct", 2)
    tail: Pointer[TaskStruct] = pointer("TaskStruct", 3)
    generation = integer(4)
    stopped = integer(5)
    owner: Pointer[TaskStruct] = pointer("TaskStruct", 6)


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
    last_tick = integer(7)  # of a core: the jiffy of the last one
    running = integer(8)  # of a core: CPUs that run a task
    core_idle_since = integer(9)
    package: Pointer[Clock] = pointer("Clock", 10)  # of a core: row of the first CPU of its package
    active = integer(11)  # of a package: cores that run a task


class ClockConstants(Struct):
    """What the clocks of a machine have in common: the row behind the last CPU's clock."""

    min_khz = integer(1)  # 0: the frequency is constant
    nominal_khz = integer(2)
    ramp_ticks = integer(3)
    hold_ns = integer(4)
    shared_speed = integer(5)  # speed of a CPU whose core runs several tasks
    steps = integer(6)
    states = integer(7)
    step = array(8, 8)  # pairs of active cores and kHz
    state = array(72, 8)  # pairs of residency and exit latency
