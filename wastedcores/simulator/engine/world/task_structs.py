"""The structs of tasks and of the entities that are scheduled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wastedcores.jit.structs import Struct, array, embedded, integer, pointer

if TYPE_CHECKING:
    from wastedcores.jit.structs import Embedded, Pointer
    from wastedcores.simulator.engine.world.kernel_structs import Op
    from wastedcores.simulator.engine.world.queue_structs import CfsRq


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
    """``struct sched_entity``. What a tick reads of an entity lies in two cache lines of eight columns each."""

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
    # lag at the last dequeue; before v6.17, while the entity runs, the deadline that it had when it was picked
    vlag = integer(109)
    rel_deadline = integer(110)
    sched_delayed = integer(111)
    runnable_weight = integer(112)
    vprot = integer(127)  # the vruntime up to which it is protected (v6.17)


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
    # work of the present stretch that is still to do, in ns at the nominal speed
    left = integer(26)
    spin = integer(27)  # 1: it spins, 2: what it spun for has been granted
    # first of the tasks that it is about to wake
    wake_q_head: Pointer[TaskStruct] = pointer("TaskStruct", 28)
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
    on_rt = integer(63)  # whether it is on that queue
    # when it joined the pushable tasks, as a growing number; 0 if it is none of them
    pushable = integer(64)
    ran_llc = integer(65)  # 1 + the last-level cache behind which it ran last, 0: it has not run
    recent_used_cpu = integer(123)
    # whether it has the name of a kernel thread of which each CPU has one; templates have this column, too
    kthread = integer(124)
    # the two numbers of which v6.1 takes the larger one as UTIL_EST (struct util_est)
    util_ewma = integer(125)
    util_enqueued = integer(126)

    # plain Python sees besides:

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
