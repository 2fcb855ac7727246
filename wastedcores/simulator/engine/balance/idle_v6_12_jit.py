"""How v6.12's balancer begins, and what it does when a CPU becomes idle or goes offline."""

from __future__ import annotations

from wastedcores.jit.units import NOTHING, apart
from wastedcores.simulator.engine.balance.idle_sibling_v6_12_jit import update_sharing
from wastedcores.simulator.engine.balance.nohz_v6_12_jit import run_idle_balance
from wastedcores.simulator.engine.core.schedule_jit import next_tick, stop_tick
from wastedcores.simulator.engine.events import queue_jit
from wastedcores.simulator.engine.world.random_jit import stream
from wastedcores.simulator.engine.world.rows_jit import cpu_cfs_rq, cpu_rq, domain_at, modern
from wastedcores.simulator.engine.world.structs import NO_SHARED, Kernel, RandomState


@apart(NOTHING)
def booted(k: Kernel) -> None:
    """Let the LLCs know what balancing of the idle machine has found out since boot, and seed newidle balancing."""
    n = k.nr_cpus
    smt_active = modern(k).smt_active
    for cpu in range(n):
        RandomState(k, n + cpu).state = stream(k.seed, -2 - cpu)
        for height in range(cpu_rq(k, cpu).nr_domains):
            sd = domain_at(k, cpu, height)
            shared = sd.shared
            if shared != NO_SHARED:
                shared.nr_idle_scan = sd.span_weight
                shared.has_idle_cores = smt_active


@apart(NOTHING)
def attached(k: Kernel, now: int) -> None:
    """Let the domains that every CPU got just now begin; ``now`` is the jiffy of their last balancing."""
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
        # tick_nohz_idle_exit(): the CPU left the idle loop to schedule, and found nothing
        cpu_rq(k, cpu).tick_stopped = 0
        queue_jit.push_tick(k, cpu, next_tick(k, cpu))


@apart(NOTHING)
def leaves(k: Kernel, cpu: int) -> None:
    """Drop the kicks of a CPU that goes offline."""
    q = cpu_cfs_rq(k, cpu)
    q.rq_modern.nohz_flags = 0
    q.rq_modern.nohz_idle_balance = 0
