"""The machine and its tasks at the beginning of a replay (docs/replay-semantics.md, section 7)."""

from __future__ import annotations

import numpy as np

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.balance.v6_12_seam_jit import (
    BOOTED,
    ask_balancer,
    balances_v6_12,
)
from wastedcores.simulator.engine.core.hotplug_jit import attach_domains, booted_capacity
from wastedcores.simulator.engine.core.schedule_jit import enter_nohz
from wastedcores.simulator.engine.events import queue_jit
from wastedcores.simulator.engine.fair.eevdf_seam_jit import FAIR_ONLINE, ask_fair, has_eevdf
from wastedcores.simulator.engine.fair.load_jit import jiffies
from wastedcores.simulator.engine.fair.pelt_v4_4_jit import new_entity
from wastedcores.simulator.engine.tasks.lifecycle_jit import new_task
from wastedcores.simulator.engine.world import (
    cfs_rq,
    eevdf,
    entity,
    hotplug_step,
    rq,
    sim,
    table,
    task,
    task_group,
)
from wastedcores.simulator.engine.world.random_jit import draw, stream


@apart(VALUE, entry=True)
def start_state(m):
    """Boot the machine, and return how far into a tick the workload begins, in ns (docs/replay-semantics.md, section 7)."""
    n = m[0, sim.CPUS]
    m[0, sim.NOW] = table.EPOCH_NS
    m[0, sim.JIFFIES] = table.EPOCH_NS // m[0, sim.TICK_NS]
    rng = m[0, sim.SCRATCH] + 5
    m[rng, task.RNG] = stream(m[0, sim.SEED], -1)
    for cpu in range(n):
        m[cpu, rq.CPU_CAPACITY] = 1024
        m[cpu, rq.CPU_CAPACITY_ORIG] = 1024
    attach_domains(m, 0, 0)
    booted_capacity(m)
    for cpu in range(n):
        for column in (rq.CURR, rq.CFS_TASKS, rq.CFS_TASKS_TAIL, rq.WAKE_LIST, rq.PUSH_CPU):
            m[cpu, column] = -1
        m[cpu, rq.AVG_IDLE] = 1_000_000
        m[cpu, rq.MAX_IDLE_BALANCE_COST] = 500_000
        m[cpu, rq.LAST_LOAD_UPDATE_TICK] = jiffies(m)
        m[cpu, rq.TICK_STOPPED] = 1
        m[cpu, rq.IDLE_STAMP] = 1 + np_mod(draw(m, rng), table.EPOCH_NS - 1)
        enter_nohz(m, cpu)
    if balances_v6_12(m):
        ask_balancer(m, BOOTED, 0, 0, 0)
    for tg in range(m[0, sim.TASK_GROUPS]):
        m[m[0, sim.TASK_GROUP0] + tg, task_group.SHARES] = 1024
        for cpu in range(n):
            q = m[0, sim.CFS_RQ0] + tg * n + cpu
            for column in (
                cfs_rq.CURR,
                cfs_rq.NEXT,
                cfs_rq.LAST,
                cfs_rq.SKIP,
                cfs_rq.LEFTMOST,
                cfs_rq.RIGHTMOST,
                cfs_rq.LAST_H_LOAD_UPDATE,
            ):
                m[q, column] = -1
            m[q, cfs_rq.CPU] = cpu
            m[q, cfs_rq.TASK_GROUP] = m[0, sim.TASK_GROUP0] + tg
            m[q, cfs_rq.DECAY_COUNTER] = 1
            m[q, cfs_rq.LAST_DECAY] = table.EPOCH_NS >> 20
            m[q, cfs_rq.ENTITY] = -1
            m[q, eevdf.ZERO_VRUNTIME] = -(1 << 20)
            if tg > 0:
                se = m[0, sim.ENTITY0] + tg * n + cpu
                m[q, cfs_rq.ENTITY] = se
                m[se, entity.CFS_RQ] = n + cpu
                m[se, entity.MY_Q] = q
                m[se, entity.PARENT] = -1
                m[se, entity.WEIGHT] = 1 << 20 if has_eevdf(m) else 1024
                m[se, entity.INV_WEIGHT] = 4194304
                if m[0, sim.LOAD_V4_4] != 0:
                    new_entity(m, se)
                if has_eevdf(m):
                    ask_fair(m, FAIR_ONLINE, se, 0)
    return np_mod(draw(m, rng), m[0, sim.TICK_NS])


@inner
def np_mod(value, n):
    """Return ``value % n`` of an unsigned draw as a signed number."""
    return int(np.int64(value % np.uint64(n)))


@apart(NOTHING, entry=True)
def add_top(m, template, group, cpu, at_ns):
    """Make a top-level task that starts on ``cpu`` at ``at_ns`` (engine time)."""
    p = new_task(m, template, -1, group)
    m[p, task.CPU] = cpu
    m[0, sim.TIMERS] += 1
    queue_jit.push(m, (p << table.SHIFT) + task.TIMER, at_ns)


@apart(NOTHING, entry=True)
def add_step(m, step, at_ns):
    """Plan a hotplug step for ``at_ns`` (engine time)."""
    m[0, sim.TIMERS] += 1
    queue_jit.push(m, ((m[0, sim.STEP0] + step) << table.SHIFT) + hotplug_step.EVENT, at_ns)
