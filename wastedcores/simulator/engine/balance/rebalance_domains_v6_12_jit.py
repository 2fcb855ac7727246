"""The levels of one CPU under Linux 6.12: periodic balancing, newidle balancing and blocked averages.

Source: kernel/sched/fair.c, v6.12.107.
"""

import numpy as np

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.balance.find_src_group_v6_12_jit import idle_cpu
from wastedcores.simulator.engine.balance.load_balance_v4_1_jit import MIGRATION_COST
from wastedcores.simulator.engine.balance.load_balance_v6_12_jit import load_balance
from wastedcores.simulator.engine.balance.rebalance_domains_jit import interval_of, lb_cost
from wastedcores.simulator.engine.codes import idle_type, log_op, newidle, nohz_kick, sd_flag
from wastedcores.simulator.engine.fair.pelt_v6_12_jit import (
    UPDATE_TG,
    quotient,
    update_load_avg,
    update_queue,
    update_tg_load_avg,
)
from wastedcores.simulator.engine.world import cpuset
from wastedcores.simulator.engine.world.cpusets_jit import test
from wastedcores.simulator.engine.world.random_jit import draw
from wastedcores.simulator.engine.world.rows_jit import cpu_cfs_rq, cpu_rq, modern
from wastedcores.simulator.engine.world.structs import (
    NO_ENTITY,
    CfsRq,
    Kernel,
    RandomState,
    SchedDomain,
)

# --- blocked averages -------------------------------------------------------------------------------------------------


@inner
def is_decayed(k: Kernel, q: CfsRq, groups_on_list: int) -> bool:
    """cfs_rq_is_decayed(): return whether the load of the tasks that a queue had has decayed to nothing."""
    if (
        q.load_weight != 0
        or q.avg.load_sum != 0
        or q.avg.util_sum != 0
        or q.avg.runnable_sum != 0
        or q.tg_load_contrib != 0
    ):
        return False
    return q.entity != NO_ENTITY or groups_on_list == 0


@inner
def update_blocked_queue(k: Kernel, q: CfsRq) -> bool:
    """Update one queue and its group's entity; return whether an average of the queue has yet to decay to 0."""
    if update_queue(k, q):
        update_tg_load_avg(k, q)
    se = q.entity
    # skip_blocked_update()
    if se and (se.avg.load_avg != 0 or se.avg.util_avg != 0 or q.propagate != 0):
        update_load_avg(k, se, UPDATE_TG)
    return q.avg.load_avg > 0 or q.avg.util_avg > 0


@apart(NOTHING)
def update_blocked_averages(k: Kernel, cpu: int) -> None:
    """sched_balance_update_blocked_averages(): let the averages that sleeping tasks left on this CPU decay."""
    n = k.nr_cpus
    cpu_cfs_rq(k, cpu).rq_modern.last_blocked_tick = k.jiffies
    cpu_rq(k, cpu).clock = k.now_ns
    blocked = False
    on_list = 0
    for tg in range(1, k.task_groups):
        q = CfsRq(k, n * (1 + tg) + cpu)
        if q.on_list != 0:
            if update_blocked_queue(k, q):
                blocked = True
            if is_decayed(k, q, 0):
                q.on_list = 0
            else:
                on_list += 1
    if cpu_cfs_rq(k, cpu).on_list != 0:
        if update_blocked_queue(k, cpu_cfs_rq(k, cpu)):
            blocked = True
        if is_decayed(k, cpu_cfs_rq(k, cpu), on_list):
            cpu_cfs_rq(k, cpu).on_list = 0
    if not blocked:
        cpu_cfs_rq(k, cpu).rq_modern.has_blocked_load = 0


# --- the costs of newidle balancing -----------------------------------------------------------------------------------


@apart(NOTHING)
def update_newidle_stats(k: Kernel, sd: SchedDomain, success: int) -> None:
    """update_newidle_stats(): count an attempt of newidle balancing and, if it succeeded, its success.

    With NI_RATE (v7.2) the ratio also grows with the time that the last 512 attempts took: 2**22 ns count as one success in 1024.
    """
    sd.newidle_call += 1
    sd.newidle_success += success
    if sd.newidle_call >= 1024:
        ratio = sd.newidle_success
        if modern(k).newidle == newidle.RATE:
            ratio = min(1024, ratio + ((k.now_ns - sd.newidle_stamp) >> 22))
        sd.newidle_stamp = k.now_ns
        sd.newidle_ratio = ratio
        sd.newidle_call //= 2
        sd.newidle_success //= 2


@apart(VALUE)
def update_newidle_cost(k: Kernel, sd: SchedDomain, cost: int, success: int) -> bool:
    """update_newidle_cost(): note the cost of an attempt, or let the highest cost decay; return whether it decayed."""
    if cost != 0:
        update_newidle_stats(k, sd, success)
    now = k.jiffies
    if cost > sd.max_newidle_lb_cost:
        if modern(k).newidle == newidle.BUMP:
            cost = min(cost, MIGRATION_COST + 200)
        sd.max_newidle_lb_cost = cost
        sd.last_decay_max_lb_cost = now
    elif now > sd.last_decay_max_lb_cost + k.hz:
        sd.max_newidle_lb_cost = sd.max_newidle_lb_cost * 253 // 256
        sd.last_decay_max_lb_cost = now
        return True
    return False


@apart(NOTHING)
def idle_cpu_woken(k: Kernel, cpu: int) -> None:
    """The part of ttwu_do_activate() (core.c) that updates the mean idle time of this CPU."""
    rq = cpu_rq(k, cpu)
    if rq.idle_stamp != 0:
        # update_avg() divides, which rounds towards zero
        delta = k.now_ns - rq.idle_stamp - rq.avg_idle
        rq.avg_idle = min(rq.avg_idle + quotient(delta, 8), 2 * rq.max_idle_balance_cost)
        rq.idle_stamp = 0


# --- the levels of a CPU ----------------------------------------------------------------------------------------------


@apart(VALUE)
def rebalance_domains(k: Kernel, cpu: int, idle: int, why: int) -> int:
    """sched_balance_domains(): balance the levels of a CPU, innermost first; return the time that it took, in ns."""
    took = 0
    max_cost = 0
    now = k.jiffies
    next_balance = now + 60 * k.hz
    found = False
    need_decay = False
    going = True
    first = cpu_rq(k, cpu).sd.row
    for sd_row in range(first, first + cpu_rq(k, cpu).nr_domains):
        sd = SchedDomain(k, sd_row)
        need_decay = update_newidle_cost(k, sd, 0, 0) != 0
        max_cost += sd.max_newidle_lb_cost
        if not going:
            if need_decay:
                continue
            break
        if now >= sd.last_balance + interval_of(k, sd, idle != idle_type.IDLE):
            moved = load_balance(k, cpu, sd, idle, why)
            if moved < 0:
                going = False
            else:
                took += lb_cost(k, sd)
            if moved > 0:
                idle = idle_type.IDLE if idle_cpu(k, cpu) else idle_type.NOT_IDLE
            sd.last_balance = now
        due = sd.last_balance + interval_of(k, sd, idle != idle_type.IDLE)
        if next_balance > due:
            next_balance = due
            found = True
    if need_decay:
        cpu_rq(k, cpu).max_idle_balance_cost = max(MIGRATION_COST, max_cost)
    if found:
        cpu_rq(k, cpu).next_balance = next_balance
    return took


# --- newidle balancing ------------------------------------------------------------------------------------------------


@inner
def draw_level(k: Kernel, cpu: int, sd: SchedDomain) -> int:
    """NI_RANDOM: return the weight with which a success at this level counts, or 0 if the random draw skips the level."""
    rule = modern(k).newidle
    if rule < newidle.RANDOM:
        return 1
    if rule == newidle.RATE and sd.newidle_ratio >= 1024:
        return 1
    weight = 1 + sd.newidle_ratio
    if int(np.int64(draw(k, RandomState(k, k.nr_cpus + cpu)) % np.uint64(1024))) > weight:
        update_newidle_stats(k, sd, 0)
        return 0
    return (1024 + weight // 2) // weight


@inner
def due_idle(k: Kernel, sd: SchedDomain) -> int:
    """update_next_balance(): return the jiffy at which an idle CPU next balances this level."""
    return sd.last_balance + interval_of(k, sd, False)


@apart(VALUE)
def try_levels(k: Kernel, cpu: int) -> int:
    """Try the levels, innermost first; return how many tasks came. Rq.next_balance is lowered to the earliest due time."""
    cost = 0
    pulled = 0
    first = cpu_rq(k, cpu).sd.row
    for sd_row in range(first, first + cpu_rq(k, cpu).nr_domains):
        sd = SchedDomain(k, sd_row)
        cpu_rq(k, cpu).next_balance = min(cpu_rq(k, cpu).next_balance, due_idle(k, sd))
        if cpu_rq(k, cpu).avg_idle < cost + sd.max_newidle_lb_cost:
            break
        if sd.flags & sd_flag.BALANCE_NEWIDLE == 0:
            continue
        weight = draw_level(k, cpu, sd)
        if weight == 0:
            continue
        pulled = load_balance(k, cpu, sd, idle_type.NEWLY_IDLE, log_op.NEWIDLE)
        level_cost = lb_cost(k, sd)
        cost += level_cost
        if pulled <= 0 and modern(k).newidle == newidle.BUMP:
            level_cost = 3 * sd.max_newidle_lb_cost // 2
        update_newidle_cost(k, sd, level_cost, weight if pulled > 0 else 0)
        if pulled != 0:
            break
    cpu_rq(k, cpu).max_idle_balance_cost = max(cpu_rq(k, cpu).max_idle_balance_cost, cost)
    cpu_cfs_rq(k, cpu).rq_modern.newidle_until = k.now_ns + cost
    return max(pulled, 0)


@apart(VALUE)
def newidle_balance(k: Kernel, cpu: int) -> bool:
    """sched_balance_newidle(): try to pull a task because the CPU has none; return whether it has one now."""
    rq = cpu_rq(k, cpu)
    if rq.wake_list:
        return False  # ttwu_pending: a task is about to arrive
    rq.idle_stamp = k.now_ns
    if not test(k, cpuset.ACTIVE, cpu):
        return False
    first = rq.sd.row
    pulled = 0
    rq.next_balance = min(rq.next_balance, k.jiffies + k.hz)
    if rq.nr_domains > 0:
        least = SchedDomain(k, first).max_newidle_lb_cost
        if modern(k).newidle == newidle.MIGRATION_COST:
            least = MIGRATION_COST
        if k.overload == 0 or rq.avg_idle < least:
            rq.next_balance = min(rq.next_balance, due_idle(k, SchedDomain(k, first)))
        else:
            update_blocked_averages(k, cpu)
            pulled = try_levels(k, cpu)
    if pulled > 0 or cpu_cfs_rq(k, cpu).h_nr_running > 0:
        rq.idle_stamp = 0
        return True
    nohz_newidle_balance(k, cpu)
    return False


@inner
def nohz_newidle_balance(k: Kernel, cpu: int) -> None:
    """nohz_newidle_balance(): if the averages of idle CPUs are due for an update, let this CPU update them before it idles."""
    if cpu_rq(k, cpu).avg_idle < MIGRATION_COST:
        return
    g = modern(k)
    if g.nohz_has_blocked != 0 and k.jiffies >= g.nohz_next_blocked:
        cpu_cfs_rq(k, cpu).rq_modern.nohz_flags |= nohz_kick.NEWILB
