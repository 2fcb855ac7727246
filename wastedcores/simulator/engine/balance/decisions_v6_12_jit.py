"""The log of the decisions of v6.12's balancer: what differs from ``decisions_jit.py``, in the same rows."""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, apart
from wastedcores.simulator.engine.balance.decisions_jit import log_decision
from wastedcores.simulator.engine.world import decision_record
from wastedcores.simulator.engine.world.structs import (
    NO_GROUP,
    Decision,
    DecisionGroup,
    Kernel,
    LbEnv,
    SchedDomain,
    SchedGroup,
    SdLbStats,
    SgLbStats,
)


@apart(NOTHING)
def note_group(k: Kernel, group: SchedGroup, place: int, is_local: int, s: SgLbStats) -> None:
    """Write down the statistics of the group at a place in the ring, which are row ``s``."""
    at = DecisionGroup(k, k.decisions + 1 + place)
    at.span = group.span
    at.local = is_local
    at.type = s.type
    at.load = s.load
    at.avg_load = s.avg_load
    at.min_load = s.sum_h_nr
    at.load_per_task = s.runnable
    at.nr_running = s.sum_nr
    at.idle_cpus = s.idle_cpus
    at.capacity = s.capacity
    at.usage = s.util


@apart(NOTHING)
def note_groups(k: Kernel, sd: SchedDomain, out: SdLbStats) -> None:
    """Write down what the groups of a domain come to, once all of them are known."""
    at = Decision(k, k.decisions)
    at.tries += 1
    at.nr_groups = sd.nr_groups
    at.prefer_sibling = out.prefer_sibling
    at.average = out.avg_load
    at.imbalance = 0
    at.busiest = -1
    if out.busiest != NO_GROUP:
        at.busiest = out.busiest.row - sd.groups.row


@inner
def log_decision_v6_12(k: Kernel, env: LbEnv, result: int) -> None:
    """Log a finished call of load_balance() with what was to move and the comparison that found the domain balanced."""
    row = Decision(k, k.decisions)
    row.prefer_sibling |= env.moves << decision_record.MOVES_SHIFT
    row.prefer_sibling |= env.reason << decision_record.REASON_SHIFT
    log_decision(k, env, result)
