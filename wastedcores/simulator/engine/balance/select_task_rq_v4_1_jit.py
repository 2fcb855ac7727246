"""select_task_rq_fair(): the CPU for a task that wakes up, is new or calls exec.

Source: kernel/sched/fair.c, v4.1, and for find_idlest_group() also v4.19; docs/scheduler-model.md, section 6.
"""

from wastedcores.jit.compile import inner
from wastedcores.jit.units import VALUE, apart
from wastedcores.simulator.engine.codes import log_op, sd_flag
from wastedcores.simulator.engine.fair.load_jit import (
    effective_load,
    idle_cpu,
    source_load,
    target_load,
    weighted_cpuload,
)
from wastedcores.simulator.engine.world import cpuset
from wastedcores.simulator.engine.world.cpusets_jit import item, test
from wastedcores.simulator.engine.world.log_jit import log_considered
from wastedcores.simulator.engine.world.rows_jit import cpu_cfs_rq, cpu_rq, domain_at, group_at
from wastedcores.simulator.engine.world.structs import (
    NO_DOMAIN,
    NO_GROUP,
    Kernel,
    SchedDomain,
    SchedGroup,
    TaskStruct,
)

#: more than a hundred times as large as any load
HUGE = 1 << 55


@inner
def group_allowed(k: Kernel, group: SchedGroup, mask: int) -> bool:
    """Return whether a group has a CPU of the mask."""
    first = group.cpus
    for i in range(first, first + group.group_weight):  # noqa: SIM110 (numba has no generators here)
        if test(k, mask, item(k, i)):
            return True
    return False


@apart(VALUE)
def find_idlest_group(k: Kernel, sd: SchedDomain, p: TaskStruct, this_cpu: int) -> SchedGroup:
    """find_idlest_group(): return the group for a task, or NULL if the task should stay in the local group."""
    idlest = NO_GROUP
    min_load = HUGE
    this_load = 0
    index = sd.forkexec_idx
    for place in range(sd.nr_groups):
        group = group_at(sd, place)
        if not group_allowed(k, group, p.cpus_allowed):
            continue
        local = test(k, group.span, this_cpu)
        load = 0
        first = group.cpus
        for i in range(first, first + group.group_weight):
            cpu = item(k, i)
            load += source_load(k, cpu, index) if local else target_load(k, cpu, index)
        log_considered(k, this_cpu, group.span, log_op.FIND_IDLEST_GROUP, sd.level)
        load = load * 1024 // group.sgc.capacity
        if local:
            this_load = load
        elif load < min_load:
            min_load = load
            idlest = group
    if not idlest:
        return NO_GROUP
    if 100 * this_load < (100 + (sd.imbalance_pct - 100) // 2) * min_load:
        return NO_GROUP
    return idlest


@inner
def cfs_rq_load_avg(k: Kernel, cpu: int) -> int:
    """cfs_rq_load_avg(): the load of the queued and of the sleeping entities."""
    q = cpu_cfs_rq(k, cpu)
    return q.runnable_load_avg + q.blocked_load_avg


@apart(VALUE)
def find_idlest_group_v4_10(k: Kernel, sd: SchedDomain, p: TaskStruct, this_cpu: int) -> SchedGroup:
    """find_idlest_group() of v4.10 to v5.4, without its test of spare capacity; NULL: stay in the local group."""
    idlest = NO_GROUP
    min_runnable = HUGE
    min_avg = HUGE
    this_runnable = HUGE
    this_avg = HUGE
    margin = sd.fork_margin
    scale = 100 + (sd.imbalance_pct - 100) // 2
    index = sd.forkexec_idx
    for place in range(sd.nr_groups):
        group = group_at(sd, place)
        if not group_allowed(k, group, p.cpus_allowed):
            continue
        local = test(k, group.span, this_cpu)
        runnable = 0
        avg = 0
        first = group.cpus
        for i in range(first, first + group.group_weight):
            cpu = item(k, i)
            runnable += source_load(k, cpu, index) if local else target_load(k, cpu, index)
            avg += cfs_rq_load_avg(k, cpu)
        log_considered(k, this_cpu, group.span, log_op.FIND_IDLEST_GROUP, sd.level)
        capacity = group.sgc.capacity
        runnable = runnable * 1024 // capacity
        avg = avg * 1024 // capacity
        if local:
            this_runnable = runnable
            this_avg = avg
        elif min_runnable > runnable + margin:
            min_runnable = runnable
            min_avg = avg
            idlest = group
        elif runnable < min_runnable + margin and 100 * min_avg > scale * avg:
            min_avg = avg
            idlest = group
    if not idlest:
        return NO_GROUP
    if sd.stays_on_node != 0 and min_runnable + margin >= this_runnable:
        return NO_GROUP
    if min_runnable > this_runnable + margin:
        return NO_GROUP
    if this_runnable < min_runnable + margin and 100 * this_avg < scale * min_avg:
        return NO_GROUP
    return idlest


@inner
def record_wakee(k: Kernel, waker: TaskStruct, p: TaskStruct) -> None:
    """record_wakee(): count how often a task wakes a different task than it did the last time."""
    if not waker:
        return
    if k.jiffies > waker.wakee_flip_decay_ts + k.hz:
        waker.wakee_flips >>= 1
        waker.wakee_flip_decay_ts = k.jiffies
    if waker.last_wakee != p:
        waker.last_wakee = p
        waker.wakee_flips += 1


@inner
def wake_wide(k: Kernel, p: TaskStruct, cpu: int) -> bool:
    """wake_wide(): return whether waker and wakee wake so many tasks that they should not share a cache."""
    factor = cpu_rq(k, cpu).sd_llc_size
    waker = cpu_rq(k, cpu).curr
    # only modern kernels count wakeups by the idle task
    flips = waker.wakee_flips if waker else cpu_cfs_rq(k, cpu).rq_modern.wakee_flips
    own = p.wakee_flips
    if (k.load_v4_4 | k.is_modern) != 0:
        return min(own, flips) >= factor and max(own, flips) >= min(own, flips) * factor
    return own > factor and flips > factor * own


@inner
def weight_for_wakeup(k: Kernel, p: TaskStruct) -> int:
    """Return the load with which wake_affine() counts a task: its weight, or under v4.4 its load average."""
    return p.se.avg.load_avg if k.load_v4_4 != 0 else p.se.weight


@apart(VALUE)
def wake_affine(k: Kernel, sd: SchedDomain, p: TaskStruct, prev: int, cpu: int, sync: int) -> bool:
    """wake_affine(): return whether the wakee moves to the waker's CPU."""
    if wake_wide(k, p, cpu):
        return False
    this_load = target_load(k, cpu, sd.wake_idx)
    load = source_load(k, prev, sd.wake_idx)
    waker = cpu_rq(k, cpu).curr
    if sync and waker:
        weight = weight_for_wakeup(k, waker)
        this_load += effective_load(k, waker.group, cpu, -weight, -weight)
        load += effective_load(k, waker.group, prev, 0, -weight)
    weight = weight_for_wakeup(k, p)
    here = 100 * cpu_rq(k, prev).cpu_capacity
    there = (100 + (sd.imbalance_pct - 100) // 2) * cpu_rq(k, cpu).cpu_capacity
    if this_load > 0:
        here *= this_load + effective_load(k, p.group, cpu, weight, weight)
        there *= load + effective_load(k, p.group, prev, 0, weight)
    return here <= there


@apart(VALUE)
def select_idle_sibling(k: Kernel, p: TaskStruct, target: int) -> int:
    """select_idle_sibling(): search the LLC for a completely idle group (the Overload-on-Wakeup bug, paper, section 3.3)."""
    if idle_cpu(k, target):
        return target
    last = p.cpu
    if (
        last != target
        and cpu_rq(k, last).sd_llc_id == cpu_rq(k, target).sd_llc_id
        and idle_cpu(k, last)
    ):
        return last
    sd = cpu_rq(k, target).sd_llc
    if sd:
        log_considered(k, last, sd.span, log_op.SELECT_IDLE_SIBLING, sd.level)
    allowed = p.cpus_allowed
    while sd:
        for place in range(sd.nr_groups):
            group = group_at(sd, place)
            first = group.cpus
            found = -1
            busy = False
            for i in range(first, first + group.group_weight):
                cpu = item(k, i)
                if cpu == target or not idle_cpu(k, cpu):
                    busy = True
                    break
                if found < 0 and test(k, allowed, cpu):
                    found = cpu
            if not busy and found >= 0:
                return found
        sd = sd.child
    return target


@apart(VALUE)
def longest_idle_cpu(k: Kernel, p: TaskStruct, prev: int) -> int:
    """The overload-on-wakeup fix (paper, section 3.3): return ``prev`` if it is idle, else the longest idle CPU, or -1."""
    if cpu_rq(k, prev).nr_running == 0:
        return prev
    best = -1
    oldest = 1 << 60
    for cpu in range(k.nr_cpus):
        if (
            test(k, cpuset.ACTIVE, cpu)
            and test(k, p.cpus_allowed, cpu)
            and cpu_rq(k, cpu).nr_running == 0
            and cpu_rq(k, cpu).idle_stamp < oldest
        ):
            oldest = cpu_rq(k, cpu).idle_stamp
            best = cpu
    return best


@inner
def takes_home(k: Kernel, p: TaskStruct, home: int) -> bool:
    """Return whether a strategy of the fork/wait paper (4.2) puts a task on ``home``: its parent's CPU or its own last CPU.

    Strategy 1 does so if at most one task is there (at a fork, this is the parent); strategy 2 always does.
    """
    if not test(k, p.cpus_allowed, home) or not test(k, cpuset.ACTIVE, home):
        return False
    return k.fork_wait == 2 or cpu_rq(k, home).nr_running <= 1


@apart(VALUE)
def find_idlest_cpu(k: Kernel, group: SchedGroup, p: TaskStruct, this_cpu: int, level: int) -> int:
    """find_idlest_cpu(), sched_balance_find_dst_group_cpu(): return the CPU that became idle last, else the least loaded one.

    Idle states are not modelled, so idle CPUs differ by ``idle_stamp`` only. A CPU whose stamp is 0 is not found.
    """
    first = group.cpus
    if k.is_modern != 0 and group.group_weight == 1:
        return item(k, first)
    log_considered(k, this_cpu, group.span, log_op.FIND_IDLEST_CPU, level)
    newest = 0
    idle = -1
    min_load = HUGE
    least = this_cpu
    for i in range(first, first + group.group_weight):
        cpu = item(k, i)
        if not test(k, p.cpus_allowed, cpu):
            continue
        if idle_cpu(k, cpu):
            if cpu_rq(k, cpu).idle_stamp > newest:
                newest = cpu_rq(k, cpu).idle_stamp
                idle = cpu
        elif idle < 0:
            load = cpu_cfs_rq(k, cpu).avg.load_avg if k.is_modern != 0 else weighted_cpuload(k, cpu)
            if load < min_load or (load == min_load and cpu == this_cpu and k.is_modern == 0):
                min_load = load
                least = cpu
    return idle if idle >= 0 else least


@inner
def widest_below(k: Kernel, cpu: int, weight: int, flag: int) -> SchedDomain:
    """Return the widest domain of a CPU that has the flag and fewer than ``weight`` CPUs, or NULL."""
    found = -1
    for height in range(cpu_rq(k, cpu).nr_domains):
        sd = domain_at(k, cpu, height)
        if sd.span_weight >= weight:
            break
        if sd.flags & flag:
            found = sd.row
    return SchedDomain(k, found)


@apart(VALUE)
def slow_path(k: Kernel, p: TaskStruct, cpu: int, sd: SchedDomain, flag: int) -> int:
    """Descend through the domains to find a CPU, for fork and exec."""
    new_cpu = cpu
    while sd:
        if sd.flags & flag == 0:
            sd = sd.child
            continue
        if sd.fork_margin == 0:
            group = find_idlest_group(k, sd, p, cpu)
        else:
            group = find_idlest_group_v4_10(k, sd, p, cpu)
        if not group:
            sd = sd.child
            continue
        new_cpu = find_idlest_cpu(k, group, p, cpu, sd.level)
        if new_cpu == cpu:
            sd = sd.child
            continue
        cpu = new_cpu
        sd = widest_below(k, cpu, sd.span_weight, flag)
    return new_cpu


@apart(VALUE)
def select_task_rq_fair(k: Kernel, p: TaskStruct, prev: int, flag: int, cpu: int, sync: int) -> int:
    """select_task_rq_fair(): ``flag`` is an SD_BALANCE_* flag, ``cpu`` the CPU on which the code runs."""
    if k.fork_wait != 0 and flag != sd_flag.BALANCE_EXEC:
        home = cpu if flag == sd_flag.BALANCE_FORK else prev
        if takes_home(k, p, home):
            return home
    if k.overload_on_wakeup_fix != 0:
        idle = longest_idle_cpu(k, p, prev)
        if idle >= 0:
            return idle
    affine = NO_DOMAIN
    top = NO_DOMAIN
    wake = flag == sd_flag.BALANCE_WAKE
    want_affine = wake and test(k, p.cpus_allowed, cpu)
    for height in range(cpu_rq(k, cpu).nr_domains):
        sd = domain_at(k, cpu, height)
        if want_affine and sd.flags & sd_flag.WAKE_AFFINE and test(k, sd.span, prev):
            affine = sd
            break
        if sd.flags & flag:
            top = sd
    if affine and cpu != prev and wake_affine(k, affine, p, prev, cpu, sync):
        prev = cpu
    if wake:
        return select_idle_sibling(k, p, prev)
    return slow_path(k, p, cpu, top, flag)
