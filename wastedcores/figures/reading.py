"""What a run says in words and small tables. Every sentence is computed; none is written for one trace.

The objects show themselves in a notebook (HTML) and as plain text elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
import polars as pl

from wastedcores.figures.run import Run
from wastedcores.topology.cpulist import format_cpulist
from wastedcores.trace.header import CPUS_KEY, WINDOW_KEY

#: under which a notebook keeps the numbers of its verdict
RESULTS_MIME = "application/vnd.wastedcores.results+json"

WORDS = {
    "violations": "cores were wasted",
    "clean": "no persistent waste",
    "unknown": "cannot be decided",
}


@dataclass(frozen=True)
class Shown:
    """Text with an HTML face, and what it states as data for programs."""

    text: str
    html: str
    data: dict[str, Any] | None = None

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, **_: object) -> dict[str, Any]:
        return {
            "text/plain": self.text,
            "text/html": self.html,
            **({RESULTS_MIME: self.data} if self.data else {}),
        }


def duration(ns: float) -> str:
    """A length of time with a unit that suits it: ``3.16 s``, ``5.4 ms``, ``12 us``."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if abs(ns) >= size:
            return f"{ns / size:.3g} {unit}"
    return f"{ns:.0f} ns"


def table(frame: pl.DataFrame) -> Shown:
    """A small table; floats are expected to be rounded already."""
    head = "".join(f"<th>{escape(c)}</th>" for c in frame.columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape('' if v is None else str(v))}</td>" for v in row) + "</tr>"
        for row in frame.iter_rows()
    )
    text = "\n".join(
        [
            "  ".join(frame.columns),
            *("  ".join("" if v is None else str(v) for v in r) for r in frame.iter_rows()),
        ]
    )
    return Shown(
        text, f'<div class="wc-scroll"><table class="wc-table"><tr>{head}</tr>{body}</table></div>'
    )


def sentence(text: str) -> Shown:
    """A paragraph."""
    return Shown(text, f'<p class="wc-reading">{escape(text)}</p>')


def claim(run: Run) -> str:
    """The finding in one line; the title of the figures."""
    r = run.result
    n = len(r.counted_cpus)
    mean = r.mean(r.thread_ns)
    if r.verdict == "unknown":
        return f"Undecided: {r.notes[-1]}" if r.notes else "Undecided"
    if r.verdict == "violations":
        return (
            f"{mean:.1f} of {n} CPUs wasted on average over {duration(r.duration_ns)}: "
            f"idle while threads waited, for up to {duration(r.longest_ns)}"
        )
    if r.wall_ns == 0:
        return f"No CPU was idle while a thread waited, over {duration(r.duration_ns)} on {n} CPUs"
    return (
        f"No CPU stayed idle beside a waiting thread for {duration(r.persist_ns)}: "
        f"{duration(r.longest_ns)} at most, {mean:.2g} of {n} CPUs on average"
    )


def claim_pair(run: Run, against: Run) -> str:
    """Both findings against each other, in one line."""
    a, b = (r.result.mean(r.result.thread_ns) for r in (run, against))
    return f"{_amount(a)} of {len(run.result.counted_cpus)} CPUs wasted on average, against {_amount(b)}"


def _amount(x: float) -> str:
    return f"{x:.1f}" if x >= 1 else f"{x:.2g}"


def _numbers(run: Run) -> list[tuple[str, str, float | None]]:
    """(what, as text, number to compare)."""
    r = run.result
    n = len(r.counted_cpus)
    persistent = r.episodes.filter(pl.col("persistent")).height
    return [
        ("CPUs wasted, mean", f"{_amount(r.mean(r.thread_ns))} of {n}", r.mean(r.thread_ns)),
        ("core time wasted", f"{r.thread_ns / 1e9:.3g} core-s", r.thread_ns / 1e9),
        ("idle while threads wait", f"{r.mean(r.wall_ns):.1%} of the time", r.mean(r.wall_ns)),
        ("longest such episode", duration(r.longest_ns), r.longest_ns / 1e9),
        (
            f"episodes of {duration(r.persist_ns)} or more",
            f"{persistent} (+ {r.episodes.height - persistent + r.episodes_dropped:,} shorter)",
            float(persistent),
        ),
        ("CPUs busy, mean", f"{r.mean(r.busy_ns):.1f} of {n}", r.mean(r.busy_ns)),
        ("window", duration(r.duration_ns), r.duration_ns / 1e9),
    ]


def verdict(run: Run, against: Run | None = None) -> Shown:
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
    return Shown(
        text,
        '<div class="wc-verdict"><div class="wc-scroll"><table class="wc-numbers">'
        f"<tr><th></th>{heads}</tr>{''.join(html)}</table></div>{notes}</div>",
        {name: _results(r) for name, r in zip(("trace", "against"), runs, strict=False)},
    )


def _results(run: Run) -> dict[str, Any]:
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


def facts(run: Run) -> Shown:
    """What the trace is."""
    h, r = run.trace.header, run.result
    window = "whole trace" if run.between is None else f"{run.between[0]} … {run.between[1]}"
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


def _origin(run: Run) -> list[tuple[str, str]]:
    """What the trace says of its origin and is not said elsewhere."""
    said = (WINDOW_KEY, CPUS_KEY, "machine", "kernel")
    return [
        (k.replace("_", " "), v) for k, v in run.trace.header.provenance.items() if k not in said
    ]


def repr_machine(run: Run) -> str:
    """The machine in words."""
    m = run.machine
    if m is None:
        return "topology not recorded"
    return f"{m.name}: {m.cpus} CPUs, {m.nodes} NUMA node{'s' if m.nodes != 1 else ''}"


def episodes(run: Run, most: int = 8) -> Shown:
    """The episodes that wasted most."""
    e = run.result.episodes
    zero = run.scene.window[0]
    part = e.sort("wasted_ns", descending=True).head(most)
    rows = [
        (
            f"{(row['start_ns'] - zero) / 1e6:.3f}",
            duration(row["end_ns"] - row["start_ns"]),
            "yes" if row["persistent"] else "no",
            duration(row["wasted_ns"]),
            format_cpulist(row["idle_cpus"]),
            format_cpulist(row["overloaded_cpus"]),
        )
        for row in part.iter_rows(named=True)
    ]
    columns = [
        "start (ms)",
        "lasted",
        "persistent",
        "core time wasted",
        "idle at some moment",
        "overloaded",
    ]
    shown = table(pl.DataFrame(rows, schema=columns, orient="row"))
    rest = e.height - part.height
    share = int(part["wasted_ns"].sum()) / max(1, int(e["wasted_ns"].sum()))
    if not e.height:
        return sentence(
            "There is no episode: at no moment was a CPU idle while another had a thread waiting."
        )
    words = f"The {part.height} costliest of {e.height:,} episodes make {share:.1%} of the core time wasted in all."
    if not rest:
        words = f"{e.height} episode{'s' if e.height != 1 else ''} in all."
    return Shown(f"{shown.text}\n{words}", f'{shown.html}<p class="wc-reading">{escape(words)}</p>')


def worst(run: Run) -> Shown:
    """Where the idle CPUs were in the worst episode, and who waited meanwhile."""
    row = run.worst
    if row is None:
        return sentence("There is no episode to look at.")
    length = row["end_ns"] - row["start_ns"]
    detail = run.result.details.filter(pl.col("episode") == row["episode"])
    kind = "persistent" if row["persistent"] else "short"
    words = [
        f"The worst episode ({kind}) lasted {duration(length)} and wasted {duration(row['wasted_ns'])} of core time: "
        f"{row['wasted_ns'] / length:.1f} CPUs on average could have run a waiting thread."
    ]
    if detail.height:
        words.append(_where(run, detail, length))
    waiting = run.result.waiting.filter(pl.col("episode") == row["episode"])
    if waiting.height:
        by_comm = (
            waiting.group_by(pl.col("comm").fill_null("?"))
            .agg(pl.col("wait_ns").sum(), pl.col("pid").n_unique())
            .sort("wait_ns", "comm", descending=[True, False])
        )
        total = int(by_comm["wait_ns"].sum())
        who = ", ".join(
            f"{c} ({n} thread{'s' if n > 1 else ''}, {w / total:.0%})"
            for c, w, n in by_comm.head(3).iter_rows()
        )
        words.append(f"Meanwhile threads waited {duration(total)} in all: {who}.")
    else:
        words.append("Who waited is not known: the trace names no tasks.")
    return sentence(" ".join(words))


def _where(run: Run, detail: pl.DataFrame, length: int) -> str:
    """Idle and overloaded time by node, or by CPU where the nodes are not known."""
    always = sorted(detail.filter(pl.col("idle_ns") >= 0.99 * length)["cpu"].to_list())
    words = (
        f"{len(always)} CPUs ({format_cpulist(always)}) were idle all through it." if always else ""
    )
    nodes = run.nodes
    if nodes is None or len({nodes[c] for c in run.result.counted_cpus}) < 2:
        return words or "No CPU was idle all through it."
    by_node = _by_node(run, detail)
    for column, what in (
        ("idle_ns", "Idle time was on"),
        ("overloaded_ns", "queued threads were on"),
    ):
        names = ", ".join(f"node {n} ({share:.0%})" for n, share in _main(by_node, column))
        words += f" {what} {names or 'no node in particular'}" + (
            ";" if column == "idle_ns" else "."
        )
    return words.strip()


def _by_node(run: Run, detail: pl.DataFrame) -> pl.DataFrame:
    """Idle and overloaded CPU time of an episode per node."""
    nodes = run.nodes or ()
    return (
        detail.with_columns(
            node=pl.Series([nodes[c] for c in detail["cpu"].to_list()], dtype=pl.Int64)
        )
        .group_by("node")
        .agg(pl.col("idle_ns").sum(), pl.col("overloaded_ns").sum())
        .sort("node")
    )


def _main(by_node: pl.DataFrame, column: str) -> list[tuple[int, float]]:
    """Nodes with at least a tenth of the column's total, the greatest first, and their shares."""
    total = int(by_node[column].sum())
    part = by_node.filter(pl.col(column) * 10 >= total, pl.col(column) > 0).sort(
        column, "node", descending=[True, False]
    )
    return [(n, x / total) for n, x in part.select("node", column).iter_rows()]


def waited_most(run: Run, most: int = 8) -> Shown:
    """The threads that waited longest in the worst episode."""
    row = run.worst
    waiting = run.result.waiting
    if row is None or not waiting.height:
        return sentence(
            "Who waited is not known: the trace names no tasks, or there is no episode."
        )
    part = (
        waiting.filter(pl.col("episode") == row["episode"])
        .group_by("pid", pl.col("comm").fill_null("?"))
        .agg(pl.col("wait_ns").sum(), pl.col("cpu").unique().sort())
        .sort("wait_ns", "pid", descending=[True, False])
        .head(most)
    )
    length = row["end_ns"] - row["start_ns"]
    rows = [
        (c, p, duration(w), f"{w / length:.1%}", format_cpulist(cpus))
        for p, c, w, cpus in part.iter_rows()
    ]
    return table(
        pl.DataFrame(
            rows, schema=["thread", "pid", "waited", "of the episode", "on CPUs"], orient="row"
        )
    )


def waiting_sentence(run: Run, against: Run | None = None) -> Shown:
    """Waiting times in numbers."""
    words = []
    for r in [run, against] if against else [run]:
        w = r.wait_lengths
        if not w.size:
            words.append(f"{r.label}: no wait for a CPU is known.")
            continue
        half, most = np.percentile(w, [50, 99])
        words.append(
            f"{r.label}: {w.size:,} waits for a CPU, {duration(w.sum())} of thread time in all; half of them last "
            f"{duration(half)} or less, one in a hundred {duration(most)} or more, the longest {duration(w.max())}."
        )
    return sentence(" ".join(words))


def cost(run: Run, against: Run | None = None) -> Shown:
    """What was wasted, and the difference to a second run: the gain, if both did the same work."""
    a = run.result
    if against is None:
        had = len(a.counted_cpus) * a.duration_ns
        return sentence(
            f"{run.label} wasted {a.thread_ns / 1e9:.3g} core-seconds: {a.thread_ns / max(1, had):.1%} of what "
            f"{len(a.counted_cpus)} CPUs had in {duration(a.duration_ns)}, in which {a.waiting_ns / 1e9:.3g} "
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
        f"The window is {duration(a.duration_ns)} in one and {duration(b.duration_ns)} in the other ({change:+.1%}); "
        f"busy were {busy_a:.1f} and {busy_b:.1f} CPUs on average. If both did the same work, that is the gain; "
        "if the window has a fixed length, compare the busy CPUs instead."
    )
    return sentence(" ".join(words))


def next_steps(run: Run, name: str) -> Shown:
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
        by_node = _by_node(run, run.result.details.filter(pl.col("episode") == row["episode"]))
        idle, over = (sorted(n for n, _ in _main(by_node, c)) for c in ("idle_ns", "overloaded_ns"))
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
                f"The longest stretch of idle-while-waiting is {duration(r.longest_ns)}; to count such short ones too:",
                f"wastedcores check {name} --persist {max(r.longest_ns / 1e6 * 0.9, 0.001):.3g}ms",
            )
        )
    steps.append(("The same numbers for a script:", f"wastedcores check {name} --json"))
    html = "".join(f"<li>{escape(s)}<br><code>{escape(c)}</code></li>" for s, c in steps)
    return Shown(
        "\n".join(f"- {s}\n    {c}" for s, c in steps), f'<ul class="wc-steps">{html}</ul>'
    )
