"""What the scheduler asks of v6.12's placement and balancer, through ``v6_12_seam_jit.py``."""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.balance.idle_sibling_v6_12_jit import (
    update_idle_core,
    update_sharing,
)
from wastedcores.simulator.engine.balance.load_balance_v6_12_jit import active_load_balance
from wastedcores.simulator.engine.balance.nohz_v6_12_jit import (
    kick_arrives,
    nohz_enter,
    run_idle_balance,
    run_rebalance,
    trigger_load_balance,
)
from wastedcores.simulator.engine.balance.placement_v6_12_jit import select_task_rq_fair
from wastedcores.simulator.engine.balance.rebalance_domains_v6_12_jit import (
    idle_balance,
    update_wakeup_idle,
)
from wastedcores.simulator.engine.balance.v6_12_seam_jit import (
    ACTIVE,
    AT_TICK,
    ATTACHED,
    BOOTED,
    ENTERS_NOHZ,
    IDLE_CORE,
    IDLES,
    KICKED,
    LEAVES,
    PLACE,
    PULL,
    SOFTIRQ,
    WOKEN,
)
from wastedcores.simulator.engine.core.schedule_jit import next_tick, stop_tick
from wastedcores.simulator.engine.events import queue_jit
from wastedcores.simulator.engine.world import (
    domain,
    domain_shared,
    domain_v6_12,
    rq,
    rq_v6_12,
    sim,
    task,
    v6_12,
)
from wastedcores.simulator.engine.world.random_jit import stream


@apart(NOTHING)
def booted(m):
    """Let the LLCs know what balancing of the idle machine has found out since boot, and seed newidle balancing."""
    n = m[0, sim.CPUS]
    smt_active = m[m[0, sim.SCRATCH] + v6_12.ROW, v6_12.SMT_ACTIVE]
    for cpu in range(n):
        m[n + cpu, task.RNG] = stream(m[0, sim.SEED], -2 - cpu)
        first = m[cpu, rq.SD]
        for sd in range(first, first + m[cpu, rq.NR_DOMAINS]):
            shared = m[sd, domain_v6_12.SHARED]
            if shared >= 0:
                m[shared, domain_shared.NR_IDLE_SCAN] = m[sd, domain.SPAN_WEIGHT]
                m[shared, domain_shared.HAS_IDLE_CORES] = smt_active


@apart(NOTHING)
def attached(m, now):
    """Let the domains that every CPU got just now begin; ``now`` is the jiffy of their last balancing."""
    for cpu in range(m[0, sim.CPUS]):
        first = m[cpu, rq.SD]
        for sd in range(first, first + m[cpu, rq.NR_DOMAINS]):
            m[sd, domain_v6_12.LAST_DECAY_MAX_LB_COST] = now
            m[sd, domain_v6_12.NEWIDLE_STAMP] = m[0, sim.NOW]
    update_sharing(m)


@inner
def enters_idle(m, cpu):
    """do_idle() (kernel/sched/idle.c): update averages of idle CPUs, and stop the tick at once or after one more tick."""
    run_idle_balance(m, cpu)
    if m[m[0, sim.SCRATCH] + v6_12.ROW, v6_12.IDLE_TICKS_BEFORE_STOP] == 0:
        stop_tick(m, cpu)
    elif m[cpu, rq.TICK_STOPPED] != 0:
        # tick_nohz_idle_exit(): the CPU left the idle loop to schedule, and found nothing
        m[cpu, rq.TICK_STOPPED] = 0
        queue_jit.push_tick(m, cpu, next_tick(m, cpu))


@inner
def leaves(m, cpu):
    """Drop the kicks of a CPU that goes offline."""
    q = m[0, sim.CPUS] + cpu
    m[q, rq_v6_12.NOHZ_FLAGS] = 0
    m[q, rq_v6_12.NOHZ_IDLE_BALANCE] = 0


@apart(VALUE, entry=True)
def answer(m, question, a, b, c):
    """Do what the scheduler asks for through the seam."""
    if question == PLACE:
        return select_task_rq_fair(m, a, b, c)
    if question == PULL:
        return idle_balance(m, a)
    if question == AT_TICK:
        trigger_load_balance(m, a)
    elif question == SOFTIRQ:
        run_rebalance(m, a)
    elif question == KICKED:
        kick_arrives(m, a)
    elif question == ACTIVE:
        active_load_balance(m, a)
    elif question == IDLES:
        enters_idle(m, a)
    elif question == IDLE_CORE:
        update_idle_core(m, a)
    elif question == ENTERS_NOHZ:
        nohz_enter(m, a)
    elif question == WOKEN:
        update_wakeup_idle(m, a)
    elif question == LEAVES:
        leaves(m, a)
    elif question == ATTACHED:
        attached(m, a)
    elif question == BOOTED:
        booted(m)
    return 0
