"""select_task_rq_fair(): where a waking, new or exec'ing task goes.

Source: kernel/sched/fair.c, v4.1; docs/scheduler-model.md, section 6.
"""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.jit.units import VALUE, apart
from wastedcores.simulator.engine.fair.load_jit import (
    effective_load,
    idle_cpu,
    jiffies,
    source_load,
    target_load,
    weighted_cpuload,
)
from wastedcores.simulator.engine.world.codes import (
    LOOK_IDLEST_CPU,
    LOOK_IDLEST_GROUP,
    LOOK_SIBLING,
    SD_BALANCE_WAKE,
    SD_WAKE_AFFINE,
)
from wastedcores.simulator.engine.world.cpusets_jit import item, test
from wastedcores.simulator.engine.world.log_jit import log_considered
from wastedcores.simulator.engine.world.state import (
    C_CAPACITY,
    D_CHILD,
    D_FLAGS,
    D_FORK_IDX,
    D_GROUPS,
    D_LEVEL,
    D_MASK,
    D_NGROUPS,
    D_PCT,
    D_WAKE_IDX,
    D_WEIGHT,
    G_CPUS,
    G_HZ,
    G_OOW,
    GR_LIST,
    GR_MASK,
    GR_N,
    GR_SGC,
    MASK_ACTIVE,
    R_CAP,
    R_CURR,
    R_IDLE_STAMP,
    R_LLC_ID,
    R_LLC_SD,
    R_LLC_SIZE,
    R_NR,
    R_NSD,
    R_SD,
    SE_WEIGHT,
    T_CPU,
    T_FLIP_DECAY,
    T_FLIPS,
    T_LAST_WAKEE,
    T_MASK,
    T_TG,
)

HUGE = 1 << 62


@inner
def record_wakee(m, waker, p):
    """record_wakee(): how often a task wakes somebody else than last time."""
    if waker < 0:
        return
    if jiffies(m) > m[waker, T_FLIP_DECAY] + m[0, G_HZ]:
        m[waker, T_FLIPS] >>= 1
        m[waker, T_FLIP_DECAY] = jiffies(m)
    if m[waker, T_LAST_WAKEE] != p:
        m[waker, T_LAST_WAKEE] = p
        m[waker, T_FLIPS] += 1


@inner
def wake_wide(m, p, cpu):
    """wake_wide()."""
    factor = m[cpu, R_LLC_SIZE]
    waker = m[cpu, R_CURR]
    flips = m[waker, T_FLIPS] if waker >= 0 else 0
    return m[p, T_FLIPS] > factor and flips > factor * m[p, T_FLIPS]


@apart(VALUE)
def wake_affine(m, sd, p, prev, cpu, sync):
    """wake_affine(): does the wakee come to the waker's CPU?"""
    if wake_wide(m, p, cpu):
        return False
    this_load = target_load(m, cpu, m[sd, D_WAKE_IDX])
    load = source_load(m, prev, m[sd, D_WAKE_IDX])
    waker = m[cpu, R_CURR]
    if sync and waker >= 0:
        weight = m[waker, SE_WEIGHT]
        this_load += effective_load(m, m[waker, T_TG], cpu, -weight, -weight)
        load += effective_load(m, m[waker, T_TG], prev, 0, -weight)
    weight = m[p, SE_WEIGHT]
    here = 100 * m[prev, R_CAP]
    there = (100 + (m[sd, D_PCT] - 100) // 2) * m[cpu, R_CAP]
    if this_load > 0:
        here *= this_load + effective_load(m, m[p, T_TG], cpu, weight, weight)
        there *= load + effective_load(m, m[p, T_TG], prev, 0, weight)
    return here <= there


@apart(VALUE)
def select_idle_sibling(m, p, target):
    """select_idle_sibling(): within the LLC, and only wholly idle groups (the Overload-on-Wakeup bug, paper 3.3)."""
    if idle_cpu(m, target):
        return target
    last = m[p, T_CPU]
    if last != target and m[last, R_LLC_ID] == m[target, R_LLC_ID] and idle_cpu(m, last):
        return last
    sd = m[target, R_LLC_SD]
    if sd >= 0:
        log_considered(m, last, m[sd, D_MASK], LOOK_SIBLING, m[sd, D_LEVEL])
    allowed = m[p, T_MASK]
    while sd >= 0:
        ring = m[sd, D_GROUPS]
        for group in range(ring, ring + m[sd, D_NGROUPS]):
            first = m[group, GR_LIST]
            found = -1
            busy = False
            for i in range(first, first + m[group, GR_N]):
                cpu = item(m, i)
                if cpu == target or not idle_cpu(m, cpu):
                    busy = True
                    break
                if found < 0 and test(m, allowed, cpu):
                    found = cpu
            if not busy and found >= 0:
                return found
        sd = m[sd, D_CHILD]
    return target


@apart(VALUE)
def longest_idle_cpu(m, p, prev):
    """The overload-on-wakeup fix as published (paper 3.3): the previous CPU if idle, else the one idle for longest; -1."""
    if m[prev, R_NR] == 0:
        return prev
    best = -1
    oldest = 1 << 60
    for cpu in range(m[0, G_CPUS]):
        if (
            test(m, MASK_ACTIVE, cpu)
            and test(m, m[p, T_MASK], cpu)
            and m[cpu, R_NR] == 0
            and m[cpu, R_IDLE_STAMP] < oldest
        ):
            oldest = m[cpu, R_IDLE_STAMP]
            best = cpu
    return best


@inner
def group_allowed(m, group, mask):
    """Whether a group has a CPU of the mask."""
    first = m[group, GR_LIST]
    for i in range(first, first + m[group, GR_N]):  # noqa: SIM110 (numba has no generators here)
        if test(m, mask, item(m, i)):
            return True
    return False


@apart(VALUE)
def find_idlest_group(m, sd, p, this_cpu):
    """find_idlest_group(): -1 to stay."""
    idlest = -1
    min_load = HUGE
    this_load = 0
    index = m[sd, D_FORK_IDX]
    ring = m[sd, D_GROUPS]
    for group in range(ring, ring + m[sd, D_NGROUPS]):
        if not group_allowed(m, group, m[p, T_MASK]):
            continue
        local = test(m, m[group, GR_MASK], this_cpu)
        load = 0
        first = m[group, GR_LIST]
        for i in range(first, first + m[group, GR_N]):
            cpu = item(m, i)
            load += source_load(m, cpu, index) if local else target_load(m, cpu, index)
        log_considered(m, this_cpu, m[group, GR_MASK], LOOK_IDLEST_GROUP, m[sd, D_LEVEL])
        load = load * 1024 // m[m[group, GR_SGC], C_CAPACITY]
        if local:
            this_load = load
        elif load < min_load:
            min_load = load
            idlest = group
    if idlest < 0:
        return -1
    if 100 * this_load < (100 + (m[sd, D_PCT] - 100) // 2) * min_load:
        return -1
    return idlest


@apart(VALUE)
def find_idlest_cpu(m, group, p, this_cpu, level):
    """find_idlest_cpu(): the most recently idled CPU, else the least loaded."""
    newest = 0
    idle = -1
    min_load = HUGE
    least = this_cpu
    first = m[group, GR_LIST]
    for i in range(first, first + m[group, GR_N]):
        cpu = item(m, i)
        if not test(m, m[p, T_MASK], cpu):
            continue
        if idle_cpu(m, cpu):
            if m[cpu, R_IDLE_STAMP] > newest:
                newest = m[cpu, R_IDLE_STAMP]
                idle = cpu
        elif idle < 0:
            load = weighted_cpuload(m, cpu)
            if load < min_load or (load == min_load and cpu == this_cpu):
                min_load = load
                least = cpu
    log_considered(m, this_cpu, m[group, GR_MASK], LOOK_IDLEST_CPU, level)
    return idle if idle >= 0 else least


@apart(VALUE)
def slow_path(m, p, cpu, sd, flag):
    """The descent through the domains for fork and exec."""
    new_cpu = cpu
    while sd >= 0:
        if m[sd, D_FLAGS] & flag == 0:
            sd = m[sd, D_CHILD]
            continue
        group = find_idlest_group(m, sd, p, cpu)
        if group < 0:
            sd = m[sd, D_CHILD]
            continue
        new_cpu = find_idlest_cpu(m, group, p, cpu, m[sd, D_LEVEL])
        if new_cpu == cpu:
            sd = m[sd, D_CHILD]
            continue
        cpu = new_cpu
        weight = m[sd, D_WEIGHT]
        sd = -1
        first = m[cpu, R_SD]
        for tmp in range(first, first + m[cpu, R_NSD]):
            if m[tmp, D_WEIGHT] >= weight:
                break
            if m[tmp, D_FLAGS] & flag:
                sd = tmp
    return new_cpu


@apart(VALUE)
def select_task_rq_fair(m, p, prev, flag, cpu, sync):
    """select_task_rq_fair(); ``flag`` is the SD_BALANCE_* asked for, ``cpu`` the one the code runs on."""
    if m[0, G_OOW] != 0:
        idle = longest_idle_cpu(m, p, prev)
        if idle >= 0:
            return idle
    affine = -1
    top = -1
    wake = flag == SD_BALANCE_WAKE
    want_affine = wake and test(m, m[p, T_MASK], cpu)
    first = m[cpu, R_SD]
    for sd in range(first, first + m[cpu, R_NSD]):
        if want_affine and m[sd, D_FLAGS] & SD_WAKE_AFFINE and test(m, m[sd, D_MASK], prev):
            affine = sd
            break
        if m[sd, D_FLAGS] & flag:
            top = sd
    if affine >= 0 and cpu != prev and wake_affine(m, affine, p, prev, cpu, sync):
        prev = cpu
    if wake:
        return select_idle_sibling(m, p, prev)
    return slow_path(m, p, cpu, top, flag)
