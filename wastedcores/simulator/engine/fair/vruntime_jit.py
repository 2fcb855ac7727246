"""Virtual runtime in CFS: weights, slices, placement and the running entity.

Source: kernel/sched/fair.c, v4.1; docs/scheduler-model.md, section 1. CFS of v6.1 shares most of this code. Where v4.1 and v6.1
differ, a function tests whether the kernel is a modern one (``k.is_modern``).
"""

from wastedcores.jit.compile import inner
from wastedcores.simulator.engine.fair.decay_jit import MAX32, mul_shift
from wastedcores.simulator.engine.fair.pelt_jit import update_task_contrib
from wastedcores.simulator.engine.fair.pelt_v4_4_jit import new_entity
from wastedcores.simulator.engine.world.cpusets_jit import item
from wastedcores.simulator.engine.world.rows_jit import cpu_cfs_rq, cpu_rq, modern
from wastedcores.simulator.engine.world.structs import (
    NO_ENTITY,
    CfsRq,
    Kernel,
    SchedEntity,
    TaskStruct,
)

#: the policies of the fair class for which the code has to test (include/uapi/linux/sched.h)
SCHED_BATCH, SCHED_IDLE = 3, 5
#: WEIGHT_IDLEPRIO and WMULT_IDLEPRIO (kernel/sched/sched.h)
IDLE_WEIGHT = 3
IDLE_WMULT = 1431655765


@inner
def set_load_weight(k: Kernel, p: TaskStruct) -> None:
    """set_load_weight(): set the weight that the fair class gives a task."""
    if p.policy == SCHED_IDLE:
        p.se.weight = IDLE_WEIGHT
        p.se.inv_weight = IDLE_WMULT
        return
    nice = p.nice
    p.se.weight = item(k, k.weight_lists + nice + 20)
    p.se.inv_weight = item(k, k.weight_lists + 40 + nice + 20)


NR_LATENCY = 8


@inner
def inverse_weight(weight):
    """__update_inv_weight(): return 2**32 - 1 divided by a weight."""
    if weight >= MAX32:
        return 1
    if weight <= 0:
        return MAX32
    return MAX32 // weight


@inner
def calc_delta(delta, weight, inv):
    """__calc_delta(): ``delta * weight / divisor``, where ``inv`` is 2**32 divided by the divisor."""
    fact = weight * inv
    shift = 32
    while fact > MAX32:
        fact >>= 1
        shift -= 1
    return mul_shift(delta, fact, shift)


@inner
def calc_delta_fair(k: Kernel, delta: int, se: SchedEntity) -> int:
    """calc_delta_fair(): convert real time to the virtual time of an entity."""
    nice_0_load = 1 << 20 if k.is_modern != 0 else 1024
    if se.weight == nice_0_load:
        return delta
    if k.is_modern != 0 and modern(k).exact_averages != 0:
        return delta * nice_0_load // se.weight
    return calc_delta(delta, 1024, se.inv_weight)


@inner
def update_min_vruntime(k: Kernel, q: CfsRq) -> None:
    """update_min_vruntime(): v4.1 does not check whether curr is queued, v6.1 does."""
    v = q.min_vruntime
    curr = q.curr
    if curr and k.is_modern != 0 and curr.on_rq == 0:
        curr = NO_ENTITY
    left = q.leftmost
    if curr:
        v = curr.vruntime
        if left and left.vruntime < v:
            v = left.vruntime
    elif left:
        v = left.vruntime
    q.min_vruntime = max(q.min_vruntime, v)


@inner
def update_curr(k: Kernel, q: CfsRq) -> None:
    """update_curr(): charge the running entity for the time since the last update."""
    curr = q.curr
    if not curr:
        return
    now = k.now_ns
    delta = now - curr.exec_start
    if delta <= 0:
        return
    curr.exec_start = now
    curr.sum_exec_runtime += delta
    curr.vruntime += calc_delta_fair(k, delta, curr)
    update_min_vruntime(k, q)


@inner
def weighed(k: Kernel, weight: int) -> int:
    """scale_load_down(): the weight from which slices are computed. The weights of modern kernels have ten more bits."""
    if k.is_modern == 0 or weight == 0:
        return weight
    return max(2, weight >> 10)


@inner
def sched_slice(k: Kernel, q: CfsRq, se: SchedEntity) -> int:
    """sched_slice(): an entity's slice. The period depends only on the number of entities of the leaf queue.

    In v6.1 the period depends on the number of tasks of the CPU (ALT_PERIOD), and no slice is below the minimum granularity
    (BASE_SLICE).
    """
    is_modern = k.is_modern != 0
    nr = q.nr_running
    if is_modern:
        nr = cpu_cfs_rq(k, q.cpu).h_nr_running
    if se.on_rq == 0:
        nr += 1
    s = k.sched_latency
    if nr > NR_LATENCY:
        s = nr * k.min_granularity
    while se:
        weight = se.cfs_rq.load_weight
        if se.on_rq == 0:
            weight += se.weight
        s = calc_delta(s, weighed(k, se.weight), inverse_weight(weighed(k, weight)))
        se = se.parent
    if is_modern:
        s = max(s, k.min_granularity)
    return s


@inner
def place_entity(k: Kernel, q: CfsRq, se: SchedEntity, initial: int) -> None:
    """place_entity(): set the vruntime of a new or woken entity, with START_DEBIT and GENTLE_FAIR_SLEEPERS."""
    v = q.min_vruntime
    if initial:
        v += calc_delta_fair(k, sched_slice(k, q, se), se)
    else:
        v -= k.sched_latency >> 1
    se.vruntime = max(se.vruntime, v)


@inner
def task_fork_fair(k: Kernel, p: TaskStruct, cpu: int) -> None:
    """task_fork_fair(): place a new task relative to the queue of the CPU on which it is forked."""
    q = p.se.cfs_rq
    cpu_rq(k, cpu).clock = k.now_ns
    update_curr(k, q)
    curr = q.curr
    p.se.vruntime = curr.vruntime if curr else 0
    place_entity(k, q, p.se, True)
    p.se.vruntime -= q.min_vruntime
    if k.load_v4_4 != 0:
        new_entity(k, p.se)


@inner
def init_task_runnable_average(k: Kernel, p: TaskStruct) -> None:
    """init_task_runnable_average(): let a new task count as fully loaded. v4.4 does this earlier, before the task is placed."""
    if k.load_v4_4 != 0:
        return
    s = sched_slice(k, p.se.cfs_rq, p.se) >> 10
    p.se.runnable_avg_sum = s
    p.se.running_avg_sum = s
    p.se.avg_period = s
    update_task_contrib(k, p.se)
