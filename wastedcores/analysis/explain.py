"""Reasons why a CPU stayed idle: what its domains allowed it to do, and how the overloaded CPUs had become overloaded.

In the longest episodes, each pair of an idle and an overloaded CPU has a weight (``met_ns``): the time for which the first was
idle or the time for which the second was overloaded, whichever is shorter. For each pair, the domains of the idle CPU tell
whether a balancing pass on this CPU could have pulled a task at all (kernel/sched/fair.c: update_sd_lb_stats() never pulls from a
group that contains the pulling CPU itself). Together with the event by which the overload began, this points to one of the four
bugs of the paper, or to none of them. This is an interpretation of evidence and not a proof, so the result contains the evidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from wastedcores.analysis.decisions import asked, decisions
from wastedcores.analysis.pairs import (
    COULD_PULL,
    EVERY_GROUP_LOCAL,
    NO_DOMAIN,
    RELATIONS,
    meetings,
    related,
)
from wastedcores.analysis.pattern import BALANCING_OFF, ISOLATED, REASONS, kept_apart, pattern
from wastedcores.analysis.price import Price, price
from wastedcores.analysis.stated_machine import place
from wastedcores.invariant import CheckResult, check
from wastedcores.kernels import (
    FIXES,
    Balancer,
    KernelModel,
    balancer_of,
    recorded_balancer,
    recorded_kernel,
)
from wastedcores.limits import CHRONIC_SHARE
from wastedcores.runqueues.runqueues import Runqueues
from wastedcores.topology.domains import build_domains
from wastedcores.topology.machine import Machine
from wastedcores.trace.header import TaskFacts
from wastedcores.trace.named import TraceLike
from wastedcores.units import human_ns

EXPLAIN_SCHEMA = "wastedcores.explain/1"

#: at most this many sentences tell the answers of the balancer
_MOST_ANSWERS = 4
_FIX = {
    "group_imbalance": "compare the minimum load of groups instead of the average (paper 3.1)",
    "group_construction": "build the groups from the perspective of each CPU (paper 3.2)",
    "overload_on_wakeup": "wake on an idle CPU of the machine if the task's own is busy (paper 3.3)",
    "missing_domains": "rebuild the domains across nodes when a CPU comes online (paper 3.4)",
}


_NO_MODEL = (
    "Unknown: no model of this kernel's balancer, so nothing is said about the cause. The {}."
)
_STAND_IN = "The {}. Here {} stands for it, although the two may balance differently."


@dataclass(frozen=True)
class Explanation:
    """The reasons why CPUs stayed idle, as far as trace and domains tell."""

    #: One of the paper's bugs (``group_imbalance``, ``group_construction``, ``overload_on_wakeup``, ``missing_domains``),
    #: ``isolated`` or ``balancing_off`` (the recorded configuration keeps the CPUs apart), ``in_doubt`` (the verdict of the check
    #: is unknown, and no waste is certain), ``transient`` (neither persistent nor chronic), ``isolation`` (no domain spans the
    #: idle and the overloaded CPU, and nothing recorded explains why), ``nothing`` (no episode), ``unknown`` (CPUs were wasted,
    #: but there is no model of this kernel's balancer) or ``undecided``.
    looks_like: str
    #: The kernel model and the topology from which the domains were built.
    kernel: KernelModel
    machine: Machine
    #: Table with columns relation, level, share: shares of the sum of ``met_ns`` of all pairs.
    relations: pl.DataFrame
    #: Table with columns cause, share: the events by which CPUs had become overloaded.
    causes: pl.DataFrame
    #: Table with columns idle_cpu, overloaded_cpu, met_ns, relation, level; the pair with the most ``met_ns`` is first.
    pairs: pl.DataFrame
    #: Share of the sum of ``met_ns`` in which the fix for ``looks_like`` lets the idle CPU pull; None if the fix does not change
    #: domains or groups.
    cured_share: float | None
    #: Sentences with the numbers on which ``looks_like`` rests. If the trace's kernel is not modelled and the nearest model
    #: stands for it, one of the first sentences says so.
    evidence: list[str] = field(default_factory=list)
    #: Whether a replay can test the cause: replays model this kernel, or the nearest kernel that they model may stand for it.
    replayed: bool = True
    #: Whether moving the threads that waited would have paid; None if no thread is known to have waited while a CPU that it may
    #: use was idle.
    price: Price | None = None

    @property
    def fix(self) -> str | None:
        """The fix that the paper proposes, in a sentence; None if ``looks_like`` is none of the paper's bugs."""
        return _FIX.get(self.looks_like)

    def to_json(self) -> dict[str, Any]:
        """Return the object that ``wastedcores explain --json`` prints."""
        return {
            "schema": EXPLAIN_SCHEMA,
            "looks_like": self.looks_like,
            "kernel": self.kernel.name,
            "machine": self.machine.name,
            "fix": self.fix,
            "cured_share": self.cured_share,
            "evidence": self.evidence,
            "relations": self.relations.to_dicts(),
            "causes": self.causes.to_dicts(),
            "pairs": self.pairs.head(32).to_dicts(),
            "price": self.price and self.price.to_json(),
        }


def explain(
    found: TraceLike | CheckResult,
    machine: Machine | None = None,
    kernel: KernelModel | str | None = None,
    tasks: Sequence[TaskFacts] | None = None,
    rq: Runqueues | None = None,
) -> Explanation:
    """Explain why CPUs stayed idle while threads waited.

    Parameters
    ----------
    found
        A trace or its name, which is checked with the default settings, or the result of :func:`wastedcores.check`.
    machine
        The topology with its hotplug history; default: the trace's own.
    kernel
        The kernel model or its name, such as ``v4.1``; default: the trace's own.
    tasks
        What a snapshot tells about the tasks, such as the CPUs on which they may run; default: what the trace's header has.
    rq
        The runqueues of a checked trace, if they are known already; then the trace is not read again.

    Returns
    -------
    Explanation
        The likely bug and the evidence for it.

    Raises
    ------
    TopologyError
        The machine has fewer CPUs than the trace.
    UnknownKernelError
        The name of the kernel is unknown.
    """
    result = found if isinstance(found, CheckResult) else check(found)
    known = machine is not None or result.trace.header.machine is not None
    machine, model, notes, balancer = _facts(result, machine, kernel)
    domains = build_domains(machine, model)
    pairs = related(meetings(result, _allowed(result, tasks)), domains)
    relations = _shares(pairs.rename({"met_ns": "w"}), ["relation", "level"])
    causes = _shares(result.causes.rename({"overloaded_ns": "w"}), ["cause"])
    looks_like, evidence = _configured(result, pairs) or _judge(
        result, relations, causes, machine, model
    )
    if result.verdict == "unknown":
        looks_like, evidence = _in_doubt(result, looks_like, evidence)
    if (model.generation != "v4.1" or not balancer.replayed) and looks_like in (
        *FIXES,
        "undecided",
    ):
        evidence += pattern(result, machine, pairs)
        if balancer.stand_in:
            evidence.insert(0, _STAND_IN.format(balancer.reason, balancer.stand_in))
    if not (balancer.replayed or balancer.stand_in) and looks_like in (*FIXES, "undecided"):
        # whether a trace looks like one of the bugs can be judged only for a balancer that is modelled
        looks_like = "unknown"
        evidence.insert(0, _NO_MODEL.format(balancer.reason))
    elif looks_like in FIXES and model.has(looks_like):
        evidence.append(
            f"This looks like {looks_like.replace('_', ' ')}, but {model.name} already has the fix for that."
        )
        looks_like = "transient" if result.verdict == "clean" else "undecided"
    return Explanation(
        looks_like,
        model,
        machine,
        relations,
        causes,
        pairs,
        _cured(looks_like, model, machine, pairs),
        [
            *(f"{note[0].upper()}{note[1:]}." for note in notes),
            *evidence,
            *_answers(result, pairs),
        ],
        bool(balancer.replayed or balancer.stand_in),
        price(result, machine, tasks, known, rq),
    )


def _in_doubt(result: CheckResult, looks_like: str, evidence: list[str]) -> tuple[str, list[str]]:
    """State the doubt of a check whose verdict is unknown, and do not call its trace free of bugs."""
    reason = f" ({result.notes[-1]})" if result.notes else ""
    doubt = f"The verdict of the check is unknown{reason}, so what follows may be wrong."
    if looks_like in ("nothing", "transient"):
        bound = "The trace does not tell how much CPU time was wasted at most."
        if result.bounded:
            bound = (
                f"At most {human_ns(result.bound.waste_at_most_ns)} of CPU time were wasted, and no episode lasted longer "
                f"than {human_ns(result.bound.longest_at_most_ns)}."
            )
        return "in_doubt", [doubt, bound]
    return looks_like, [doubt, *evidence]


def _answers(result: CheckResult, pairs: pl.DataFrame) -> list[str]:
    """Say which answers the idle CPU of the first pair got when it asked for work, if the trace has decisions."""
    if not result.episodes.height or not pairs.height or "decision" not in result.trace.kinds():
        return []
    longest = result.episodes.sort(pl.col("end_ns") - pl.col("start_ns"), descending=True).row(
        0, named=True
    )
    idle, _, _, relation, level = pairs.select(
        "idle_cpu", "overloaded_cpu", "met_ns", "relation", "level"
    ).row(0)
    calls = decisions(result.trace, (longest["start_ns"], longest["end_ns"]))
    calls = calls if calls.height else decisions(result.trace)
    where = level.replace(" ", "") if relation == COULD_PULL else ""
    # a recording has the kernel's name of the level. If it differs from the model's name, the answers at all levels are taken
    where = where if where in calls["level"] else ""
    return asked(calls, int(idle), where)[:_MOST_ANSWERS]


def _facts(
    result: CheckResult, machine: Machine | None, kernel: KernelModel | str | None
) -> tuple[Machine, KernelModel, list[str], Balancer]:
    """Return the machine, the kernel, notes about what was assumed about them, and how well the kernel's balancer is known."""
    where = place(result.trace, machine, kernel)
    if isinstance(where.kernel, KernelModel):
        model, note, balancer = where.kernel, None, balancer_of(where.kernel)
    else:
        model, note = recorded_kernel(where.kernel)
        balancer = recorded_balancer(where.kernel)
    return where.machine, model, [*where.assumed, *([note] if note else [])], balancer


def _allowed(result: CheckResult, tasks: Sequence[TaskFacts] | None) -> dict[int, str]:
    """Return where the tasks of a given snapshot may run; the check already knows the snapshot in the header."""
    return {t.pid: t.allowed for t in tasks or () if t.allowed and "allowed" not in t.changed}


def _shares(table: pl.DataFrame, keys: list[str]) -> pl.DataFrame:
    """Return the share of each key in the sum of column ``w``, largest first."""
    total = table["w"].sum() or 1
    return (
        table.group_by(keys)
        .agg(share=pl.col("w").sum() / total)
        .sort("share", *keys, descending=[True] + [False] * len(keys))
    )


def _share(table: pl.DataFrame, column: str, *values: str) -> float:
    return float(table.filter(pl.col(column).is_in(list(values)))["share"].sum())


#: why the recorded configuration kept most pairs of CPUs apart -> a sentence
_KEPT_APART = {
    ISOLATED: "one of the two was isolated (isolcpus, or an isolated partition), so the load balancer left it out",
    BALANCING_OFF: "no cpuset with load balancing contained both CPUs (cpuset.sched_load_balance was 0, or they were in "
    "different partitions)",
}


def _configured(result: CheckResult, pairs: pl.DataFrame) -> tuple[str, list[str]] | None:
    """Return what in the configuration kept the CPUs apart for most of the time, and the evidence; None if nothing did."""
    idle, busy = pairs["idle_cpu"].to_numpy(), pairs["overloaded_cpu"].to_numpy()
    apart = kept_apart(result.trace.header, idle, busy)
    for by in (BALANCING_OFF, ISOLATED):
        rows = pairs.filter(pl.Series(apart == REASONS.index(by)))
        share = int(rows["met_ns"].sum()) / max(1, int(pairs["met_ns"].sum()))
        if share > 0.5:
            one, other = rows.row(0)[:2]
            return by, [
                f"During {100 * share:.0f} % of the time in which one CPU was idle while another was overloaded, "
                f"{_KEPT_APART[by]}. An example is the idle CPU {one} and the overloaded CPU {other}."
            ]
    return None


def _judge(
    result: CheckResult,
    relations: pl.DataFrame,
    causes: pl.DataFrame,
    machine: Machine,
    model: KernelModel,
) -> tuple[str, list[str]]:
    """Return the bug that the evidence points to, and the evidence in sentences."""
    if not result.episodes.height:
        return "nothing", ["No CPU was idle while another was overloaded."]
    shares = {r: _share(relations, "relation", r) for r in RELATIONS}
    woken = _share(causes, "cause", "wakeup")
    lengths = result.episodes["end_ns"] - result.episodes["start_ns"]
    persistent = int(result.episodes["persistent"].sum())
    worst = result.chronic
    enough = worst is not None and worst.enough
    seems_chronic = worst is not None and worst.enough and worst.share >= CHRONIC_SHARE
    # violations that are not certain are explained, too, and the doubt is stated beside the explanation
    lasting = persistent > 0 or result.kind == "chronic" or seems_chronic
    if not relations.height:
        return "undecided" if lasting else "transient", [
            "No thread that waited in the longest episodes may use a CPU that was idle meanwhile, as the snapshot tells."
        ]
    # if the shortest episodes are only counted and not listed, there is no median
    median = f", and the median length was {human_ns(float(lengths.median() or 0))}"  # type: ignore[arg-type]
    evidence = [
        f"For {100 * shares[NO_DOMAIN]:.0f} % of the time in which one CPU was idle while another was overloaded, no scheduling "
        "domain of the idle CPU contained the overloaded one.",
        f"For {100 * shares[EVERY_GROUP_LOCAL]:.0f} % of it a domain contained both CPUs, but every group with the overloaded "
        "CPU also contained the idle one, and a CPU never pulls from its own group.",
        f"For {100 * shares[COULD_PULL]:.0f} % of it the domains allowed the idle CPU to pull a thread.",
        f"{100 * woken:.0f} % of the time in which a CPU was overloaded began when a thread was woken on a CPU that was busy.",
        f"{persistent} of {result.episodes.height + result.episodes_dropped} episodes "
        f"{'was' if persistent == 1 else 'were'} persistent{'' if result.episodes_dropped else median}.",
    ]
    if shares[NO_DOMAIN] > max(shares[COULD_PULL], shares[EVERY_GROUP_LOCAL]):
        lost_levels = model.loses_numa_levels and any(
            what == "online" for what, _ in machine.hotplug
        )
        if not lost_levels:
            return "isolation", evidence
        evidence.append(
            "A CPU was taken offline and brought back, and this kernel then loses its NUMA levels."
        )
        return "missing_domains", evidence
    if shares[EVERY_GROUP_LOCAL] > shares[COULD_PULL]:
        return "group_construction", evidence
    if woken > 0.5:
        share = result.mean(result.wall_ns)
        evidence.append(
            f"During {100 * share:.1f} % of the recording a CPU was idle while another was overloaded."
        )
        # a trace too short to prove chronic waste may still look chronic
        much = not enough and share > 0.05
        return "overload_on_wakeup" if lasting or much else "transient", evidence
    if not lasting:
        return "transient", evidence
    if model.generation != "v4.1":
        return "undecided", evidence
    evidence.append(
        "The domains did not forbid the pull, so the balancer compared the loads and considered them balanced."
    )
    return "group_imbalance", evidence


def _cured(
    looks_like: str, model: KernelModel, machine: Machine, pairs: pl.DataFrame
) -> float | None:
    """Return the share of the time in which the idle CPU could pull if the domains were built with the fix."""
    if looks_like not in ("group_construction", "missing_domains") or not pairs.height:
        return None
    fixed = build_domains(machine, KernelModel.named(f"{model.name}+{looks_like}"))
    can = related(pairs.select("idle_cpu", "overloaded_cpu", "met_ns"), fixed).filter(
        relation=COULD_PULL
    )
    return float(can["met_ns"].sum()) / float(pairs["met_ns"].sum())
