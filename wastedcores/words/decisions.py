"""The balancer's decisions in words: a table of the refused calls, and single calls followed through the paper's Algorithm 1."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from wastedcores.analysis.decisions import REFUSALS, RESULTS, refused_calls
from wastedcores.words.rich_text import RichText, count, sentence, table

#: why a comparison of two groups ended without a pull -> the words in a table
_WHY = {
    "no thread": "no other group has a thread",
    "average": "busiest ≤ local",
    "minimum": "busiest minimum ≤ local minimum",
    "above average": "local above the level's average",
    "idle rule": "busiest group not overloaded, as many idle CPUs",
    "margin": "within the margin",
    # since Linux 5.5 the types of the groups are compared first
    "no task": "no other group has a thread",
    "local type": "local group is fuller, by its type",
    "local load": "busiest ≤ local, both overloaded",
    "busy": "no idle CPU here, and busiest group not overloaded",
    "idle CPUs": "as many idle CPUs in the busiest group",
    "single task": "a single thread in the busiest group",
    "no imbalance": "moving a thread would gain nothing",
}
#: why a comparison ended without a pull in Linux 5.5 and later -> the beginning of a sentence
_WHY_SINCE_V5_5 = {
    "no task": "No other group has a thread that could be taken",
    "local type": "The type of the local group says that it is fuller than the busiest one",
    "local load": "Both groups are overloaded, and the local one has at least the load of the busiest one",
    "above average": "Both groups are overloaded, and the local one is not below the average of the level",
    "margin": "Both groups are overloaded, and their loads differ by less than the margin",
    "busy": "The CPU that asks is busy, and the busiest group is not overloaded",
    "idle CPUs": "The busiest group has as many idle CPUs as the local one, or one less",
    "single task": "The busiest group has a single thread, which runs",
    "no imbalance": "The imbalance is too small to move anything",
}


#: a sentence lists at most this many groups of a call
_MOST_GROUPS = 8


@dataclass(frozen=True)
class Step:
    """One step of a call: the line of Algorithm 1 (1 to 23), and what happened there in a sentence."""

    line: int
    text: str


def refusals(calls: pl.DataFrame) -> RichText:
    """Return how often calls were refused at each level and why, as a table.

    ``calls`` come from :func:`wastedcores.analysis.decisions.decisions`.
    """
    if calls.is_empty():
        return sentence("No CPU asked for work in this time.")
    none = calls.filter(result="no_domain")["cpu"].n_unique()
    apart = (
        f"{count(none, 'CPU has', 'CPUs have')} no scheduling domain and cannot ask. "
        if none
        else ""
    )
    real = calls.filter(pl.col("result") != "no_domain")
    no = real["result"].is_in(list(REFUSALS)).sum()
    head = sentence(
        f"{apart}The CPUs asked {count(real.height, 'time')} for work and were refused {count(int(no), 'time')}; "
        f"{count(int(calls['moved'].sum()), 'thread')} moved."
    )
    rows = [
        {
            "level": (row["level"] or "").replace("<=", " ≤ "),
            "result": row["result"].replace("_", " "),
            "because": _WHY.get(row["why"], "") or _because(row["result"]),
            "calls": "" if row["result"] == "no_domain" else f"{row['calls']:,}",
            "CPUs": row["cpus"],
            "local load": _load(row["local_load"]),
            "busiest load": _load(row["busiest_load"]),
            "moved": row["moved"] or "",
        }
        for row in refused_calls(calls).iter_rows(named=True)
    ]
    body = table(pl.DataFrame(rows, schema_overrides={"moved": pl.String}, strict=False))
    return RichText(f"{head.text}\n{body.text}", head.html + body.html)


def _because(result: str) -> str:
    return "" if result in ("moved", "balanced") else RESULTS.get(result, "")


def _load(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"


def call_name(call: Mapping[str, Any]) -> str:
    """Return a call's name: the CPU that asked, the level and the moment."""
    by = "" if call["by_cpu"] in (None, call["cpu"]) else f", executed by CPU {call['by_cpu']}"
    level = (call["level"] or "no level").replace("<=", " ≤ ")
    return f"CPU {call['cpu']} at {level} ({call['moment'] or 'unknown moment'}{by})"


def call_steps(call: Mapping[str, Any]) -> list[Step]:
    """Follow one call through Algorithm 1 until the line that ended it."""
    if call["result"] == "no_domain":
        return [
            Step(1, f"CPU {call['cpu']} has no scheduling domain, so the loop has nothing to do.")
        ]
    steps = [Step(1, f"{call_name(call)} asks for work."), _designated(call)]
    if call["result"] == "not_designated":
        return steps
    if call["groups"] is None:
        return [*steps, Step(19, f"The call ended: {RESULTS.get(call['result'], call['result'])}.")]
    if call["result"] == "nothing_moved":
        return [*steps, _unknown_end(call)]
    steps += _compared(call)
    if steps[-1].line == 16:
        return steps
    return steps + _pulled(call)


def _designated(call: Mapping[str, Any]) -> Step:
    cpu, chosen = call["cpu"], call["designated"]
    if call["idle"] == "newidle" and call["result"] == "not_designated":
        return Step(
            8,
            f"CPU {cpu} had just become idle and did nothing at this level. Since Linux 6.1 such a CPU stops if a thread came "
            "meanwhile.",
        )
    if call["idle"] == "newidle":
        return Step(
            7,
            f"CPU {cpu} has just become idle. Such a CPU balances even if another one does so for its group: go on.",
        )
    if chosen == cpu:
        return Step(7, f"CPU {cpu} is the one that balances for its group: go on.")
    if chosen is None and call["result"] != "not_designated":
        return Step(7, f"Which CPU balances for the group of CPU {cpu} was not recorded.")
    who = "Another CPU" if chosen is None else f"CPU {chosen}"
    return Step(8, f"{who} balances for this group, so CPU {cpu} does nothing at this level.")


def _unknown_end(call: Mapping[str, Any]) -> Step:
    """Say what is known about a call whose end no probe saw."""
    loads = ", ".join(f"{load}" for load in call["groups"]["avg_load"])
    return Step(
        11,
        f"Shortly before, the average loads of the groups were {loads}. Nothing moved. Without a probe it is not known which "
        "line ended the call.",
    )


def _groups(call: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the groups of a call, one dictionary per group."""
    lists = call["groups"]
    return [{key: values[i] for key, values in lists.items()} for i in range(len(lists["cpus"]))]


def _compared_types(call: Mapping[str, Any]) -> list[Step]:
    """Follow lines 10 to 17 for a kernel that compares the types of groups first, as Linux does since 5.5."""
    groups = _groups(call)

    def said(g: Mapping[str, Any]) -> str:
        return f"{(g['type'] or 'of unknown type').replace('_', ' ')}, {count(g['nr_running'], 'thread')}, {g['idle_cpus']} idle"

    each = "; ".join(f"CPUs {g['cpus']} {said(g)}" for g in groups[:_MOST_GROUPS])
    more = f"; and {len(groups) - _MOST_GROUPS} more" if len(groups) > _MOST_GROUPS else ""
    steps = [Step(11, f"The {count(len(groups), 'group')}: {each}{more}.")]
    if call["busiest"] is not None:
        steps.append(Step(13, f"The busiest group is CPUs {groups[call['busiest']]['cpus']}."))
    if call["result"] == "balanced":
        why = _WHY_SINCE_V5_5.get(call["why"] or "", "The kernel found nothing to pull")
        return [*steps, Step(16, f"{why}: balanced.")]
    what = {"load": "load", "util": "use", "task": "threads"}.get(call["migration"] or "", "load")
    return [
        *steps,
        Step(15, f"The groups are not balanced: go on, to move {call['imbalance']} of {what}."),
    ]


def _compared(call: Mapping[str, Any]) -> list[Step]:
    """Follow lines 10 to 17 of Algorithm 1."""
    if call["compares"] == "group_type":
        return _compared_types(call)
    least = call["compares"] == "min_load"
    key, name = ("min_load", "least load") if least else ("avg_load", "average load")
    groups = _groups(call)
    local, busiest = call["local_load"], call["busiest_load"]
    loads = ", ".join(f"{g[key]}" for g in groups)
    steps = [Step(11, f"The {name} of the {len(groups)} groups: {loads}.")]
    if call["busiest"] is None or groups[call["busiest"]]["nr_running"] == 0:
        return [*steps, Step(16, "No other group has a thread that could be taken: balanced.")]
    chosen = groups[call["busiest"]]
    kind = "" if chosen["type"] in (None, "other") else f", which is {chosen['type']}"
    steps.append(
        Step(
            13,
            f"The busiest group is CPUs {chosen['cpus']}{kind}: {name} {busiest}, {count(chosen['nr_running'], 'thread')}.",
        )
    )
    own = [g["cpus"] for g in groups if g["local"]]
    steps.append(Step(14, f"The local group is CPUs {own[-1] if own else '?'}: {name} {local}."))
    refused = {
        "average": f"{busiest} ≤ {local}: balanced.",
        "minimum": f"{busiest} ≤ {local}: balanced.",
        "above average": f"{busiest} > {local}, but the local group is not below {call['average']}, the average of the whole "
        "level (a condition of Linux 4.1): balanced.",
        "idle rule": f"{busiest} > {local}, but the busiest group is not overloaded, and the local one has at most one idle "
        "CPU more (a condition of Linux 4.1): balanced.",
        "margin": f"{busiest} > {local}, but by less than the margin of {(call['imbalance_pct'] or 100) - 100} % (a condition of "
        "Linux 4.1): balanced.",
    }.get(call["why"])
    if refused is None and call["result"] == "balanced":
        refused = "The kernel found nothing to pull: balanced."
    if refused:
        return [*steps, Step(16, refused)]
    aim = "" if call["imbalance"] is None else f", to move a load of {call['imbalance']}"
    if busiest > local:
        return [*steps, Step(15, f"{busiest} > {local}: go on{aim}.")]
    why = "Linux 4.1 goes on for an imbalanced or overloaded group"
    if call["moment"] is None:
        # the loads were sampled shortly before the call, not during it; and this kernel also compares other values
        why = "the kernel went on"
    return [*steps, Step(15, f"{busiest} ≤ {local}, but {why}{aim}.")]


def _pulled(call: Mapping[str, Any]) -> list[Step]:
    """Follow lines 18 to 22 of Algorithm 1."""
    result, src = call["result"], call["src_cpu"]
    if result == "no_queue":
        return [
            Step(18, "No CPU of that group has a thread that waits, so there is nothing to take.")
        ]
    threads = f" with {count(call['src_nr_running'], 'thread')}" if call["src_nr_running"] else ""
    steps = [Step(18, f"The busiest CPU of that group is CPU {src}{threads}.")]
    if src is None:
        steps = [Step(18, "Which CPU of that group was the busiest was not recorded.")]
    if (call["tries"] or 1) > 1:
        steps.append(
            Step(
                21,
                f"The threads of another CPU may not run here: {call['tries']} queues were tried.",
            )
        )
    if result == "moved":
        way = (
            f" from CPU {src} to CPU {call['dst_cpu']}"
            if src is not None
            else f" to CPU {call['cpu']}"
        )
        return [*steps, Step(19, f"{count(call['moved'], 'thread')} moved{way}.")]
    kept = _kept(call)
    if result == "pinned":
        return [
            *steps,
            Step(21, f"The threads of CPU {src} may not run on CPU {call['cpu']}{kept}."),
        ]
    if result == "active":
        return [
            *steps,
            Step(
                19,
                f"Nothing moved{kept}. The migration thread of CPU {src} pushes its running thread.",
            ),
        ]
    return [*steps, Step(19, f"Nothing moved{kept}.")]


def _kept(call: Mapping[str, Any]) -> str:
    """Say why the threads of the source CPU stayed on it."""
    words = {
        "running": "running",
        "hot": "cache-hot",
        "pinned": "not allowed here",
        "heavy": "too heavy for the imbalance",
    }
    parts = [f"{call[key]} {text}" for key, text in words.items() if call[key]]
    if not parts:
        return " (only its running thread was there)" if call["src_nr_running"] == 1 else ""
    return f" (looks at threads that stayed: {', '.join(parts)})"
