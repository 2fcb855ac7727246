"""CPU hotplug, and the domains that come and go with it (docs/replay-semantics.md, section 8)."""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, apart
from wastedcores.simulator.engine.balance.group_stats_jit import update_group_capacity
from wastedcores.simulator.engine.balance.load_balance_v4_1_jit import attach_task, detach_task
from wastedcores.simulator.engine.balance.rebalance_domains_jit import (
    nohz_enter,
    nohz_exit,
    sd_state_idle,
)
from wastedcores.simulator.engine.core.schedule_jit import stopper_begin, stopper_end
from wastedcores.simulator.engine.core.wakeup_jit import fallback_cpu, ttwu_pending
from wastedcores.simulator.engine.events import queue_jit
from wastedcores.simulator.engine.events.queue_jit import cpu_event
from wastedcores.simulator.engine.fair.load_jit import jiffies
from wastedcores.simulator.engine.world.codes import (
    EV_KICK,
    EV_SOFTIRQ,
    EV_TICK,
    SD_SHARE_CPUCAPACITY,
    SD_SHARE_PKG_RESOURCES,
    ST_RUNNING,
    WHY_HOTPLUG,
)
from wastedcores.simulator.engine.world.cpusets_jit import exclude, include, item, test
from wastedcores.simulator.engine.world.state import (
    C_BUSY,
    C_NEXT_UPDATE,
    D_CHILD,
    D_FAILED,
    D_FLAGS,
    D_GROUPS,
    D_INTERVAL,
    D_LAST,
    D_MAX_COST,
    D_MIN_INT,
    D_NEXT_DECAY,
    D_PARENT,
    D_WEIGHT,
    G_CPUS,
    G_HZ,
    G_LATENCY,
    G_MAX_INTERVAL,
    G_MIN_GRAN,
    G_OVERLOAD,
    G_STATUS,
    G_STEP0,
    G_TABLE,
    G_TIMERS,
    G_WAKEUP_GRAN,
    GR_BAL,
    GR_N,
    GR_SGC,
    H_CPU,
    H_ONLINE,
    MASK_ACTIVE,
    R_BUSY_SD,
    R_CAP_ORIG,
    R_ILB,
    R_KICK,
    R_LLC_ID,
    R_LLC_SD,
    R_LLC_SIZE,
    R_NOHZ_IDLE,
    R_NR,
    R_NSD,
    R_SD,
    R_STOPPED,
    R_THEAD,
)


@apart(NOTHING)
def shortcuts(m, cpu):
    """update_top_cache_domain()."""
    first = m[cpu, R_SD]
    m[cpu, R_LLC_SD] = -1
    m[cpu, R_BUSY_SD] = -1
    m[cpu, R_LLC_SIZE] = 1
    for sd in range(first, first + m[cpu, R_NSD]):
        if m[sd, D_FLAGS] & SD_SHARE_PKG_RESOURCES:
            m[cpu, R_LLC_SD] = sd
            m[cpu, R_LLC_SIZE] = m[sd, D_WEIGHT]
            m[cpu, R_BUSY_SD] = m[sd, D_PARENT]


@apart(NOTHING)
def first_capacity(m, cpu, first, number):
    """init_sched_groups_capacity() of one CPU's domains, while no CPU has its domains yet."""
    for sd in range(first, first + number):
        m[sd, D_INTERVAL] = m[sd, D_MIN_INT]
        m[sd, D_FAILED] = 0
        m[sd, D_MAX_COST] = 0
        m[sd, D_NEXT_DECAY] = 0
        group = m[sd, D_GROUPS]
        if m[group, GR_BAL] != cpu:
            continue
        if m[sd, D_CHILD] < 0:
            m[cpu, R_CAP_ORIG] = 1024
            if m[sd, D_FLAGS] & SD_SHARE_CPUCAPACITY and m[sd, D_WEIGHT] > 1:
                m[cpu, R_CAP_ORIG] = 1178 // m[sd, D_WEIGHT]  # smt_gain
        update_group_capacity(m, sd, cpu)
        m[m[group, GR_SGC], C_BUSY] = m[group, GR_N]


@apart(NOTHING)
def attach_domains(m, epoch, now):
    """build_sched_domains(), cpu_attach_domain(): every CPU gets the tree of this epoch, with fresh balance state."""
    n = m[0, G_CPUS]
    table = m[0, G_TABLE] + epoch * 3 * n
    tunables(m)
    m[0, G_OVERLOAD] = 0
    for cpu in range(n):
        m[cpu, R_SD] = -1
        m[cpu, R_NSD] = 0
        m[cpu, R_NOHZ_IDLE] = 0
        m[cpu, R_LLC_ID] = item(m, table + 3 * cpu + 2)
    for cpu in range(n - 1, -1, -1):
        first_capacity(m, cpu, item(m, table + 3 * cpu), item(m, table + 3 * cpu + 1))
    for cpu in range(n):
        first = item(m, table + 3 * cpu)
        m[cpu, R_SD] = first
        m[cpu, R_NSD] = item(m, table + 3 * cpu + 1)
        for sd in range(first, first + m[cpu, R_NSD]):
            m[sd, D_LAST] = now
        shortcuts(m, cpu)
        sd_state_idle(m, cpu)


@inner
def booted_capacity(m):
    """Each CPU has balanced since boot; who built the groups knew only some of their capacities."""
    for cpu in range(m[0, G_CPUS]):
        first = m[cpu, R_SD]
        for sd in range(first, first + m[cpu, R_NSD]):
            update_group_capacity(m, sd, cpu)
            m[m[m[sd, D_GROUPS], GR_SGC], C_NEXT_UPDATE] = 0


@apart(NOTHING)
def tunables(m):
    """get_update_sysctl_factor(), update_max_interval(): the tunables follow the number of CPUs that are up."""
    up = 0
    for cpu in range(m[0, G_CPUS]):
        if test(m, MASK_ACTIVE, cpu):
            up += 1
    factor = 1
    while (1 << factor) <= min(up, 8):
        factor += 1
    m[0, G_LATENCY] = 6_000_000 * factor
    m[0, G_MIN_GRAN] = 750_000 * factor
    m[0, G_WAKEUP_GRAN] = 1_000_000 * factor
    m[0, G_MAX_INTERVAL] = m[0, G_HZ] * up // 10


@apart(NOTHING)
def hotplug(m, step):
    """A CPU goes offline or comes back."""
    cpu = m[m[0, G_STEP0] + step, H_CPU]
    online = m[m[0, G_STEP0] + step, H_ONLINE]
    m[0, G_TIMERS] -= 1
    if online != 0:
        include(m, MASK_ACTIVE, cpu)
    else:
        exclude(m, MASK_ACTIVE, cpu)
    # the domains change at CPU_DOWN_PREPARE and CPU_ONLINE: a CPU that goes pulls nothing any more
    attach_domains(m, step + 1, jiffies(m))
    if online == 0:
        ttwu_pending(m, cpu)
        if m[cpu, R_NR] > 0:
            stopper_begin(m, cpu)
            while m[cpu, R_THEAD] >= 0 and m[0, G_STATUS] == ST_RUNNING:
                p = m[cpu, R_THEAD]
                dst = fallback_cpu(m, p, cpu)
                if m[0, G_STATUS] == ST_RUNNING:
                    detach_task(m, p, dst, WHY_HOTPLUG)
                    attach_task(m, p)
            stopper_end(m, cpu)
        queue_jit.cancel(m, cpu_event(EV_TICK, cpu))
        m[cpu, R_STOPPED] = 1
        queue_jit.cancel(m, cpu_event(EV_KICK, cpu))
        queue_jit.cancel(m, cpu_event(EV_SOFTIRQ, cpu))
        m[cpu, R_KICK] = 0
        m[cpu, R_ILB] = 0
        nohz_exit(m, cpu)
    if online != 0 and m[cpu, R_STOPPED] != 0:
        nohz_enter(m, cpu)
