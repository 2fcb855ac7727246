"""The loads that the balancer compares (kernel/sched/fair.c and proc.c, v4.1; docs/scheduler-model.md, sections 2.4 and 2.5)."""

import numpy as np

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.fair import pelt_v4_4_jit as v4_4
from wastedcores.simulator.engine.fair.pelt_jit import update_blocked_load, update_entity_load_avg
from wastedcores.simulator.engine.world.rows_jit import cpu_cfs_rq, cpu_rq
from wastedcores.simulator.engine.world.structs import (
    NO_TASK,
    CfsRq,
    Kernel,
    SchedEntity,
    TaskStruct,
)

#: degrade_zero_ticks and degrade_factor of kernel/sched/proc.c
ZERO_TICKS = np.array([0, 8, 32, 64, 128], dtype=np.int64)
FACTORS = np.array(
    [
        [0, 0, 0, 0, 0, 0, 0, 0],
        [64, 32, 8, 0, 0, 0, 0, 0],
        [96, 72, 40, 12, 1, 0, 0, 0],
        [112, 98, 75, 43, 15, 1, 0, 0],
        [120, 112, 98, 76, 45, 16, 2, 0],
    ],
    dtype=np.int64,
)


@inner
def idle_cpu(k: Kernel, cpu: int) -> bool:
    """idle_cpu(): the idle task runs, nothing is queued and nothing is on the wake list."""
    rq = cpu_rq(k, cpu)
    return rq.curr == NO_TASK and rq.nr_running == 0 and rq.wake_list == NO_TASK


@inner
def decay_missed(load, missed, i):
    """decay_load_missed(): decay cpu_load[i] by the ticks that were missed."""
    if missed == 0:
        return load
    if missed >= ZERO_TICKS[i]:
        return load * 0
    if i == 1:
        return load >> missed
    j = 0
    while missed != 0:
        if missed & 1:
            load = (load * int(FACTORS[i, j])) >> 7
        missed >>= 1
        j += 1
    return load


@inner
def update_cpu_load(k: Kernel, cpu: int, load: int, pending: int) -> None:
    """__update_cpu_load(): update cpu_load[0..4], the running averages, over ``pending`` ticks."""
    cpu_rq(k, cpu).cpu_load[0] = load
    for i in range(1, 5):
        old = decay_missed(cpu_rq(k, cpu).cpu_load[i], pending - 1, i)
        scale = 1 << i
        new = load
        if new > old:
            new += scale - 1
        cpu_rq(k, cpu).cpu_load[i] = (old * (scale - 1) + new) >> i


@inner
def catch_up_idle(k: Kernel, cpu: int) -> None:
    """update_cpu_load_nohz(): update the averages; ticks that did not happen count as idle."""
    now = k.jiffies
    pending = now - cpu_rq(k, cpu).last_load_update_tick
    if pending > 0:
        cpu_rq(k, cpu).last_load_update_tick = now
        update_cpu_load(k, cpu, 0, pending)


@inner
def weighted_cpuload(k: Kernel, cpu: int) -> int:
    """weighted_cpuload(): the load of the queued entities."""
    return cpu_cfs_rq(k, cpu).runnable_load_avg


@inner
def source_load(k: Kernel, cpu: int, index: int) -> int:
    """source_load(): the low estimate of a load; ``index`` t reads cpu_load[t-1]."""
    total = weighted_cpuload(k, cpu)
    if index > 0 and cpu_rq(k, cpu).cpu_load[index - 1] < total:
        return cpu_rq(k, cpu).cpu_load[index - 1]
    return total


@inner
def target_load(k: Kernel, cpu: int, index: int) -> int:
    """target_load(): the high estimate of a load."""
    total = weighted_cpuload(k, cpu)
    if index > 0 and cpu_rq(k, cpu).cpu_load[index - 1] > total:
        return cpu_rq(k, cpu).cpu_load[index - 1]
    return total


@inner
def avg_load_per_task(k: Kernel, cpu: int) -> int:
    """cpu_avg_load_per_task(): the load of a CPU divided by its tasks."""
    q = cpu_cfs_rq(k, cpu)
    if q.h_nr_running > 0:
        return q.runnable_load_avg // q.h_nr_running
    return q.runnable_load_avg * 0


@inner
def get_cpu_usage(k: Kernel, cpu: int) -> int:
    """get_cpu_usage(), cpu_util() of v4.4: the utilization of a CPU, scaled to its capacity or, in v4.4, limited to it."""
    if k.load_v4_4 != 0:
        return min(cpu_cfs_rq(k, cpu).avg.util_avg, cpu_rq(k, cpu).cpu_capacity_orig)
    usage = cpu_cfs_rq(k, cpu).utilization_load_avg
    if usage >= 1024:
        return cpu_rq(k, cpu).cpu_capacity_orig
    return (usage * cpu_rq(k, cpu).cpu_capacity_orig) >> 10


@inner
def queue_load(k: Kernel, q: CfsRq) -> int:
    """Return the load of a queue: since v4.3 its load average, before v4.3 the load of its queued entities."""
    return q.avg.load_avg if (k.load_v4_4 | k.is_modern) != 0 else q.runnable_load_avg


@inner
def entity_load(k: Kernel, se: SchedEntity) -> int:
    """Return the load of an entity."""
    return se.avg.load_avg if (k.load_v4_4 | k.is_modern) != 0 else se.load_avg_contrib


@apart(VALUE)
def task_h_load(k: Kernel, p: TaskStruct) -> int:
    """task_h_load(), update_cfs_rq_h_load(): the load that a task adds to its CPU's root queue, updated once per jiffy."""
    q = p.se.cfs_rq
    if q.last_h_load_update != k.jiffies:
        se = q.entity
        if se:
            root = se.cfs_rq  # autogroups are one level deep
            if root.last_h_load_update != k.jiffies:
                root.h_load = queue_load(k, root)
                root.last_h_load_update = k.jiffies
            q.h_load = root.h_load * entity_load(k, se) // (queue_load(k, root) + 1)
        else:
            q.h_load = queue_load(k, q)
        q.last_h_load_update = k.jiffies
    return entity_load(k, p.se) * q.h_load // (queue_load(k, q) + 1)


@apart(VALUE)
def effective_load(k: Kernel, tg: int, cpu: int, wl: int, wg: int) -> int:
    """effective_load(): how a CPU's load changes if weight of group ``tg`` moves. The group is one level below the root.

    v4.4 counts loads instead of weights.
    """
    if tg == 0:
        return wl
    q = CfsRq(k, k.nr_cpus * (1 + tg) + cpu)
    row = q.task_group
    total = wg + row.load_avg - q.tg_load_contrib + q.load_weight
    weight = q.load_weight + wl
    before = q.entity.weight
    if k.load_v4_4 != 0:
        weight = q.avg.load_avg + wl
        before = q.entity.avg.load_avg
    if total > 0 and weight < total:
        product = weight * row.shares
        wl = product // total if product >= 0 else -(-product // total)
    else:
        wl = row.shares
    return max(wl, 2) - before


@apart(NOTHING)
def update_blocked_averages(k: Kernel, cpu: int) -> None:
    """update_blocked_averages(): let the blocked load of a CPU decay, in the groups' queues first and then in the root queue."""
    n = k.nr_cpus
    cpu_rq(k, cpu).clock = k.now_ns
    for tg in range(1, k.task_groups):
        q = CfsRq(k, n * (1 + tg) + cpu)
        if q.on_list != 0:
            if k.load_v4_4 != 0:
                v4_4.update_blocked_queue(k, q)
                continue
            se = SchedEntity(k, k.entity0 + tg * n + cpu)
            update_blocked_load(k, q, True)
            update_entity_load_avg(k, se, True)
            if se.runnable_avg_sum == 0 and q.nr_running == 0:
                q.on_list = 0
    if cpu_cfs_rq(k, cpu).on_list != 0:
        if k.load_v4_4 != 0:
            v4_4.update_blocked_queue(k, cpu_cfs_rq(k, cpu))
        else:
            update_blocked_load(k, cpu_cfs_rq(k, cpu), True)
