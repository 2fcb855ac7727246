"""The moments at which a CPU balances: at its tick, when it becomes idle, and for tickless idle CPUs (NOHZ).

Source: kernel/sched/fair.c, v4.1; docs/scheduler-model.md, sections 5.1 to 5.3.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from wastedcores.simulator.reference.load import update_cpu_load, weighted_cpuload
from wastedcores.simulator.reference.state import MIGRATION_COST_NS, Rq
from wastedcores.simulator.reference.stats import IDLE, NEWLY_IDLE, NOT_IDLE, check_cpu_capacity

if TYPE_CHECKING:
    from wastedcores.simulator.reference.domains import SchedDomain
    from wastedcores.simulator.reference.kernel import Kernel

_BUSY_FACTOR = 32


def balance_interval(k: Kernel, sd: SchedDomain, busy: bool) -> int:
    """Return the jiffies between two attempts at a level (get_sd_balance_interval(), v4.1)."""
    ms = sd.balance_interval * (_BUSY_FACTOR if busy else 1)
    jiffies = -(-ms * 1_000_000 // k.tick_ns)  # msecs_to_jiffies() rounds up
    return min(max(jiffies, 1), k.max_balance_interval)


def update_blocked_averages(k: Kernel, rq: Rq) -> None:
    """Decay the load that the sleeping tasks of each group left on this CPU (update_blocked_averages(), v4.1)."""
    rq.clock_ns = k.now_ns
    for tg in (*k.groups[1:], k.groups[0]):
        q = tg.cfs_rq[rq.cpu]
        if not q.on_list:
            continue
        k.pelt.update_blocked_queue(q, k.now_ns)


def rebalance_domains(k: Kernel, rq: Rq, idle: str) -> int:
    """Balance the levels of ``rq``, innermost first, and return the time that it took, in ns (rebalance_domains(), v4.1)."""
    took = 0
    update_blocked_averages(k, rq)
    next_balance = k.jiffies + 60 * k.hz
    found = need_decay = False
    go_on = True
    max_cost = 0
    for sd in rq.sd:
        if k.jiffies > sd.next_decay_max_lb_cost:
            sd.max_newidle_lb_cost = sd.max_newidle_lb_cost * 253 // 256
            sd.next_decay_max_lb_cost = k.jiffies + k.hz
            need_decay = True
        max_cost += sd.max_newidle_lb_cost
        if not go_on:
            if need_decay:
                continue
            break
        cost, idle, go_on = balance_if_due(k, rq, sd, idle, balance_interval)
        took += cost
        due = sd.last_balance + balance_interval(k, sd, idle != IDLE)
        if next_balance > due:
            next_balance, found = due, True
    if need_decay:
        rq.max_idle_balance_cost = max(MIGRATION_COST_NS, max_cost)
    if found:
        rq.next_balance = next_balance
    return took


def balance_if_due(
    k: Kernel,
    rq: Rq,
    sd: SchedDomain,
    idle: str,
    interval: Callable[[Kernel, SchedDomain, bool], int],
) -> tuple[int, str, bool]:
    """Balance one level if its interval is over, as rebalance_domains() of v4.1 and sched_balance_domains() of v6.12.107 do.

    SERIALIZE's global try-lock never fails here, because a pass takes no simulated time.
    """
    if k.jiffies < sd.last_balance + interval(k, sd, idle != IDLE):
        return 0, idle, True
    moved, go_on = k.policies.load_balance(k, rq.cpu, sd, idle)
    if moved:
        idle = IDLE if k.idle_cpu(rq.cpu) else NOT_IDLE
    sd.last_balance = k.jiffies
    return balance_cost(k, sd) if go_on else 0, idle, go_on


def balance_cost(k: Kernel, sd: SchedDomain) -> int:
    """Return the time that a load_balance() of this level takes, in ns."""
    return k.costs.lb_base_ns + len(sd.span) * k.costs.lb_cpu_ns


def idle_balance(k: Kernel, rq: Rq) -> bool:
    """Balance because this CPU becomes idle; return True if it has a task now (idle_balance(), v4.1)."""
    next_balance = k.jiffies + k.hz
    pulled = 0
    rq.idle_stamp = k.now_ns
    if rq.avg_idle < MIGRATION_COST_NS or not k.overload:
        if rq.sd:
            next_balance = _earlier(k, rq.sd[0], next_balance)
    else:
        update_blocked_averages(k, rq)
        cost = 0
        for sd in rq.sd:
            if rq.avg_idle < cost + sd.max_newidle_lb_cost:
                next_balance = _earlier(k, sd, next_balance)
                break
            if sd.has("BALANCE_NEWIDLE"):
                k.log_op = "newidle"
                pulled, _ = k.policies.load_balance(k, rq.cpu, sd, NEWLY_IDLE)
                level_cost = balance_cost(k, sd)
                sd.max_newidle_lb_cost = max(sd.max_newidle_lb_cost, level_cost)
                cost += level_cost
            next_balance = _earlier(k, sd, next_balance)
            if pulled or rq.nr_running > 0:
                break
        rq.max_idle_balance_cost = max(rq.max_idle_balance_cost, cost)
    rq.next_balance = min(rq.next_balance, next_balance)
    if pulled or rq.cfs.h_nr_running:
        rq.idle_stamp = 0
        return True
    return False


def _earlier(k: Kernel, sd: SchedDomain, next_balance: int) -> int:
    """Return the earlier of ``next_balance`` and the next attempt at this level (update_next_balance(), v4.1)."""
    return min(next_balance, sd.last_balance + balance_interval(k, sd, False))


# --- tick -------------------------------------------------------------------------------------------------------------


def scheduler_tick_balance(k: Kernel, rq: Rq) -> None:
    """Start the SCHED softirq and the NOHZ balancer if they are due at this tick (trigger_load_balance(), v4.1)."""
    rq.idle_balance = k.idle_cpu(rq.cpu)
    if not rq.sd:
        return
    softirq = k.jiffies >= rq.next_balance
    if nohz_kick_needed(k, rq):
        nohz_balancer_kick(k)
    if softirq:
        # when the first CPU gets to its softirq, every CPU has had its tick of this jiffy
        k.push(k.now_ns + k.costs.irq_ns, "SOFTIRQ", rq.cpu)


def run_rebalance_domains(k: Kernel, rq: Rq) -> None:
    """Run the SCHED softirq: balance for the tickless idle CPUs first, then for this one (run_rebalance_domains(), v4.1).

    A pass that is under way already continues by itself.
    """
    if rq.ilb_next is not None:
        return
    idle = IDLE if rq.idle_balance else NOT_IDLE
    if idle == IDLE and rq.nohz_balance_kick:
        rq.ilb_next = 0
        nohz_idle_balance(k, rq)
    else:
        rq.nohz_balance_kick = False
        k.log_op = "periodic"
        rebalance_domains(k, rq, idle)


def nohz_kick_needed(k: Kernel, rq: Rq) -> bool:
    """Tell whether a tickless idle CPU should balance now (nohz_kick_needed(), v4.1).

    At the first busy tick of this CPU its own tickless state ends.
    """
    if rq.idle_balance:
        return False
    set_cpu_sd_state_busy(k, rq)
    k.nohz_idle_cpus.discard(rq.cpu)
    if not k.nohz_idle_cpus or k.jiffies < k.nohz_next_balance:
        return False
    if rq.nr_running >= 2:
        return True
    busy = k.sd_busy(rq.cpu)
    if busy is not None and busy.groups[0].sgc.nr_busy_cpus > 1:
        return True
    return bool(rq.sd) and rq.cfs.h_nr_running >= 1 and check_cpu_capacity(rq, rq.sd[0])


def nohz_balancer_kick(k: Kernel) -> None:
    """Kick the first tickless CPU if it is idle at this moment (nohz_balancer_kick() and find_new_ilb(), v4.1)."""
    k.nohz_next_balance += 1
    if not k.nohz_idle_cpus:
        return
    ilb = min(k.nohz_idle_cpus)
    if not k.idle_cpu(ilb) or k.rqs[ilb].nohz_balance_kick:
        return
    k.rqs[ilb].nohz_balance_kick = True
    # its softirq, too, comes after the ticks of this jiffy
    k.push(k.now_ns + max(k.costs.ipi_ns, k.costs.irq_ns), "KICK", ilb)


def kick_arrives(k: Kernel, rq: Rq) -> None:
    """Begin the pass of the NOHZ balancer, or continue it (scheduler_ipi() and got_nohz_idle_kick(), v4.1)."""
    if not rq.nohz_balance_kick:
        return
    if rq.ilb_next is not None:
        nohz_idle_balance(k, rq)
        return
    if not k.idle_cpu(rq.cpu) or rq.need_resched:
        rq.nohz_balance_kick = False
        return
    rq.idle_balance = True
    run_rebalance_domains(k, rq)


def nohz_idle_balance(k: Kernel, this_rq: Rq) -> None:
    """Balance for every tickless idle CPU, then for this one (nohz_idle_balance(), v4.1).

    Each CPU takes some simulated time, in which an active balance that was started for the CPU before it is finished.
    """
    assert this_rq.ilb_next is not None
    for cpu in sorted(c for c in k.nohz_idle_cpus if c >= this_rq.ilb_next):
        rq = k.rqs[cpu]
        if rq is this_rq or not k.idle_cpu(cpu):
            continue
        if this_rq.need_resched:
            break
        took = 0
        if k.jiffies >= rq.next_balance:
            update_idle_cpu_load(k, rq)
            k.log_op = "nohz"
            took = rebalance_domains(k, rq, IDLE)
        this_rq.next_balance = min(this_rq.next_balance, rq.next_balance)
        if took:
            this_rq.ilb_next = cpu + 1
            k.push(k.now_ns + took, "KICK", this_rq.cpu)
            return
    k.nohz_next_balance = this_rq.next_balance
    this_rq.ilb_next = None
    this_rq.nohz_balance_kick = False
    k.log_op = "periodic"
    rebalance_domains(k, this_rq, IDLE)


def update_idle_cpu_load(k: Kernel, rq: Rq) -> None:
    """Make up for the ticks that an idle CPU did not have (proc.c: update_idle_cpu_load(), v4.1)."""
    load = weighted_cpuload(rq)
    if load or k.jiffies == rq.last_load_update_tick:
        return
    pending = k.jiffies - rq.last_load_update_tick
    rq.last_load_update_tick = k.jiffies
    update_cpu_load(rq, load, pending)


def update_cpu_load_nohz(k: Kernel, rq: Rq) -> None:
    """Count the time without ticks as load 0 when a CPU leaves it (proc.c: update_cpu_load_nohz(), v4.1)."""
    pending = k.jiffies - rq.last_load_update_tick
    if pending:
        rq.last_load_update_tick = k.jiffies
        update_cpu_load(rq, 0, pending)


def set_cpu_sd_state_busy(k: Kernel, rq: Rq) -> None:
    """Count a CPU as busy in its sd_busy domain (set_cpu_sd_state_busy(), v4.1)."""
    sd = k.sd_busy(rq.cpu)
    if sd is not None and sd.nohz_idle:
        sd.nohz_idle = False
        sd.groups[0].sgc.nr_busy_cpus += 1


def set_cpu_sd_state_idle(k: Kernel, rq: Rq) -> None:
    """Count a CPU as idle in its sd_busy domain (set_cpu_sd_state_idle(), v4.1)."""
    sd = k.sd_busy(rq.cpu)
    if sd is not None and not sd.nohz_idle:
        sd.nohz_idle = True
        sd.groups[0].sgc.nr_busy_cpus -= 1


def nohz_balance_enter_idle(k: Kernel, rq: Rq) -> None:
    """Add a CPU to the tickless idle CPUs (nohz_balance_enter_idle(), v4.1)."""
    if rq.cpu in k.active and rq.sd:
        k.nohz_idle_cpus.add(rq.cpu)


def update_wakeup_idle(k: Kernel, rq: Rq) -> None:
    """Update the mean time for which this CPU stays idle (core.c: ttwu_do_wakeup(), v4.1)."""
    if rq.idle_stamp:
        delta = k.now_ns - rq.idle_stamp
        # update_avg(): C's shift of a negative number rounds down
        rq.avg_idle += (delta - rq.avg_idle) >> 3
        rq.avg_idle = min(rq.avg_idle, 2 * rq.max_idle_balance_cost)
        rq.idle_stamp = 0
