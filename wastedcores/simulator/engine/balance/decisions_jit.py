"""The log of the balancer's decisions: what a call of load_balance() saw and why it gave up.

Nothing here changes what the scheduler does. The functions do nothing unless ``sim.DECISIONS`` names the rows that hold the
decision (world/decision.py).
"""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, apart
from wastedcores.simulator.engine.codes import idle_type, lb_result, log_kind
from wastedcores.simulator.engine.fair.load_jit import idle_cpu
from wastedcores.simulator.engine.world import (
    decision,
    domain,
    lb_env,
    rq,
    sched_group,
    sds,
    sgs,
    sim,
)
from wastedcores.simulator.engine.world.log_jit import record

#: the result "hot" of vocabulary.DECISION_RESULTS
HOT = lb_result.MOVED + 1


@apart(NOTHING)
def begin_decision(m, env):
    """Write down how a call of load_balance() begins."""
    at = m[0, sim.DECISIONS]
    sd = m[env, lb_env.SD]
    for column in range(decision.WIDTH):
        m[at, column] = 0
    for column in range(lb_env.PINNED, lb_env.HEAVY + 1):
        m[env, column] = 0
    m[env, lb_env.SRC_CPU] = -1
    m[at, decision.BY_CPU] = m[0, sim.CPU]
    m[at, decision.IDLE] = m[env, lb_env.IDLE]
    m[at, decision.DESIGNATED] = m[env, lb_env.THIS_CPU]
    m[at, decision.BUSIEST] = -1
    m[at, decision.IMBALANCE_PCT] = m[sd, domain.IMBALANCE_PCT]
    m[at, decision.FAILED] = m[sd, domain.NR_BALANCE_FAILED]
    m[at, decision.INTERVAL] = m[sd, domain.BALANCE_INTERVAL]
    m[at, decision.SRC_NR_RUNNING] = -1


@inner
def designate(m, cpu):
    """Write down which CPU may balance."""
    if m[0, sim.DECISIONS] != 0:
        m[m[0, sim.DECISIONS], decision.DESIGNATED] = cpu


@apart(NOTHING)
def note_group(m, group, place, is_local, s, dst):
    """Write down the statistics of the group at a place in the ring, which are row ``s``."""
    at = m[0, sim.DECISIONS] + 1 + place
    m[at, decision.SPAN] = m[group, sched_group.SPAN]
    m[at, decision.LOCAL] = is_local
    m[at, decision.TYPE] = m[s, sgs.GROUP_TYPE]
    m[at, decision.LOAD] = m[s, sgs.GROUP_LOAD]
    m[at, decision.AVG_LOAD] = m[s, sgs.AVG_LOAD]
    m[at, decision.MIN_LOAD] = m[s, sgs.MIN_LOAD] if m[s, sgs.MIN_LOAD] < 1 << 62 else -1
    m[at, decision.MAX_LOAD] = m[s, sgs.MAX_LOAD]
    m[at, decision.NR_RUNNING] = m[s, sgs.SUM_NR_RUNNING]
    m[at, decision.IDLE_CPUS] = m[s, sgs.IDLE_CPUS]
    if (
        is_local
        and m[m[0, sim.DECISIONS], decision.IDLE] == idle_type.NEWLY_IDLE
        and idle_cpu(m, dst)
    ):
        # a newly idle CPU does not count as idle, as rq->curr is still the previous task. The engine has no task for a stopper
        m[at, decision.IDLE_CPUS] -= 1
    m[at, decision.CAPACITY] = m[s, sgs.GROUP_CAPACITY]
    m[at, decision.USAGE] = m[s, sgs.GROUP_USAGE]
    m[at, decision.LOAD_PER_TASK] = m[s, sgs.LOAD_PER_TASK]


@apart(NOTHING)
def note_groups(m, sd, out, prefer):
    """Write down what the groups of a domain come to, once all of them are known."""
    at = m[0, sim.DECISIONS]
    capacity = m[out, sds.TOTAL_CAPACITY]
    m[at, decision.TRIES] += 1
    m[at, decision.NR_GROUPS] = m[sd, domain.NR_GROUPS]
    m[at, decision.PREFER_SIBLING] = prefer
    m[at, decision.AVERAGE] = 1024 * m[out, sds.TOTAL_LOAD] // capacity if capacity > 0 else 0
    m[at, decision.IMBALANCE] = 0
    m[at, decision.BUSIEST] = -1
    if m[out, sds.BUSIEST] >= 0:
        m[at, decision.BUSIEST] = m[out, sds.BUSIEST] - m[sd, domain.GROUPS]


@inner
def note_source(m, env, src):
    """Write down the imbalance, and the length of the queue that was chosen, before anything is taken from it."""
    if m[0, sim.DECISIONS] != 0:
        at = m[0, sim.DECISIONS]
        m[at, decision.IMBALANCE] = m[env, lb_env.IMBALANCE]
        if src >= 0:
            m[at, decision.SRC_NR_RUNNING] = m[src, rq.NR_RUNNING]


@inner
def log_parts(m, at, values):
    """Log the first values of a row as records."""
    for i in range(0, values, decision.PER_RECORD):
        record(
            m,
            log_kind.DECISION_PART,
            m[at, i],
            m[at, i + 1],
            m[at, i + 2],
            m[at, i + 3],
            m[at, i + 4],
            m[at, i + 5],
        )


@apart(NOTHING)
def log_decision(m, env, result):
    """Log a finished call of load_balance(): one record, then those of the call and of each group."""
    at = m[0, sim.DECISIONS]
    for i in range(4):
        m[at, decision.PINNED + i] = m[env, lb_env.PINNED + i]
    m[at, decision.DST_CPU] = m[env, lb_env.DST_CPU]
    if (
        result == lb_result.FAILED
        and m[at, decision.HOT] > 0
        and m[at, decision.PINNED] == 0
        and m[at, decision.HEAVY] == 0
    ):
        result = HOT
    record(
        m,
        log_kind.DECISION,
        m[env, lb_env.THIS_CPU],
        m[env, lb_env.SD],
        result,
        m[env, lb_env.SRC_CPU],
        m[env, lb_env.MOVED],
        m[env, lb_env.WHY],
    )
    log_parts(m, at, decision.WIDTH)
    for place in range(m[at, decision.NR_GROUPS]):
        log_parts(m, at + 1 + place, decision.GROUP_WIDTH)
