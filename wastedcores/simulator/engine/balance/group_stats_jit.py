"""Statistics of scheduling groups and the choice of the busiest group.

The code is kernel/sched/fair.c of Linux v4.1 (docs/scheduler-model.md, sections 5.4 and 5.7). The statistics of the local
group, of the busiest group so far and of the group that is being examined are in three rows, of which ``st`` is the first
(SgLbStatsV4). find_busiest_group() writes its result into ``out`` (SdLbStats).
"""

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.balance.decisions_jit import note_group, note_groups
from wastedcores.simulator.engine.codes import (
    group_imbalance_fix,
    group_type_v4_1,
    idle_type,
    log_op,
    sd_flag,
    stats_row,
)
from wastedcores.simulator.engine.fair.load_jit import (
    avg_load_per_task,
    get_cpu_usage,
    idle_cpu,
    source_load,
    target_load,
    weighted_cpuload,
)
from wastedcores.simulator.engine.world import cpuset
from wastedcores.simulator.engine.world.cpusets_jit import item, test
from wastedcores.simulator.engine.world.log_jit import log_considered
from wastedcores.simulator.engine.world.rows_jit import cpu_cfs_rq, cpu_rq, group_at
from wastedcores.simulator.engine.world.structs import (
    NO_GROUP,
    Kernel,
    SchedDomain,
    SchedGroup,
    SchedGroupCapacity,
    SdLbStats,
    SgLbStatsV4,
)


@inner
def ms_to_jiffies(k: Kernel, ms: int) -> int:
    """msecs_to_jiffies(): the result is rounded up."""
    return (ms * 1_000_000 + k.tick_ns - 1) // k.tick_ns


@apart(NOTHING)
def update_group_capacity(k: Kernel, sd: SchedDomain, cpu: int) -> None:
    """update_group_capacity(), update_cpu_capacity(), without subtracting the time of RT tasks and interrupts."""
    group = sd.groups
    sgc = group.sgc
    interval = ms_to_jiffies(k, sd.balance_interval)
    interval = max(interval, 1)
    interval = min(interval, k.max_lb_interval)
    sgc.next_update = k.jiffies + interval
    child = sd.child
    capacity = 0
    if not child:
        cpu_rq(k, cpu).cpu_capacity = cpu_rq(k, cpu).cpu_capacity_orig
        capacity = cpu_rq(k, cpu).cpu_capacity
    elif child.flags & sd_flag.OVERLAP:
        first = group.cpus
        for i in range(first, first + group.group_weight):
            other = item(k, i)
            if not cpu_rq(k, other).sd:
                capacity += cpu_rq(k, other).cpu_capacity
            else:
                capacity += cpu_rq(k, other).sd.groups.sgc.capacity
    else:
        for i in range(child.nr_groups):
            capacity += group_at(child, i).sgc.capacity
    sgc.capacity = capacity


@inner
def has_capacity(k: Kernel, s: SgLbStatsV4, pct: int) -> bool:
    """group_has_capacity() of the group whose statistics are in row ``s``."""
    if s.sum_nr_running < s.group_weight:
        return True
    return s.group_capacity * 100 > s.group_usage * pct


@inner
def update_sg_lb_stats(
    k: Kernel, sd: SchedDomain, group: SchedGroup, local: int, index: int, s: SgLbStatsV4, dst: int
) -> int:
    """update_sg_lb_stats(): write the statistics into row ``s``; return whether a CPU of the group has more than one task."""
    total = 0
    usage = 0
    running = 0
    weighted = 0
    idle = 0
    least = 1 << 62
    most = 0
    overload = False
    first = group.cpus
    for i in range(first, first + group.group_weight):
        cpu = item(k, i)
        if not test(k, cpuset.LB, cpu):
            continue
        load = target_load(k, cpu, index) if local else source_load(k, cpu, index)
        total += load
        least = min(least, load)
        most = max(most, load)
        usage += get_cpu_usage(k, cpu)
        running += cpu_cfs_rq(k, cpu).h_nr_running
        if cpu_rq(k, cpu).nr_running > 1:
            overload = True
        weighted += weighted_cpuload(k, cpu)
        if idle_cpu(k, cpu):
            idle += 1
    log_considered(k, dst, group.span, log_op.UPDATE_SG_LB_STATS, sd.level)
    sgc = group.sgc
    capacity = sgc.capacity
    weight = group.group_weight
    s.group_load = total
    s.group_usage = usage
    s.sum_nr_running = running
    s.sum_weighted_load = weighted
    s.idle_cpus = idle
    s.group_capacity = capacity
    s.avg_load = total * 1024 // capacity
    s.load_per_task = weighted // running if running > 0 else 0
    s.group_weight = weight
    # group_is_overloaded()
    beyond = capacity * 100 < usage * sd.imbalance_pct
    s.group_no_capacity = running > weight and beyond
    s.min_load = least
    s.max_load = most
    classify(k, s, sgc)
    return overload


@inner
def classify(k: Kernel, s: SgLbStatsV4, sgc: SchedGroupCapacity) -> None:
    """group_classify(): set the type of a group."""
    if s.group_no_capacity != 0:
        s.group_type = group_type_v4_1.OVERLOADED
    elif sgc.imbalance != 0:
        s.group_type = group_type_v4_1.IMBALANCED
    else:
        s.group_type = group_type_v4_1.OTHER


@inner
def pick_busiest(k: Kernel, spare: SgLbStatsV4, busiest: SgLbStatsV4) -> bool:
    """update_sd_pick_busiest(), without the group imbalance fix, or with it as described or as published (paper, section 3.1)."""
    if k.group_imbalance_fix == group_imbalance_fix.PATCH:
        # with the published fix every non-local group passes, so the last group of the ring becomes "the busiest"
        return True
    if spare.group_type != busiest.group_type:
        return spare.group_type > busiest.group_type
    if k.group_imbalance_fix != group_imbalance_fix.NONE:
        return spare.min_load > busiest.min_load
    return spare.avg_load > busiest.avg_load


@inner
def load_index(k: Kernel, sd: SchedDomain, idle: int) -> int:
    """get_sd_load_idx(): return which of the cpu_load averages this domain uses."""
    if idle == idle_type.NOT_IDLE:
        return sd.busy_idx
    if idle == idle_type.NEWLY_IDLE:
        return sd.newidle_idx
    return sd.idle_idx


@apart(NOTHING)
def update_sd_lb_stats(
    k: Kernel, sd: SchedDomain, dst: int, idle: int, st: int, out: SdLbStats
) -> None:
    """update_sd_lb_stats(): walk the ring of groups and leave the statistics in ``st`` and the totals in ``out``."""
    local = SgLbStatsV4(k, st + stats_row.LOCAL)
    busiest = SgLbStatsV4(k, st + stats_row.BUSIEST)
    spare = SgLbStatsV4(k, st + stats_row.SPARE)
    prefer = False
    child = sd.child
    if child and child.flags & sd_flag.PREFER_SIBLING:
        prefer = True
    index = load_index(k, sd, idle)
    overload = False
    seen_local = False
    for i in range(3):
        for j in range(13):
            k[st + i, j] = 0
    out.busiest = NO_GROUP
    out.total_load = 0
    out.total_capacity = 0
    ring = sd.groups.row
    for i in range(sd.nr_groups):
        group = SchedGroup(k, ring + i)
        is_local = test(k, group.span, dst)
        sgc = group.sgc
        s = local if is_local else spare
        if is_local:
            seen_local = True
            if idle != idle_type.NEWLY_IDLE or k.jiffies >= sgc.next_update:
                update_group_capacity(k, sd, dst)
        if update_sg_lb_stats(k, sd, group, is_local, index, s, dst):
            overload = True
        if not is_local:
            if (
                prefer
                and seen_local
                and has_capacity(k, local, sd.imbalance_pct)
                and spare.sum_nr_running > 1
            ):
                spare.group_no_capacity = 1
                classify(k, spare, sgc)
            if pick_busiest(k, spare, busiest):
                out.busiest = group
                for j in range(13):
                    busiest[j] = spare[j]
        if k.decisions != 0:
            note_group(k, group, i, is_local, s, dst)
        out.total_load += s.group_load
        out.total_capacity += s.group_capacity
    if not sd.parent:
        k.overload = 1 if overload else 0
    if k.decisions != 0:
        capacity = out.total_capacity
        average = 1024 * out.total_load // capacity if capacity > 0 else 0
        note_groups(k, sd, out, prefer, average)


@apart(NOTHING)
def fix_small_imbalance(k: Kernel, dst: int, st: int, out: SdLbStats) -> None:
    """fix_small_imbalance(): move one task's load if that increases the throughput."""
    local = SgLbStatsV4(k, st + stats_row.LOCAL)
    busiest = SgLbStatsV4(k, st + stats_row.BUSIEST)
    imbn = 2
    lpt = busiest.load_per_task
    if local.sum_nr_running == 0:
        local.load_per_task = avg_load_per_task(k, dst)
    elif lpt > local.load_per_task:
        imbn = 1
    local_lpt = local.load_per_task
    local_avg = local.avg_load
    local_cap = local.group_capacity
    avg = busiest.avg_load
    cap = busiest.group_capacity
    scaled = lpt * 1024 // cap
    if avg + scaled >= local_avg + scaled * imbn:
        out.imbalance = lpt
        return
    now = (cap * min(lpt, avg) + local_cap * min(local_lpt, local_avg)) // 1024
    move = 0
    if avg > scaled:
        move = cap * min(lpt, avg - scaled)
    if avg * cap < lpt * 1024:
        gained = avg * cap // local_cap
    else:
        gained = lpt * 1024 // local_cap
    move = (move + local_cap * min(local_lpt, local_avg + gained)) // 1024
    if move > now:
        out.imbalance = lpt


@apart(NOTHING)
def calculate_imbalance(k: Kernel, dst: int, st: int, out: SdLbStats) -> None:
    """calculate_imbalance(): compute how much load to move."""
    local = SgLbStatsV4(k, st + stats_row.LOCAL)
    busiest = SgLbStatsV4(k, st + stats_row.BUSIEST)
    if k.group_imbalance_fix != group_imbalance_fix.NONE:
        # the fix takes half the distance from the local minimum to the busiest group's maximum
        distance = busiest.max_load - local.min_load
        out.imbalance = distance // 2 if distance > 0 else 0
        return
    avg = out.avg_load
    if busiest.group_type == group_type_v4_1.IMBALANCED:
        busiest.load_per_task = min(busiest.load_per_task, avg)
    if busiest.avg_load <= avg or local.avg_load >= avg:
        out.imbalance = 0
        fix_small_imbalance(k, dst, st, out)
        return
    above = 1 << 62
    if (
        busiest.group_type == group_type_v4_1.OVERLOADED
        and local.group_type == group_type_v4_1.OVERLOADED
    ):
        tasks = busiest.sum_nr_running * 1024
        if tasks > busiest.group_capacity:
            above = tasks - busiest.group_capacity
    give = min(busiest.avg_load - avg, above) * busiest.group_capacity
    take = (avg - local.avg_load) * local.group_capacity
    out.imbalance = min(give, take) // 1024
    if out.imbalance < busiest.load_per_task:
        fix_small_imbalance(k, dst, st, out)


@inner
def balanced(
    k: Kernel, sd: SchedDomain, idle: int, local: SgLbStatsV4, busiest: SgLbStatsV4, average: int
) -> bool:
    """The tests of find_busiest_group() that end at ``out_balanced``; ``average`` is the average load of the domain."""
    pct = sd.imbalance_pct
    if busiest.group_type == group_type_v4_1.IMBALANCED:
        return False
    if (
        idle == idle_type.NEWLY_IDLE
        and has_capacity(k, local, pct)
        and busiest.group_no_capacity != 0
    ):
        return False
    if k.group_imbalance_fix != group_imbalance_fix.NONE:
        # the fix compares the least loaded CPUs of the groups instead of the averages (paper, section 3.1)
        return local.min_load >= busiest.min_load
    load = local.avg_load
    if load >= busiest.avg_load or load >= average:
        return True
    if idle == idle_type.IDLE:
        return (
            busiest.group_type != group_type_v4_1.OVERLOADED
            and local.idle_cpus <= busiest.idle_cpus + 1
        )
    return 100 * busiest.avg_load <= pct * load


@apart(VALUE)
def find_busiest_group(
    k: Kernel, sd: SchedDomain, dst: int, idle: int, st: int, out: SdLbStats
) -> bool:
    """find_busiest_group(): return whether there is a group to pull from. Row ``out`` has the group and the imbalance."""
    local = SgLbStatsV4(k, st + stats_row.LOCAL)
    busiest = SgLbStatsV4(k, st + stats_row.BUSIEST)
    update_sd_lb_stats(k, sd, dst, idle, st, out)
    out.imbalance = 0
    if not out.busiest or busiest.sum_nr_running == 0:
        return False
    out.avg_load = 1024 * out.total_load // out.total_capacity
    if balanced(k, sd, idle, local, busiest, out.avg_load):
        return False
    calculate_imbalance(k, dst, st, out)
    return True
