"""The occasions for balancing: the SCHED softirq, the NOHZ idle load balancer and newidle balancing.

Source: kernel/sched/fair.c, v4.1; docs/scheduler-model.md, sections 5.1 to 5.3.
"""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.balance.group_stats_jit import ms_to_jiffies
from wastedcores.simulator.engine.balance.load_balance_v4_1_jit import MIGRATION_COST, load_balance
from wastedcores.simulator.engine.codes import cpu_event, idle_type, log_op, sd_flag
from wastedcores.simulator.engine.events import queue_jit
from wastedcores.simulator.engine.events.queue_jit import event_of
from wastedcores.simulator.engine.fair.load_jit import (
    catch_up_idle,
    idle_cpu,
    jiffies,
    update_blocked_averages,
    weighted_cpuload,
)
from wastedcores.simulator.engine.world import (
    cfs_rq,
    cpuset,
    domain,
    group_capacity,
    rq,
    sched_group,
    sim,
)
from wastedcores.simulator.engine.world.cpusets_jit import exclude, include, test


@inner
def interval_of(m, sd, busy):
    """get_sd_balance_interval(), in jiffies."""
    ms = m[sd, domain.BALANCE_INTERVAL]
    if busy:
        ms *= m[sd, domain.BUSY_FACTOR]
    return min(max(ms_to_jiffies(m, ms), 1), m[0, sim.MAX_LB_INTERVAL])


@inner
def lb_cost(m, sd):
    """Return how long one load_balance() of this level takes on this machine, in ns."""
    return m[0, sim.LB_BASE_NS] + m[sd, domain.SPAN_WEIGHT] * m[0, sim.LB_CPU_NS]


@apart(VALUE)
def rebalance_domains(m, cpu, idle, why):
    """rebalance_domains(): return the time that it took, in ns."""
    took = 0
    now = jiffies(m)
    next_balance = now + 60 * m[0, sim.HZ]
    update = False
    need_decay = False
    max_cost = 0
    going = True
    update_blocked_averages(m, cpu)
    first = m[cpu, rq.SD]
    for sd in range(first, first + m[cpu, rq.NR_DOMAINS]):
        if now > m[sd, domain.NEXT_DECAY_MAX_LB_COST]:
            m[sd, domain.MAX_NEWIDLE_LB_COST] = m[sd, domain.MAX_NEWIDLE_LB_COST] * 253 // 256
            m[sd, domain.NEXT_DECAY_MAX_LB_COST] = now + m[0, sim.HZ]
            need_decay = True
        max_cost += m[sd, domain.MAX_NEWIDLE_LB_COST]
        if m[sd, domain.FLAGS] & sd_flag.LOAD_BALANCE == 0:
            continue
        if not going:
            if need_decay:
                continue
            break
        interval = interval_of(m, sd, idle != idle_type.IDLE)
        # the try-lock of SERIALIZE levels never fails here, because a pass takes no simulated time
        if now >= m[sd, domain.LAST_BALANCE] + interval:
            moved = load_balance(m, cpu, sd, idle, why)
            if moved < 0:
                going = False
            else:
                took += lb_cost(m, sd)
            if moved > 0:
                idle = idle_type.IDLE if idle_cpu(m, cpu) else idle_type.NOT_IDLE
            m[sd, domain.LAST_BALANCE] = now
            interval = interval_of(m, sd, idle != idle_type.IDLE)
        if next_balance > m[sd, domain.LAST_BALANCE] + interval:
            next_balance = m[sd, domain.LAST_BALANCE] + interval
            update = True
    if need_decay:
        m[cpu, rq.MAX_IDLE_BALANCE_COST] = max(MIGRATION_COST, max_cost)
    if update:
        m[cpu, rq.NEXT_BALANCE] = next_balance
    return took


@apart(NOTHING)
def nohz_idle_balance(m, cpu):
    """nohz_idle_balance(): continue balancing on behalf of the other idle CPUs, and at the end for ``cpu`` itself.

    Balancing for a CPU takes time. In that time an active balance that the previous CPU's turn started takes effect.
    """
    for other in range(m[cpu, rq.ILB_NEXT] - 1, m[0, sim.CPUS]):
        if not test(m, cpuset.NOHZ, other) or other == cpu or not idle_cpu(m, other):
            continue
        if m[cpu, rq.NEED_RESCHED] != 0:
            break
        took = 0
        if jiffies(m) >= m[other, rq.NEXT_BALANCE]:
            if weighted_cpuload(m, other) == 0:  # update_idle_cpu_load()
                catch_up_idle(m, other)
            took = rebalance_domains(m, other, idle_type.IDLE, log_op.NOHZ)
        m[cpu, rq.NEXT_BALANCE] = min(m[cpu, rq.NEXT_BALANCE], m[other, rq.NEXT_BALANCE])
        if took > 0:
            m[cpu, rq.ILB_NEXT] = other + 2
            queue_jit.push(m, event_of(cpu_event.KICK, cpu), m[0, sim.NOW] + took)
            return
    m[0, sim.NOHZ_NEXT_BALANCE] = m[cpu, rq.NEXT_BALANCE]
    m[cpu, rq.ILB_NEXT] = 0
    m[cpu, rq.NOHZ_KICK] = 0
    rebalance_domains(m, cpu, idle_type.IDLE, log_op.PERIODIC)


@inner
def run_rebalance(m, cpu):
    """run_rebalance_domains(), the SCHED softirq; a pass that is under way continues by itself."""
    if m[cpu, rq.ILB_NEXT] != 0:
        return
    idle = idle_type.IDLE if m[cpu, rq.IDLE_BALANCE] != 0 else idle_type.NOT_IDLE
    if m[cpu, rq.NOHZ_KICK] != 0 and idle == idle_type.IDLE:
        m[cpu, rq.ILB_NEXT] = 1
        nohz_idle_balance(m, cpu)
    else:
        m[cpu, rq.NOHZ_KICK] = 0
        rebalance_domains(m, cpu, idle, log_op.PERIODIC)


# --- NOHZ bookkeeping ---------------------------------------------------------------------------------------------------


@inner
def sd_state_busy(m, cpu):
    """set_cpu_sd_state_busy(): count the CPU as busy in its sd_busy."""
    sd = m[cpu, rq.SD_BUSY]
    if sd >= 0 and m[cpu, rq.NOHZ_IDLE] != 0:
        m[cpu, rq.NOHZ_IDLE] = 0
        m[m[m[sd, domain.GROUPS], sched_group.SGC], group_capacity.NR_BUSY_CPUS] += 1


@inner
def sd_state_idle(m, cpu):
    """set_cpu_sd_state_idle(): count the CPU as idle in its sd_busy."""
    sd = m[cpu, rq.SD_BUSY]
    if sd >= 0 and m[cpu, rq.NOHZ_IDLE] == 0:
        m[cpu, rq.NOHZ_IDLE] = 1
        m[m[m[sd, domain.GROUPS], sched_group.SGC], group_capacity.NR_BUSY_CPUS] -= 1


@inner
def nohz_enter(m, cpu):
    """nohz_balance_enter_idle(): add the CPU to nohz.idle_cpus_mask."""
    if m[cpu, rq.IN_NOHZ_MASK] == 0 and test(m, cpuset.ACTIVE, cpu) and m[cpu, rq.NR_DOMAINS] > 0:
        m[cpu, rq.IN_NOHZ_MASK] = 1
        include(m, cpuset.NOHZ, cpu)
        m[0, sim.NOHZ_NR_CPUS] += 1


@inner
def nohz_exit(m, cpu):
    """nohz_balance_exit_idle(): remove the CPU from nohz.idle_cpus_mask."""
    if m[cpu, rq.IN_NOHZ_MASK] != 0:
        m[cpu, rq.IN_NOHZ_MASK] = 0
        exclude(m, cpuset.NOHZ, cpu)
        m[0, sim.NOHZ_NR_CPUS] -= 1


@inner
def nohz_kick_needed(m, cpu):
    """nohz_kick_needed(), which a tick calls."""
    if m[cpu, rq.IDLE_BALANCE] != 0:
        return False
    sd_state_busy(m, cpu)
    nohz_exit(m, cpu)
    if m[0, sim.NOHZ_NR_CPUS] == 0 or jiffies(m) < m[0, sim.NOHZ_NEXT_BALANCE]:
        return False
    if m[cpu, rq.NR_RUNNING] >= 2:
        return True
    sd = m[cpu, rq.SD_BUSY]
    if sd >= 0 and m[m[m[sd, domain.GROUPS], sched_group.SGC], group_capacity.NR_BUSY_CPUS] > 1:
        return True
    low = m[cpu, rq.SD]
    if low < 0:
        return False
    if (
        m[m[0, sim.CPUS] + cpu, cfs_rq.H_NR_RUNNING] >= 1
        and m[cpu, rq.CPU_CAPACITY] * m[low, domain.IMBALANCE_PCT]
        < m[cpu, rq.CPU_CAPACITY_ORIG] * 100
    ):
        return True
    for level in range(low, low + m[cpu, rq.NR_DOMAINS]):
        if m[level, domain.FLAGS] & sd_flag.ASYM_PACKING:
            for other in range(cpu):
                if test(m, cpuset.NOHZ, other) and test(m, m[level, domain.SPAN], other):
                    return True
    return False


@apart(NOTHING)
def nohz_balancer_kick(m):
    """nohz_balancer_kick(), find_new_ilb(): kick the first CPU of the mask if it is idle now, and no other CPU."""
    m[0, sim.NOHZ_NEXT_BALANCE] += 1
    for cpu in range(m[0, sim.CPUS]):
        if test(m, cpuset.NOHZ, cpu):
            if idle_cpu(m, cpu) and m[cpu, rq.NOHZ_KICK] == 0:
                m[cpu, rq.NOHZ_KICK] = 1
                # this softirq, too, runs after the ticks of this jiffy
                later = max(m[0, sim.IPI_NS], m[0, sim.IRQ_NS])
                queue_jit.push(m, event_of(cpu_event.KICK, cpu), m[0, sim.NOW] + later)
            return


@inner
def trigger_load_balance(m, cpu):
    """trigger_load_balance(): return whether the softirq is to run."""
    m[cpu, rq.IDLE_BALANCE] = 1 if idle_cpu(m, cpu) else 0
    if m[cpu, rq.NR_DOMAINS] == 0:
        return False
    pending = jiffies(m) >= m[cpu, rq.NEXT_BALANCE]
    if nohz_kick_needed(m, cpu):
        nohz_balancer_kick(m)
    return pending


# --- newidle balancing ----------------------------------------------------------------------------------------------------


@apart(VALUE)
def idle_balance(m, cpu):
    """idle_balance(): a CPU that ran out of work looks for some; return whether it found any."""
    next_balance = jiffies(m) + m[0, sim.HZ]
    m[cpu, rq.IDLE_STAMP] = m[0, sim.NOW]
    first = m[cpu, rq.SD]
    levels = m[cpu, rq.NR_DOMAINS]
    pulled = False
    if m[cpu, rq.AVG_IDLE] < MIGRATION_COST or m[0, sim.OVERLOAD] == 0:
        if levels > 0:
            next_balance = min(
                next_balance, m[first, domain.LAST_BALANCE] + interval_of(m, first, False)
            )
    else:
        update_blocked_averages(m, cpu)
        cost = 0
        for sd in range(first, first + levels):
            if m[sd, domain.FLAGS] & sd_flag.LOAD_BALANCE == 0:
                continue
            if m[cpu, rq.AVG_IDLE] < cost + m[sd, domain.MAX_NEWIDLE_LB_COST]:
                next_balance = min(
                    next_balance, m[sd, domain.LAST_BALANCE] + interval_of(m, sd, False)
                )
                break
            if m[sd, domain.FLAGS] & sd_flag.BALANCE_NEWIDLE:
                pulled = load_balance(m, cpu, sd, idle_type.NEWLY_IDLE, log_op.NEWIDLE) > 0
                took = lb_cost(m, sd)
                m[sd, domain.MAX_NEWIDLE_LB_COST] = max(m[sd, domain.MAX_NEWIDLE_LB_COST], took)
                cost += took
            next_balance = min(next_balance, m[sd, domain.LAST_BALANCE] + interval_of(m, sd, False))
            if pulled or m[cpu, rq.NR_RUNNING] > 0:
                break
        m[cpu, rq.MAX_IDLE_BALANCE_COST] = max(m[cpu, rq.MAX_IDLE_BALANCE_COST], cost)
    if m[m[0, sim.CPUS] + cpu, cfs_rq.H_NR_RUNNING] > 0:
        pulled = True
    m[cpu, rq.NEXT_BALANCE] = min(m[cpu, rq.NEXT_BALANCE], next_balance)
    if pulled:
        m[cpu, rq.IDLE_STAMP] = 0
    return pulled
