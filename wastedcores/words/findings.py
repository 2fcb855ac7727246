"""The findings of one or two traces in sentences and tables: verdict, cost, waits, and what was recorded."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np
import polars as pl

from wastedcores.analysis.alignment import differences, not_known_same
from wastedcores.analysis.examined import Examined
from wastedcores.cpulist import format_cpulist
from wastedcores.errors import TopologyError, UnknownKernelError
from wastedcores.units import human_ns, number
from wastedcores.words.cause import NAMES, doubts_by_reason
from wastedcores.words.episode_tables import main_nodes, nodes_of
from wastedcores.words.rich_text import RichText, count, enumerated, sentence, table


def headline(run: Examined, against: Examined | None = None) -> str:
    """Say in a few sentences what was wasted, where, why, and what would help."""
    said = [claim(run).rstrip(".") + "."]
    if run.result.verdict == "violations":
        said += [*_where(run), _cause(run)]
    if against is not None:
        said.append(_compared(run, against))
    return " ".join(said)


def _where(run: Examined) -> list[str]:
    """Name the nodes of the idle CPUs and of the queues in the worst episode; empty if fewer than two nodes are known."""
    row = run.worst
    if row is None or run.nodes is None or len({run.nodes[c] for c in run.result.counted_cpus}) < 2:
        return []
    by_node = nodes_of(run, run.result.details.filter(pl.col("episode") == row["episode"]))
    idle, queued = (
        sorted(n for n, _ in main_nodes(by_node, column)) for column in ("idle_ns", "overloaded_ns")
    )
    if not idle or not queued:
        return []
    return [
        f"The idle CPUs were mainly on {_nodes(idle)} and the queues mainly on {_nodes(queued)}."
    ]


def _nodes(numbers: list[int]) -> str:
    return f"node{'s' if len(numbers) > 1 else ''} {format_cpulist(numbers)}"


def _cause(run: Examined) -> str:
    """Name the bug that the waste looks like, with the paper's fix, or say why the cause is not known."""
    try:
        found = run.explanation
    except (TopologyError, UnknownKernelError):
        return "The cause is not known, because the trace does not name a machine and kernel that are modelled."
    if found.looks_like == "undecided":
        return "It looks like none of the known bugs."
    if found.looks_like == "unknown":
        return "The cause is not known, because there is no model of this kernel's balancer."
    name = NAMES[found.looks_like]
    if not found.fix:
        return f"It looks like {name}."
    return f"It looks like {name.partition(' (')[0]}. The paper's fix is to {found.fix}."


def _compared(run: Examined, against: Examined) -> str:
    """Compare the waste of two traces, and also the lengths of windows between marks, or say why this would mean nothing."""
    a, b = run.result, against.result
    if other := differences(run, against):
        return f"{run.label} and {against.label} cannot be compared: {enumerated(other)}."
    if unknown := [said for r in (run, against) if (said := _unknown_waste(r))]:
        return " ".join(unknown)
    waste = f"{against.label} wasted {human_ns(b.thread_ns)} of core time instead of {human_ns(a.thread_ns)}"
    if not (run.between_marks and against.between_marks):
        return f"{waste}."
    change = (b.duration_ns - a.duration_ns) / max(1, a.duration_ns)
    return f"{waste}, and took {human_ns(b.duration_ns)} instead of {human_ns(a.duration_ns)} ({change:+.0%})."


def _unknown_waste(run: Examined) -> str:
    """Say what the trace tells about the waste if its exact amount is not known; empty if it is known."""
    r, b = run.result, run.result.bound
    if r.waste_known:
        return ""
    bounds = [f"at least {human_ns(b.waste_at_least_ns)}"] if b.waste_at_least_ns else []
    bounds += [f"at most {human_ns(b.waste_at_most_ns)}"] if r.bounded else []
    known = f": {' and '.join(bounds)}" if bounds else ""
    return f"How much core time {run.label} wasted is not known{known}."


#: verdict -> the words that a reader sees
WORDS = {
    "violations": "cores were wasted",
    "clean": "neither persistent nor chronic waste",
    "unknown": "cannot be decided",
}

#: verdict -> the variable of the report's style sheet that has its colour, and the colour where there is no style sheet
_BADGE = {
    "violations": "--bad, #a0287d",
    "clean": "--good, #1d6b47",
    "unknown": "--open, #8a6d00",
}


def claim(run: Examined) -> str:
    """Return the finding in one line, which is the title of the figures."""
    r = run.result
    n = len(r.counted_cpus)
    mean = r.mean(r.thread_ns)
    if r.verdict == "unknown" and r.overloaded:
        wasted = f"At most {human_ns(r.bound.waste_at_most_ns)} of CPU time were wasted; more"
        return (
            f"The machine was overloaded: {_amount(r.mean(r.busy_ns))} of {_cpus(n)} were busy while "
            f"{_amount(r.mean(r.waiting_ns))} threads waited. {wasted if r.bounded else 'How much was wasted'} cannot be said"
        )
    if r.verdict == "unknown":
        return f"Undecided: {r.notes[-1]}" if r.notes else "Undecided"
    if r.kind == "chronic":
        return (
            f"{_amount(mean)} of {_cpus(n)} wasted on average over {human_ns(r.duration_ns)}: many short idle times while "
            f"threads waited, the longest {human_ns(r.longest_ns)}"
        )
    if r.verdict == "violations":
        return (
            f"{_amount(mean)} of {_cpus(n)} wasted on average over {human_ns(r.duration_ns)}: "
            f"idle while threads waited, for up to {human_ns(r.longest_ns)}"
        )
    if r.wall_ns == 0:
        return (
            f"No CPU was idle while a thread waited, over {human_ns(r.duration_ns)} on {_cpus(n)}"
        )
    return (
        f"No CPU stayed idle for {human_ns(r.persist_ns)} while a thread waited: "
        f"{human_ns(r.longest_ns)} at most, {_amount(mean)} of {_cpus(n)} on average"
    )


def claim_pair(run: Examined, against: Examined) -> str:
    """Return the findings of two traces in one line, which is the title of the figures that compare them."""
    a, b = (
        _amount(r.mean(r.thread_ns)) if r.waste_known else "an unknown number"
        for r in (run.result, against.result)
    )
    if differences(run, against):
        cpus = [len(r.result.counted_cpus) for r in (run, against)]
        mine, theirs = f"{a} of {cpus[0]} CPUs", f"{b} of {cpus[1]}"
        return f"{mine} wasted on average in {run.label}, and {theirs} in {against.label}"
    return f"{a} of {len(run.result.counted_cpus)} CPUs wasted on average, against {b}"


def _cpus(number: int) -> str:
    return count(number, "CPU")


def _amount(x: float) -> str:
    """Write a mean number of CPUs."""
    if 0 < x < 0.01:
        return "less than 0.01"
    return f"{x:.1f}" if x >= 1 else f"{x:.2g}"


def _numbers(run: Examined) -> list[tuple[str, str, float | None]]:
    """Return the columns of the verdict: name, value as text, and value as a number."""
    r = run.result
    n = len(r.counted_cpus)
    persistent = r.episodes.filter(pl.col("persistent")).height
    return [
        ("CPUs wasted, mean", f"{_amount(r.mean(r.thread_ns))} of {n}", r.mean(r.thread_ns)),
        ("core time wasted", human_ns(r.thread_ns), r.thread_ns / 1e9),
        ("idle while threads wait", f"{r.mean(r.wall_ns):.1%} of the time", r.mean(r.wall_ns)),
        ("longest such episode", human_ns(r.longest_ns), r.longest_ns / 1e9),
        (
            f"episodes of {human_ns(r.persist_ns)} or more",
            f"{persistent} (+ {r.episodes.height - persistent + r.episodes_dropped:,} shorter)",
            float(persistent),
        ),
        ("CPUs busy, mean", f"{r.mean(r.busy_ns):.1f} of {n}", r.mean(r.busy_ns)),
        ("window", human_ns(r.duration_ns), r.duration_ns / 1e9),
    ]


def verdict(run: Examined, against: Examined | None = None) -> RichText:
    """Tabulate the verdict and its numbers.

    Parameters
    ----------
    run
        The examined trace.
    against
        A second examined trace; the table then has a row for each of the two, and one for the change between them.

    Returns
    -------
    RichText
        The table, with notes about lost events and other doubts below it. Its ``data`` are the results of the checks
        under the names ``trace`` and ``against``; the manifest of a report collects them.
    """
    runs = [run] + ([against] if against else [])
    columns = [_numbers(r) for r in runs]
    heads = "".join(f"<th>{escape(what)}</th>" for what, _, _ in columns[0])
    said = headline(run, against)
    html, lines = [], [said]
    for r, numbers in zip(runs, columns, strict=True):
        word = f"{r.result.verdict}: {WORDS[r.result.verdict]}"
        # JupyterLab has no style sheet of ours, so the colour is here, too
        style = f"background: var({_BADGE[r.result.verdict]}); color: white; padding: 0 8px; border-radius: 4px"
        badge = (
            f'<span class="wc-badge wc-{r.result.verdict}" style="{style}">{escape(word)}</span>'
        )
        cells = "".join(f"<td>{escape(text)}</td>" for _, text, _ in numbers)
        html.append(f"<tr><th>{escape(r.label)}<br>{badge}</th>{cells}</tr>")
        lines += [f"{r.label}: {word}", *(f"  {what}: {text}" for what, text, _ in numbers)]
    unlike = _not_compared(run, against) if against else []
    if against and not unlike:
        changes = [_change(a[2], b[2]) for a, b in zip(*columns, strict=True)]
        html.append(
            "<tr class='wc-change'><th>change</th>"
            + "".join(f"<td>{c}</td>" for c in changes)
            + "</tr>"
        )
        lines += [
            "change",
            *(f"  {n[0]}: {c}" for n, c in zip(columns[0], changes, strict=True) if c),
        ]
    text = "\n".join(lines)
    notes = "".join(
        f'<p class="wc-note">{escape(r.label)}: {escape(note)}</p>'
        for r in runs
        for note in (*([r.loss] if r.loss else []), *r.result.notes, *_doubted(r))
        if note not in said
    )
    if against and unlike and not differences(run, against):
        # nothing is added if the headline already names the differences
        why = f"There is no row for the change, because {enumerated(unlike)}."
        text += f"\n{why}"
        notes += f'<p class="wc-note">{escape(why)}</p>'
    return RichText(
        text,
        f'<div class="wc-verdict"><p class="wc-headline">{escape(said)}</p><div class="wc-scroll"><table class="wc-numbers">'
        f"<tr><th></th>{heads}</tr>{''.join(html)}</table></div>{notes}</div>",
        {name: _results(r) for name, r in zip(("trace", "against"), runs, strict=False)},
    )


def _doubted(run: Examined) -> list[str]:
    """Return why the state of the CPUs is in doubt, if the verdict may depend on it."""
    if run.result.verdict != "unknown" or not run.result.doubts.height:
        return []
    return [f"in doubt, because {enumerated(doubts_by_reason(run.result.doubts))}"]


def _not_compared(run: Examined, against: Examined) -> list[str]:
    """Return why a change between two traces would mean nothing; empty if it means something."""
    return differences(run, against) or not_known_same(run, against) or _undecided(run, against)


def _undecided(*runs: Examined) -> list[str]:
    """Say which verdicts are unknown."""
    return [f"the verdict of {r.label} is unknown" for r in runs if r.result.verdict == "unknown"]


def _results(run: Examined) -> dict[str, Any]:
    """Return what ``wastedcores check --json`` prints, but counts of episodes instead of the list, and no doubts."""
    found = run.result.to_json(limit=0)
    for name in ("episodes", "doubts"):
        del found[name]
    found["persistent_episodes"] = int(run.result.episodes["persistent"].sum())
    found["short_episodes"] = (
        run.result.episodes.height + run.result.episodes_dropped - found["persistent_episodes"]
    )
    return found


def _change(a: float | None, b: float | None) -> str:
    """Write by how much a number changed; empty if that cannot be said in per cent."""
    if a is None or b is None or a == 0:
        return ""
    if b == 0:
        return "none left"
    change = (b - a) / a
    if abs(change) < 0.005:
        return "the same" if a == b else "within 0.5%"
    if b / a < 0.001:
        return "less than 0.1% left"
    return f"{change:+.0%}" if b / a >= 0.02 else f"{change:+.1%}"


def facts(run: Examined) -> RichText:
    """Tabulate where the trace comes from and what is known about it."""
    h, r = run.trace.header, run.result
    window = " … ".join(run.window.ends) if run.window else "whole trace"
    online = format_cpulist(h.cpus_online) if h.cpus_online else "not recorded"
    rows = [
        ("trace", run.label),
        ("format", h.source_format),
        ("kernel", h.provenance.get("kernel") or h.kernel_release or "not recorded"),
        ("machine", "; ".join(t for t in (_machine(run), h.provenance.get("machine")) if t)),
        ("CPUs online", online),
        ("events", f"{h.events:,}" if h.events is not None else "not counted"),
        ("lost events", "none" if not h.lost_total else run.loss),
        ("window", window),
        ("CPUs counted", format_cpulist(r.counted_cpus)),
        (
            "runqueues known from",
            {"tasks": "task events, rebuilt", "nr_running": "nr_running events"}[r.source],
        ),
        ("affinity", r.affinity),
        ("CPUs without an event, taken as idle", format_cpulist(r.silent_cpus) or "none"),
        *_origin(run),
    ]
    return table(pl.DataFrame(rows, schema=["fact", "value"], orient="row"))


def _origin(run: Examined) -> list[tuple[str, str]]:
    """Return what the trace says about its origin, except for what other rows say already."""
    h = run.trace.header
    rows = {"recording": h.recording, **h.provenance, "kernel model": h.kernel_model}
    rows["truncated last line"] = h.truncated_last_line
    return [
        (k.replace("_", " "), v) for k, v in rows.items() if v and k not in ("machine", "kernel")
    ]


def _machine(run: Examined) -> str:
    """Describe the machine."""
    m = run.machine
    if m is None:
        return "topology not recorded"
    return f"{m.name}: {count(m.cpus, 'CPU')}, {count(m.nodes, 'NUMA node')}"


def waiting_sentence(run: Examined, against: Examined | None = None) -> RichText:
    """Say how often and how long threads waited for a CPU.

    Parameters
    ----------
    run, against
        The examined trace, and optionally a second one.

    Returns
    -------
    RichText
        A sentence or two for each trace.
    """
    words = []
    for r in [run, against] if against else [run]:
        lengths = r.wait_lengths
        if not lengths.size:
            words.append(f"{r.label}: no wait for a CPU is known.")
            continue
        times = "once" if lengths.size == 1 else f"{lengths.size:,} times"
        inside = " inside the window" if r.waited_ns < lengths.sum() else ""
        text = (
            f"{r.label}: threads waited for a CPU {times}, {human_ns(r.waited_ns)} in all{inside}."
        )
        if lengths.size > 1:
            # inverted_cdf: both percentiles are lengths of real waits. The 99th is printed only if there are at least 100 waits.
            half, most = np.percentile(lengths, [50, 99], method="inverted_cdf")
            few = "" if lengths.size < 100 else f" one in a hundred {human_ns(most)} or more,"
            text += f" Half of the waits lasted {human_ns(half)} or less,{few} and the longest {human_ns(lengths.max())}."
        words.append(text)
    return sentence(" ".join(words))


def cost(run: Examined, against: Examined | None = None) -> RichText:
    """Say how much core time was wasted.

    Parameters
    ----------
    run
        The examined trace.
    against
        A second examined trace. If both traces show the same work, the difference between their waste is the gain.

    Returns
    -------
    RichText
        A paragraph.
    """
    a = run.result
    if against is not None and (other := differences(run, against) or _undecided(run, against)):
        both = " ".join(cost(r).text for r in (run, against))
        return sentence(f"{both} The two are not compared, because {enumerated(other)}.")
    if against is None:
        if unknown := _unknown_waste(run):
            return sentence(unknown)
        had = len(a.counted_cpus) * a.duration_ns
        # the figure of the waiting times has this sum, too; a sum of runqueue lengths would lack waits after wakeups on idle CPUs
        waited = run.waited_ns if run.waits.height else a.waiting_ns
        return sentence(
            f"{run.label} wasted {_seconds(a.thread_ns, 'core-second')}, {a.thread_ns / max(1, had):.1%} of what "
            f"{count(len(a.counted_cpus), 'CPU')} had in {human_ns(a.duration_ns)}. In the same time threads waited "
            f"{_seconds(waited, 'thread-second')} for a CPU."
        )
    b = against.result
    saved = a.thread_ns - b.thread_ns
    change = (b.duration_ns - a.duration_ns) / max(1, a.duration_ns)
    return sentence(
        f"{run.label} wasted {_seconds(a.thread_ns, 'core-second')} and {against.label} "
        f"{_seconds(b.thread_ns, 'core-second')}. The difference is {_seconds(saved, 'core-second')}, or "
        f"{saved / max(1, a.duration_ns):.1f} CPUs for the length of {run.label}. "
        f"The windows are {human_ns(a.duration_ns)} and {human_ns(b.duration_ns)} long ({change:+.1%}), and "
        f"{a.mean(a.busy_ns):.1f} and {b.mean(b.busy_ns):.1f} CPUs were busy on average. If both did the same work, the "
        "difference is the gain; if the window has a fixed length, compare the busy CPUs instead."
    )


def _seconds(ns: float, unit: str) -> str:
    """Return a time as seconds of CPUs or threads: ``1 core-second``, ``1,234 thread-seconds``."""
    text = number(ns / 1e9)
    return f"{text} {unit}{'' if text == '1' else 's'}"
