"""The tickless idle CPUs under Linux 6.12: which of them balances for the others, and when (kernel/sched/fair.c, v6.12.107)."""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.balance.group_stats_jit import ms_to_jiffies
from wastedcores.simulator.engine.balance.rebalance_domains_jit import nohz_exit
from wastedcores.simulator.engine.balance.rebalance_domains_v6_12_jit import (
    rebalance_domains,
    update_blocked_averages,
)
from wastedcores.simulator.engine.balance.sd_stats_v6_12_jit import idle_cpu
from wastedcores.simulator.engine.codes import cpu_event, idle_type, log_op
from wastedcores.simulator.engine.events import queue_jit
from wastedcores.simulator.engine.events.queue_jit import event_of
from wastedcores.simulator.engine.fair.load_jit import jiffies
from wastedcores.simulator.engine.world import (
    cpuset,
    domain_shared,
    domain_v6_12,
    rq,
    rq_v6_12,
    sim,
    v6_12,
)
from wastedcores.simulator.engine.world.cpusets_jit import include, test

#: LOAD_AVG_PERIOD, in ms
BLOCKED_MS = 32


@inner
def globals_of(m):
    """Return the row of the globals (world/v6_12.py)."""
    return m[0, sim.SCRATCH] + v6_12.ROW


@inner
def count_busy(m, cpu, change):
    """set_cpu_sd_state_idle(), set_cpu_sd_state_busy(): count a CPU as idle (-1) or busy (1) in its LLC, once."""
    sd = m[cpu, rq.SD_LLC]
    if sd >= 0 and m[sd, domain_v6_12.NOHZ_IDLE] == (1 if change > 0 else 0):
        m[sd, domain_v6_12.NOHZ_IDLE] = 0 if change > 0 else 1
        m[m[sd, domain_v6_12.SHARED], domain_shared.NR_BUSY_CPUS] += change


@apart(NOTHING)
def nohz_enter(m, cpu):
    """nohz_balance_enter_idle(): add a CPU whose tick stopped to the tickless idle CPUs."""
    if not test(m, cpuset.ACTIVE, cpu):
        return
    g = globals_of(m)
    m[m[0, sim.CPUS] + cpu, rq_v6_12.HAS_BLOCKED_LOAD] = 1
    if m[cpu, rq.IN_NOHZ_MASK] == 0:
        if m[cpu, rq.NR_DOMAINS] == 0:
            return
        m[cpu, rq.IN_NOHZ_MASK] = 1
        include(m, cpuset.NOHZ, cpu)
        m[0, sim.NOHZ_NR_CPUS] += 1
        count_busy(m, cpu, -1)
        m[g, v6_12.NOHZ_NEEDS_UPDATE] = 1
    m[g, v6_12.NOHZ_HAS_BLOCKED] = 1


@inner
def busy_again(m, cpu):
    """nohz_balance_exit_idle(): take a CPU off the tickless idle CPUs at its first busy tick."""
    if m[cpu, rq.IN_NOHZ_MASK] != 0:
        nohz_exit(m, cpu)
        count_busy(m, cpu, 1)


# --- tick and kick ----------------------------------------------------------------------------------------------------


@apart(NOTHING)
def trigger_load_balance(m, cpu):
    """sched_balance_trigger(): start the SCHED softirq and the NOHZ balancer if they are due at this tick."""
    m[cpu, rq.IDLE_BALANCE] = 1 if idle_cpu(m, cpu) else 0
    if m[cpu, rq.NR_DOMAINS] == 0 or not test(m, cpuset.ACTIVE, cpu):
        return
    if jiffies(m) >= m[cpu, rq.NEXT_BALANCE]:
        # all CPUs have had their tick of this jiffy before the first softirq runs
        queue_jit.push(m, event_of(cpu_event.SOFTIRQ, cpu), m[0, sim.NOW] + m[0, sim.IRQ_NS])
    nohz_balancer_kick(m, cpu)


@inner
def nohz_balancer_kick(m, cpu):
    """nohz_balancer_kick(): decide at a busy tick whether a tickless CPU should balance for all of them."""
    if m[cpu, rq.IDLE_BALANCE] != 0:
        return
    busy_again(m, cpu)
    if m[0, sim.NOHZ_NR_CPUS] == 0:
        return
    g = globals_of(m)
    now = jiffies(m)
    flags = 0
    if m[g, v6_12.NOHZ_HAS_BLOCKED] != 0 and now > m[g, v6_12.NOHZ_NEXT_BLOCKED]:
        flags = rq_v6_12.STATS
    if now >= m[0, sim.NOHZ_NEXT_BALANCE]:
        sd = m[cpu, rq.SD_LLC]
        if m[cpu, rq.NR_RUNNING] >= 2 or (
            sd >= 0 and m[m[sd, domain_v6_12.SHARED], domain_shared.NR_BUSY_CPUS] > 1
        ):
            flags = rq_v6_12.STATS | rq_v6_12.BALANCE
    if m[g, v6_12.NOHZ_NEEDS_UPDATE] != 0:
        flags |= rq_v6_12.NEXT
    if flags != 0:
        kick_ilb(m, cpu, flags)


@apart(NOTHING)
def kick_ilb(m, cpu, flags):
    """kick_ilb(), find_new_ilb(): kick the first tickless CPU that is really idle."""
    if flags & rq_v6_12.BALANCE:
        m[0, sim.NOHZ_NEXT_BALANCE] = jiffies(m) + 1
    ilb = 0
    n = m[0, sim.CPUS]
    while ilb < n and not (test(m, cpuset.NOHZ, ilb) and ilb != cpu and idle_cpu(m, ilb)):
        ilb += 1
    if ilb == n or m[n + ilb, rq_v6_12.NOHZ_FLAGS] & flags == flags:
        return
    before = m[n + ilb, rq_v6_12.NOHZ_FLAGS]
    m[n + ilb, rq_v6_12.NOHZ_FLAGS] |= flags
    if before & rq_v6_12.KICKS == 0 and m[ilb, rq.ILB_NEXT] == 0:
        # its softirq, too, runs after the ticks of this jiffy
        later = max(m[0, sim.IPI_NS], m[0, sim.IRQ_NS])
        queue_jit.push(m, event_of(cpu_event.KICK, ilb), m[0, sim.NOW] + later)


# --- the pass of the idle load balancer -------------------------------------------------------------------------------


@inner
def end_pass(m, cpu):
    """End a pass; another kick may have arrived in the meantime."""
    q = m[0, sim.CPUS] + cpu
    if m[q, rq_v6_12.ILB_BLOCKED] != 0:
        m[globals_of(m), v6_12.NOHZ_HAS_BLOCKED] = 1
    m[cpu, rq.ILB_NEXT] = 0
    if m[q, rq_v6_12.NOHZ_FLAGS] & rq_v6_12.KICKS:
        queue_jit.push(m, event_of(cpu_event.KICK, cpu), m[0, sim.NOW])


@inner
def update_nohz_stats(m, cpu):
    """update_nohz_stats(): update the averages of a tickless CPU once per jiffy; return whether some are left."""
    q = m[0, sim.CPUS] + cpu
    if m[q, rq_v6_12.HAS_BLOCKED_LOAD] == 0 or not test(m, cpuset.NOHZ, cpu):
        return False
    if jiffies(m) > m[q, rq_v6_12.LAST_BLOCKED_TICK]:
        update_blocked_averages(m, cpu)
        return m[q, rq_v6_12.HAS_BLOCKED_LOAD] != 0
    return True


@apart(VALUE)
def visit(m, cpu, this_cpu):
    """Update and balance one tickless CPU on behalf of ``this_cpu``; return the time that it took, in ns."""
    this = m[0, sim.CPUS] + this_cpu
    took = 0
    if m[this, rq_v6_12.ILB_FLAGS] & rq_v6_12.STATS and update_nohz_stats(m, cpu):
        m[this, rq_v6_12.ILB_BLOCKED] = 1
    if jiffies(m) >= m[cpu, rq.NEXT_BALANCE]:
        m[cpu, rq.CLOCK] = m[0, sim.NOW]
        if m[this, rq_v6_12.ILB_FLAGS] & rq_v6_12.BALANCE:
            took = rebalance_domains(m, cpu, idle_type.IDLE, log_op.NOHZ)
    if m[this, rq_v6_12.ILB_NEXT_BALANCE] > m[cpu, rq.NEXT_BALANCE]:
        m[this, rq_v6_12.ILB_NEXT_BALANCE] = m[cpu, rq.NEXT_BALANCE]
        m[this, rq_v6_12.ILB_FOUND] = 1
    return took


@apart(NOTHING)
def continue_pass(m, this_cpu):
    """_nohz_idle_balance(): visit the tickless idle CPUs, from the one behind this CPU around to this CPU itself.

    A CPU that is balanced takes some simulated time, in which an active balance that was started for it finishes.
    """
    n = m[0, sim.CPUS]
    this = n + this_cpu
    g = globals_of(m)
    flags = m[this, rq_v6_12.ILB_FLAGS]
    for offset in range(m[this_cpu, rq.ILB_NEXT] - 1, n):
        cpu = (this_cpu + 1 + offset) % n
        if not test(m, cpuset.NOHZ, cpu) or not idle_cpu(m, cpu):
            continue
        if m[this_cpu, rq.NEED_RESCHED] != 0 and not idle_cpu(m, this_cpu):
            # the label abort: what is left undone is left to another CPU
            if flags & rq_v6_12.STATS:
                m[this, rq_v6_12.ILB_BLOCKED] = 1
            if flags & rq_v6_12.NEXT:
                m[g, v6_12.NOHZ_NEEDS_UPDATE] = 1
            end_pass(m, this_cpu)
            return
        took = visit(m, cpu, this_cpu)
        if took > 0:
            m[this_cpu, rq.ILB_NEXT] = offset + 2
            queue_jit.push(m, event_of(cpu_event.KICK, this_cpu), m[0, sim.NOW] + took)
            return
    if m[this, rq_v6_12.ILB_FOUND] != 0:
        m[0, sim.NOHZ_NEXT_BALANCE] = m[this, rq_v6_12.ILB_NEXT_BALANCE]
    if flags & rq_v6_12.STATS:
        later = ms_to_jiffies(m, BLOCKED_MS)
        m[g, v6_12.NOHZ_NEXT_BLOCKED] = m[this, rq_v6_12.ILB_BEGUN] + later
    end_pass(m, this_cpu)


@inner
def begin_pass(m, cpu, flags):
    """_nohz_idle_balance(): begin to visit the tickless idle CPUs."""
    q = m[0, sim.CPUS] + cpu
    g = globals_of(m)
    if flags & rq_v6_12.STATS:
        m[g, v6_12.NOHZ_HAS_BLOCKED] = 0
    if flags & rq_v6_12.NEXT:
        m[g, v6_12.NOHZ_NEEDS_UPDATE] = 0
    m[cpu, rq.ILB_NEXT] = 1
    m[q, rq_v6_12.ILB_FLAGS] = flags
    m[q, rq_v6_12.ILB_BEGUN] = jiffies(m)
    m[q, rq_v6_12.ILB_NEXT_BALANCE] = jiffies(m) + 60 * m[0, sim.HZ]
    m[q, rq_v6_12.ILB_FOUND] = 0
    m[q, rq_v6_12.ILB_BLOCKED] = 0
    continue_pass(m, cpu)


@apart(NOTHING)
def run_rebalance(m, cpu):
    """sched_balance_softirq(), nohz_idle_balance(): balance for all tickless CPUs if this one was kicked, else its own levels."""
    if m[cpu, rq.ILB_NEXT] != 0:
        return  # the pass that is under way continues by itself
    q = m[0, sim.CPUS] + cpu
    flags = m[q, rq_v6_12.NOHZ_IDLE_BALANCE]
    m[q, rq_v6_12.NOHZ_IDLE_BALANCE] = 0
    if flags != 0 and m[cpu, rq.IDLE_BALANCE] != 0:
        begin_pass(m, cpu, flags)
        return
    update_blocked_averages(m, cpu)
    idle = idle_type.IDLE if m[cpu, rq.IDLE_BALANCE] != 0 else idle_type.NOT_IDLE
    rebalance_domains(m, cpu, idle, log_op.PERIODIC)


@apart(NOTHING)
def kick_arrives(m, cpu):
    """nohz_csd_func() (core.c): begin the pass that another CPU asked for, or continue the one under way."""
    if m[cpu, rq.ILB_NEXT] != 0:
        continue_pass(m, cpu)
        return
    q = m[0, sim.CPUS] + cpu
    flags = m[q, rq_v6_12.NOHZ_FLAGS]
    m[q, rq_v6_12.NOHZ_FLAGS] = 0
    m[cpu, rq.IDLE_BALANCE] = 1 if idle_cpu(m, cpu) else 0
    if flags & rq_v6_12.KICKS and m[cpu, rq.IDLE_BALANCE] != 0:
        m[q, rq_v6_12.NOHZ_IDLE_BALANCE] = flags
        run_rebalance(m, cpu)


@apart(NOTHING)
def run_idle_balance(m, cpu):
    """nohz_run_idle_balance(): update the averages of idle CPUs at the entry to the idle loop."""
    q = m[0, sim.CPUS] + cpu
    flags = m[q, rq_v6_12.NOHZ_FLAGS]
    m[q, rq_v6_12.NOHZ_FLAGS] &= ~rq_v6_12.NEWILB
    if flags == rq_v6_12.NEWILB and m[cpu, rq.NEED_RESCHED] == 0 and m[cpu, rq.ILB_NEXT] == 0:
        begin_pass(m, cpu, rq_v6_12.STATS)
