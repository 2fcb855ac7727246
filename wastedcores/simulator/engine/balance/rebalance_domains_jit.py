"""The occasions for balancing: the SCHED softirq, the NOHZ idle load balancer and newidle balancing.

Source: kernel/sched/fair.c, v4.1; docs/scheduler-model.md, sections 5.1 to 5.3.
"""

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
    update_blocked_averages,
    weighted_cpuload,
)
from wastedcores.simulator.engine.world import cpuset
from wastedcores.simulator.engine.world.cpusets_jit import exclude, include, test
from wastedcores.simulator.engine.world.rows_jit import cpu_cfs_rq, cpu_rq, domain_at
from wastedcores.simulator.engine.world.structs import Kernel, SchedDomain


@inner
def interval_of(k: Kernel, sd: SchedDomain, busy: int) -> int:
    """get_sd_balance_interval(): return the jiffies between two attempts at a level."""
    interval = ms_to_jiffies(
        k, sd.balance_interval * sd.busy_factor if busy else sd.balance_interval
    )
    if busy and k.is_modern != 0:
        interval -= 1  # busy CPUs of nested levels should not all balance in the same jiffy
    return min(max(interval, 1), k.max_lb_interval)


@inner
def lb_cost(k: Kernel, sd: SchedDomain) -> int:
    """Return how long one load_balance() of this level takes on this machine, in ns."""
    return k.lb_base_ns + sd.span_weight * k.lb_cpu_ns


@apart(VALUE)
def rebalance_domains(k: Kernel, cpu: int, idle: int, why: int) -> int:
    """rebalance_domains(): return the time that it took, in ns."""
    took = 0
    now = k.jiffies
    next_balance = now + 60 * k.hz
    update = False
    need_decay = False
    max_cost = 0
    going = True
    update_blocked_averages(k, cpu)
    for height in range(cpu_rq(k, cpu).nr_domains):
        sd = domain_at(k, cpu, height)
        if now > sd.next_decay_max_lb_cost:
            sd.max_newidle_lb_cost = sd.max_newidle_lb_cost * 253 // 256
            sd.next_decay_max_lb_cost = now + k.hz
            need_decay = True
        max_cost += sd.max_newidle_lb_cost
        if sd.flags & sd_flag.LOAD_BALANCE == 0:
            continue
        if not going:
            if need_decay:
                continue
            break
        interval = interval_of(k, sd, idle != idle_type.IDLE)
        # the try-lock of SERIALIZE levels never fails here, because a pass takes no simulated time
        if now >= sd.last_balance + interval:
            moved = load_balance(k, cpu, sd, idle, why)
            if moved < 0:
                going = False
            else:
                took += lb_cost(k, sd)
            if moved > 0:
                idle = idle_type.IDLE if idle_cpu(k, cpu) else idle_type.NOT_IDLE
            sd.last_balance = now
            interval = interval_of(k, sd, idle != idle_type.IDLE)
        if next_balance > sd.last_balance + interval:
            next_balance = sd.last_balance + interval
            update = True
    if need_decay:
        cpu_rq(k, cpu).max_idle_balance_cost = max(MIGRATION_COST, max_cost)
    if update:
        cpu_rq(k, cpu).next_balance = next_balance
    return took


@apart(NOTHING)
def nohz_idle_balance(k: Kernel, cpu: int) -> None:
    """nohz_idle_balance(): continue to balance on behalf of the other idle CPUs, and at the end for ``cpu`` itself.

    Balancing for a CPU takes simulated time. In this time an active balance that was started for the CPU takes effect.
    """
    for other in range(cpu_rq(k, cpu).ilb_next - 1, k.nr_cpus):
        if not test(k, cpuset.NOHZ, other) or other == cpu or not idle_cpu(k, other):
            continue
        if cpu_rq(k, cpu).need_resched != 0:
            break
        took = 0
        if k.jiffies >= cpu_rq(k, other).next_balance:
            if weighted_cpuload(k, other) == 0:  # update_idle_cpu_load()
                catch_up_idle(k, other)
            took = rebalance_domains(k, other, idle_type.IDLE, log_op.NOHZ)
        rq = cpu_rq(k, cpu)
        rq.next_balance = min(rq.next_balance, cpu_rq(k, other).next_balance)
        if took > 0:
            cpu_rq(k, cpu).ilb_next = other + 2
            queue_jit.push(k, event_of(cpu_event.KICK, cpu), k.now_ns + took)
            return
    k.nohz_next_balance = cpu_rq(k, cpu).next_balance
    cpu_rq(k, cpu).ilb_next = 0
    cpu_rq(k, cpu).nohz_kick = 0
    rebalance_domains(k, cpu, idle_type.IDLE, log_op.PERIODIC)


@inner
def run_rebalance(k: Kernel, cpu: int) -> None:
    """run_rebalance_domains(), the SCHED softirq. A NOHZ pass that is under way continues by itself."""
    if cpu_rq(k, cpu).ilb_next != 0:
        return
    idle = idle_type.IDLE if cpu_rq(k, cpu).idle_balance != 0 else idle_type.NOT_IDLE
    if cpu_rq(k, cpu).nohz_kick != 0 and idle == idle_type.IDLE:
        cpu_rq(k, cpu).ilb_next = 1
        nohz_idle_balance(k, cpu)
    else:
        cpu_rq(k, cpu).nohz_kick = 0
        rebalance_domains(k, cpu, idle, log_op.PERIODIC)


# --- NOHZ bookkeeping ---------------------------------------------------------------------------------------------------


@inner
def sd_state_busy(k: Kernel, cpu: int) -> None:
    """set_cpu_sd_state_busy(): count the CPU as busy in its sd_busy."""
    sd = cpu_rq(k, cpu).sd_busy
    if sd and cpu_rq(k, cpu).nohz_idle != 0:
        cpu_rq(k, cpu).nohz_idle = 0
        sd.groups.sgc.nr_busy_cpus += 1


@inner
def sd_state_idle(k: Kernel, cpu: int) -> None:
    """set_cpu_sd_state_idle(): count the CPU as idle in its sd_busy."""
    sd = cpu_rq(k, cpu).sd_busy
    if sd and cpu_rq(k, cpu).nohz_idle == 0:
        cpu_rq(k, cpu).nohz_idle = 1
        sd.groups.sgc.nr_busy_cpus -= 1


@inner
def nohz_enter(k: Kernel, cpu: int) -> None:
    """nohz_balance_enter_idle(): add the CPU to nohz.idle_cpus_mask."""
    if (
        cpu_rq(k, cpu).in_nohz_mask == 0
        and test(k, cpuset.ACTIVE, cpu)
        and cpu_rq(k, cpu).nr_domains > 0
    ):
        cpu_rq(k, cpu).in_nohz_mask = 1
        include(k, cpuset.NOHZ, cpu)
        k.nohz_nr_cpus += 1


@inner
def nohz_exit(k: Kernel, cpu: int) -> None:
    """nohz_balance_exit_idle(): remove the CPU from nohz.idle_cpus_mask."""
    if cpu_rq(k, cpu).in_nohz_mask != 0:
        cpu_rq(k, cpu).in_nohz_mask = 0
        exclude(k, cpuset.NOHZ, cpu)
        k.nohz_nr_cpus -= 1


@inner
def nohz_kick_needed(k: Kernel, cpu: int) -> bool:
    """nohz_kick_needed(): return at a tick whether an idle CPU is to be kicked."""
    if cpu_rq(k, cpu).idle_balance != 0:
        return False
    sd_state_busy(k, cpu)
    nohz_exit(k, cpu)
    if k.nohz_nr_cpus == 0 or k.jiffies < k.nohz_next_balance:
        return False
    if cpu_rq(k, cpu).nr_running >= 2:
        return True
    sd = cpu_rq(k, cpu).sd_busy
    if sd and sd.groups.sgc.nr_busy_cpus > 1:
        return True
    low = cpu_rq(k, cpu).sd
    if not low:
        return False
    if (
        cpu_cfs_rq(k, cpu).h_nr_running >= 1
        and cpu_rq(k, cpu).cpu_capacity * low.imbalance_pct < cpu_rq(k, cpu).cpu_capacity_orig * 100
    ):
        return True
    for level_row in range(low.row, low.row + cpu_rq(k, cpu).nr_domains):
        level = SchedDomain(k, level_row)
        if level.flags & sd_flag.ASYM_PACKING:
            for other in range(cpu):
                if test(k, cpuset.NOHZ, other) and test(k, level.span, other):
                    return True
    return False


@apart(NOTHING)
def nohz_balancer_kick(k: Kernel) -> None:
    """nohz_balancer_kick(), find_new_ilb(): kick the first CPU of the mask, or none if that CPU is not idle now."""
    k.nohz_next_balance += 1
    for cpu in range(k.nr_cpus):
        if test(k, cpuset.NOHZ, cpu):
            if idle_cpu(k, cpu) and cpu_rq(k, cpu).nohz_kick == 0:
                cpu_rq(k, cpu).nohz_kick = 1
                # this softirq, too, runs after the ticks of this jiffy
                later = max(k.ipi_ns, k.irq_ns)
                queue_jit.push(k, event_of(cpu_event.KICK, cpu), k.now_ns + later)
            return


@inner
def trigger_load_balance(k: Kernel, cpu: int) -> int:
    """trigger_load_balance(): return whether the softirq is to run."""
    cpu_rq(k, cpu).idle_balance = 1 if idle_cpu(k, cpu) else 0
    if cpu_rq(k, cpu).nr_domains == 0:
        return False
    pending = k.jiffies >= cpu_rq(k, cpu).next_balance
    if nohz_kick_needed(k, cpu):
        nohz_balancer_kick(k)
    return pending


# --- newidle balancing ----------------------------------------------------------------------------------------------------


@apart(VALUE)
def idle_balance(k: Kernel, cpu: int) -> int:
    """idle_balance(): let a CPU that ran out of tasks look for some; return whether it found any."""
    next_balance = k.jiffies + k.hz
    cpu_rq(k, cpu).idle_stamp = k.now_ns
    first = cpu_rq(k, cpu).sd.row
    levels = cpu_rq(k, cpu).nr_domains
    pulled = False
    if cpu_rq(k, cpu).avg_idle < MIGRATION_COST or k.overload == 0:
        if levels > 0:
            sd = SchedDomain(k, first)
            next_balance = min(next_balance, sd.last_balance + interval_of(k, sd, False))
    else:
        update_blocked_averages(k, cpu)
        cost = 0
        for sd_row in range(first, first + levels):
            sd = SchedDomain(k, sd_row)
            if sd.flags & sd_flag.LOAD_BALANCE == 0:
                continue
            if cpu_rq(k, cpu).avg_idle < cost + sd.max_newidle_lb_cost:
                next_balance = min(next_balance, sd.last_balance + interval_of(k, sd, False))
                break
            if sd.flags & sd_flag.BALANCE_NEWIDLE:
                pulled = load_balance(k, cpu, sd, idle_type.NEWLY_IDLE, log_op.NEWIDLE) > 0
                took = lb_cost(k, sd)
                sd.max_newidle_lb_cost = max(sd.max_newidle_lb_cost, took)
                cost += took
            next_balance = min(next_balance, sd.last_balance + interval_of(k, sd, False))
            if pulled or cpu_rq(k, cpu).nr_running > 0:
                break
        cpu_rq(k, cpu).max_idle_balance_cost = max(cpu_rq(k, cpu).max_idle_balance_cost, cost)
    if cpu_cfs_rq(k, cpu).h_nr_running > 0:
        pulled = True
    cpu_rq(k, cpu).next_balance = min(cpu_rq(k, cpu).next_balance, next_balance)
    if pulled:
        cpu_rq(k, cpu).idle_stamp = 0
    return pulled
