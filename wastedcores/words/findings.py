"""What a run says in words and small tables. Every sentence is computed; none is written for one trace."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np
import polars as pl

from wastedcores.analysis.examined import Examined
from wastedcores.topology.cpulist import format_cpulist
from wastedcores.units import human_ns
from wastedcores.words.episode_tables import main_nodes, nodes_of
from wastedcores.words.rich_text import RichText, sentence, table

WORDS = {
    "violations": "cores were wasted",
    "clean": "no persistent waste",
    "unknown": "cannot be decided",
}


def claim(run: Examined) -> str:
    """The finding in one line; the title of the figures."""
    r = run.result
    n = len(r.counted_cpus)
    mean = r.mean(r.thread_ns)
    if r.verdict == "unknown":
        return f"Undecided: {r.notes[-1]}" if r.notes else "Undecided"
    if r.verdict == "violations":
        return (
            f"{mean:.1f} of {n} CPUs wasted on average over {human_ns(r.duration_ns)}: "
            f"idle while threads waited, for up to {human_ns(r.longest_ns)}"
        )
    if r.wall_ns == 0:
        return f"No CPU was idle while a thread waited, over {human_ns(r.duration_ns)} on {n} CPUs"
    return (
        f"No CPU stayed idle beside a waiting thread for {human_ns(r.persist_ns)}: "
        f"{human_ns(r.longest_ns)} at most, {mean:.2g} of {n} CPUs on average"
    )


def claim_pair(run: Examined, against: Examined) -> str:
    """Both findings against each other, in one line."""
    a, b = (r.result.mean(r.result.thread_ns) for r in (run, against))
    return f"{_amount(a)} of {len(run.result.counted_cpus)} CPUs wasted on average, against {_amount(b)}"


def _amount(x: float) -> str:
    return f"{x:.1f}" if x >= 1 else f"{x:.2g}"


def _numbers(run: Examined) -> list[tuple[str, str, float | None]]:
    """(what, as text, number to compare)."""
    r = run.result
    n = len(r.counted_cpus)
    persistent = r.episodes.filter(pl.col("persistent")).height
    return [
        ("CPUs wasted, mean", f"{_amount(r.mean(r.thread_ns))} of {n}", r.mean(r.thread_ns)),
        ("core time wasted", f"{r.thread_ns / 1e9:.3g} core-s", r.thread_ns / 1e9),
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
    """Verdict and numbers; with a second run, side by side with the change."""
    runs = [run] + ([against] if against else [])
    columns = [_numbers(r) for r in runs]
    heads = "".join(f"<th>{escape(what)}</th>" for what, _, _ in columns[0])
    html, lines = [], []
    for r, numbers in zip(runs, columns, strict=True):
        word = f"{r.result.verdict}: {WORDS[r.result.verdict]}"
        badge = f'<span class="wc-badge wc-{r.result.verdict}">{escape(word)}</span>'
        cells = "".join(f"<td>{escape(text)}</td>" for _, text, _ in numbers)
        html.append(f"<tr><th>{escape(r.label)}<br>{badge}</th>{cells}</tr>")
        lines += [f"{r.label}: {word}", *(f"  {what}: {text}" for what, text, _ in numbers)]
    if against:
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
        for note in (*([r.loss] if r.loss else []), *r.result.notes)
    )
    return RichText(
        text,
        '<div class="wc-verdict"><div class="wc-scroll"><table class="wc-numbers">'
        f"<tr><th></th>{heads}</tr>{''.join(html)}</table></div>{notes}</div>",
        {name: _results(r) for name, r in zip(("trace", "against"), runs, strict=False)},
    )


def _results(run: Examined) -> dict[str, Any]:
    """The check's object without its list of episodes."""
    found = run.result.to_json()
    del found["episodes"]
    found["persistent_episodes"] = int(run.result.episodes["persistent"].sum())
    found["short_episodes"] = (
        run.result.episodes.height + run.result.episodes_dropped - found["persistent_episodes"]
    )
    return found


def _change(a: float | None, b: float | None) -> str:
    if a is None or b is None or a == 0:
        return ""
    return f"{(b - a) / a:+.0%}" if b == 0 or abs(b / a) >= 0.02 else f"{(b - a) / a:+.1%}"


def facts(run: Examined) -> RichText:
    """What the trace is."""
    h, r = run.trace.header, run.result
    window = " … ".join(run.window.ends) if run.window else "whole trace"
    online = format_cpulist(h.cpus_online) if h.cpus_online else "not recorded"
    rows = [
        ("trace", run.label),
        ("format", h.source_format),
        ("kernel", h.provenance.get("kernel") or h.kernel_release or "not recorded"),
        ("machine", "; ".join(t for t in (repr_machine(run), h.provenance.get("machine")) if t)),
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
        ("CPUs without one event, taken as idle", format_cpulist(r.silent_cpus) or "none"),
        *_origin(run),
    ]
    return table(pl.DataFrame(rows, schema=["fact", "value"], orient="row"))


def _origin(run: Examined) -> list[tuple[str, str]]:
    """What the trace says of its origin and is not said elsewhere."""
    h = run.trace.header
    rows = {"recording": h.recording, **h.provenance, "kernel model": h.kernel_model}
    rows["truncated last line"] = h.truncated_last_line
    return [
        (k.replace("_", " "), v) for k, v in rows.items() if v and k not in ("machine", "kernel")
    ]


def repr_machine(run: Examined) -> str:
    """The machine in words."""
    m = run.machine
    if m is None:
        return "topology not recorded"
    return f"{m.name}: {m.cpus} CPUs, {m.nodes} NUMA node{'s' if m.nodes != 1 else ''}"


def waiting_sentence(run: Examined, against: Examined | None = None) -> RichText:
    """Waiting times in numbers."""
    words = []
    for r in [run, against] if against else [run]:
        w = r.wait_lengths
        if not w.size:
            words.append(f"{r.label}: no wait for a CPU is known.")
            continue
        half, most = np.percentile(w, [50, 99])
        words.append(
            f"{r.label}: {w.size:,} waits for a CPU, {human_ns(w.sum())} of thread time in all; half of them last "
            f"{human_ns(half)} or less, one in a hundred {human_ns(most)} or more, the longest {human_ns(w.max())}."
        )
    return sentence(" ".join(words))


def cost(run: Examined, against: Examined | None = None) -> RichText:
    """What was wasted, and the difference to a second run: the gain, if both did the same work."""
    a = run.result
    if against is None:
        had = len(a.counted_cpus) * a.duration_ns
        return sentence(
            f"{run.label} wasted {a.thread_ns / 1e9:.3g} core-seconds: {a.thread_ns / max(1, had):.1%} of what "
            f"{len(a.counted_cpus)} CPUs had in {human_ns(a.duration_ns)}, in which {a.waiting_ns / 1e9:.3g} "
            "thread-seconds were spent waiting for a CPU."
        )
    b = against.result
    saved = a.thread_ns - b.thread_ns
    words = [
        f"{run.label} wasted {a.thread_ns / 1e9:.3g} core-seconds, {against.label} {b.thread_ns / 1e9:.3g}: a "
        f"difference of {saved / 1e9:.3g}, or {saved / max(1, a.duration_ns):.1f} CPUs for the length of {run.label}."
    ]
    change = (b.duration_ns - a.duration_ns) / max(1, a.duration_ns)
    busy_a, busy_b = a.mean(a.busy_ns), b.mean(b.busy_ns)
    words.append(
        f"The window is {human_ns(a.duration_ns)} in one and {human_ns(b.duration_ns)} in the other ({change:+.1%}); "
        f"busy were {busy_a:.1f} and {busy_b:.1f} CPUs on average. If both did the same work, that is the gain; "
        "if the window has a fixed length, compare the busy CPUs instead."
    )
    return sentence(" ".join(words))


def next_steps(run: Examined, name: str) -> RichText:
    """What to do next, by what was found."""
    r = run.result
    steps: list[tuple[str, str]] = []
    if r.verdict == "unknown":
        steps.append(
            (
                "Record again with larger buffers: events were lost or too little is known.",
                "wastedcores doctor",
            )
        )
    row = run.worst
    if row is not None:
        lo, hi = run.worst_window()
        steps.append(
            (
                "Look at the worst stretch, who ran where:",
                f"wastedcores figure {name} --kind tasks --from {lo / 1e9:.6f} --to {hi / 1e9:.6f} -o worst.html",
            )
        )
    if r.verdict == "violations" and row is not None and run.nodes is not None:
        by_node = nodes_of(run, run.result.details.filter(pl.col("episode") == row["episode"]))
        idle, over = (
            sorted(n for n, _ in main_nodes(by_node, c)) for c in ("idle_ns", "overloaded_ns")
        )
        where = (
            "apart"
            if not set(idle) & set(over)
            else "partly together"
            if idle != over
            else "together"
        )
        steps.append(
            (
                f"Idle CPUs (mainly nodes {format_cpulist(idle)}) and queues (mainly nodes {format_cpulist(over)}) "
                f"were {where}; see which scheduling domains and groups link them:",
                "wastedcores domains --help",
            )
        )
    if r.verdict == "clean" and r.episodes.height:
        steps.append(
            (
                f"The longest stretch of idle-while-waiting is {human_ns(r.longest_ns)}; to count such short ones too:",
                f"wastedcores check {name} --persist {max(r.longest_ns / 1e6 * 0.9, 0.001):.3g}ms",
            )
        )
    steps.append(("The same numbers for a script:", f"wastedcores check {name} --json"))
    html = "".join(f"<li>{escape(s)}<br><code>{escape(c)}</code></li>" for s, c in steps)
    return RichText(
        "\n".join(f"- {s}\n    {c}" for s, c in steps), f'<ul class="wc-steps">{html}</ul>'
    )
