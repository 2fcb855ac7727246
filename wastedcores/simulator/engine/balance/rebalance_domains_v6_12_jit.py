"""The levels of one CPU under Linux 6.12: periodic balancing, newidle balancing and blocked averages.

Source: kernel/sched/fair.c, v6.12.107.
"""

from __future__ import annotations

import numpy as np

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.balance.group_stats_jit import ms_to_jiffies
from wastedcores.simulator.engine.balance.load_balance_v4_1_jit import MIGRATION_COST
from wastedcores.simulator.engine.balance.load_balance_v6_12_jit import load_balance
from wastedcores.simulator.engine.balance.rebalance_domains_jit import lb_cost
from wastedcores.simulator.engine.balance.sd_stats_v6_12_jit import idle_cpu
from wastedcores.simulator.engine.codes import idle_type, log_op, newidle, sd_flag
from wastedcores.simulator.engine.fair.load_jit import jiffies
from wastedcores.simulator.engine.fair.pelt_v6_12_jit import (
    UPDATE_TG,
    quotient,
    update_load_avg,
    update_queue,
    update_tg_load_avg,
)
from wastedcores.simulator.engine.world import (
    cfs_rq,
    cpuset,
    domain,
    domain_v6_12,
    eevdf,
    rq,
    rq_v6_12,
    sim,
    v6_12,
)
from wastedcores.simulator.engine.world.cpusets_jit import test
from wastedcores.simulator.engine.world.random_jit import draw

BUSY_FACTOR = 16


@inner
def interval_of(m, sd, busy):
    """get_sd_balance_interval(): return the jiffies between two attempts at a level."""
    ms = m[sd, domain.BALANCE_INTERVAL]
    if busy:
        # busy CPUs of nested levels should not all balance in the same jiffy
        interval = ms_to_jiffies(m, ms * BUSY_FACTOR) - 1
    else:
        interval = ms_to_jiffies(m, ms)
    return min(max(interval, 1), m[0, sim.MAX_LB_INTERVAL])


# --- blocked averages -------------------------------------------------------------------------------------------------


@inner
def is_decayed(m, q, groups_on_list):
    """cfs_rq_is_decayed(): return whether nothing is left of the tasks that a queue had."""
    if (
        m[q, cfs_rq.LOAD_WEIGHT] != 0
        or m[q, eevdf.LOAD_SUM] != 0
        or m[q, eevdf.UTIL_SUM] != 0
        or m[q, eevdf.RUNNABLE_SUM] != 0
        or m[q, cfs_rq.TG_LOAD_CONTRIB] != 0
    ):
        return False
    return m[q, cfs_rq.ENTITY] >= 0 or groups_on_list == 0


@inner
def update_blocked_queue(m, q):
    """Update one queue and its group's entity; return whether sleeping tasks left something there."""
    if update_queue(m, q):
        update_tg_load_avg(m, q)
    se = m[q, cfs_rq.ENTITY]
    # skip_blocked_update()
    if se >= 0 and (
        m[se, eevdf.LOAD_AVG] != 0 or m[se, eevdf.UTIL_AVG] != 0 or m[q, eevdf.PROPAGATE] != 0
    ):
        update_load_avg(m, se, UPDATE_TG)
    return m[q, eevdf.LOAD_AVG] > 0 or m[q, eevdf.UTIL_AVG] > 0


@apart(NOTHING)
def update_blocked_averages(m, cpu):
    """sched_balance_update_blocked_averages(): let the averages that sleeping tasks left on this CPU decay."""
    n = m[0, sim.CPUS]
    m[n + cpu, rq_v6_12.LAST_BLOCKED_TICK] = jiffies(m)
    m[cpu, rq.CLOCK] = m[0, sim.NOW]
    blocked = False
    on_list = 0
    for tg in range(1, m[0, sim.TASK_GROUPS]):
        q = n * (1 + tg) + cpu
        if m[q, cfs_rq.ON_LIST] != 0:
            if update_blocked_queue(m, q):
                blocked = True
            if is_decayed(m, q, 0):
                m[q, cfs_rq.ON_LIST] = 0
            else:
                on_list += 1
    if m[n + cpu, cfs_rq.ON_LIST] != 0:
        if update_blocked_queue(m, n + cpu):
            blocked = True
        if is_decayed(m, n + cpu, on_list):
            m[n + cpu, cfs_rq.ON_LIST] = 0
    if not blocked:
        m[n + cpu, rq_v6_12.HAS_BLOCKED_LOAD] = 0


# --- the costs of newidle balancing -----------------------------------------------------------------------------------


@inner
def newidle_rule(m):
    """Return when newidle balancing tries a level (v6_12.NEWIDLE)."""
    return m[m[0, sim.SCRATCH] + v6_12.ROW, v6_12.NEWIDLE]


@apart(NOTHING)
def update_newidle_stats(m, sd, success):
    """update_newidle_stats(): count an attempt of newidle balancing, and its success.

    With NI_RATE (v7.2) the ratio grows with the time that 512 attempts take: 2**22 ns count as one success of 1024.
    """
    m[sd, domain_v6_12.NEWIDLE_CALL] += 1
    m[sd, domain_v6_12.NEWIDLE_SUCCESS] += success
    if m[sd, domain_v6_12.NEWIDLE_CALL] >= 1024:
        ratio = m[sd, domain_v6_12.NEWIDLE_SUCCESS]
        if newidle_rule(m) == newidle.RATE:
            ratio = min(1024, ratio + ((m[0, sim.NOW] - m[sd, domain_v6_12.NEWIDLE_STAMP]) >> 22))
        m[sd, domain_v6_12.NEWIDLE_STAMP] = m[0, sim.NOW]
        m[sd, domain_v6_12.NEWIDLE_RATIO] = ratio
        m[sd, domain_v6_12.NEWIDLE_CALL] //= 2
        m[sd, domain_v6_12.NEWIDLE_SUCCESS] //= 2


@apart(VALUE)
def update_newidle_cost(m, sd, cost, success):
    """update_newidle_cost(): note the cost of an attempt, or let the highest cost decay; return whether it did."""
    if cost != 0:
        update_newidle_stats(m, sd, success)
    now = jiffies(m)
    if cost > m[sd, domain.MAX_NEWIDLE_LB_COST]:
        if newidle_rule(m) == newidle.BUMP:
            cost = min(cost, MIGRATION_COST + 200)
        m[sd, domain.MAX_NEWIDLE_LB_COST] = cost
        m[sd, domain_v6_12.LAST_DECAY_MAX_LB_COST] = now
    elif now > m[sd, domain_v6_12.LAST_DECAY_MAX_LB_COST] + m[0, sim.HZ]:
        m[sd, domain.MAX_NEWIDLE_LB_COST] = m[sd, domain.MAX_NEWIDLE_LB_COST] * 253 // 256
        m[sd, domain_v6_12.LAST_DECAY_MAX_LB_COST] = now
        return True
    return False


@inner
def update_wakeup_idle(m, cpu):
    """The part of ttwu_do_activate() (core.c) that updates the mean time for which this CPU stays idle."""
    if m[cpu, rq.IDLE_STAMP] != 0:
        # update_avg() divides, which rounds towards zero
        delta = m[0, sim.NOW] - m[cpu, rq.IDLE_STAMP] - m[cpu, rq.AVG_IDLE]
        m[cpu, rq.AVG_IDLE] += quotient(delta, 8)
        m[cpu, rq.AVG_IDLE] = min(m[cpu, rq.AVG_IDLE], 2 * m[cpu, rq.MAX_IDLE_BALANCE_COST])
        m[cpu, rq.IDLE_STAMP] = 0


# --- the levels of a CPU ----------------------------------------------------------------------------------------------


@apart(VALUE)
def rebalance_domains(m, cpu, idle, why):
    """sched_balance_domains(): balance the levels of a CPU, innermost first; return the time that it took, in ns."""
    took = 0
    max_cost = 0
    now = jiffies(m)
    next_balance = now + 60 * m[0, sim.HZ]
    found = False
    need_decay = False
    going = True
    first = m[cpu, rq.SD]
    for sd in range(first, first + m[cpu, rq.NR_DOMAINS]):
        need_decay = update_newidle_cost(m, sd, 0, 0) != 0
        max_cost += m[sd, domain.MAX_NEWIDLE_LB_COST]
        if not going:
            if need_decay:
                continue
            break
        if now >= m[sd, domain.LAST_BALANCE] + interval_of(m, sd, idle != idle_type.IDLE):
            moved = load_balance(m, cpu, sd, idle, why)
            if moved < 0:
                going = False
            else:
                took += lb_cost(m, sd)
            if moved > 0:
                idle = idle_type.IDLE if idle_cpu(m, cpu) else idle_type.NOT_IDLE
            m[sd, domain.LAST_BALANCE] = now
        due = m[sd, domain.LAST_BALANCE] + interval_of(m, sd, idle != idle_type.IDLE)
        if next_balance > due:
            next_balance = due
            found = True
    if need_decay:
        m[cpu, rq.MAX_IDLE_BALANCE_COST] = max(MIGRATION_COST, max_cost)
    if found:
        m[cpu, rq.NEXT_BALANCE] = next_balance
    return took


# --- newidle balancing ------------------------------------------------------------------------------------------------


@inner
def draw_level(m, cpu, sd):
    """NI_RANDOM: return by how much a success at this level counts, or 0 if chance leaves the level out."""
    rule = newidle_rule(m)
    if rule < newidle.RANDOM:
        return 1
    if rule == newidle.RATE and m[sd, domain_v6_12.NEWIDLE_RATIO] >= 1024:
        return 1
    weight = 1 + m[sd, domain_v6_12.NEWIDLE_RATIO]
    if int(np.int64(draw(m, m[0, sim.CPUS] + cpu) % np.uint64(1024))) > weight:
        update_newidle_stats(m, sd, 0)
        return 0
    return (1024 + weight // 2) // weight


@inner
def due_idle(m, sd):
    """update_next_balance(): return the jiffy at which an idle CPU next balances this level."""
    return m[sd, domain.LAST_BALANCE] + interval_of(m, sd, False)


@apart(VALUE)
def try_levels(m, cpu):
    """Try the levels, innermost first; return how many tasks came. rq.NEXT_BALANCE becomes earlier if a level is due before."""
    cost = 0
    pulled = 0
    first = m[cpu, rq.SD]
    for sd in range(first, first + m[cpu, rq.NR_DOMAINS]):
        m[cpu, rq.NEXT_BALANCE] = min(m[cpu, rq.NEXT_BALANCE], due_idle(m, sd))
        if m[cpu, rq.AVG_IDLE] < cost + m[sd, domain.MAX_NEWIDLE_LB_COST]:
            break
        if m[sd, domain.FLAGS] & sd_flag.BALANCE_NEWIDLE == 0:
            continue
        weight = draw_level(m, cpu, sd)
        if weight == 0:
            continue
        pulled = load_balance(m, cpu, sd, idle_type.NEWLY_IDLE, log_op.NEWIDLE)
        level_cost = lb_cost(m, sd)
        cost += level_cost
        if pulled <= 0 and newidle_rule(m) == newidle.BUMP:
            level_cost = 3 * m[sd, domain.MAX_NEWIDLE_LB_COST] // 2
        update_newidle_cost(m, sd, level_cost, weight if pulled > 0 else 0)
        if pulled != 0:
            break
    m[cpu, rq.MAX_IDLE_BALANCE_COST] = max(m[cpu, rq.MAX_IDLE_BALANCE_COST], cost)
    m[m[0, sim.CPUS] + cpu, rq_v6_12.NEWIDLE_UNTIL] = m[0, sim.NOW] + cost
    return max(pulled, 0)


@apart(VALUE)
def idle_balance(m, cpu):
    """sched_balance_newidle(): try to pull a task because none is left; return whether one is there now."""
    if m[cpu, rq.WAKE_LIST] >= 0:
        return False  # ttwu_pending: a task is about to arrive
    m[cpu, rq.IDLE_STAMP] = m[0, sim.NOW]
    if not test(m, cpuset.ACTIVE, cpu):
        return False
    first = m[cpu, rq.SD]
    pulled = 0
    m[cpu, rq.NEXT_BALANCE] = min(m[cpu, rq.NEXT_BALANCE], jiffies(m) + m[0, sim.HZ])
    if m[cpu, rq.NR_DOMAINS] > 0:
        least = m[first, domain.MAX_NEWIDLE_LB_COST]
        if newidle_rule(m) == newidle.MIGRATION_COST:
            least = MIGRATION_COST
        if m[0, sim.OVERLOAD] == 0 or m[cpu, rq.AVG_IDLE] < least:
            m[cpu, rq.NEXT_BALANCE] = min(m[cpu, rq.NEXT_BALANCE], due_idle(m, first))
        else:
            update_blocked_averages(m, cpu)
            pulled = try_levels(m, cpu)
    if pulled > 0 or m[m[0, sim.CPUS] + cpu, cfs_rq.H_NR_RUNNING] > 0:
        m[cpu, rq.IDLE_STAMP] = 0
        return True
    nohz_newidle_balance(m, cpu)
    return False


@inner
def nohz_newidle_balance(m, cpu):
    """nohz_newidle_balance(): let this CPU update the averages of idle CPUs before it idles, if that is due."""
    if m[cpu, rq.AVG_IDLE] < MIGRATION_COST:
        return
    g = m[0, sim.SCRATCH] + v6_12.ROW
    if m[g, v6_12.NOHZ_HAS_BLOCKED] != 0 and jiffies(m) >= m[g, v6_12.NOHZ_NEXT_BLOCKED]:
        m[m[0, sim.CPUS] + cpu, rq_v6_12.NOHZ_FLAGS] |= rq_v6_12.NEWILB
