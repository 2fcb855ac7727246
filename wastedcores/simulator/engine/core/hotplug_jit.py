"""CPU hotplug and the rebuild of the domains (docs/replay-semantics.md, section 8)."""

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, apart
from wastedcores.simulator.engine.balance.group_stats_jit import update_group_capacity
from wastedcores.simulator.engine.balance.load_balance_v4_1_jit import attach_task, detach_task
from wastedcores.simulator.engine.balance.rebalance_domains_jit import nohz_exit, sd_state_idle
from wastedcores.simulator.engine.codes import cpu_event, log_op, sd_flag, status
from wastedcores.simulator.engine.core.schedule_jit import enter_nohz, stopper_begin, stopper_end
from wastedcores.simulator.engine.core.wakeup_jit import fallback_cpu, ttwu_pending
from wastedcores.simulator.engine.events import queue_jit
from wastedcores.simulator.engine.events.queue_jit import event_of
from wastedcores.simulator.engine.fair.cfs_jit import check_preempt, hrtick_of
from wastedcores.simulator.engine.fair.entity_jit import dequeue, enqueue, set_task_rq
from wastedcores.simulator.engine.fair.pelt_v4_4_jit import migrate
from wastedcores.simulator.engine.world import cpuset
from wastedcores.simulator.engine.world.cpusets_jit import exclude, include, item, test
from wastedcores.simulator.engine.world.log_jit import log_migrate
from wastedcores.simulator.engine.world.rows_jit import (
    balancer,
    cpu_rq,
    domain_at,
    fair_class,
    rt_class,
)
from wastedcores.simulator.engine.world.structs import (
    NO_DOMAIN,
    HotplugStep,
    Kernel,
    SchedDomain,
    TaskStruct,
)


@apart(NOTHING)
def shortcuts(k: Kernel, cpu: int) -> None:
    """update_top_cache_domain(): set sd_llc and sd_busy of a CPU."""
    cpu_rq(k, cpu).sd_llc = NO_DOMAIN
    cpu_rq(k, cpu).sd_busy = NO_DOMAIN
    cpu_rq(k, cpu).sd_llc_size = 1
    for height in range(cpu_rq(k, cpu).nr_domains):
        sd = domain_at(k, cpu, height)
        if sd.flags & sd_flag.SHARE_PKG_RESOURCES:
            cpu_rq(k, cpu).sd_llc = sd
            cpu_rq(k, cpu).sd_llc_size = sd.span_weight
            cpu_rq(k, cpu).sd_busy = sd.parent


@apart(NOTHING)
def first_capacity(k: Kernel, cpu: int, first: int, number: int) -> None:
    """init_sched_groups_capacity() for the domains of one CPU. No CPU has been given its domains yet."""
    for sd_row in range(first, first + number):
        sd = SchedDomain(k, sd_row)
        sd.balance_interval = sd.min_interval
        sd.nr_balance_failed = 0
        sd.max_newidle_lb_cost = 0
        sd.next_decay_max_lb_cost = 0
        group = sd.groups
        if group.balance_cpu != cpu:
            continue
        if not sd.child:
            cpu_rq(k, cpu).cpu_capacity_orig = 1024
            shares = sd.flags & sd_flag.SHARE_CPUCAPACITY
            # smt_gain, which existed until v5.1
            if shares and sd.span_weight > 1 and k.is_modern == 0:
                cpu_rq(k, cpu).cpu_capacity_orig = 1178 // sd.span_weight
        update_group_capacity(k, sd, cpu)
        group.sgc.nr_busy_cpus = group.group_weight


@apart(NOTHING)
def attach_domains(k: Kernel, epoch: int, now: int) -> None:
    """build_sched_domains(), cpu_attach_domain(): give every CPU its domains of tree ``epoch``, with fresh balancing state."""
    n = k.nr_cpus
    table = k.domain_lists + epoch * 3 * n
    tunables(k)
    k.overload = 0
    for cpu in range(n):
        cpu_rq(k, cpu).sd = NO_DOMAIN
        cpu_rq(k, cpu).nr_domains = 0
        cpu_rq(k, cpu).nohz_idle = 0
        cpu_rq(k, cpu).sd_llc_id = item(k, table + 3 * cpu + 2)
    for cpu in range(n - 1, -1, -1):
        first_capacity(k, cpu, item(k, table + 3 * cpu), item(k, table + 3 * cpu + 1))
    for cpu in range(n):
        first = item(k, table + 3 * cpu)
        cpu_rq(k, cpu).sd = SchedDomain(k, first)
        cpu_rq(k, cpu).nr_domains = item(k, table + 3 * cpu + 1)
        for sd_row in range(first, first + cpu_rq(k, cpu).nr_domains):
            sd = SchedDomain(k, sd_row)
            sd.last_balance = now
        shortcuts(k, cpu)
        sd_state_idle(k, cpu)
    if k.is_modern != 0:
        balancer(k).attached(k, now)


@inner
def booted_capacity(k: Kernel) -> None:
    """Update all group capacities: at boot only some of them were known, but every CPU has balanced since then."""
    for cpu in range(k.nr_cpus):
        for height in range(cpu_rq(k, cpu).nr_domains):
            sd = domain_at(k, cpu, height)
            update_group_capacity(k, sd, cpu)
            sd.groups.sgc.next_update = 0


@apart(NOTHING)
def tunables(k: Kernel) -> None:
    """get_update_sysctl_factor(), update_max_interval(): the tunables depend on the number of CPUs that are online."""
    up = 0
    for cpu in range(k.nr_cpus):
        if test(k, cpuset.ACTIVE, cpu):
            up += 1
    factor = 1
    while (1 << factor) <= min(up, 8):
        factor += 1
    k.sched_latency = 6_000_000 * factor
    k.min_granularity = 750_000 * factor
    k.wakeup_granularity = 1_000_000 * factor
    k.base_slice = 700_000 * factor  # v6.12.107
    k.max_lb_interval = k.hz * up // 10


@apart(NOTHING)
def push_away(k: Kernel, p: TaskStruct, cpu: int) -> None:
    """Move a queued task off a CPU that goes offline. If it may run nowhere else, the replay ends."""
    dst = fallback_cpu(k, p, cpu)
    if k.status != status.RUNNING:
        return
    dequeue(k, p, False)
    log_migrate(k, p, cpu, dst, log_op.HOTPLUG)
    if k.is_modern != 0:
        fair_class(k).migrate_task_rq(k, p)
    migrate(k, p)
    set_task_rq(k, p, dst)
    enqueue(k, p, False, False)
    check_preempt(k, dst, p, False)


@apart(NOTHING)
def push_all(k: Kernel, cpu: int) -> None:
    """balance_push(): move away every task that a dying CPU picks. Sleepers that are still queued leave the queue (v6.12.107)."""
    while k.status == status.RUNNING:
        p = fair_class(k).pick_task(k, cpu)
        if not p:
            return
        push_away(k, p, cpu)


@apart(NOTHING)
def hotplug(k: Kernel, step: int) -> None:
    """Take a CPU offline, or bring it back."""
    cpu = HotplugStep(k, k.step0 + step).cpu
    online = HotplugStep(k, k.step0 + step).online
    k.timers -= 1
    if online != 0:
        include(k, cpuset.ACTIVE, cpu)
    else:
        exclude(k, cpuset.ACTIVE, cpu)
        if k.is_modern != 0:
            fair_class(k).rq_offline(k, cpu)
    # the domains change at CPU_DOWN_PREPARE and CPU_ONLINE, so a CPU that goes offline pulls nothing from then on
    attach_domains(k, step + 1, k.jiffies)
    if online == 0:
        ttwu_pending(k, cpu)
        if k.rt0 != 0:
            rt_class(k).rq_offline(k, cpu)
        if cpu_rq(k, cpu).nr_running > 0:
            stopper_begin(k, cpu)
            while k.rt0 != 0 and k.status == status.RUNNING:
                p = rt_class(k).rq_offline(k, cpu)  # the most urgent real-time task, or NULL
                if not p:
                    break
                push_away(k, p, cpu)
            if k.is_modern != 0:
                push_all(k, cpu)
            while cpu_rq(k, cpu).cfs_tasks and k.status == status.RUNNING:
                p = cpu_rq(k, cpu).cfs_tasks
                dst = fallback_cpu(k, p, cpu)
                if k.status == status.RUNNING:
                    detach_task(k, p, dst, log_op.HOTPLUG)
                    attach_task(k, p)
            stopper_end(k, cpu)
        queue_jit.cancel(k, event_of(cpu_event.TICK, cpu))
        cpu_rq(k, cpu).tick_stopped = 1
        queue_jit.cancel(k, event_of(cpu_event.KICK, cpu))
        queue_jit.cancel(k, event_of(cpu_event.SOFTIRQ, cpu))
        queue_jit.cancel(k, hrtick_of(k, cpu))
        cpu_rq(k, cpu).nohz_kick = 0
        cpu_rq(k, cpu).ilb_next = 0
        if k.is_modern != 0:
            balancer(k).leaves(k, cpu)
        nohz_exit(k, cpu)
    if online != 0 and cpu_rq(k, cpu).tick_stopped != 0:
        enter_nohz(k, cpu)
