"""Idle CPUs under Linux 6.12: how they become idle, and which one balances for all (kernel/sched/fair.c, v6.12.107)."""

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.balance.find_src_group_v6_12_jit import idle_cpu
from wastedcores.simulator.engine.balance.group_stats_jit import ms_to_jiffies
from wastedcores.simulator.engine.balance.idle_sibling_v6_12_jit import update_sharing
from wastedcores.simulator.engine.balance.rebalance_domains_jit import nohz_exit
from wastedcores.simulator.engine.balance.rebalance_domains_v6_12_jit import (
    rebalance_domains,
    update_blocked_averages,
)
from wastedcores.simulator.engine.codes import cpu_event, idle_type, log_op, nohz_kick
from wastedcores.simulator.engine.core.schedule_jit import next_tick, stop_tick
from wastedcores.simulator.engine.events import queue_jit
from wastedcores.simulator.engine.events.queue_jit import event_of
from wastedcores.simulator.engine.world import cpuset
from wastedcores.simulator.engine.world.cpusets_jit import include, test
from wastedcores.simulator.engine.world.random_jit import stream
from wastedcores.simulator.engine.world.rows_jit import cpu_cfs_rq, cpu_rq, domain_at, modern
from wastedcores.simulator.engine.world.structs import Kernel, RandomState

#: LOAD_AVG_PERIOD, in ms
BLOCKED_MS = 32


@inner
def count_busy(k: Kernel, cpu: int, change: int) -> None:
    """set_cpu_sd_state_idle(), set_cpu_sd_state_busy(): count a CPU as idle (-1) or busy (1) in its LLC, but not twice."""
    sd = cpu_rq(k, cpu).sd_llc
    if sd and sd.nohz_idle == (1 if change > 0 else 0):
        sd.nohz_idle = 0 if change > 0 else 1
        sd.shared.nr_busy_cpus += change


@apart(NOTHING)
def nohz_balance_enter_idle(k: Kernel, cpu: int) -> None:
    """nohz_balance_enter_idle(): add a CPU whose tick has stopped to the tickless idle CPUs."""
    if not test(k, cpuset.ACTIVE, cpu):
        return
    g = modern(k)
    cpu_cfs_rq(k, cpu).rq_modern.has_blocked_load = 1
    if cpu_rq(k, cpu).in_nohz_mask == 0:
        if cpu_rq(k, cpu).nr_domains == 0:
            return
        cpu_rq(k, cpu).in_nohz_mask = 1
        include(k, cpuset.NOHZ, cpu)
        k.nohz_nr_cpus += 1
        count_busy(k, cpu, -1)
        g.nohz_needs_update = 1
    g.nohz_has_blocked = 1


@inner
def busy_again(k: Kernel, cpu: int) -> None:
    """nohz_balance_exit_idle(): remove a CPU from the tickless idle CPUs at its first busy tick."""
    if cpu_rq(k, cpu).in_nohz_mask != 0:
        nohz_exit(k, cpu)
        count_busy(k, cpu, 1)


# --- tick and kick ----------------------------------------------------------------------------------------------------


@apart(NOTHING)
def trigger_load_balance(k: Kernel, cpu: int) -> None:
    """sched_balance_trigger(): start the SCHED softirq and the NOHZ balancer if they are due at this tick."""
    cpu_rq(k, cpu).idle_balance = 1 if idle_cpu(k, cpu) else 0
    if cpu_rq(k, cpu).nr_domains == 0 or not test(k, cpuset.ACTIVE, cpu):
        return
    if k.jiffies >= cpu_rq(k, cpu).next_balance:
        # all CPUs have had their tick of this jiffy before the first softirq runs
        queue_jit.push(k, event_of(cpu_event.SOFTIRQ, cpu), k.now_ns + k.irq_ns)
    nohz_balancer_kick(k, cpu)


@inner
def nohz_balancer_kick(k: Kernel, cpu: int) -> None:
    """nohz_balancer_kick(): decide at a busy tick whether a tickless CPU should balance for all of them."""
    if cpu_rq(k, cpu).idle_balance != 0:
        return
    busy_again(k, cpu)
    if k.nohz_nr_cpus == 0:
        return
    g = modern(k)
    now = k.jiffies
    flags = 0
    if g.nohz_has_blocked != 0 and now > g.nohz_next_blocked:
        flags = nohz_kick.STATS
    if now >= k.nohz_next_balance:
        sd = cpu_rq(k, cpu).sd_llc
        if cpu_rq(k, cpu).nr_running >= 2 or (sd and sd.shared.nr_busy_cpus > 1):
            flags = nohz_kick.STATS | nohz_kick.BALANCE
    if g.nohz_needs_update != 0:
        flags |= nohz_kick.NEXT
    if flags != 0:
        kick_ilb(k, cpu, flags)


@apart(NOTHING)
def kick_ilb(k: Kernel, cpu: int, flags: int) -> None:
    """kick_ilb(), find_new_ilb(): kick the first tickless CPU that is really idle."""
    if flags & nohz_kick.BALANCE:
        k.nohz_next_balance = k.jiffies + 1
    ilb = 0
    n = k.nr_cpus
    while ilb < n and not (test(k, cpuset.NOHZ, ilb) and ilb != cpu and idle_cpu(k, ilb)):
        ilb += 1
    if ilb == n or cpu_cfs_rq(k, ilb).rq_modern.nohz_flags & flags == flags:
        return
    before = cpu_cfs_rq(k, ilb).rq_modern.nohz_flags
    cpu_cfs_rq(k, ilb).rq_modern.nohz_flags |= flags
    if before & nohz_kick.KICKS == 0 and cpu_rq(k, ilb).ilb_next == 0:
        # the softirq of that CPU also runs after the ticks of this jiffy
        later = max(k.ipi_ns, k.irq_ns)
        queue_jit.push(k, event_of(cpu_event.KICK, ilb), k.now_ns + later)


# --- the pass of the idle load balancer -------------------------------------------------------------------------------


@inner
def end_pass(k: Kernel, cpu: int) -> None:
    """End a pass; another kick may have arrived in the meantime."""
    q = cpu_cfs_rq(k, cpu)
    if q.rq_modern.ilb_blocked != 0:
        modern(k).nohz_has_blocked = 1
    cpu_rq(k, cpu).ilb_next = 0
    if q.rq_modern.nohz_flags & nohz_kick.KICKS:
        queue_jit.push(k, event_of(cpu_event.KICK, cpu), k.now_ns)


@inner
def update_nohz_stats(k: Kernel, cpu: int) -> bool:
    """update_nohz_stats(): update the averages of a tickless CPU once per jiffy; return whether one of them is not yet 0."""
    q = cpu_cfs_rq(k, cpu)
    if q.rq_modern.has_blocked_load == 0 or not test(k, cpuset.NOHZ, cpu):
        return False
    if k.jiffies > q.rq_modern.last_blocked_tick:
        update_blocked_averages(k, cpu)
        return q.rq_modern.has_blocked_load != 0
    return True


@apart(VALUE)
def visit(k: Kernel, cpu: int, this_cpu: int) -> int:
    """Update and balance one tickless CPU on behalf of ``this_cpu``; return the time that it took, in ns."""
    this = cpu_cfs_rq(k, this_cpu).rq_modern
    took = 0
    if this.ilb_flags & nohz_kick.STATS and update_nohz_stats(k, cpu):
        this.ilb_blocked = 1
    if k.jiffies >= cpu_rq(k, cpu).next_balance:
        cpu_rq(k, cpu).clock = k.now_ns
        if this.ilb_flags & nohz_kick.BALANCE:
            took = rebalance_domains(k, cpu, idle_type.IDLE, log_op.NOHZ)
    if this.ilb_next_balance > cpu_rq(k, cpu).next_balance:
        this.ilb_next_balance = cpu_rq(k, cpu).next_balance
        this.ilb_found = 1
    return took


@apart(NOTHING)
def continue_pass(k: Kernel, this_cpu: int) -> None:
    """_nohz_idle_balance(): visit the tickless idle CPUs in cyclic order, beginning after this CPU and ending with it.

    Balancing for a CPU takes simulated time. In this time an active balance that was started for the CPU finishes.
    """
    n = k.nr_cpus
    this = cpu_cfs_rq(k, this_cpu).rq_modern
    g = modern(k)
    flags = this.ilb_flags
    for offset in range(cpu_rq(k, this_cpu).ilb_next - 1, n):
        cpu = (this_cpu + 1 + offset) % n
        if not test(k, cpuset.NOHZ, cpu) or not idle_cpu(k, cpu):
            continue
        if cpu_rq(k, this_cpu).need_resched != 0 and not idle_cpu(k, this_cpu):
            # the label abort: another CPU has to visit the remaining CPUs
            if flags & nohz_kick.STATS:
                this.ilb_blocked = 1
            if flags & nohz_kick.NEXT:
                g.nohz_needs_update = 1
            end_pass(k, this_cpu)
            return
        took = visit(k, cpu, this_cpu)
        if took > 0:
            cpu_rq(k, this_cpu).ilb_next = offset + 2
            queue_jit.push(k, event_of(cpu_event.KICK, this_cpu), k.now_ns + took)
            return
    if this.ilb_found != 0:
        k.nohz_next_balance = this.ilb_next_balance
    if flags & nohz_kick.STATS:
        later = ms_to_jiffies(k, BLOCKED_MS)
        g.nohz_next_blocked = this.ilb_begun + later
    end_pass(k, this_cpu)


@inner
def begin_pass(k: Kernel, cpu: int, flags: int) -> None:
    """_nohz_idle_balance(): begin to visit the tickless idle CPUs."""
    q = cpu_cfs_rq(k, cpu)
    g = modern(k)
    if flags & nohz_kick.STATS:
        g.nohz_has_blocked = 0
    if flags & nohz_kick.NEXT:
        g.nohz_needs_update = 0
    cpu_rq(k, cpu).ilb_next = 1
    q.rq_modern.ilb_flags = flags
    q.rq_modern.ilb_begun = k.jiffies
    q.rq_modern.ilb_next_balance = k.jiffies + 60 * k.hz
    q.rq_modern.ilb_found = 0
    q.rq_modern.ilb_blocked = 0
    continue_pass(k, cpu)


@apart(NOTHING)
def run_rebalance_domains(k: Kernel, cpu: int) -> None:
    """sched_balance_softirq(), nohz_idle_balance(): balance for all tickless CPUs if this CPU was kicked, else its own levels."""
    if cpu_rq(k, cpu).ilb_next != 0:
        return  # the pass that is under way continues by itself
    q = cpu_cfs_rq(k, cpu)
    flags = q.rq_modern.nohz_idle_balance
    q.rq_modern.nohz_idle_balance = 0
    if flags != 0 and cpu_rq(k, cpu).idle_balance != 0:
        begin_pass(k, cpu, flags)
        return
    update_blocked_averages(k, cpu)
    idle = idle_type.IDLE if cpu_rq(k, cpu).idle_balance != 0 else idle_type.NOT_IDLE
    rebalance_domains(k, cpu, idle, log_op.PERIODIC)


@apart(NOTHING)
def kick_arrives(k: Kernel, cpu: int) -> None:
    """nohz_csd_func() (core.c): begin the pass that another CPU asked for, or continue the pass under way."""
    if cpu_rq(k, cpu).ilb_next != 0:
        continue_pass(k, cpu)
        return
    q = cpu_cfs_rq(k, cpu)
    flags = q.rq_modern.nohz_flags
    q.rq_modern.nohz_flags = 0
    cpu_rq(k, cpu).idle_balance = 1 if idle_cpu(k, cpu) else 0
    if flags & nohz_kick.KICKS and cpu_rq(k, cpu).idle_balance != 0:
        q.rq_modern.nohz_idle_balance = flags
        run_rebalance_domains(k, cpu)


@apart(NOTHING)
def run_idle_balance(k: Kernel, cpu: int) -> None:
    """nohz_run_idle_balance(): update the averages of idle CPUs at the entry to the idle loop."""
    q = cpu_cfs_rq(k, cpu)
    flags = q.rq_modern.nohz_flags
    q.rq_modern.nohz_flags &= ~nohz_kick.NEWILB
    if (
        flags == nohz_kick.NEWILB
        and cpu_rq(k, cpu).need_resched == 0
        and cpu_rq(k, cpu).ilb_next == 0
    ):
        begin_pass(k, cpu, nohz_kick.STATS)


@apart(NOTHING)
def booted(k: Kernel) -> None:
    """Set the state that the LLCs have reached through balancing since boot, and seed newidle balancing."""
    n = k.nr_cpus
    smt_active = modern(k).smt_active
    for cpu in range(n):
        RandomState(k, n + cpu).state = stream(k.seed, -2 - cpu)
        for height in range(cpu_rq(k, cpu).nr_domains):
            sd = domain_at(k, cpu, height)
            shared = sd.shared
            if shared:
                shared.nr_idle_scan = sd.span_weight
                shared.has_idle_cores = smt_active


@apart(NOTHING)
def attached(k: Kernel, now: int) -> None:
    """Initialize the domains that every CPU has just got. ``now`` counts as the jiffy of their last balancing."""
    for cpu in range(k.nr_cpus):
        for height in range(cpu_rq(k, cpu).nr_domains):
            sd = domain_at(k, cpu, height)
            sd.last_decay_max_lb_cost = now
            sd.newidle_stamp = k.now_ns
    update_sharing(k)


@apart(NOTHING)
def enters_idle(k: Kernel, cpu: int) -> None:
    """do_idle() (kernel/sched/idle.c): update averages of idle CPUs, and stop the tick at once or after one more tick."""
    run_idle_balance(k, cpu)
    if modern(k).idle_ticks_before_stop == 0:
        stop_tick(k, cpu)
    elif cpu_rq(k, cpu).tick_stopped != 0:
        # tick_nohz_idle_exit(): the CPU left the idle loop to schedule, and found no task
        cpu_rq(k, cpu).tick_stopped = 0
        queue_jit.push_tick(k, cpu, next_tick(k, cpu))


@apart(NOTHING)
def leaves(k: Kernel, cpu: int) -> None:
    """Drop the kicks of a CPU that goes offline."""
    q = cpu_cfs_rq(k, cpu)
    q.rq_modern.nohz_flags = 0
    q.rq_modern.nohz_idle_balance = 0
