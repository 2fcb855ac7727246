"""The result of a check as plain text, as ``wastedcores check`` prints it."""

from __future__ import annotations

import polars as pl

from wastedcores.cpulist import format_cpulist
from wastedcores.invariant import CheckResult
from wastedcores.invariant.sweep import merged
from wastedcores.invariant.who import PARTS
from wastedcores.units import human_ns
from wastedcores.words.cause import doubts_by_reason
from wastedcores.words.rich_text import count

_HEADS = ("ran", "waited", "wasted", "throttled", "stolen")


def describe_groups(table: pl.DataFrame, most: int = 10) -> str:
    """Return the table of :func:`wastedcores.invariant.who_took` as lines of text, with the first ``most`` rows."""
    if not table.height:
        return "  Who took the CPU of each group is unknown: the trace has no switch events."
    kinds = set(table["kind"])
    whose = (
        "control group" if kinds == {"cgroup"} else "process" if kinds == {"process"} else "group"
    )
    rows = [
        (row["name"], *("?" if row[p] is None else human_ns(row[p]) for p in PARTS))
        for row in table.head(most).iter_rows(named=True)
    ]
    width = max(len(whose), *(len(r[0]) for r in rows))
    lines = [f"  {whose:<{width}}  " + "  ".join(f"{h:>9}" for h in _HEADS)]
    lines += [f"  {r[0]:<{width}}  " + "  ".join(f"{c:>9}" for c in r[1:]) for r in rows]
    more = table.height - most
    lines += [f"  and {more} more; --json --limit all has them"] if more > 0 else []
    lines.append(
        "  waited: no CPU that the task may use was idle; wasted: one was; throttled: by the group's own limit;"
    )
    lines.append("  stolen: by the hypervisor (estimated for each group); ?: unknown")
    return "\n".join(lines)


def describe(result: CheckResult, longest: int = 10, moved: str = "") -> str:
    """Return the result as text, with at most ``longest`` episodes. ``moved`` is a text about how often threads moved."""
    header = result.trace.header
    of_time = 100 * result.mean(result.wall_ns)
    persistent = int(result.episodes["persistent"].sum())
    episodes = result.episodes.height + result.episodes_dropped
    # the header has the number of events of the whole trace, even if only a part of the trace was checked
    part = result.window is not None or len(result.counted_cpus) < result.cpus
    events = f"{' of a trace with' if part else ','} {count(header.events or 0, 'event')}"
    lines = [
        _headline(result),
        "",
        f"  looked at      {human_ns(result.duration_ns)} on {len(result.counted_cpus)} of {count(result.cpus, 'CPU')}"
        + (events if header.events is not None else ""),
        *(['  window         "{}" to "{}"'.format(*result.window.ends)] if result.window else []),
        f"  a CPU was idle while threads waited on another for {human_ns(result.wall_ns)} ({of_time:.1f} % of the time)",
        f"  wasted         {human_ns(result.thread_ns)} of CPU time, "
        f"{_mean_cpus(result.mean(result.thread_ns))} on average",
        f"  busy           {result.mean(result.busy_ns):.1f} CPUs on average",
        f"  episodes       {episodes:,}, of which {persistent} lasted {human_ns(result.persist_ns)} or more"
        if episodes
        else "  episodes       none",
        *_chronic(result),
        *_avoidable(result),
        *_overloaded(result),
        *([f"  moved          {moved}"] if moved else []),
        *_bound(result),
        f"  affinity       {result.affinity}"
        + (
            f"; unknown for {count(result.affinity_unknown, 'thread')}"
            if result.affinity_unknown
            else ""
        ),
        *_evidence(result),
        *_in_doubt(result),
    ]
    if result.silent_cpus:
        lines.append(
            f"  silent CPUs    {format_cpulist(result.silent_cpus)} (no event; "
            + (
                "left out)"
                if set(result.silent_cpus) <= set(result.unknown_cpus)
                else "taken as idle)"
            )
        )
    if result.unknown_cpus:
        lines.append(f"  unknown CPUs   {format_cpulist(result.unknown_cpus)} (left out)")
    if header.lost_total:
        said = [
            n.partition("events were lost: ")[2] for n in result.notes if "events were lost" in n
        ]
        lines.append(
            f"  LOST EVENTS    {header.lost_total:,}: {(said or ['outside of this window'])[0]}"
        )
    lines += [f"  note           {n}" for n in result.notes if "events were lost" not in n]
    if result.episodes.height:
        lines += ["", *_longest_episodes(result, longest)]
    return "\n".join(lines)


def _mean_cpus(number: float) -> str:
    return f"{number:.2f} CPUs" if number == 0 or number >= 0.01 else "less than 0.01 CPUs"


def _chronic(result: CheckResult) -> list[str]:
    """Return one line about the ten consecutive slices that wasted most; no line if they are unknown or wasted too little."""
    if result.chronic is None or not result.chronic.share:
        return []
    c = result.chronic
    return [
        f"  worst {human_ns(c.window_ns):<8} from {human_ns(c.start_ns - result.start_ns)} on: in five of its ten slices, "
        f"the waste was {100 * c.share:.1f} % of the used CPU time or more"
    ]


def _headline(result: CheckResult) -> str:
    said = [result.kind] if result.kind != "none" else []
    if result.assumed:
        said.append(f"assuming that {result.assumed}, as the paper does")
    if result.rests_on_affinity:
        said.append(f"affinity of {count(result.affinity_unknown, 'thread')} unknown")
    more = f" ({', '.join(said)})" if said else ""
    return f"{result.trace.name}: {result.verdict.upper()}{more}"


def _overloaded(result: CheckResult) -> list[str]:
    """Return one line if there was more work than CPUs, else no line."""
    if not result.overloaded:
        return []
    waiting = result.mean(result.waiting_ns)
    return [
        f"  overloaded     {waiting:.1f} threads waited on average while hardly any CPU was idle: this is no waste, but more "
        "work than CPUs"
    ]


def _bound(result: CheckResult) -> list[str]:
    """Return one line about the least and the most waste that the trace allows; no line if both are known and equal."""
    b = result.bound
    least, most = human_ns(b.waste_at_least_ns), human_ns(b.waste_at_most_ns)
    if not result.bounded:
        told = f"at least {least} of CPU time were wasted" if b.waste_at_least_ns else "nothing"
        return [
            f"  certain        {told}; the trace does not tell how much CPU time was wasted at most"
        ]
    if least == most:
        return []
    return [
        f"  certain        at least {least} and at most {most} of CPU time were wasted; no episode lasted longer than "
        f"{human_ns(b.longest_at_most_ns)}"
    ]


#: a way of knowing that a thread may use an idle CPU -> its words; docs/verdict.md explains these ways
_KNOWN_BY = {
    "told_ns": "told by the trace or a snapshot",
    "inherited_ns": "inherited from a parent that was told",
    "seen_ns": "seen there before and after",
    "assumed_ns": "only assumed",
}


def _evidence(result: CheckResult) -> list[str]:
    """Return one line on how it is known that the waiting threads could have moved; no line if no thread waited avoidably."""
    total = sum(result.evidence.values())
    if not total:
        return []
    parts = [
        f"{100 * ns / total:.0f} % {_KNOWN_BY[grade]}"
        for grade, ns in result.evidence.items()
        if ns
    ]
    return [f"  evidence       that the threads could use the idle CPU: {', '.join(parts)}"]


def _avoidable(result: CheckResult) -> list[str]:
    """Return one line about the threads that waited beside an idle CPU; no line if no such thread is known."""
    table = result.avoidable
    if not table.height:
        return []
    total, longest = human_ns(table["avoidable_ns"].sum()), human_ns(table["longest_ns"].max())  # type: ignore[arg-type]
    return [
        f"  avoidable      {count(table.height, 'thread')} waited {total} in all while a CPU that they may use was idle; "
        f"the longest such wait lasted {longest}"
    ]


def _longest_episodes(result: CheckResult, most: int) -> list[str]:
    table = result.episodes.with_columns(length=pl.col("end_ns") - pl.col("start_ns"))
    longest = table.top_k(most, by="length").sort("length", descending=True)
    rows = [
        (
            human_ns(row["start_ns"] - result.start_ns),
            human_ns(row["length"]),
            human_ns(row["wasted_ns"]),
            _clip(format_cpulist(row["idle_cpus"])),
            _clip(format_cpulist(row["overloaded_cpus"])),
        )
        for row in longest.iter_rows(named=True)
    ]
    which = (
        f"the {longest.height} longest episodes" if longest.height > 1 else "the longest episode"
    )
    idle = max(9, *(len(row[3]) for row in rows))
    lines = [f"  {which} (the start is counted from the window's beginning):", ""]
    lines.append(f"  start        length    wasted    {'idle CPUs':<{idle}}  overloaded CPUs")
    marks = longest.select(
        pl.when("certain")
        .then(pl.lit("*"))
        .when("persistent")
        .then(pl.lit("?"))
        .otherwise(pl.lit(" "))
    ).to_series()
    for mark, row in zip(marks, rows, strict=True):
        lines.append(f"{mark} {row[0]:<11}  {row[1]:<8}  {row[2]:<8}  {row[3]:<{idle}}  {row[4]}")
    if bool(longest["persistent"].any()):
        lines.append(f"  * persistent: {human_ns(result.persist_ns)} or more")
    if any(cell.endswith("…") for row in rows for cell in row):
        lines.append("  … some CPUs are left out; --json has all of them, and all episodes")
    if "?" in marks:
        lines.append("  ? persistent, but not certain: see the notes above")
    return lines


def _in_doubt(result: CheckResult) -> list[str]:
    """Return lines about the spans in which the state of a CPU is not certain; no line if there is no such span."""
    if not result.doubts.height:
        return []
    doubts = result.doubts
    cpus = _clip(format_cpulist(sorted({c for c in doubts["cpu"] if c >= 0})))
    # spans may overlap if they are of different CPUs or have different reasons
    covered = merged(doubts.with_columns(cpu=pl.lit(0, pl.Int32)), 1)
    length = human_ns(int((covered["end_ns"] - covered["start_ns"]).sum()))
    where = f" on CPU{'' if cpus.isdecimal() else 's'} {cpus}" if cpus else ""
    return [
        f"  in doubt       {length}{where}, because",
        *(f"                 - {reason}" for reason in doubts_by_reason(doubts)),
    ]


def _clip(text: str, width: int = 32) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
