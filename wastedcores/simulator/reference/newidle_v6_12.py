"""Newidle balancing of Linux 6.12: a CPU that runs out of tasks tries to pull one (kernel/sched/fair.c, v6.12.107).

A level is tried at random (NI_RANDOM), and less often the less often it succeeds. The kernel measures what a level costs. Here
the cost comes from the machine's constants, and the random numbers from a stream per CPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wastedcores.simulator.reference.nohz import balance_cost
from wastedcores.simulator.reference.nohz_v6_12 import (
    balance_interval,
    nohz_newidle_balance,
    update_blocked_averages,
    update_newidle_cost,
    update_newidle_stats,
)
from wastedcores.simulator.reference.state import MIGRATION_COST_NS, Rq
from wastedcores.simulator.reference.stats import NEWLY_IDLE

if TYPE_CHECKING:
    from wastedcores.simulator.reference.domains import SchedDomain
    from wastedcores.simulator.reference.kernel import Kernel


def idle_balance(k: Kernel, rq: Rq) -> bool:
    """Try to pull a task because none is left; return True if one is there now (sched_balance_newidle(), v6.12.107)."""
    if rq.wake_list:
        return False  # ttwu_pending: a task is about to arrive
    rq.idle_stamp = k.now_ns
    if rq.cpu not in k.active:
        return False
    next_balance = k.jiffies + k.hz
    pulled = 0
    if rq.sd:
        least = rq.sd[0].max_newidle_lb_cost
        if k.newidle == "migration_cost":
            least = MIGRATION_COST_NS
        if not k.overload or rq.avg_idle < least:
            next_balance = min(next_balance, _due(k, rq.sd[0]))
        else:
            update_blocked_averages(k, rq)
            pulled, next_balance = _try_levels(k, rq, next_balance)
    rq.next_balance = min(rq.next_balance, next_balance)
    if pulled or rq.cfs.h_nr_running:
        rq.idle_stamp = 0
        return True
    nohz_newidle_balance(k, rq)
    return False


def _try_levels(k: Kernel, rq: Rq, next_balance: int) -> tuple[int, int]:
    """Try the levels, innermost first; return how many tasks came, and the next time to balance in jiffies."""
    cost = pulled = 0
    for sd in rq.sd:
        next_balance = min(next_balance, _due(k, sd))
        if rq.avg_idle < cost + sd.max_newidle_lb_cost:
            break
        go_on = True
        if sd.has("BALANCE_NEWIDLE"):
            weight = draw_level(k, rq, sd)
            if not weight:
                continue
            k.log_op = "newidle"
            pulled, go_on = k.policies.load_balance(k, rq.cpu, sd, NEWLY_IDLE)
            level_cost = balance_cost(k, sd)
            cost += level_cost
            if not pulled and k.newidle == "bump":
                level_cost = 3 * sd.max_newidle_lb_cost // 2
            update_newidle_cost(k, sd, level_cost, weight if pulled else 0)
        if pulled or not go_on:
            break
    rq.max_idle_balance_cost = max(rq.max_idle_balance_cost, cost)
    rq.newidle_until_ns = k.now_ns + cost
    return pulled, next_balance


def draw_level(k: Kernel, rq: Rq, sd: SchedDomain) -> int:
    """Return by how much a success at this level counts, or 0 if chance leaves the level out (NI_RANDOM, v6.12.107)."""
    if k.newidle not in ("random", "rate") or (k.newidle == "rate" and sd.newidle_ratio >= 1024):
        return 1
    weight = 1 + sd.newidle_ratio
    if k.newidle_rng[rq.cpu].draw() % 1024 > weight:
        update_newidle_stats(k, sd, 0)
        return 0
    return (1024 + weight // 2) // weight


def _due(k: Kernel, sd: SchedDomain) -> int:
    """Return the jiffy at which an idle CPU next balances this level (update_next_balance(), v6.12.107)."""
    return sd.last_balance + balance_interval(k, sd, False)
