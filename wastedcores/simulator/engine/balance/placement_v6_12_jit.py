"""Placement of Linux 6.12: the CPU of a waking, forked or exec'ing task (kernel/sched/fair.c, v6.12.107).

A woken task stays in the LLC of the CPU on which it ran last, or goes to the LLC of the waking CPU. ``idle_sibling_v6_12_jit.py``
searches this LLC. For forks and execs, the search descends from the widest domain.
"""

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.balance.find_src_group_v6_12_jit import (
    adjust_numa_imbalance,
    classify,
    clear,
    counted,
)
from wastedcores.simulator.engine.balance.idle_sibling_v6_12_jit import select_idle_sibling
from wastedcores.simulator.engine.balance.select_task_rq_v4_1_jit import (
    find_idlest_cpu,
    group_allowed,
    record_wakee,
    wake_wide,
    widest_below,
)
from wastedcores.simulator.engine.codes import group_type, log_op, sd_flag, stats_row
from wastedcores.simulator.engine.fair.load_jit import idle_cpu, task_h_load
from wastedcores.simulator.engine.fair.modern_task_jit import (
    CAPACITY,
    cpu_load,
    cpu_load_without,
    cpu_runnable_without,
    cpu_util_without,
    sync_entity_load_avg,
)
from wastedcores.simulator.engine.world.cpusets_jit import item, test
from wastedcores.simulator.engine.world.log_jit import log_considered
from wastedcores.simulator.engine.world.rows_jit import (
    cpu_cfs_rq,
    cpu_rq,
    domain_at,
    group_at,
    modern,
    runs_idle,
)
from wastedcores.simulator.engine.world.structs import (
    NO_DOMAIN,
    NO_GROUP,
    NO_TASK,
    Kernel,
    SchedDomain,
    SchedGroup,
    SgLbStats,
    TaskStruct,
)


@inner
def idle_cpu_without(k: Kernel, cpu: int, p: TaskStruct) -> int:
    """idle_cpu_without(): return whether a CPU would run its idle task if ``p`` were not there."""
    return (runs_idle(k, cpu) or cpu_rq(k, cpu).curr == p) and cpu_rq(k, cpu).wake_list == NO_TASK


@inner
def add_cpu(k: Kernel, s: SgLbStats, cpu: int, p: TaskStruct) -> None:
    """Add a CPU to the sums of a group as if ``p`` were not on it."""
    s.load += cpu_load_without(k, cpu, p)
    s.util += cpu_util_without(k, cpu, p)
    s.runnable += cpu_runnable_without(k, cpu, p)
    here = 0  # task_running_on_cpu()
    queued = p.se.on_rq != 0 or p.on_rt != 0
    if p.cpu == cpu and queued and p.se.avg.last_update != 0:
        here = 1
    s.sum_h_nr += counted(k, cpu) - here
    s.sum_nr += cpu_rq(k, cpu).nr_running - here
    if cpu_rq(k, cpu).nr_running == here and idle_cpu_without(k, cpu, p):
        s.idle_cpus += 1


@apart(NOTHING)
def update_sg_wakeup_stats(
    k: Kernel, sd: SchedDomain, group: SchedGroup, p: TaskStruct, s: SgLbStats
) -> None:
    """update_sg_wakeup_stats(): sum up a group's CPUs in row ``s`` as if ``p`` were on none of them.

    In 6.1.192 and from 6.12.101 on, only CPUs on which the task may run count.
    """
    masked = modern(k).placement_masked != 0
    clear(k, s)
    s.group = group
    s.capacity = group.sgc.capacity
    s.weight = group.group_weight
    first = group.cpus
    for i in range(first, first + group.group_weight):
        if not masked or test(k, p.cpus_allowed, item(k, i)):
            add_cpu(k, s, item(k, i), p)
    kind = classify(k, s, sd.imbalance_pct)
    s.type = kind
    if kind == group_type.FULLY_BUSY or kind == group_type.OVERLOADED:
        s.avg_load = s.load * CAPACITY // s.capacity


@inner
def is_idler(k: Kernel, idlest: SgLbStats, s: SgLbStats) -> bool:
    """update_pick_idlest(): return whether a group is a better place for a task than the best group so far."""
    kind = s.type
    if kind != idlest.type:
        return kind < idlest.type
    if kind == group_type.OVERLOADED or kind == group_type.FULLY_BUSY:
        return s.avg_load < idlest.avg_load
    if kind != group_type.HAS_SPARE:
        return False
    if s.idle_cpus != idlest.idle_cpus:
        return s.idle_cpus > idlest.idle_cpus
    return s.util < idlest.util


@inner
def allowance(k: Kernel, sd: SchedDomain, p: TaskStruct, group: SchedGroup) -> int:
    """Return how many tasks a node may have before a new task is put on another node (SD_NUMA).

    The kernel compares p->nr_cpus_allowed with NR_CPUS (8192), which is larger than the number of CPUs of any machine here.
    """
    number = 0
    first = group.cpus
    for i in range(first, first + group.group_weight):
        if test(k, p.cpus_allowed, item(k, i)):
            number += 1
    return min(number, sd.imb_numa_nr)


@apart(VALUE)
def stays_local(
    k: Kernel, sd: SchedDomain, p: TaskStruct, local: SgLbStats, idlest: SgLbStats
) -> bool:
    """The end of sched_balance_find_dst_group(): return whether ``p`` should stay in the local group."""
    kind = local.type
    numa = sd.flags & sd_flag.NUMA != 0
    if kind != idlest.type:
        return kind < idlest.type
    if kind == group_type.OVERLOADED or kind == group_type.FULLY_BUSY:
        pct = sd.imbalance_pct
        here = local.avg_load
        there = idlest.avg_load
        imbalance = CAPACITY * (pct - 100) // 100
        if numa and there + imbalance >= here:
            return True
        return there >= here + imbalance or 100 * here <= pct * there
    if kind != group_type.HAS_SPARE:
        return True
    here = local.idle_cpus
    there = idlest.idle_cpus
    if numa:
        allowed = allowance(k, sd, p, local.group)
        running = local.sum_nr + 1
        if adjust_numa_imbalance(abs(here - there), running, allowed) == 0:
            return True
    return here >= there


@apart(VALUE)
def find_dst_group(k: Kernel, sd: SchedDomain, p: TaskStruct, this_cpu: int) -> SchedGroup:
    """sched_balance_find_dst_group(): return the group that should get ``p``, or NULL if this is the group of ``this_cpu``."""
    local = SgLbStats(k, k.scratch + stats_row.LOCAL)
    idlest = SgLbStats(k, k.scratch + stats_row.BUSIEST)
    spare = SgLbStats(k, k.scratch + stats_row.SPARE)
    clear(k, local)
    clear(k, idlest)
    idlest.type = group_type.OVERLOADED
    idlest.avg_load = (1 << 32) - 1
    for place in range(sd.nr_groups):
        group = group_at(sd, place)
        if not group_allowed(k, group, p.cpus_allowed):
            continue
        span = group.span
        log_considered(k, this_cpu, span, log_op.FIND_IDLEST_GROUP, sd.level)
        if test(k, span, this_cpu):
            update_sg_wakeup_stats(k, sd, group, p, local)
            continue
        update_sg_wakeup_stats(k, sd, group, p, spare)
        if is_idler(k, idlest, spare):
            for column in range(SgLbStats.group, SgLbStats.smt_balance + 1):
                idlest[column] = spare[column]
    if not idlest.group:
        return NO_GROUP
    if local.group and stays_local(k, sd, p, local, idlest) != 0:
        return NO_GROUP
    return idlest.group


@inner
def may_use(k: Kernel, p: TaskStruct, mask: int) -> bool:
    """Return whether a task may run on some CPU of a set."""
    allowed = p.cpus_allowed
    for word in range(k.cpuset_words):  # noqa: SIM110 (numba has no generators here)
        if k[allowed, word] & k[mask, word] != 0:
            return True
    return False


@apart(VALUE)
def find_dst_cpu(k: Kernel, sd: SchedDomain, p: TaskStruct, cpu: int, prev: int, flag: int) -> int:
    """sched_balance_find_dst_cpu(): descend from the widest domain with the flag to the idlest CPU."""
    if not may_use(k, p, sd.span):
        return prev
    if flag != sd_flag.BALANCE_FORK:
        sync_entity_load_avg(k, p)
    new_cpu = cpu
    while sd:
        group = find_dst_group(k, sd, p, cpu) if sd.flags & flag else NO_GROUP
        if group:
            new_cpu = find_idlest_cpu(k, group, p, cpu, sd.level)
        if not group or new_cpu == cpu:
            sd = sd.child
            continue
        cpu = new_cpu
        sd = widest_below(k, cpu, sd.span_weight, flag)
    return new_cpu


@inner
def record_wakee_of_idle(k: Kernel, cpu: int, p: TaskStruct) -> None:
    """record_wakee() if a timer on an idle CPU wakes the task: the wakeup counts for that CPU's idle task."""
    q = cpu_cfs_rq(k, cpu)
    if k.jiffies > q.rq_modern.wakee_flip_decay_ts + k.hz:
        q.rq_modern.wakee_flips >>= 1
        q.rq_modern.wakee_flip_decay_ts = k.jiffies
    if q.rq_modern.last_wakee != p:
        q.rq_modern.last_wakee = p
        q.rq_modern.wakee_flips += 1


@inner
def wake_affine_idle(k: Kernel, this_cpu: int, prev: int, sync: int) -> int:
    """wake_affine_idle(): return the waker's CPU or the task's last one if it is idle or about to be; else -1.

    If the waker is about to sleep, sleepers that are still queued on its CPU do not count.
    """
    if idle_cpu(k, this_cpu) and cpu_rq(k, this_cpu).sd_llc_id == cpu_rq(k, prev).sd_llc_id:
        return prev if idle_cpu(k, prev) else this_cpu
    delayed = cpu_cfs_rq(k, this_cpu).h_nr_delayed
    if sync and cpu_rq(k, this_cpu).nr_running - delayed == 1:
        return this_cpu
    return prev if idle_cpu(k, prev) else -1


@apart(VALUE)
def wake_affine_weight(
    k: Kernel, sd: SchedDomain, p: TaskStruct, this_cpu: int, prev: int, sync: int
) -> int:
    """wake_affine_weight(): return the waker's CPU if with ``p`` it would have a lower load than ``prev``; else -1."""
    here = cpu_load(k, this_cpu)
    if sync:
        current = task_h_load(k, cpu_rq(k, this_cpu).curr)
        if current > here:
            return this_cpu
        here -= current
    load = task_h_load(k, p)
    here = (here + load) * 100 * cpu_rq(k, prev).cpu_capacity
    there = (cpu_load(k, prev) - load) * (100 + (sd.imbalance_pct - 100) // 2)
    there *= cpu_rq(k, this_cpu).cpu_capacity
    return this_cpu if here < there + (1 if sync else 0) else -1


@inner
def wake_affine(
    k: Kernel, sd: SchedDomain, p: TaskStruct, this_cpu: int, prev: int, sync: int
) -> int:
    """wake_affine(): choose between the waker's CPU and the task's last CPU."""
    target = wake_affine_idle(k, this_cpu, prev, sync)
    if target < 0:
        target = wake_affine_weight(k, sd, p, this_cpu, prev, sync)
    return this_cpu if target == this_cpu else prev


@inner
def select_woken(k: Kernel, p: TaskStruct, prev: int, cpu: int, sync: int) -> int:
    """select_task_rq_fair() of a wakeup, which never takes the slow path because SD_BALANCE_WAKE is never set."""
    waker = cpu_rq(k, cpu).curr
    if waker:
        record_wakee(k, waker, p)
    else:
        record_wakee_of_idle(k, cpu, p)
    target = prev
    if cpu != prev and not wake_wide(k, p, cpu) and test(k, p.cpus_allowed, cpu):
        for height in range(cpu_rq(k, cpu).nr_domains):
            sd = domain_at(k, cpu, height)
            affine = sd.flags & sd_flag.WAKE_AFFINE
            if affine and test(k, sd.span, prev):
                target = wake_affine(k, sd, p, cpu, prev, sync)
                break
    return select_idle_sibling(k, p, prev, target)


@apart(VALUE)
def select_task_rq_fair(k: Kernel, p: TaskStruct, flag: int, sync: int) -> int:
    """select_task_rq_fair(): ``flag`` is an SD_BALANCE_* flag; the code runs on the CPU of the event."""
    cpu = k.this_cpu
    prev = p.cpu
    if flag == sd_flag.BALANCE_WAKE:
        return select_woken(k, p, prev, cpu, sync)
    top = NO_DOMAIN
    for height in range(cpu_rq(k, cpu).nr_domains):
        sd = domain_at(k, cpu, height)
        if sd.flags & flag == 0:
            break
        top = sd
    return prev if not top else find_dst_cpu(k, top, p, cpu, prev, flag)
