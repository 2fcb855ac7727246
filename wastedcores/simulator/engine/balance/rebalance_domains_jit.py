"""When balancing happens: softirq, NOHZ idle balancer, new-idle balance.

Source: kernel/sched/fair.c, v4.1; docs/scheduler-model.md, sections 5.1 to 5.3.
"""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.balance.group_stats_jit import ms_to_jiffies
from wastedcores.simulator.engine.balance.load_balance_v4_1_jit import MIGRATION_COST, load_balance
from wastedcores.simulator.engine.events import queue_jit
from wastedcores.simulator.engine.events.queue_jit import cpu_event
from wastedcores.simulator.engine.fair.load_jit import (
    catch_up_idle,
    idle_cpu,
    jiffies,
    update_blocked_averages,
    weighted_cpuload,
)
from wastedcores.simulator.engine.world.codes import (
    CPU_IDLE,
    CPU_NEWLY_IDLE,
    CPU_NOT_IDLE,
    EV_KICK,
    SD_ASYM_PACKING,
    SD_BALANCE_NEWIDLE,
    SD_LOAD_BALANCE,
    WHY_NEWIDLE,
    WHY_NOHZ,
    WHY_PERIODIC,
)
from wastedcores.simulator.engine.world.cpusets_jit import exclude, include, test
from wastedcores.simulator.engine.world.state import (
    C_BUSY,
    D_FACTOR,
    D_FLAGS,
    D_GROUPS,
    D_INTERVAL,
    D_LAST,
    D_MASK,
    D_MAX_COST,
    D_NEXT_DECAY,
    D_PCT,
    D_WEIGHT,
    G_CPUS,
    G_HZ,
    G_IPI,
    G_IRQ,
    G_LB_BASE,
    G_LB_CPU,
    G_MAX_INTERVAL,
    G_NOHZ_N,
    G_NOHZ_NEXT,
    G_NOW,
    G_OVERLOAD,
    GR_SGC,
    MASK_ACTIVE,
    MASK_NOHZ,
    Q_H_NR,
    R_AVG_IDLE,
    R_BUSY_SD,
    R_CAP,
    R_CAP_ORIG,
    R_IDLE_BALANCE,
    R_IDLE_STAMP,
    R_ILB,
    R_IN_MASK,
    R_KICK,
    R_MAX_IDLE_COST,
    R_NEED,
    R_NEXT_BALANCE,
    R_NOHZ_IDLE,
    R_NR,
    R_NSD,
    R_SD,
)


@inner
def interval_of(m, sd, busy):
    """get_sd_balance_interval(): jiffies."""
    ms = m[sd, D_INTERVAL]
    if busy:
        ms *= m[sd, D_FACTOR]
    return min(max(ms_to_jiffies(m, ms), 1), m[0, G_MAX_INTERVAL])


@inner
def lb_cost(m, sd):
    """Time one load_balance() of this level takes on this machine, ns."""
    return m[0, G_LB_BASE] + m[sd, D_WEIGHT] * m[0, G_LB_CPU]


@apart(VALUE)
def rebalance_domains(m, cpu, idle, why):
    """rebalance_domains(); the time it took, ns."""
    took = 0
    now = jiffies(m)
    next_balance = now + 60 * m[0, G_HZ]
    update = False
    need_decay = False
    max_cost = 0
    going = True
    update_blocked_averages(m, cpu)
    first = m[cpu, R_SD]
    for sd in range(first, first + m[cpu, R_NSD]):
        if now > m[sd, D_NEXT_DECAY]:
            m[sd, D_MAX_COST] = m[sd, D_MAX_COST] * 253 // 256
            m[sd, D_NEXT_DECAY] = now + m[0, G_HZ]
            need_decay = True
        max_cost += m[sd, D_MAX_COST]
        if m[sd, D_FLAGS] & SD_LOAD_BALANCE == 0:
            continue
        if not going:
            if need_decay:
                continue
            break
        interval = interval_of(m, sd, idle != CPU_IDLE)
        # the try-lock of SERIALIZE levels never fails here: a pass takes no simulated time
        if now >= m[sd, D_LAST] + interval:
            moved = load_balance(m, cpu, sd, idle, why)
            if moved < 0:
                going = False
            else:
                took += lb_cost(m, sd)
            if moved > 0:
                idle = CPU_IDLE if idle_cpu(m, cpu) else CPU_NOT_IDLE
            m[sd, D_LAST] = now
            interval = interval_of(m, sd, idle != CPU_IDLE)
        if next_balance > m[sd, D_LAST] + interval:
            next_balance = m[sd, D_LAST] + interval
            update = True
    if need_decay:
        m[cpu, R_MAX_IDLE_COST] = max(MIGRATION_COST, max_cost)
    if update:
        m[cpu, R_NEXT_BALANCE] = next_balance
    return took


@apart(NOTHING)
def nohz_idle_balance(m, cpu):
    """nohz_idle_balance(): go on balancing on behalf of the other idle CPUs; the last step is for ``cpu`` itself.

    Each CPU takes its time, in which what was started for the one before (active balance) has come about.
    """
    for other in range(m[cpu, R_ILB] - 1, m[0, G_CPUS]):
        if not test(m, MASK_NOHZ, other) or other == cpu or not idle_cpu(m, other):
            continue
        if m[cpu, R_NEED] != 0:
            break
        took = 0
        if jiffies(m) >= m[other, R_NEXT_BALANCE]:
            if weighted_cpuload(m, other) == 0:  # update_idle_cpu_load()
                catch_up_idle(m, other)
            took = rebalance_domains(m, other, CPU_IDLE, WHY_NOHZ)
        m[cpu, R_NEXT_BALANCE] = min(m[cpu, R_NEXT_BALANCE], m[other, R_NEXT_BALANCE])
        if took > 0:
            m[cpu, R_ILB] = other + 2
            queue_jit.push(m, cpu_event(EV_KICK, cpu), m[0, G_NOW] + took)
            return
    m[0, G_NOHZ_NEXT] = m[cpu, R_NEXT_BALANCE]
    m[cpu, R_ILB] = 0
    m[cpu, R_KICK] = 0
    rebalance_domains(m, cpu, CPU_IDLE, WHY_PERIODIC)


@inner
def run_rebalance(m, cpu):
    """run_rebalance_domains(), the SCHED softirq; one that is under way goes on by itself."""
    if m[cpu, R_ILB] != 0:
        return
    idle = CPU_IDLE if m[cpu, R_IDLE_BALANCE] != 0 else CPU_NOT_IDLE
    if m[cpu, R_KICK] != 0 and idle == CPU_IDLE:
        m[cpu, R_ILB] = 1
        nohz_idle_balance(m, cpu)
    else:
        m[cpu, R_KICK] = 0
        rebalance_domains(m, cpu, idle, WHY_PERIODIC)


# --- NOHZ bookkeeping ---------------------------------------------------------------------------------------------------


@inner
def sd_state_busy(m, cpu):
    """set_cpu_sd_state_busy()."""
    sd = m[cpu, R_BUSY_SD]
    if sd >= 0 and m[cpu, R_NOHZ_IDLE] != 0:
        m[cpu, R_NOHZ_IDLE] = 0
        m[m[m[sd, D_GROUPS], GR_SGC], C_BUSY] += 1


@inner
def sd_state_idle(m, cpu):
    """set_cpu_sd_state_idle()."""
    sd = m[cpu, R_BUSY_SD]
    if sd >= 0 and m[cpu, R_NOHZ_IDLE] == 0:
        m[cpu, R_NOHZ_IDLE] = 1
        m[m[m[sd, D_GROUPS], GR_SGC], C_BUSY] -= 1


@inner
def nohz_enter(m, cpu):
    """nohz_balance_enter_idle()."""
    if m[cpu, R_IN_MASK] == 0 and test(m, MASK_ACTIVE, cpu) and m[cpu, R_NSD] > 0:
        m[cpu, R_IN_MASK] = 1
        include(m, MASK_NOHZ, cpu)
        m[0, G_NOHZ_N] += 1


@inner
def nohz_exit(m, cpu):
    """nohz_balance_exit_idle()."""
    if m[cpu, R_IN_MASK] != 0:
        m[cpu, R_IN_MASK] = 0
        exclude(m, MASK_NOHZ, cpu)
        m[0, G_NOHZ_N] -= 1


@inner
def nohz_kick_needed(m, cpu):
    """nohz_kick_needed(), at a tick."""
    if m[cpu, R_IDLE_BALANCE] != 0:
        return False
    sd_state_busy(m, cpu)
    nohz_exit(m, cpu)
    if m[0, G_NOHZ_N] == 0 or jiffies(m) < m[0, G_NOHZ_NEXT]:
        return False
    if m[cpu, R_NR] >= 2:
        return True
    sd = m[cpu, R_BUSY_SD]
    if sd >= 0 and m[m[m[sd, D_GROUPS], GR_SGC], C_BUSY] > 1:
        return True
    low = m[cpu, R_SD]
    if low < 0:
        return False
    if (
        m[m[0, G_CPUS] + cpu, Q_H_NR] >= 1
        and m[cpu, R_CAP] * m[low, D_PCT] < m[cpu, R_CAP_ORIG] * 100
    ):
        return True
    for level in range(low, low + m[cpu, R_NSD]):
        if m[level, D_FLAGS] & SD_ASYM_PACKING:
            for other in range(cpu):
                if test(m, MASK_NOHZ, other) and test(m, m[level, D_MASK], other):
                    return True
    return False


@apart(NOTHING)
def nohz_balancer_kick(m):
    """nohz_balancer_kick(), find_new_ilb(): the first CPU of the mask, if it is idle now; no search further."""
    m[0, G_NOHZ_NEXT] += 1
    for cpu in range(m[0, G_CPUS]):
        if test(m, MASK_NOHZ, cpu):
            if idle_cpu(m, cpu) and m[cpu, R_KICK] == 0:
                m[cpu, R_KICK] = 1
                # its softirq too comes behind the ticks of this jiffy
                later = max(m[0, G_IPI], m[0, G_IRQ])
                queue_jit.push(m, cpu_event(EV_KICK, cpu), m[0, G_NOW] + later)
            return


@inner
def trigger_load_balance(m, cpu):
    """trigger_load_balance(): whether the softirq is to run."""
    m[cpu, R_IDLE_BALANCE] = 1 if idle_cpu(m, cpu) else 0
    if m[cpu, R_NSD] == 0:
        return False
    pending = jiffies(m) >= m[cpu, R_NEXT_BALANCE]
    if nohz_kick_needed(m, cpu):
        nohz_balancer_kick(m)
    return pending


# --- new-idle balance -----------------------------------------------------------------------------------------------------


@apart(VALUE)
def idle_balance(m, cpu):
    """idle_balance(): a CPU that ran out of work looks for some; whether it found any."""
    next_balance = jiffies(m) + m[0, G_HZ]
    m[cpu, R_IDLE_STAMP] = m[0, G_NOW]
    first = m[cpu, R_SD]
    levels = m[cpu, R_NSD]
    pulled = False
    if m[cpu, R_AVG_IDLE] < MIGRATION_COST or m[0, G_OVERLOAD] == 0:
        if levels > 0:
            next_balance = min(next_balance, m[first, D_LAST] + interval_of(m, first, False))
    else:
        update_blocked_averages(m, cpu)
        cost = 0
        for sd in range(first, first + levels):
            if m[sd, D_FLAGS] & SD_LOAD_BALANCE == 0:
                continue
            if m[cpu, R_AVG_IDLE] < cost + m[sd, D_MAX_COST]:
                next_balance = min(next_balance, m[sd, D_LAST] + interval_of(m, sd, False))
                break
            if m[sd, D_FLAGS] & SD_BALANCE_NEWIDLE:
                pulled = load_balance(m, cpu, sd, CPU_NEWLY_IDLE, WHY_NEWIDLE) > 0
                took = lb_cost(m, sd)
                m[sd, D_MAX_COST] = max(m[sd, D_MAX_COST], took)
                cost += took
            next_balance = min(next_balance, m[sd, D_LAST] + interval_of(m, sd, False))
            if pulled or m[cpu, R_NR] > 0:
                break
        m[cpu, R_MAX_IDLE_COST] = max(m[cpu, R_MAX_IDLE_COST], cost)
    if m[m[0, G_CPUS] + cpu, Q_H_NR] > 0:
        pulled = True
    m[cpu, R_NEXT_BALANCE] = min(m[cpu, R_NEXT_BALANCE], next_balance)
    if pulled:
        m[cpu, R_IDLE_STAMP] = 0
    return pulled
