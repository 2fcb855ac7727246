"""Functions that all modern kernels share: the loads that balancing compares, weights, and what a fair class does to a task.

Source: kernel/sched/fair.c, core.c and sched.h, v6.12.107; v6.1.192 has the same functions. Weights are shifted up by ten bits
(scale_load()). Every CPU has the capacity 1024: no real-time load, frequency or asymmetry reduces it.
"""

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.codes import arrival, dequeue, task_state
from wastedcores.simulator.engine.fair.cfs_jit import hrtick_start, resched
from wastedcores.simulator.engine.fair.entity_jit import set_task_rq
from wastedcores.simulator.engine.fair.load_jit import task_h_load
from wastedcores.simulator.engine.fair.pelt_v6_12_jit import (
    MIN_DIVIDER,
    attach_task,
    dequeue_load_avg,
    detach_task,
    enqueue_load_avg,
    scale_load_down,
    update_blocked_se,
)
from wastedcores.simulator.engine.world.cpusets_jit import item
from wastedcores.simulator.engine.world.rows_jit import (
    balancer,
    cpu_cfs_rq,
    cpu_rq,
    fair_class,
    runs_idle,
)
from wastedcores.simulator.engine.world.structs import (
    NO_TASK,
    CfsRq,
    Kernel,
    SchedEntity,
    TaskStruct,
)

#: SCHED_CAPACITY_SCALE
CAPACITY = 1024


@inner
def cpu_load(k: Kernel, cpu: int) -> int:
    """cpu_load(): the load of a CPU, including the decaying load of tasks that sleep."""
    return cpu_cfs_rq(k, cpu).avg.load_avg


@inner
def cpu_runnable(k: Kernel, cpu: int) -> int:
    """cpu_runnable(): the average number of runnable tasks of a CPU, times 1024."""
    return cpu_cfs_rq(k, cpu).avg.runnable_avg


@inner
def task_util_est(k: Kernel, p: TaskStruct) -> int:
    """task_util_est(): the use that a task is expected to make of a CPU."""
    return max(p.se.avg.util_avg, p.se.avg.util_est)


@apart(VALUE)
def cpu_util(k: Kernel, cpu: int, p: TaskStruct, dst_cpu: int, boost: int) -> int:
    """cpu_util(): the use of a CPU as it is (``p`` is NULL), or as it would be if ``p`` ran on ``dst_cpu``.

    With ``boost``, the time for which tasks wait for the CPU counts as use, too.
    """
    q = cpu_cfs_rq(k, cpu)
    util = q.avg.util_avg
    runnable = q.avg.runnable_avg
    estimate = q.avg.util_est
    if p:
        if p.cpu == cpu and dst_cpu != cpu:
            util -= min(util, p.se.avg.util_avg)
            runnable -= min(runnable, p.se.avg.runnable_avg)
        elif p.cpu != cpu and dst_cpu == cpu:
            util += p.se.avg.util_avg
            runnable += p.se.avg.runnable_avg
        if dst_cpu == cpu:
            estimate += p.se.avg.util_est
        elif p.se.on_rq != 0 or p.on_rt != 0 or cpu_rq(k, k.this_cpu).curr == p:
            estimate -= min(estimate, p.se.avg.util_est)
    if boost:
        util = max(util, runnable)
    return min(max(util, estimate), CAPACITY)


@inner
def contributes(k: Kernel, cpu: int, p: TaskStruct) -> bool:
    """Return whether ``p`` is part of a CPU's averages. A new task is part of none."""
    return p.cpu == cpu and p.se.avg.last_update != 0


@inner
def cpu_util_without(k: Kernel, cpu: int, p: TaskStruct) -> int:
    """cpu_util_without(): the use of a CPU without the contribution of ``p``."""
    return cpu_util(k, cpu, p if contributes(k, cpu, p) else NO_TASK, -1, 0)


@inner
def cpu_load_without(k: Kernel, cpu: int, p: TaskStruct) -> int:
    """cpu_load_without(): the load of a CPU without the contribution of ``p``."""
    load = cpu_load(k, cpu)
    if contributes(k, cpu, p):
        load -= min(load, task_h_load(k, p))
    return load


@inner
def cpu_runnable_without(k: Kernel, cpu: int, p: TaskStruct) -> int:
    """cpu_runnable_without(): the runnable average of a CPU without the contribution of ``p``."""
    runnable = cpu_runnable(k, cpu)
    if contributes(k, cpu, p):
        runnable -= min(runnable, p.se.avg.runnable_avg)
    return runnable


@inner
def sync_entity_load_avg(k: Kernel, p: TaskStruct) -> None:
    """sync_entity_load_avg(): let the averages of a task decay up to the last update of its queue."""
    update_blocked_se(k, p.se.cfs_rq.avg.last_update, p.se)


@apart(NOTHING)
def remove_entity_load_avg(k: Kernel, p: TaskStruct) -> None:
    """remove_entity_load_avg(): a task wakes on another CPU, so its old queue has to subtract its averages later."""
    sync_entity_load_avg(k, p)
    q = p.se.cfs_rq
    q.removed_nr += 1
    q.removed_util += p.se.avg.util_avg
    q.removed_load += p.se.avg.load_avg
    q.removed_runnable += p.se.avg.runnable_avg


@apart(NOTHING)
def migrate_task(k: Kernel, p: TaskStruct) -> None:
    """migrate_task_rq_fair(): take a task out of the averages of its old CPU (v6.12.107; the end of this function in v6.1).

    A queued task was detached when it was dequeued. The averages of a sleeping task are subtracted later by its old queue. If the
    old CPU is idle, its queue was not updated until now, so the task's averages decay until now (migrate_se_pelt_lag()).
    """
    waking = p.state == task_state.WAKING and p.se.sched_delayed == 0
    if waking and p.se.avg.last_update != 0:
        remove_entity_load_avg(k, p)
        if runs_idle(k, p.se.cfs_rq.cpu):
            update_blocked_se(k, k.now_ns, p.se)
    p.se.avg.last_update = 0
    p.se.exec_start = 0


#: MIN_SHARES, which is compared with weights that are shifted up
MIN_SHARES = 2


@inner
def set_weight(k: Kernel, q: CfsRq, se: SchedEntity, weight: int, inv: int) -> None:
    """The middle of reweight_entity(): change an entity's weight, and the load that it adds to its queue."""
    dequeue_load_avg(k, q, se)
    se.weight = weight
    se.inv_weight = inv
    divider = MIN_DIVIDER + se.avg.period_contrib
    se.avg.load_avg = scale_load_down(weight) * se.avg.load_sum // divider
    enqueue_load_avg(k, q, se)


@inner
def update_runnable(k: Kernel, se: SchedEntity) -> None:
    """se_update_runnable(): count the runnable tasks below a group's entity."""
    g = se.my_q
    if g:
        se.runnable_weight = g.h_nr_running - g.h_nr_delayed


@inner
def calc_group_shares(k: Kernel, g: CfsRq) -> int:
    """calc_group_shares(): return the weight of a group's entity: its CPU's part of the group's weight."""
    tg = g.task_group
    load = max(scale_load_down(g.load_weight), g.avg.load_avg)
    total = tg.load_avg - g.tg_load_contrib + load
    most = tg.shares << 10
    shares = most * load
    if total != 0:
        shares //= total
    return min(max(shares, MIN_SHARES), most)


@inner
def rq_of(k: Kernel, p: TaskStruct) -> int:
    """Return the CPU on whose queue a task is."""
    return p.se.cfs_rq.cpu


@inner
def weight_of(k: Kernel, nice: int) -> int:
    """set_load_weight(): return the weight of a task with a nice value, in full resolution."""
    return item(k, k.weight_lists + nice + 20) << 10


@inner
def inverse_of(k: Kernel, nice: int) -> int:
    """sched_prio_to_wmult: return 2**32 divided by the weight of a task with a nice value."""
    return item(k, k.weight_lists + 40 + nice + 20)


@inner
def begin_task(k: Kernel, p: TaskStruct) -> None:
    """sched_fork(), init_entity_runnable_average(): give a new task its weight and its first load."""
    p.se.weight = weight_of(k, p.nice)
    p.se.avg.load_avg = scale_load_down(p.se.weight)
    p.recent_used_cpu = p.cpu


# --- the task that runs -------------------------------------------------------------------------------------------------


@apart(NOTHING)
def put_prev_task(k: Kernel, p: TaskStruct) -> None:
    """put_prev_task_fair(): put_prev_entity() on all levels."""
    se = p.se
    while se:
        fair_class(k).put_prev_entity(k, se)
        se = se.parent


@apart(NOTHING)
def set_next_task(k: Kernel, p: TaskStruct, first: int) -> None:
    """set_next_task_fair(): set_next_entity() on all levels; ``first`` is 0 if the task already ran."""
    se = p.se
    while se:
        fair_class(k).set_next_entity(k, se, first)
        se = se.parent


@apart(NOTHING)
def set_picked(k: Kernel, p: TaskStruct, prev: TaskStruct) -> None:
    """pick_next_task_fair(): put back the task that ran and set the chosen task, if there is one.

    put_prev_entity() and set_next_entity() are called only for the levels at which the tasks differ. ``prev`` is NULL after the
    idle task or the stopper.
    """
    if not p:
        if prev:
            put_prev_task(k, prev)
    elif not prev:
        set_next_task(k, p, 1)
    elif p != prev:
        se = p.se
        pse = prev.se
        while se.cfs_rq != pse.cfs_rq:
            depth = 1 if se.parent else 0
            pdepth = 1 if pse.parent else 0
            if depth <= pdepth:
                fair_class(k).put_prev_entity(k, pse)
                pse = pse.parent
            if depth >= pdepth:
                fair_class(k).set_next_entity(k, se, 1)
                se = se.parent
        fair_class(k).put_prev_entity(k, pse)
        fair_class(k).set_next_entity(k, se, 1)


@apart(VALUE)
def pick_next_task(k: Kernel, cpu: int, prev: TaskStruct) -> TaskStruct:
    """pick_next_task_fair(): choose and set the next task, after newidle balancing if the queue has none; NULL for none.

    A pulled task may be asleep. It then leaves the queue when it is chosen, and newidle balancing is tried again.
    """
    p = fair_class(k).pick_task(k, cpu)
    while not p and balancer(k).newidle_balance(k, cpu) != 0:
        p = fair_class(k).pick_task(k, cpu)
    set_picked(k, p, prev)
    if p and p != prev:
        hrtick_start(k, cpu, p)
    return p


@apart(NOTHING)
def set_user_nice(k: Kernel, p: TaskStruct, nice: int) -> None:
    """set_user_nice(), reweight_task(), prio_changed_fair(): change the weight of the running task."""
    change = nice - p.nice
    if change == 0:
        return
    cpu = rq_of(k, p)
    fair_class(k).dequeue_task(k, p, dequeue.SAVED)
    put_prev_task(k, p)
    p.nice = nice
    fair_class(k).reweight_entity(k, p.se, weight_of(k, nice), inverse_of(k, nice))
    fair_class(k).enqueue_task(k, p, arrival.MOVED)
    set_next_task(k, p, 0)
    if change > 0 and cpu_cfs_rq(k, cpu).nr_running > 1:
        resched(k, cpu)


@apart(NOTHING)
def task_change_group(k: Kernel, p: TaskStruct, group: int) -> None:
    """sched_move_task(), task_change_group_fair(): move the running task, and its load, to another group on the same CPU."""
    cpu = rq_of(k, p)
    fair_class(k).dequeue_task(k, p, 0)
    put_prev_task(k, p)
    detach_task(k, p.se)
    p.se.avg.last_update = 0
    p.group = group
    set_task_rq(k, p, cpu)
    attach_task(k, p.se)
    fair_class(k).enqueue_task(k, p, arrival.MOVED)
    set_next_task(k, p, 0)
    resched(k, cpu)
