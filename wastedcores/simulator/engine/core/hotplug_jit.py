"""CPU hotplug and the rebuild of the domains (docs/replay-semantics.md, section 8)."""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, apart
from wastedcores.simulator.engine.balance.group_stats_jit import update_group_capacity
from wastedcores.simulator.engine.balance.load_balance_v4_1_jit import attach_task, detach_task
from wastedcores.simulator.engine.balance.rebalance_domains_jit import (
    nohz_exit,
    sd_state_idle,
)
from wastedcores.simulator.engine.balance.v6_12_seam_jit import (
    ATTACHED,
    LEAVES,
    ask_balancer,
    balances_v6_12,
)
from wastedcores.simulator.engine.codes import cpu_event, log_op, sd_flag, status
from wastedcores.simulator.engine.core.schedule_jit import (
    enter_nohz,
    stop_hrtick,
    stopper_begin,
    stopper_end,
)
from wastedcores.simulator.engine.core.wakeup_jit import fallback_cpu, ttwu_pending
from wastedcores.simulator.engine.events import queue_jit
from wastedcores.simulator.engine.events.queue_jit import event_of
from wastedcores.simulator.engine.fair.cfs_jit import check_preempt
from wastedcores.simulator.engine.fair.eevdf_seam_jit import (
    FAIR_CHOOSE,
    FAIR_LEAVE,
    FAIR_MIGRATE,
    ask_fair,
    has_eevdf,
)
from wastedcores.simulator.engine.fair.entity_jit import set_task_rq
from wastedcores.simulator.engine.fair.load_jit import jiffies
from wastedcores.simulator.engine.fair.pelt_v4_4_jit import migrate
from wastedcores.simulator.engine.realtime.seam_jit import (
    OFFLINE,
    ask_rt,
    dequeue,
    enqueue,
    has_rt,
)
from wastedcores.simulator.engine.world import (
    cpuset,
    domain,
    group_capacity,
    hotplug_step,
    rq,
    sched_group,
    sim,
)
from wastedcores.simulator.engine.world.cpusets_jit import exclude, include, item, test
from wastedcores.simulator.engine.world.log_jit import log_migrate


@apart(NOTHING)
def shortcuts(m, cpu):
    """update_top_cache_domain(): set sd_llc and sd_busy of a CPU."""
    first = m[cpu, rq.SD]
    m[cpu, rq.SD_LLC] = -1
    m[cpu, rq.SD_BUSY] = -1
    m[cpu, rq.SD_LLC_SIZE] = 1
    for sd in range(first, first + m[cpu, rq.NR_DOMAINS]):
        if m[sd, domain.FLAGS] & sd_flag.SHARE_PKG_RESOURCES:
            m[cpu, rq.SD_LLC] = sd
            m[cpu, rq.SD_LLC_SIZE] = m[sd, domain.SPAN_WEIGHT]
            m[cpu, rq.SD_BUSY] = m[sd, domain.PARENT]


@apart(NOTHING)
def first_capacity(m, cpu, first, number):
    """init_sched_groups_capacity() of one CPU's domains, at a time when no CPU has its domains yet."""
    for sd in range(first, first + number):
        m[sd, domain.BALANCE_INTERVAL] = m[sd, domain.MIN_INTERVAL]
        m[sd, domain.NR_BALANCE_FAILED] = 0
        m[sd, domain.MAX_NEWIDLE_LB_COST] = 0
        m[sd, domain.NEXT_DECAY_MAX_LB_COST] = 0
        group = m[sd, domain.GROUPS]
        if m[group, sched_group.BALANCE_CPU] != cpu:
            continue
        if m[sd, domain.CHILD] < 0:
            m[cpu, rq.CPU_CAPACITY_ORIG] = 1024
            shares = m[sd, domain.FLAGS] & sd_flag.SHARE_CPUCAPACITY
            # smt_gain, until v5.1
            if shares and m[sd, domain.SPAN_WEIGHT] > 1 and not has_eevdf(m):
                m[cpu, rq.CPU_CAPACITY_ORIG] = 1178 // m[sd, domain.SPAN_WEIGHT]
        update_group_capacity(m, sd, cpu)
        m[m[group, sched_group.SGC], group_capacity.NR_BUSY_CPUS] = m[
            group, sched_group.GROUP_WEIGHT
        ]


@apart(NOTHING)
def attach_domains(m, epoch, now):
    """build_sched_domains(), cpu_attach_domain(): give every CPU tree number ``epoch``, with fresh balancing state."""
    n = m[0, sim.CPUS]
    table = m[0, sim.DOMAIN_LISTS] + epoch * 3 * n
    tunables(m)
    m[0, sim.OVERLOAD] = 0
    for cpu in range(n):
        m[cpu, rq.SD] = -1
        m[cpu, rq.NR_DOMAINS] = 0
        m[cpu, rq.NOHZ_IDLE] = 0
        m[cpu, rq.SD_LLC_ID] = item(m, table + 3 * cpu + 2)
    for cpu in range(n - 1, -1, -1):
        first_capacity(m, cpu, item(m, table + 3 * cpu), item(m, table + 3 * cpu + 1))
    for cpu in range(n):
        first = item(m, table + 3 * cpu)
        m[cpu, rq.SD] = first
        m[cpu, rq.NR_DOMAINS] = item(m, table + 3 * cpu + 1)
        for sd in range(first, first + m[cpu, rq.NR_DOMAINS]):
            m[sd, domain.LAST_BALANCE] = now
        shortcuts(m, cpu)
        sd_state_idle(m, cpu)
    if balances_v6_12(m):
        ask_balancer(m, ATTACHED, now, 0, 0)


@inner
def booted_capacity(m):
    """Update all group capacities, because every CPU has balanced since boot. At boot only some capacities were known."""
    for cpu in range(m[0, sim.CPUS]):
        first = m[cpu, rq.SD]
        for sd in range(first, first + m[cpu, rq.NR_DOMAINS]):
            update_group_capacity(m, sd, cpu)
            m[m[m[sd, domain.GROUPS], sched_group.SGC], group_capacity.NEXT_UPDATE] = 0


@apart(NOTHING)
def tunables(m):
    """get_update_sysctl_factor(), update_max_interval(): the tunables depend on the number of CPUs that are online."""
    up = 0
    for cpu in range(m[0, sim.CPUS]):
        if test(m, cpuset.ACTIVE, cpu):
            up += 1
    factor = 1
    while (1 << factor) <= min(up, 8):
        factor += 1
    m[0, sim.SCHED_LATENCY] = 6_000_000 * factor
    m[0, sim.MIN_GRANULARITY] = 750_000 * factor
    m[0, sim.WAKEUP_GRANULARITY] = 1_000_000 * factor
    m[0, sim.BASE_SLICE] = 700_000 * factor  # v6.12.107
    m[0, sim.MAX_LB_INTERVAL] = m[0, sim.HZ] * up // 10


@apart(NOTHING)
def push_away(m, p, cpu):
    """Move a queued task off a CPU that goes offline. If it may run nowhere else, the replay ends."""
    dst = fallback_cpu(m, p, cpu)
    if m[0, sim.STATUS] != status.RUNNING:
        return
    dequeue(m, p, False)
    log_migrate(m, p, cpu, dst, log_op.HOTPLUG)
    if has_eevdf(m):
        ask_fair(m, FAIR_MIGRATE, p, 0)
    migrate(m, p)
    set_task_rq(m, p, dst)
    enqueue(m, p, False, False)
    check_preempt(m, dst, p)


@apart(NOTHING)
def push_all(m, cpu):
    """balance_push(): move every task that a dying CPU picks. Sleepers that are still queued leave the queue (v6.12.107)."""
    while m[0, sim.STATUS] == status.RUNNING:
        p = ask_fair(m, FAIR_CHOOSE, cpu, 0)
        if p < 0:
            return
        push_away(m, p, cpu)


@apart(NOTHING)
def hotplug(m, step):
    """Take a CPU offline, or bring it back."""
    cpu = m[m[0, sim.STEP0] + step, hotplug_step.CPU]
    online = m[m[0, sim.STEP0] + step, hotplug_step.ONLINE]
    m[0, sim.TIMERS] -= 1
    if online != 0:
        include(m, cpuset.ACTIVE, cpu)
    else:
        exclude(m, cpuset.ACTIVE, cpu)
        if has_eevdf(m):
            ask_fair(m, FAIR_LEAVE, cpu, 0)
    # the domains change at CPU_DOWN_PREPARE and CPU_ONLINE, so a CPU that goes offline pulls nothing from then on
    attach_domains(m, step + 1, jiffies(m))
    if online == 0:
        ttwu_pending(m, cpu)
        if has_rt(m):
            ask_rt(m, OFFLINE, cpu, 0, 0)
        if m[cpu, rq.NR_RUNNING] > 0:
            stopper_begin(m, cpu)
            while has_rt(m) and m[0, sim.STATUS] == status.RUNNING:
                p = ask_rt(m, OFFLINE, cpu, 0, 0)  # the most urgent real-time task
                if p < 0:
                    break
                push_away(m, p, cpu)
            if has_eevdf(m):
                push_all(m, cpu)
            while m[cpu, rq.CFS_TASKS] >= 0 and m[0, sim.STATUS] == status.RUNNING:
                p = m[cpu, rq.CFS_TASKS]
                dst = fallback_cpu(m, p, cpu)
                if m[0, sim.STATUS] == status.RUNNING:
                    detach_task(m, p, dst, log_op.HOTPLUG)
                    attach_task(m, p)
            stopper_end(m, cpu)
        queue_jit.cancel(m, event_of(cpu_event.TICK, cpu))
        m[cpu, rq.TICK_STOPPED] = 1
        queue_jit.cancel(m, event_of(cpu_event.KICK, cpu))
        queue_jit.cancel(m, event_of(cpu_event.SOFTIRQ, cpu))
        stop_hrtick(m, cpu)
        m[cpu, rq.NOHZ_KICK] = 0
        m[cpu, rq.ILB_NEXT] = 0
        if balances_v6_12(m):
            ask_balancer(m, LEAVES, cpu, 0, 0)
        nohz_exit(m, cpu)
    if online != 0 and m[cpu, rq.TICK_STOPPED] != 0:
        enter_nohz(m, cpu)
