"""The CPU of a new task or of one that executes a new program, by groups (kernel/sched/fair.c, v6.12.107)."""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.balance.find_idlest_group_jit import HUGE, group_allowed
from wastedcores.simulator.engine.balance.group_stats_v6_12_jit import (
    adjust_numa_imbalance,
    classify,
    clear,
    counted,
)
from wastedcores.simulator.engine.codes import log_op, sd_flag
from wastedcores.simulator.engine.fair.load_jit import idle_cpu
from wastedcores.simulator.engine.fair.signals_v6_12_jit import (
    CAPACITY,
    cpu_load,
    cpu_load_without,
    cpu_runnable_without,
    cpu_util_without,
    sync_entity_load_avg,
)
from wastedcores.simulator.engine.world.idle_jit import runs_idle
from wastedcores.simulator.engine.world import (
    domain,
    domain_v6_12,
    eevdf,
    entity,
    group_capacity,
    rq,
    sched_group,
    sgs_v6_12,
    sim,
    task,
    v6_12,
)
from wastedcores.simulator.engine.world.cpusets_jit import item, test
from wastedcores.simulator.engine.world.log_jit import log_considered
from wastedcores.simulator.engine.world.rules_jit import rule


@inner
def idle_cpu_without(m, cpu, p):
    """idle_cpu_without(): return whether a CPU would run its idle task if ``p`` were not there."""
    return (runs_idle(m, cpu) or m[cpu, rq.CURR] == p) and m[cpu, rq.WAKE_LIST] < 0


@inner
def add_cpu(m, s, cpu, p):
    """Add a CPU to the sums of a group as if ``p`` were not on it."""
    m[s, sgs_v6_12.LOAD] += cpu_load_without(m, cpu, p)
    m[s, sgs_v6_12.UTIL] += cpu_util_without(m, cpu, p)
    m[s, sgs_v6_12.RUNNABLE] += cpu_runnable_without(m, cpu, p)
    here = 0  # task_running_on_cpu()
    queued = m[p, entity.ON_RQ] != 0 or m[p, task.ON_RT] != 0
    if m[p, task.CPU] == cpu and queued and m[p, eevdf.LAST_UPDATE] != 0:
        here = 1
    m[s, sgs_v6_12.SUM_H_NR] += counted(m, cpu) - here
    m[s, sgs_v6_12.SUM_NR] += m[cpu, rq.NR_RUNNING] - here
    if m[cpu, rq.NR_RUNNING] == here and idle_cpu_without(m, cpu, p):
        m[s, sgs_v6_12.IDLE_CPUS] += 1


@apart(NOTHING)
def update_sg_wakeup_stats(m, sd, group, p, s):
    """update_sg_wakeup_stats(): sum up the allowed CPUs of a group as if ``p`` were on none of them, into row ``s``.

    In 6.1.192 and from 6.12.101 on, CPUs on which the task may not run do not count.
    """
    masked = rule(m, v6_12.PLACEMENT_MASKED)
    clear(m, s)
    m[s, sgs_v6_12.GROUP] = group
    m[s, sgs_v6_12.CAPACITY] = m[m[group, sched_group.SGC], group_capacity.CAPACITY]
    m[s, sgs_v6_12.WEIGHT] = m[group, sched_group.GROUP_WEIGHT]
    first = m[group, sched_group.CPUS]
    for i in range(first, first + m[group, sched_group.GROUP_WEIGHT]):
        if not masked or test(m, m[p, task.CPUS_ALLOWED], item(m, i)):
            add_cpu(m, s, item(m, i), p)
    kind = classify(m, s, m[sd, domain.IMBALANCE_PCT])
    m[s, sgs_v6_12.TYPE] = kind
    if kind == sgs_v6_12.FULLY_BUSY or kind == sgs_v6_12.OVERLOADED:
        m[s, sgs_v6_12.AVG_LOAD] = m[s, sgs_v6_12.LOAD] * CAPACITY // m[s, sgs_v6_12.CAPACITY]


@inner
def is_idler(m, idlest, s):
    """update_pick_idlest(): return whether a group is a better place for a task than the best so far."""
    kind = m[s, sgs_v6_12.TYPE]
    if kind != m[idlest, sgs_v6_12.TYPE]:
        return kind < m[idlest, sgs_v6_12.TYPE]
    if kind == sgs_v6_12.OVERLOADED or kind == sgs_v6_12.FULLY_BUSY:
        return m[s, sgs_v6_12.AVG_LOAD] < m[idlest, sgs_v6_12.AVG_LOAD]
    if kind != sgs_v6_12.HAS_SPARE:
        return False
    if m[s, sgs_v6_12.IDLE_CPUS] != m[idlest, sgs_v6_12.IDLE_CPUS]:
        return m[s, sgs_v6_12.IDLE_CPUS] > m[idlest, sgs_v6_12.IDLE_CPUS]
    return m[s, sgs_v6_12.UTIL] < m[idlest, sgs_v6_12.UTIL]


@inner
def allowance(m, sd, p, group):
    """Return how many tasks a node may have before a new one is put on another node (SD_NUMA).

    p->nr_cpus_allowed is less than NR_CPUS (8192) on every machine that is smaller.
    """
    number = 0
    first = m[group, sched_group.CPUS]
    for i in range(first, first + m[group, sched_group.GROUP_WEIGHT]):
        if test(m, m[p, task.CPUS_ALLOWED], item(m, i)):
            number += 1
    return min(number, m[sd, domain_v6_12.IMB_NUMA_NR])


@apart(VALUE)
def stays_local(m, sd, p, local, idlest):
    """sched_balance_find_dst_group(), its end: return whether ``p`` should stay in the local group."""
    kind = m[local, sgs_v6_12.TYPE]
    numa = m[sd, domain.FLAGS] & sd_flag.NUMA != 0
    if kind != m[idlest, sgs_v6_12.TYPE]:
        return kind < m[idlest, sgs_v6_12.TYPE]
    if kind == sgs_v6_12.OVERLOADED or kind == sgs_v6_12.FULLY_BUSY:
        pct = m[sd, domain.IMBALANCE_PCT]
        here = m[local, sgs_v6_12.AVG_LOAD]
        there = m[idlest, sgs_v6_12.AVG_LOAD]
        imbalance = CAPACITY * (pct - 100) // 100
        if numa and there + imbalance >= here:
            return True
        return there >= here + imbalance or 100 * here <= pct * there
    if kind != sgs_v6_12.HAS_SPARE:
        return True
    here = m[local, sgs_v6_12.IDLE_CPUS]
    there = m[idlest, sgs_v6_12.IDLE_CPUS]
    if numa:
        allowed = allowance(m, sd, p, m[local, sgs_v6_12.GROUP])
        running = m[local, sgs_v6_12.SUM_NR] + 1
        if adjust_numa_imbalance(abs(here - there), running, allowed) == 0:
            return True
    return here >= there


@apart(VALUE)
def find_dst_group(m, sd, p, this_cpu):
    """sched_balance_find_dst_group(): return the group that should get ``p``; -1 if it is the one of ``this_cpu``."""
    local = m[0, sim.SCRATCH] + sgs_v6_12.LOCAL
    idlest = m[0, sim.SCRATCH] + sgs_v6_12.BUSIEST
    spare = m[0, sim.SCRATCH] + sgs_v6_12.SPARE
    clear(m, local)
    clear(m, idlest)
    m[idlest, sgs_v6_12.TYPE] = sgs_v6_12.OVERLOADED
    m[idlest, sgs_v6_12.AVG_LOAD] = (1 << 32) - 1
    ring = m[sd, domain.GROUPS]
    for group in range(ring, ring + m[sd, domain.NR_GROUPS]):
        if not group_allowed(m, group, m[p, task.CPUS_ALLOWED]):
            continue
        span = m[group, sched_group.SPAN]
        log_considered(m, this_cpu, span, log_op.FIND_IDLEST_GROUP, m[sd, domain.LEVEL])
        if test(m, span, this_cpu):
            update_sg_wakeup_stats(m, sd, group, p, local)
            continue
        update_sg_wakeup_stats(m, sd, group, p, spare)
        if is_idler(m, idlest, spare):
            for column in range(sgs_v6_12.FIRST, sgs_v6_12.END):
                m[idlest, column] = m[spare, column]
    if m[idlest, sgs_v6_12.GROUP] < 0:
        return -1
    if m[local, sgs_v6_12.GROUP] >= 0 and stays_local(m, sd, p, local, idlest) != 0:
        return -1
    return m[idlest, sgs_v6_12.GROUP]


@apart(VALUE)
def find_dst_group_cpu(m, group, p, this_cpu, level):
    """sched_balance_find_dst_group_cpu(): find the allowed CPU that became idle last, or else the least loaded one.

    Idle states are not modelled, so idle CPUs differ by ``idle_stamp`` only. A CPU whose stamp is 0 is not found.
    """
    first = m[group, sched_group.CPUS]
    if m[group, sched_group.GROUP_WEIGHT] == 1:
        return item(m, first)
    log_considered(m, this_cpu, m[group, sched_group.SPAN], log_op.FIND_IDLEST_CPU, level)
    newest = 0
    idle = -1
    min_load = HUGE
    least = this_cpu
    for i in range(first, first + m[group, sched_group.GROUP_WEIGHT]):
        cpu = item(m, i)
        if not test(m, m[p, task.CPUS_ALLOWED], cpu):
            continue
        if idle_cpu(m, cpu):
            if m[cpu, rq.IDLE_STAMP] > newest:
                newest = m[cpu, rq.IDLE_STAMP]
                idle = cpu
        elif idle < 0 and cpu_load(m, cpu) < min_load:
            min_load = cpu_load(m, cpu)
            least = cpu
    return idle if idle >= 0 else least


@inner
def may_use(m, p, mask):
    """Return whether a task is allowed on a CPU of a set."""
    allowed = m[p, task.CPUS_ALLOWED]
    for word in range(m[0, sim.CPUSET_WORDS]):  # noqa: SIM110 (numba has no generators here)
        if m[allowed, word] & m[mask, word] != 0:
            return True
    return False


@inner
def widest_below(m, cpu, weight, flag):
    """Return the widest domain of a CPU that has the flag and fewer than ``weight`` CPUs, or -1."""
    found = -1
    first = m[cpu, rq.SD]
    for sd in range(first, first + m[cpu, rq.NR_DOMAINS]):
        if m[sd, domain.SPAN_WEIGHT] >= weight:
            break
        if m[sd, domain.FLAGS] & flag:
            found = sd
    return found


@apart(VALUE)
def find_dst_cpu(m, sd, p, cpu, prev, flag):
    """sched_balance_find_dst_cpu(): descend from the widest domain with the flag to the idlest CPU."""
    if not may_use(m, p, m[sd, domain.SPAN]):
        return prev
    if flag != sd_flag.BALANCE_FORK:
        sync_entity_load_avg(m, p)
    new_cpu = cpu
    while sd >= 0:
        group = find_dst_group(m, sd, p, cpu) if m[sd, domain.FLAGS] & flag else -1
        if group >= 0:
            new_cpu = find_dst_group_cpu(m, group, p, cpu, m[sd, domain.LEVEL])
        if group < 0 or new_cpu == cpu:
            sd = m[sd, domain.CHILD]
            continue
        cpu = new_cpu
        sd = widest_below(m, cpu, m[sd, domain.SPAN_WEIGHT], flag)
    return new_cpu
