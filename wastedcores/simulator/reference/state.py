"""The scheduler's data structures: entities, queues, task groups, run queues and tasks.

The names of classes and fields are the kernel's (include/linux/sched.h and kernel/sched/sched.h, v4.1).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from typing import Any

from wastedcores.simulator.reference.arithmetic import NICE_0_LOAD, PRIO_TO_WEIGHT, PRIO_TO_WMULT

#: sysctl_sched_migration_cost, in ns
MIGRATION_COST_NS = 500_000
#: number of tasks that one call of detach_tasks() examines (sysctl_sched_nr_migrate)
NR_MIGRATE = 32


@dataclass(eq=False, repr=False)
class SchedAvg:
    """The load of an entity or of a queue as v4.4 and v6.12 track it (struct sched_avg; pelt_v4_4.py, pelt_v6_12.py)."""

    last_update: int = 0
    load_sum: int = 0
    runnable_sum: int = 0
    util_sum: int = 0
    period_contrib: int = 0
    load_avg: int = 0
    runnable_avg: int = 0
    util_avg: int = 0
    #: UTIL_AVG_UNCHANGED of a task is ``unchanged``
    util_est: int = 0
    unchanged: bool = False
    #: the two numbers of which v6.1 takes the larger one as ``util_est`` (struct util_est)
    util_ewma: int = 0
    util_enqueued: int = 0


@dataclass(eq=False, repr=False)
class Entity:
    """A sched_entity with its sched_avg: a task, or the part of a task group on one CPU."""

    name: str
    weight: int = NICE_0_LOAD
    inv: int = 4194304
    task: Task | None = None
    my_q: CfsRq | None = None
    cfs_rq: CfsRq = None  # type: ignore[assignment]
    parent: Entity | None = None
    on_rq: bool = False
    vruntime: int = 0
    exec_start: int = 0
    sum_exec: int = 0
    prev_sum_exec: int = 0
    # struct sched_avg, v4.1
    last_update: int = 0
    runnable_sum: int = 0
    running_sum: int = 0
    avg_period: int = 0
    load_avg_contrib: int = 0
    utilization_avg_contrib: int = 0
    decay_count: int = 0
    # v6.12; its weights are shifted up by ten bits (scale_load())
    avg: SchedAvg = field(default_factory=SchedAvg)
    deadline: int = 0
    slice_ns: int = 0
    custom_slice: bool = False
    #: lag at the last dequeue; before v6.17, while the entity runs, the deadline that it had when it was picked
    vlag: int = 0
    #: the vruntime up to which it is protected (v6.17)
    vprot: int = 0
    rel_deadline: bool = False
    sched_delayed: bool = False
    runnable_weight: int = 0

    def levels(self) -> list[Entity]:
        """Return the entity and its parents up to the root queue (for_each_sched_entity())."""
        chain: list[Entity] = [self]
        while chain[-1].parent is not None:
            chain.append(chain[-1].parent)
        return chain


@dataclass(eq=False, repr=False)
class CfsRq:
    """A queue of entities: the root queue of a CPU, or the queue of a task group on that CPU."""

    rq: Rq
    tg: TaskGroup
    weight: int = 0
    nr_running: int = 0
    h_nr_running: int = 0
    min_vruntime: int = 0
    #: queued entities without ``curr``, in order of vruntime; entities of equal vruntime in order of arrival
    tree: list[Entity] = field(default_factory=list)
    curr: Entity | None = None
    next: Entity | None = None
    last: Entity | None = None
    skip: Entity | None = None
    runnable_load_avg: int = 0
    blocked_load_avg: int = 0
    utilization_load_avg: int = 0
    removed_load: int = 0
    #: the sum of which v4.4 computes ``runnable_load_avg``; its ``avg`` is v6.12's, without runnable time
    runnable_load_sum: int = 0
    decay_counter: int = 1
    last_decay: int = 0
    tg_load_contrib: int = 0
    tg_runnable_contrib: int = 0
    h_load: int = 0
    last_h_load_update: int = -1
    #: True if update_blocked_averages() visits this queue (leaf_cfs_rq_list)
    on_list: bool = False
    # v6.12, where ``h_nr_running`` is h_nr_queued and the tree is ordered by deadline
    avg: SchedAvg = field(default_factory=SchedAvg)
    #: sums over the tree: of weights, and of weights times the distance of vruntime from ``zero_vruntime``
    avg_load: int = 0
    avg_vruntime: int = 0
    zero_vruntime: int = -(1 << 20)
    h_nr_delayed: int = 0
    propagate: bool = False
    prop_runnable_sum: int = 0
    last_update_tg: int = 0
    #: what tasks that woke elsewhere left behind (``removed``); its load is ``removed_load``
    removed_nr: int = 0
    removed_util: int = 0
    removed_runnable: int = 0

    def insert(self, se: Entity) -> None:
        """Insert an entity into the tree, behind others of equal vruntime (fair.c: __enqueue_entity(), v4.1)."""
        self.tree.insert(bisect_right(self.tree, se.vruntime, key=lambda e: e.vruntime), se)

    def remove(self, se: Entity) -> None:
        """Remove an entity from the tree (fair.c: __dequeue_entity(), v4.1)."""
        i = bisect_left(self.tree, se.vruntime, key=lambda e: e.vruntime)
        while self.tree[i] is not se:
            i += 1
        del self.tree[i]


@dataclass(eq=False, repr=False)
class TaskGroup:
    """A task group, here the root group or an autogroup, with one queue and one entity per CPU."""

    name: str
    shares: int
    load_avg: int = 0
    runnable_avg: int = 0
    cfs_rq: list[CfsRq] = field(default_factory=list)
    se: list[Entity | None] = field(default_factory=list)
    #: the queues report their loads at most once per ms, and only those of active CPUs do (update_tg_load_avg(), v6.12)
    limited: bool = True


@dataclass(eq=False, repr=False)
class Task:
    """One thread. ``state`` is ``new``, ``R`` (runnable), ``S`` (asleep), ``waking``, ``X`` (dead) or ``idle``."""

    pid: int
    comm: str
    tg: TaskGroup
    allowed: frozenset[int]
    nice: int = 0
    cpu: int = 0
    state: str = "new"
    #: ``other``, ``fifo``, ``rr``, ``batch`` or ``idle``
    policy: str = "other"
    #: 1 to 99 for a real-time task, 0 for others
    rt_priority: int = 0
    #: ticks left of the quantum of SCHED_RR
    time_slice: int = 0
    #: the task is on the queue of its CPU's real-time tasks
    on_rt: bool = False
    #: when the task joined the pushable tasks, as a growing number; 0 if it is none of them
    pushable: int = 0
    se: Entity = None  # type: ignore[assignment]
    last_wakee: int = -1
    wakee_flips: int = 0
    wakee_flip_decay: int = 0
    #: the CPU on which the task ran before it woke the last time, v6.12
    recent_used_cpu: int = 0
    #: node of the CPU on which the task was placed when it was created
    home_node: int = 0
    #: where the task is in its program (:class:`programs.Progress`); None for idle tasks and stoppers
    progress: Any = None

    def __post_init__(self) -> None:
        self.se = Entity(
            self.comm, PRIO_TO_WEIGHT[self.nice + 20], PRIO_TO_WMULT[self.nice + 20], task=self
        )

    @property
    def on_rq(self) -> bool:
        """True if the task is queued or running."""
        return self.se.on_rq or self.on_rt


@dataclass(eq=False, repr=False)
class RtRq:
    """The real-time tasks of a CPU (struct rt_rq)."""

    #: the queued tasks with the running one, the most urgent first, in each priority in the order of arrival
    queue: list[Task] = field(default_factory=list)
    #: how many of them ``rq->nr_running`` counts: all, or none while they are throttled (rt_queued)
    counted: int = 0
    throttled: bool = False
    #: for how long they ran in this period (rt_time)
    time_ns: int = 0
    #: push when the switch is done (rq->post_schedule)
    push_later: bool = False


@dataclass(eq=False, repr=False)
class Rq:
    """The run queue of one CPU (struct rq)."""

    cpu: int
    idle_task: Task
    cfs: CfsRq = None  # type: ignore[assignment]
    rt: RtRq = field(default_factory=RtRq)
    curr: Task = None  # type: ignore[assignment]
    nr_running: int = 0
    #: sum of the weights in the root queue (rq->load.weight)
    load_weight: int = 0
    #: ``rq->clock``: the time at which the clock was last updated, not the present time (update_rq_clock())
    clock_ns: int = 0
    #: all queued tasks, newest first (rq->cfs_tasks)
    cfs_tasks: list[Task] = field(default_factory=list)
    online: bool = True
    need_resched: bool = False
    cpu_load: list[int] = field(default_factory=lambda: [0] * 5)
    last_load_update_tick: int = 0
    cpu_capacity: int = 1024
    cpu_capacity_orig: int = 1024
    idle_stamp: int = 0
    avg_idle: int = 2 * MIGRATION_COST_NS
    max_idle_balance_cost: int = MIGRATION_COST_NS
    next_balance: int = 0
    idle_balance: bool = False
    tick_stopped: bool = False
    #: the jiffy until which an idle CPU keeps its tick because RCU needs it
    keep_tick: int = 0
    nohz_balance_kick: bool = False
    #: the next CPU of this CPU's pass as NOHZ idle balancer; None if no pass is under way
    ilb_next: int | None = None
    # v6.12
    ilb: Any = None
    #: the kicks that wait for this CPU (nohz_flags()), and those that its softirq handles
    nohz_flags: int = 0
    nohz_idle_balance: int = 0
    has_blocked_load: bool = False
    #: when the last newidle balancing ended: until then the CPU runs nothing else
    newidle_until_ns: int = 0
    last_blocked_load_update_tick: int = 0
    #: what distinguishes the release from other modern ones (wastedcores/kernels/rules.py)
    rules: Any = None
    #: the task gives way when its CPU next enters the kernel (TIF_NEED_RESCHED_LAZY)
    lazy_resched: bool = False
    #: when the timer that ends slices expires, the CPU is in schedule(), and what to set the timer to at its end
    hrtick_at_ns: int = 0
    in_schedule: bool = False
    hrtick_delay_ns: int = -1
    active_balance: bool = False
    push_cpu: int = -1
    #: the migration thread is queued or running; it counts in nr_running
    stopper: bool = False
    #: this CPU's page counters changed since they were last folded into the machine's
    touched: bool = False
    wake_list: list[Task] = field(default_factory=list)
    #: domains of this CPU, innermost first
    sd: list[Any] = field(default_factory=list)
