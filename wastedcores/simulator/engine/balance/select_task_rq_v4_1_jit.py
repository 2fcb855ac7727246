"""select_task_rq_fair(): the CPU for a task that wakes up, is new or calls exec.

Source: kernel/sched/fair.c, v4.1; docs/scheduler-model.md, section 6.
"""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.jit.units import VALUE, apart
from wastedcores.simulator.engine.balance.find_idlest_group_jit import (
    HUGE,
    find_idlest_group,
    find_idlest_group_v4_10,
)
from wastedcores.simulator.engine.codes import log_op, sd_flag
from wastedcores.simulator.engine.fair.load_jit import (
    effective_load,
    idle_cpu,
    jiffies,
    source_load,
    target_load,
    weighted_cpuload,
)
from wastedcores.simulator.engine.world import (
    cpuset,
    domain,
    eevdf,
    entity,
    rq,
    sched_group,
    sim,
    task,
)
from wastedcores.simulator.engine.world.cpusets_jit import item, test
from wastedcores.simulator.engine.world.log_jit import log_considered


@inner
def record_wakee(m, waker, p):
    """record_wakee(): count how often a task wakes another task than the last time."""
    if waker < 0:
        return
    if jiffies(m) > m[waker, task.WAKEE_FLIP_DECAY_TS] + m[0, sim.HZ]:
        m[waker, task.WAKEE_FLIPS] >>= 1
        m[waker, task.WAKEE_FLIP_DECAY_TS] = jiffies(m)
    if m[waker, task.LAST_WAKEE] != p:
        m[waker, task.LAST_WAKEE] = p
        m[waker, task.WAKEE_FLIPS] += 1


@inner
def wake_wide(m, p, cpu):
    """wake_wide(): return whether a waker has so many wakees that they should spread."""
    factor = m[cpu, rq.SD_LLC_SIZE]
    waker = m[cpu, rq.CURR]
    flips = m[waker, task.WAKEE_FLIPS] if waker >= 0 else 0
    own = m[p, task.WAKEE_FLIPS]
    if m[0, sim.LOAD_V4_4] != 0:
        return min(own, flips) >= factor and max(own, flips) >= min(own, flips) * factor
    return own > factor and flips > factor * own


@inner
def weight_for_wakeup(m, p):
    """Return the load with which wake_affine() counts a task: its weight, or under v4.4 its load average."""
    return m[p, eevdf.LOAD_AVG] if m[0, sim.LOAD_V4_4] != 0 else m[p, entity.WEIGHT]


@apart(VALUE)
def wake_affine(m, sd, p, prev, cpu, sync):
    """wake_affine(): return whether the wakee moves to the waker's CPU."""
    if wake_wide(m, p, cpu):
        return False
    this_load = target_load(m, cpu, m[sd, domain.WAKE_IDX])
    load = source_load(m, prev, m[sd, domain.WAKE_IDX])
    waker = m[cpu, rq.CURR]
    if sync and waker >= 0:
        weight = weight_for_wakeup(m, waker)
        this_load += effective_load(m, m[waker, task.GROUP], cpu, -weight, -weight)
        load += effective_load(m, m[waker, task.GROUP], prev, 0, -weight)
    weight = weight_for_wakeup(m, p)
    here = 100 * m[prev, rq.CPU_CAPACITY]
    there = (100 + (m[sd, domain.IMBALANCE_PCT] - 100) // 2) * m[cpu, rq.CPU_CAPACITY]
    if this_load > 0:
        here *= this_load + effective_load(m, m[p, task.GROUP], cpu, weight, weight)
        there *= load + effective_load(m, m[p, task.GROUP], prev, 0, weight)
    return here <= there


@apart(VALUE)
def select_idle_sibling(m, p, target):
    """select_idle_sibling(): search the LLC for a completely idle group (the Overload-on-Wakeup bug, paper, section 3.3)."""
    if idle_cpu(m, target):
        return target
    last = m[p, task.CPU]
    if last != target and m[last, rq.SD_LLC_ID] == m[target, rq.SD_LLC_ID] and idle_cpu(m, last):
        return last
    sd = m[target, rq.SD_LLC]
    if sd >= 0:
        log_considered(m, last, m[sd, domain.SPAN], log_op.SELECT_IDLE_SIBLING, m[sd, domain.LEVEL])
    allowed = m[p, task.CPUS_ALLOWED]
    while sd >= 0:
        ring = m[sd, domain.GROUPS]
        for group in range(ring, ring + m[sd, domain.NR_GROUPS]):
            first = m[group, sched_group.CPUS]
            found = -1
            busy = False
            for i in range(first, first + m[group, sched_group.GROUP_WEIGHT]):
                cpu = item(m, i)
                if cpu == target or not idle_cpu(m, cpu):
                    busy = True
                    break
                if found < 0 and test(m, allowed, cpu):
                    found = cpu
            if not busy and found >= 0:
                return found
        sd = m[sd, domain.CHILD]
    return target


@apart(VALUE)
def longest_idle_cpu(m, p, prev):
    """The overload-on-wakeup fix (paper, section 3.3): the previous CPU if idle, else the one idle for longest, else -1."""
    if m[prev, rq.NR_RUNNING] == 0:
        return prev
    best = -1
    oldest = 1 << 60
    for cpu in range(m[0, sim.CPUS]):
        if (
            test(m, cpuset.ACTIVE, cpu)
            and test(m, m[p, task.CPUS_ALLOWED], cpu)
            and m[cpu, rq.NR_RUNNING] == 0
            and m[cpu, rq.IDLE_STAMP] < oldest
        ):
            oldest = m[cpu, rq.IDLE_STAMP]
            best = cpu
    return best


@inner
def takes_home(m, p, home):
    """Return whether a strategy of the fork/wait paper (4.2) puts a task on its parent's CPU or on its own last one.

    Strategy 1 does so if at most one task is there, which at a fork is the parent; strategy 2 always does.
    """
    if not test(m, m[p, task.CPUS_ALLOWED], home) or not test(m, cpuset.ACTIVE, home):
        return False
    return m[0, sim.FORK_WAIT] == 2 or m[home, rq.NR_RUNNING] <= 1


@apart(VALUE)
def find_idlest_cpu(m, group, p, this_cpu, level):
    """find_idlest_cpu(): return the CPU that became idle last, else the least loaded one."""
    newest = 0
    idle = -1
    min_load = HUGE
    least = this_cpu
    first = m[group, sched_group.CPUS]
    for i in range(first, first + m[group, sched_group.GROUP_WEIGHT]):
        cpu = item(m, i)
        if not test(m, m[p, task.CPUS_ALLOWED], cpu):
            continue
        if idle_cpu(m, cpu):
            if m[cpu, rq.IDLE_STAMP] > newest:
                newest = m[cpu, rq.IDLE_STAMP]
                idle = cpu
        elif idle < 0:
            load = weighted_cpuload(m, cpu)
            if load < min_load or (load == min_load and cpu == this_cpu):
                min_load = load
                least = cpu
    log_considered(m, this_cpu, m[group, sched_group.SPAN], log_op.FIND_IDLEST_CPU, level)
    return idle if idle >= 0 else least


@apart(VALUE)
def slow_path(m, p, cpu, sd, flag):
    """Descend through the domains, for fork and exec."""
    new_cpu = cpu
    while sd >= 0:
        if m[sd, domain.FLAGS] & flag == 0:
            sd = m[sd, domain.CHILD]
            continue
        if m[sd, domain.FORK_MARGIN] == 0:
            group = find_idlest_group(m, sd, p, cpu)
        else:
            group = find_idlest_group_v4_10(m, sd, p, cpu)
        if group < 0:
            sd = m[sd, domain.CHILD]
            continue
        new_cpu = find_idlest_cpu(m, group, p, cpu, m[sd, domain.LEVEL])
        if new_cpu == cpu:
            sd = m[sd, domain.CHILD]
            continue
        cpu = new_cpu
        weight = m[sd, domain.SPAN_WEIGHT]
        sd = -1
        first = m[cpu, rq.SD]
        for tmp in range(first, first + m[cpu, rq.NR_DOMAINS]):
            if m[tmp, domain.SPAN_WEIGHT] >= weight:
                break
            if m[tmp, domain.FLAGS] & flag:
                sd = tmp
    return new_cpu


@apart(VALUE)
def select_task_rq_fair(m, p, prev, flag, cpu, sync):
    """select_task_rq_fair(): ``flag`` is an SD_BALANCE_* flag, ``cpu`` the CPU on which the code runs."""
    if m[0, sim.FORK_WAIT] != 0 and flag != sd_flag.BALANCE_EXEC:
        home = cpu if flag == sd_flag.BALANCE_FORK else prev
        if takes_home(m, p, home):
            return home
    if m[0, sim.OVERLOAD_ON_WAKEUP_FIX] != 0:
        idle = longest_idle_cpu(m, p, prev)
        if idle >= 0:
            return idle
    affine = -1
    top = -1
    wake = flag == sd_flag.BALANCE_WAKE
    want_affine = wake and test(m, m[p, task.CPUS_ALLOWED], cpu)
    first = m[cpu, rq.SD]
    for sd in range(first, first + m[cpu, rq.NR_DOMAINS]):
        if (
            want_affine
            and m[sd, domain.FLAGS] & sd_flag.WAKE_AFFINE
            and test(m, m[sd, domain.SPAN], prev)
        ):
            affine = sd
            break
        if m[sd, domain.FLAGS] & flag:
            top = sd
    if affine >= 0 and cpu != prev and wake_affine(m, affine, p, prev, cpu, sync):
        prev = cpu
    if wake:
        return select_idle_sibling(m, p, prev)
    return slow_path(m, p, cpu, top, flag)
