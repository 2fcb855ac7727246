"""The log of the balancer's decisions: what a call of load_balance() saw and why it gave up.

Nothing here changes what the scheduler does. The functions do nothing unless ``k.decisions`` names the rows that hold the
decision (Decision, DecisionGroup).
"""

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, apart
from wastedcores.simulator.engine.codes import idle_type, lb_result, log_kind
from wastedcores.simulator.engine.fair.load_jit import idle_cpu
from wastedcores.simulator.engine.world import decision_record
from wastedcores.simulator.engine.world.log_jit import record
from wastedcores.simulator.engine.world.rows_jit import cpu_rq
from wastedcores.simulator.engine.world.structs import (
    Decision,
    DecisionGroup,
    Kernel,
    LbEnv,
    SchedDomain,
    SchedGroup,
    SdLbStats,
    SgLbStats,
    SgLbStatsV4,
)

#: the result "hot" of vocabulary.DECISION_RESULTS
HOT = lb_result.MOVED + 1


@apart(NOTHING)
def begin_decision(k: Kernel, env: LbEnv) -> None:
    """Write down how a call of load_balance() begins."""
    at = Decision(k, k.decisions)
    sd = env.sd
    for column in range(decision_record.WIDTH):
        at[column] = 0
    for column in range(LbEnv.held_back, LbEnv.heavy + 1):
        env[column] = 0
    env.src_cpu = -1
    at.by_cpu = k.this_cpu
    at.idle = env.idle
    at.designated = env.this_cpu
    at.busiest = -1
    at.imbalance_pct = sd.imbalance_pct
    at.failed = sd.nr_balance_failed
    at.interval = sd.balance_interval
    at.src_nr_running = -1


@inner
def designate(k: Kernel, cpu: int) -> None:
    """Write down which CPU may balance."""
    if k.decisions != 0:
        Decision(k, k.decisions).designated = cpu


@apart(NOTHING)
def note_group(
    k: Kernel, group: SchedGroup, place: int, is_local: int, s: SgLbStatsV4, dst: int
) -> None:
    """Log row ``s``, the statistics of the group at position ``place`` of the ring."""
    at = DecisionGroup(k, k.decisions + 1 + place)
    at.span = group.span
    at.local = is_local
    at.type = s.group_type
    at.load = s.group_load
    at.avg_load = s.avg_load
    at.min_load = s.min_load if s.min_load < 1 << 62 else -1
    at.max_load = s.max_load
    at.nr_running = s.sum_nr_running
    at.idle_cpus = s.idle_cpus
    if is_local and Decision(k, k.decisions).idle == idle_type.NEWLY_IDLE and idle_cpu(k, dst):
        # in the kernel this CPU is not idle yet: rq->curr is the task that ran. If this was the stopper, Rq.curr here is NULL
        at.idle_cpus -= 1
    at.capacity = s.group_capacity
    at.usage = s.group_usage
    at.load_per_task = s.load_per_task


@apart(NOTHING)
def note_group_v6_12(k: Kernel, group: SchedGroup, place: int, is_local: int, s: SgLbStats) -> None:
    """Write down row ``s``, the statistics of the group at position ``place`` of the ring."""
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
def note_groups(k: Kernel, sd: SchedDomain, out: SdLbStats, prefer: int, average: int) -> None:
    """Write down the totals of a domain's groups when the statistics of all groups are known."""
    at = Decision(k, k.decisions)
    at.tries += 1
    at.nr_groups = sd.nr_groups
    at.prefer_sibling = prefer
    at.average = average
    at.imbalance = 0
    at.busiest = -1
    if out.busiest:
        at.busiest = out.busiest.row - sd.groups.row


@inner
def note_source(k: Kernel, env: LbEnv, src: int) -> None:
    """Write down the imbalance and the length of the chosen queue, before any task is taken from the queue."""
    if k.decisions != 0:
        at = Decision(k, k.decisions)
        at.imbalance = env.imbalance
        if src >= 0:
            at.src_nr_running = cpu_rq(k, src).nr_running


@inner
def log_parts(k: Kernel, at: Decision, values: int) -> None:
    """Log the first ``values`` values of a row as records."""
    for i in range(0, values, decision_record.PER_RECORD):
        record(
            k, log_kind.DECISION_PART, at[i], at[i + 1], at[i + 2], at[i + 3], at[i + 4], at[i + 5]
        )


@apart(NOTHING)
def log_decision(k: Kernel, env: LbEnv, result: int) -> None:
    """Log a finished call of load_balance(): first the decision, then the values of the call and of each group."""
    at = Decision(k, k.decisions)
    for i in range(4):
        at.held_back[i] = env.held_back[i]
    at.dst_cpu = env.dst_cpu
    # what was to move, and the comparison that found the domain balanced (v6.12)
    at.prefer_sibling |= env.moves << decision_record.MOVES_SHIFT
    at.prefer_sibling |= env.reason << decision_record.REASON_SHIFT
    if result == lb_result.FAILED and at.hot > 0 and at.held_back[0] == 0 and at.heavy == 0:
        result = HOT
    record(k, log_kind.DECISION, env.this_cpu, env.sd.row, result, env.src_cpu, env.moved, env.why)
    log_parts(k, at, decision_record.WIDTH)
    for place in range(at.nr_groups):
        log_parts(k, Decision(k, at.row + 1 + place), decision_record.GROUP_WIDTH)
