"""The moments at which a CPU balances under Linux 6.12: at its tick, and for tickless idle CPUs (NOHZ).

Source: kernel/sched/fair.c and kernel/sched/core.c, v6.12.107; each definition names its function. ``newidle_v6_12.py`` has
newidle balancing, and ``nohz.py`` all of this for v4.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wastedcores.simulator.reference import pelt_v6_12 as pelt
from wastedcores.simulator.reference.idle_sibling_v6_12 import sd_llc, sd_llc_shared
from wastedcores.simulator.reference.nohz import balance_if_due
from wastedcores.simulator.reference.state import MIGRATION_COST_NS, CfsRq, Rq
from wastedcores.simulator.reference.stats import IDLE, NOT_IDLE

if TYPE_CHECKING:
    from wastedcores.simulator.reference.domains import SchedDomain
    from wastedcores.simulator.reference.kernel import Kernel

_BUSY_FACTOR = 16
#: NOHZ_BALANCE_KICK, NOHZ_STATS_KICK, NOHZ_NEXT_KICK and NOHZ_NEWILB_KICK
BALANCE, STATS, NEXT, NEWILB = 1, 2, 8, 4
_KICKS = BALANCE | STATS | NEXT
#: LOAD_AVG_PERIOD, in ms
_BLOCKED_MS = 32


@dataclass(repr=False)
class IlbPass:
    """A pass of the NOHZ balancer that is under way (the locals of _nohz_idle_balance())."""

    flags: int
    begun: int
    next_balance: int
    found: bool = False
    has_blocked_load: bool = False


def balance_interval(k: Kernel, sd: SchedDomain, busy: bool) -> int:
    """Return the jiffies between two attempts at a level (get_sd_balance_interval(), v6.12.107)."""
    ms = sd.balance_interval * (_BUSY_FACTOR if busy else 1)
    jiffies = -(-ms * 1_000_000 // k.tick_ns)  # msecs_to_jiffies() rounds up
    # busy CPUs of nested levels should not all balance in the same jiffy
    return min(max(jiffies - busy, 1), k.max_balance_interval)


# --- blocked averages -------------------------------------------------------------------------------------------------


def update_blocked_averages(k: Kernel, rq: Rq) -> None:
    """Let the averages that sleeping tasks left on this CPU decay (sched_balance_update_blocked_averages(), v6.12.107)."""
    rq.last_blocked_load_update_tick = k.jiffies
    rq.clock_ns = k.now_ns
    blocked = False
    for tg in (*k.groups[1:], k.groups[0]):
        q = tg.cfs_rq[rq.cpu]
        if not q.on_list:
            continue
        if pelt.update_queue(k.now_ns, q):
            pelt.update_tg_load_avg(k.now_ns, q)
        se = tg.se[rq.cpu]
        # skip_blocked_update()
        if se is not None and (se.avg.load_avg or se.avg.util_avg or q.propagate):
            pelt.update_load_avg(k.now_ns, se, tg=True)
        if _is_decayed(k, q):
            q.on_list = False
        blocked |= q.avg.load_avg > 0 or q.avg.util_avg > 0
    if not blocked:
        rq.has_blocked_load = False


def _is_decayed(k: Kernel, q: CfsRq) -> bool:
    """Tell whether nothing is left of the tasks that a queue had (cfs_rq_is_decayed(), v6.12.107)."""
    if q.weight or q.avg.load_sum or q.avg.util_sum or q.avg.runnable_sum or q.tg_load_contrib:
        return False
    cpu = q.rq.cpu
    return q is not q.rq.cfs or not any(tg.cfs_rq[cpu].on_list for tg in k.groups[1:])


# --- the costs of newidle balancing -----------------------------------------------------------------------------------


def update_newidle_stats(k: Kernel, sd: SchedDomain, success: int) -> None:
    """Count an attempt of newidle balancing, and its success (update_newidle_stats(), v6.12.107).

    With NI_RATE (v7.2) the ratio grows with the time that 512 attempts take: 2**22 ns count as one success of 1024.
    """
    sd.newidle_call += 1
    sd.newidle_success += success
    if sd.newidle_call >= 1024:
        sd.newidle_ratio = sd.newidle_success
        if k.newidle == "rate":
            sd.newidle_ratio = min(1024, sd.newidle_ratio + (k.now_ns - sd.newidle_stamp_ns >> 22))
        sd.newidle_stamp_ns = k.now_ns
        sd.newidle_call //= 2
        sd.newidle_success //= 2


def update_newidle_cost(k: Kernel, sd: SchedDomain, cost: int, success: int) -> bool:
    """Note the cost of an attempt, or let the highest cost decay; return whether it did (update_newidle_cost(), v6.12.107)."""
    if cost:
        update_newidle_stats(k, sd, success)
    if cost > sd.max_newidle_lb_cost:
        if k.newidle == "bump":
            cost = min(cost, MIGRATION_COST_NS + 200)
        sd.max_newidle_lb_cost, sd.last_decay_max_lb_cost = cost, k.jiffies
    elif k.jiffies > sd.last_decay_max_lb_cost + k.hz:
        sd.max_newidle_lb_cost = sd.max_newidle_lb_cost * 253 // 256
        sd.last_decay_max_lb_cost = k.jiffies
        return True
    return False


def nohz_newidle_balance(k: Kernel, rq: Rq) -> None:
    """Let this CPU update the averages of idle CPUs before it idles, if that is due (nohz_newidle_balance(), v6.12.107)."""
    if rq.avg_idle < MIGRATION_COST_NS:
        return
    if k.nohz_has_blocked and k.jiffies >= k.nohz_next_blocked:
        rq.nohz_flags |= NEWILB


def update_wakeup_idle(k: Kernel, rq: Rq) -> None:
    """Update the mean time for which this CPU stays idle (ttwu_do_activate(), core.c, v6.12.107)."""
    if rq.idle_stamp:
        # update_avg() divides, which rounds towards zero
        rq.avg_idle += pelt.quotient(k.now_ns - rq.idle_stamp - rq.avg_idle, 8)
        rq.avg_idle = min(rq.avg_idle, 2 * rq.max_idle_balance_cost)
        rq.idle_stamp = 0


# --- the periodic pass ------------------------------------------------------------------------------------------------


def scheduler_tick_balance(k: Kernel, rq: Rq) -> None:
    """Start the SCHED softirq and the NOHZ balancer if they are due at this tick (sched_balance_trigger(), v6.12.107)."""
    rq.idle_balance = k.idle_cpu(rq.cpu)
    if not rq.sd or rq.cpu not in k.active:
        return
    if k.jiffies >= rq.next_balance:
        # when the first CPU gets to its softirq, every CPU has had its tick of this jiffy
        k.push(k.now_ns + k.costs.irq_ns, "SOFTIRQ", rq.cpu)
    nohz_balancer_kick(k, rq)


def run_rebalance_domains(k: Kernel, rq: Rq) -> None:
    """Run the SCHED softirq (sched_balance_softirq() and nohz_idle_balance(), v6.12.107).

    A CPU that was kicked balances for all tickless CPUs, which include itself, instead of doing a pass of its own.
    """
    if rq.ilb_next is not None:
        return  # the pass that is under way continues by itself
    flags, rq.nohz_idle_balance = rq.nohz_idle_balance, 0
    if flags and rq.idle_balance:
        begin_pass(k, rq, flags)
        return
    k.log_op = "periodic"
    update_blocked_averages(k, rq)
    rebalance_domains(k, rq, IDLE if rq.idle_balance else NOT_IDLE)


def rebalance_domains(k: Kernel, rq: Rq, idle: str) -> int:
    """Balance the levels of ``rq``, innermost first, and return the time in ns (sched_balance_domains(), v6.12.107)."""
    took = max_cost = 0
    next_balance = k.jiffies + 60 * k.hz
    found = need_decay = False
    go_on = True
    for sd in rq.sd:
        need_decay = update_newidle_cost(k, sd, 0, 0)
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


# --- tickless idle CPUs -----------------------------------------------------------------------------------------------


def nohz_balance_enter_idle(k: Kernel, rq: Rq) -> None:
    """Add a CPU whose tick stopped to the tickless idle CPUs (nohz_balance_enter_idle(), v6.12.107)."""
    if rq.cpu not in k.active:
        return
    rq.has_blocked_load = True
    if rq.cpu not in k.nohz_idle_cpus:
        if not rq.sd:
            return
        k.nohz_idle_cpus.add(rq.cpu)
        sd, shared = sd_llc(k, rq.cpu), sd_llc_shared(k, rq.cpu)
        if sd is not None and shared is not None and not sd.nohz_idle:  # set_cpu_sd_state_idle()
            sd.nohz_idle = True
            shared.nr_busy_cpus -= 1
        k.nohz_needs_update = True
    k.nohz_has_blocked = True


def nohz_balance_exit_idle(k: Kernel, rq: Rq) -> None:
    """Take a CPU off the tickless idle CPUs at its first busy tick (nohz_balance_exit_idle(), v6.12.107)."""
    if rq.cpu not in k.nohz_idle_cpus:
        return
    k.nohz_idle_cpus.discard(rq.cpu)
    sd, shared = sd_llc(k, rq.cpu), sd_llc_shared(k, rq.cpu)
    if sd is not None and shared is not None and sd.nohz_idle:  # set_cpu_sd_state_busy()
        sd.nohz_idle = False
        shared.nr_busy_cpus += 1


def nohz_balancer_kick(k: Kernel, rq: Rq) -> None:
    """Decide at a busy tick whether a tickless CPU should balance for all of them (nohz_balancer_kick(), v6.12.107)."""
    if rq.idle_balance:
        return
    nohz_balance_exit_idle(k, rq)
    if not k.nohz_idle_cpus:
        return
    flags = STATS if k.nohz_has_blocked and k.jiffies > k.nohz_next_blocked else 0
    if k.jiffies >= k.nohz_next_balance:
        shared = sd_llc_shared(k, rq.cpu)
        if rq.nr_running >= 2 or (shared is not None and shared.nr_busy_cpus > 1):
            flags = STATS | BALANCE
    if k.nohz_needs_update:
        flags |= NEXT
    if flags:
        kick_ilb(k, rq, flags)


def kick_ilb(k: Kernel, rq: Rq, flags: int) -> None:
    """Kick the first tickless CPU that is really idle (kick_ilb() and find_new_ilb(), v6.12.107)."""
    if flags & BALANCE:
        k.nohz_next_balance = k.jiffies + 1
    idle = (c for c in sorted(k.nohz_idle_cpus) if c != rq.cpu and k.idle_cpu(c))
    ilb = k.rqs[next(idle, rq.cpu)]
    if ilb is rq or ilb.nohz_flags & flags == flags:
        return
    before = ilb.nohz_flags
    ilb.nohz_flags |= flags
    if not before & _KICKS and ilb.ilb_next is None:
        # its softirq, too, comes after the ticks of this jiffy
        k.push(k.now_ns + max(k.costs.ipi_ns, k.costs.irq_ns), "KICK", ilb.cpu)


def kick_arrives(k: Kernel, rq: Rq) -> None:
    """Begin the pass that another CPU asked for, or continue the one under way (nohz_csd_func(), core.c, v6.12.107)."""
    if rq.ilb_next is not None:
        _continue_pass(k, rq)
        return
    flags, rq.nohz_flags = rq.nohz_flags, 0
    rq.idle_balance = k.idle_cpu(rq.cpu)
    if flags & _KICKS and rq.idle_balance:
        rq.nohz_idle_balance = flags
        run_rebalance_domains(k, rq)


def run_idle_balance(k: Kernel, rq: Rq) -> None:
    """Update the averages of idle CPUs at the entry to the idle loop (nohz_run_idle_balance(), v6.12.107)."""
    flags = rq.nohz_flags
    rq.nohz_flags &= ~NEWILB
    if flags == NEWILB and not rq.need_resched and rq.ilb_next is None:
        begin_pass(k, rq, STATS)


def begin_pass(k: Kernel, rq: Rq, flags: int) -> None:
    """Begin to visit the tickless idle CPUs (_nohz_idle_balance(), v6.12.107)."""
    if flags & STATS:
        k.nohz_has_blocked = False
    if flags & NEXT:
        k.nohz_needs_update = False
    rq.ilb_next = 0
    rq.ilb = IlbPass(flags, k.jiffies, k.jiffies + 60 * k.hz)
    _continue_pass(k, rq)


def _continue_pass(k: Kernel, rq: Rq) -> None:
    """Visit the tickless idle CPUs, from the one behind this CPU around to this CPU itself (_nohz_idle_balance(), v6.12.107).

    A CPU that is balanced takes some simulated time, in which an active balance that was started for it finishes.
    """
    this, n = rq.ilb, len(k.rqs)
    assert this is not None
    assert rq.ilb_next is not None
    for offset in range(rq.ilb_next, n):
        cpu = (rq.cpu + 1 + offset) % n
        if cpu not in k.nohz_idle_cpus or not k.idle_cpu(cpu):
            continue
        if rq.need_resched and not k.idle_cpu(rq.cpu):
            _abort(k, rq, this)
            return
        took = _visit(k, k.rqs[cpu], this)
        if took:
            rq.ilb_next = offset + 1
            k.push(k.now_ns + took, "KICK", rq.cpu)
            return
    if this.found:
        k.nohz_next_balance = this.next_balance
    if this.flags & STATS:
        k.nohz_next_blocked = this.begun + -(-_BLOCKED_MS * 1_000_000 // k.tick_ns)
    _end_pass(k, rq, this)


def _visit(k: Kernel, rq: Rq, this: IlbPass) -> int:
    """Update and balance one tickless CPU; return the time that it took, in ns."""
    took = 0
    if this.flags & STATS:
        this.has_blocked_load |= update_nohz_stats(k, rq)
    if k.jiffies >= rq.next_balance:
        rq.clock_ns = k.now_ns
        if this.flags & BALANCE:
            k.log_op = "nohz"
            took = rebalance_domains(k, rq, IDLE)
    if this.next_balance > rq.next_balance:
        this.next_balance, this.found = rq.next_balance, True
    return took


def _abort(k: Kernel, rq: Rq, this: IlbPass) -> None:
    """End a pass whose CPU got a task; what is left undone is left to another CPU (label abort)."""
    if this.flags & STATS:
        this.has_blocked_load = True
    if this.flags & NEXT:
        k.nohz_needs_update = True
    _end_pass(k, rq, this)


def _end_pass(k: Kernel, rq: Rq, this: IlbPass) -> None:
    if this.has_blocked_load:
        k.nohz_has_blocked = True
    rq.ilb_next = rq.ilb = None
    if rq.nohz_flags & _KICKS:
        k.push(k.now_ns, "KICK", rq.cpu)  # another kick arrived during the pass


def update_nohz_stats(k: Kernel, rq: Rq) -> bool:
    """Update the averages of a tickless CPU once per jiffy; return whether some are left (update_nohz_stats(), v6.12.107)."""
    if not rq.has_blocked_load or rq.cpu not in k.nohz_idle_cpus:
        return False
    if k.jiffies > rq.last_blocked_load_update_tick:
        update_blocked_averages(k, rq)
        return rq.has_blocked_load
    return True
