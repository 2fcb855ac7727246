"""The machine and its tasks as a replay begins (docs/replay-semantics.md, section 7)."""

from __future__ import annotations

import numpy as np

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.balance.rebalance_domains_jit import nohz_enter
from wastedcores.simulator.engine.core.hotplug_jit import attach_domains, booted_capacity
from wastedcores.simulator.engine.events import queue_jit
from wastedcores.simulator.engine.fair.load_jit import jiffies
from wastedcores.simulator.engine.tasks.lifecycle_jit import new_task
from wastedcores.simulator.engine.world.random_jit import draw, stream
from wastedcores.simulator.engine.world.state import (
    EPOCH_NS,
    G_CPUS,
    G_GROUPS,
    G_JIFFY,
    G_NOW,
    G_Q0,
    G_SCRATCH,
    G_SE0,
    G_SEED,
    G_STEP0,
    G_TG0,
    G_TICK,
    G_TIMERS,
    Q_CPU,
    Q_CURR,
    Q_DECAYS,
    Q_H_JIFFY,
    Q_LAST,
    Q_LAST_DECAY,
    Q_LEFT,
    Q_NEXT,
    Q_RIGHT,
    Q_SE,
    Q_SKIP,
    Q_TG,
    R_AVG_IDLE,
    R_CAP,
    R_CAP_ORIG,
    R_CURR,
    R_IDLE_STAMP,
    R_LAST_TICK,
    R_MAX_IDLE_COST,
    R_PUSH_CPU,
    R_STOPPED,
    R_THEAD,
    R_TTAIL,
    R_WAKE,
    SE_INV,
    SE_MYQ,
    SE_PARENT,
    SE_Q,
    SE_WEIGHT,
    SHIFT,
    T_CPU,
    T_EV,
    T_RNG,
    TG_SHARES,
)


@apart(VALUE)
def start_state(m):
    """The machine as it is when the replay begins (docs/replay-semantics.md, section 7)."""
    n = m[0, G_CPUS]
    m[0, G_NOW] = EPOCH_NS
    m[0, G_JIFFY] = EPOCH_NS // m[0, G_TICK]
    rng = m[0, G_SCRATCH] + 5
    m[rng, T_RNG] = stream(m[0, G_SEED], -1)
    for cpu in range(n):
        m[cpu, R_CAP] = 1024
        m[cpu, R_CAP_ORIG] = 1024
    attach_domains(m, 0, 0)
    booted_capacity(m)
    for cpu in range(n):
        for column in (R_CURR, R_THEAD, R_TTAIL, R_WAKE, R_PUSH_CPU):
            m[cpu, column] = -1
        m[cpu, R_AVG_IDLE] = 1_000_000
        m[cpu, R_MAX_IDLE_COST] = 500_000
        m[cpu, R_LAST_TICK] = jiffies(m)
        m[cpu, R_STOPPED] = 1
        m[cpu, R_IDLE_STAMP] = 1 + np_mod(draw(m, rng), EPOCH_NS - 1)
        nohz_enter(m, cpu)
    for tg in range(m[0, G_GROUPS]):
        m[m[0, G_TG0] + tg, TG_SHARES] = 1024
        for cpu in range(n):
            q = m[0, G_Q0] + tg * n + cpu
            for column in (Q_CURR, Q_NEXT, Q_LAST, Q_SKIP, Q_LEFT, Q_RIGHT, Q_H_JIFFY):
                m[q, column] = -1
            m[q, Q_CPU] = cpu
            m[q, Q_TG] = m[0, G_TG0] + tg
            m[q, Q_DECAYS] = 1
            m[q, Q_LAST_DECAY] = EPOCH_NS >> 20
            m[q, Q_SE] = -1
            if tg > 0:
                se = m[0, G_SE0] + tg * n + cpu
                m[q, Q_SE] = se
                m[se, SE_Q] = n + cpu
                m[se, SE_MYQ] = q
                m[se, SE_PARENT] = -1
                m[se, SE_WEIGHT] = 1024
                m[se, SE_INV] = 4194304
    return np_mod(draw(m, rng), m[0, G_TICK])


@inner
def np_mod(value, n):
    """``value % n`` of an unsigned draw, as a signed number."""
    return np.int64(value % np.uint64(n))


@apart(NOTHING)
def add_top(m, template, group, cpu, at_ns):
    """A top-level task that starts on ``cpu`` at ``at_ns`` (engine time)."""
    p = new_task(m, template, -1, group)
    m[p, T_CPU] = cpu
    m[0, G_TIMERS] += 1
    queue_jit.push(m, (p << SHIFT) + T_EV, at_ns)


@apart(NOTHING)
def add_step(m, step, at_ns):
    """A hotplug step at ``at_ns`` (engine time)."""
    m[0, G_TIMERS] += 1
    queue_jit.push(m, (m[0, G_STEP0] + step) << SHIFT, at_ns)
