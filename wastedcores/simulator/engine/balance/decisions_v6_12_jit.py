"""The log of the decisions of v6.12's balancer: what differs from ``decisions_jit.py``, in the same rows (world/decision.py)."""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, apart
from wastedcores.simulator.engine.balance.decisions_jit import log_decision
from wastedcores.simulator.engine.world import (
    decision,
    domain,
    lb_env,
    sched_group,
    sds,
    sgs_v6_12,
    sim,
)


@apart(NOTHING)
def note_group(m, group, place, is_local, s):
    """Write down the statistics of the group at a place in the ring, which are row ``s``."""
    at = m[0, sim.DECISIONS] + 1 + place
    m[at, decision.SPAN] = m[group, sched_group.SPAN]
    m[at, decision.LOCAL] = is_local
    m[at, decision.TYPE] = m[s, sgs_v6_12.TYPE]
    m[at, decision.LOAD] = m[s, sgs_v6_12.LOAD]
    m[at, decision.AVG_LOAD] = m[s, sgs_v6_12.AVG_LOAD]
    m[at, decision.H_NR_QUEUED] = m[s, sgs_v6_12.SUM_H_NR]
    m[at, decision.RUNNABLE] = m[s, sgs_v6_12.RUNNABLE]
    m[at, decision.NR_RUNNING] = m[s, sgs_v6_12.SUM_NR]
    m[at, decision.IDLE_CPUS] = m[s, sgs_v6_12.IDLE_CPUS]
    m[at, decision.CAPACITY] = m[s, sgs_v6_12.CAPACITY]
    m[at, decision.USAGE] = m[s, sgs_v6_12.UTIL]


@apart(NOTHING)
def note_groups(m, sd, out):
    """Write down what the groups of a domain come to, once all of them are known."""
    at = m[0, sim.DECISIONS]
    m[at, decision.TRIES] += 1
    m[at, decision.NR_GROUPS] = m[sd, domain.NR_GROUPS]
    m[at, decision.PREFER_SIBLING] = m[out, sds.PREFER_SIBLING]
    m[at, decision.AVERAGE] = m[out, sds.AVG_LOAD]
    m[at, decision.IMBALANCE] = 0
    m[at, decision.BUSIEST] = -1
    if m[out, sds.BUSIEST] >= 0:
        m[at, decision.BUSIEST] = m[out, sds.BUSIEST] - m[sd, domain.GROUPS]


@inner
def log_decision_v6_12(m, env, result):
    """Log a finished call of load_balance() with what was to move and the comparison that found the domain balanced."""
    row = m[0, sim.DECISIONS]
    m[row, decision.PREFER_SIBLING] |= m[env, lb_env.MOVES] << decision.MOVES_SHIFT
    m[row, decision.PREFER_SIBLING] |= m[env, lb_env.REASON] << decision.REASON_SHIFT
    log_decision(m, env, result)
