"""A figure like those of KUtrace: idle time of a CPU is a thin line, user time has half height, kernel time full height."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go
import polars as pl

from wastedcores.analysis.examined import Examined
from wastedcores.analysis.scene import TimeAxis
from wastedcores.analysis.transitions import modes, waits
from wastedcores.figures import theme as te
from wastedcores.figures.theme import fit_legend, literal, style
from wastedcores.units import human_ns

#: up to this many spans are drawn one by one; more become shares of each pixel's time
MOST_SPANS = 20_000
#: more wakeups than this would hide the spans
MOST_ARCS = 400
#: more spans than this, each with one clock frequency, make the page slow
MOST_CLOCKS = 2000
COLUMNS = 800
HEIGHT = {"idle": 0.03, "user": 0.4, "kernel": 0.8}
#: colours of the kernel's spans by kind; interrupts have the colours of waiting and of a violation
KERNEL = {
    "syscall": ("system call", "#2f7fc1"),
    "fault": ("page fault", "#a0287d"),
    "irq": ("interrupt", "#d1561b"),
    "softirq": ("softirq", "#f2a33a"),
    "vector": ("timer or other CPU's interrupt", "#8c2a12"),
    "sched": ("scheduler", "#22262b"),
    "": ("kernel thread", "#5c6670"),
}
_MODES = ("user", "kernel", "idle", "unknown")
_UNKNOWN = "#d6d9dc"


def transitions(
    run: Examined,
    window: tuple[int, int] | None = None,
    *,
    palette_name: str = "safe",
    title: str = "",
) -> go.Figure:
    """Draw for every CPU when it was idle (thin), ran user code (half height) and ran the kernel (full height).

    A dotted arc leads from a waker to the thread that then runs; its hover text says why the thread had waited. Where the trace
    tells frequencies, a grey background means that the clock of the CPU was slow. A window with more than 20,000 spans is drawn
    as shares of each pixel's time, without arcs. ``palette_name`` has no effect: the colours stand for kinds of kernel code.
    """
    start, end = window or run.scene.window
    axis = TimeAxis.of(run.scene.window[0], end - start)
    table = modes(run.trace, start, end)
    rows = {cpu: row for row, cpu in enumerate(run.scene.cpus)}
    table = table.filter(pl.col("cpu").is_in(list(rows)))
    fig = go.Figure()
    clocks = _add_clocks(fig, run, (start, end), axis, rows)
    arcs = pl.DataFrame()
    if table.height > MOST_SPANS:
        _add_shares(fig, table, (start, end), axis, rows)
    else:
        _add_spans(fig, table, axis, rows)
        arcs = _add_arcs(fig, waits(run.trace, start, end), axis, rows)
    fig.update_yaxes(
        tickvals=[row + 0.4 for row in rows.values()],
        ticktext=[f"CPU {cpu}" for cpu in rows],
        range=[len(rows) - 0.02, -0.1],
        showgrid=False,
        zeroline=False,
    )
    fig.update_xaxes(
        **axis.labels, gridcolor=te.GRID, range=[float(axis.at(t)) for t in (start, end)]
    )
    how = "thin: idle, half: user, full: kernel"
    if table.height > MOST_SPANS:
        how = f"{table.height:,} spans: heights are shares of each pixel's time; zoom in (--from, --to) to see the spans"
    elif arcs.height:
        how += "; arcs: from the waker to the thread that runs"
    if not clocks:
        how += "; clocks changed too often to be shown"
    style(
        fig,
        title or _summary(table, (end - start) * len(rows)),
        how,
        height=200 + max(60, 900 // max(4, len(rows))) * len(rows),
    )
    return fit_legend(fig)


def _summary(table: pl.DataFrame, whole_ns: int) -> str:
    """Return the share of each mode in the time of all CPUs; the time of a CPU before its first event is unknown."""
    length = table["end_ns"] - table["start_ns"]
    whole = max(1, whole_ns)
    share = {m: 100 * int(length.filter(table["mode"] == m).sum()) / whole for m in _MODES[:-1]}
    share["unknown"] = 100 - sum(share.values())
    return "CPUs: " + ", ".join(
        f"{v:.0f} % {m}" for m, v in share.items() if m != "unknown" or v >= 0.5
    )


def _layers(table: pl.DataFrame) -> list[tuple[str, str, str, pl.DataFrame]]:
    """Return (name, colour, mode, spans) of every layer: one per program for user code, one per kind of kernel code."""
    user = table.filter(pl.col("mode") == "user")
    length = (pl.col("end_ns") - pl.col("start_ns")).sum()
    common = user.group_by("comm").agg(ns=length).sort("ns", "comm", descending=[True, False])
    names = common["comm"].head(len(te.CLASS_COLOURS)).to_list()
    out = [("idle", te.INK, "idle", table.filter(pl.col("mode") == "idle"))]
    for name, colour in zip(names, te.CLASS_COLOURS, strict=False):
        spans = user.filter(pl.col("comm").eq_missing(name))
        out.append((f"user: {literal(name or 'unnamed')}", colour, "user", spans))
    rest = user.filter(~pl.col("comm").is_in(names, nulls_equal=True))
    out.append(("user: other programs", te.OTHER_CLASS, "user", rest))
    kernel = table.filter(pl.col("mode") == "kernel").with_columns(pl.col("op").fill_null(""))
    out += [
        (name, colour, "kernel", kernel.filter(pl.col("op") == op))
        for op, (name, colour) in KERNEL.items()
    ]
    out.append(("unknown", _UNKNOWN, "user", table.filter(pl.col("mode") == "unknown")))
    return [layer for layer in out if layer[3].height]


def _add_spans(fig: go.Figure, table: pl.DataFrame, axis: TimeAxis, rows: dict[int, int]) -> None:
    """Draw every span as a box that stands on the line of its CPU."""
    for name, colour, mode, spans in _layers(table):
        x0, x1 = (axis.at(spans[c].to_numpy()) for c in ("start_ns", "end_ns"))
        base = np.array([rows[c] for c in spans["cpu"]]) + HEIGHT["kernel"]
        top, gap = base - HEIGHT[mode], np.full(x0.size, np.nan)
        fig.add_scatter(
            x=np.c_[x0, x0, x1, x1, x0, gap].ravel(), y=np.c_[base, top, top, base, base, gap].ravel(),
            mode="lines", fill="toself", fillcolor=colour, line={"color": colour, "width": 0, "simplify": False}, name=name,
            hoverinfo="skip", legendgroup=name,
        )  # fmt: skip
        fig.add_scatter(
            x=(x0 + x1) / 2, y=(base + top) / 2, mode="markers", marker={"size": 8, "opacity": 0, "color": colour},
            text=_said(spans), hovertemplate="%{text}<extra></extra>", showlegend=False, legendgroup=name, name=name,
        )  # fmt: skip


def _said(spans: pl.DataFrame) -> list[str]:
    columns = ("cpu", "mode", "op", "text", "comm", "pid", "start_ns", "end_ns")
    return [
        f"CPU {cpu}: <b>{literal(' '.join(filter(None, (mode, op, text))))}</b><br>{_name(comm, pid)}<br>{human_ns(end - start)}"
        for cpu, mode, op, text, comm, pid, start, end in spans.select(columns).iter_rows()
    ]


def _name(comm: str | None, pid: int | None) -> str:
    return "idle" if pid == 0 else f"{literal(comm or 'unnamed')} ({pid})"


def _add_shares(
    fig: go.Figure, table: pl.DataFrame, window: tuple[int, int], axis: TimeAxis, rows: dict[int, int]
) -> None:  # fmt: skip
    """Draw the shares of kernel, user and unknown time in each pixel on top of each other; the rest is idle time."""
    edges = np.linspace(*window, COLUMNS + 1)
    x = np.repeat(axis.at(edges), 2)[1:-1]
    known = table.filter(pl.col("mode") != "unknown")
    whole_ns = (window[1] - window[0]) * len(rows)
    all_known = int((known["end_ns"] - known["start_ns"]).sum()) == whole_ns
    for name, colour, modes_ in (
        ("unknown", _UNKNOWN, ("idle",)),
        ("user", te.CLASS_COLOURS[0], ("user", "kernel")),
        ("kernel", KERNEL["syscall"][1], ("kernel",)),
    ):
        if name == "unknown" and all_known:
            continue
        for cpu, row in rows.items():
            mine = table.filter(pl.col("cpu") == cpu, pl.col("mode").is_in(modes_)).sort("start_ns")
            share = _covered(mine, edges) / np.diff(edges)
            # the layer "unknown" covers all time that is not known to be idle; the other layers are then drawn over it
            share = 1 - share if name == "unknown" else share
            base = row + HEIGHT["kernel"]
            y = base - HEIGHT["kernel"] * np.repeat(share, 2)
            fig.add_scatter(
                x=np.r_[x, x[-1], x[0]], y=np.r_[y, base, base], mode="lines", fill="toself", fillcolor=colour,
                line={"width": 0, "color": colour}, name=name, legendgroup=name, showlegend=row == 0, hoverinfo="skip",
            )  # fmt: skip


def _covered(spans: pl.DataFrame, edges: np.ndarray) -> np.ndarray:
    """Return how many ns of each pixel these spans cover; the spans must not overlap."""
    start, end = (spans[c].to_numpy().astype(float) for c in ("start_ns", "end_ns"))
    at = np.r_[edges[0], np.c_[start, end].ravel(), edges[-1]]
    total = np.r_[0.0, np.cumsum(np.c_[np.zeros(start.size), end - start].ravel())]
    return np.diff(np.interp(edges, at, np.r_[total, total[-1]]))


def _add_arcs(
    fig: go.Figure, slept: pl.DataFrame, axis: TimeAxis, rows: dict[int, int]
) -> pl.DataFrame:
    """Draw an arc from each waker to the woken thread; if there are too many, draw only those of the longest waits."""
    known = (
        pl.col("woken_ns").is_not_null()
        & pl.col("by_cpu").is_in(list(rows))
        & pl.col("cpu").is_in(list(rows))
    )
    chosen = (
        slept.filter(known)
        .sort(pl.col("end_ns") - pl.col("woken_ns"), descending=True)
        .head(MOST_ARCS)
    )
    if not chosen.height:
        return chosen
    x0, x1 = (axis.at(chosen[c].to_numpy()) for c in ("woken_ns", "end_ns"))
    y0, y1 = (np.array([rows[c] for c in chosen[name]]) + 0.4 for name in ("by_cpu", "cpu"))
    t = np.linspace(0, 1, 9)
    bend = 0.25 * np.sin(np.pi * t)
    x = x0[:, None] + (x1 - x0)[:, None] * t
    y = y0[:, None] + (y1 - y0)[:, None] * t - bend
    gap = np.full((chosen.height, 1), np.nan)
    fig.add_scatter(
        x=np.c_[x, gap].ravel(), y=np.c_[y, gap].ravel(), mode="lines", line={"color": te.MUTED, "width": 1, "dash": "dot"},
        name="wakeup", hoverinfo="skip", legendgroup="wakeup",
    )  # fmt: skip
    said = [
        f"<b>{_name(r['comm'], r['pid'])}</b> slept {human_ns(r['woken_ns'] - r['start_ns'])} in {r['why']}<br>"
        f"woken by {_name(r['by_comm'], r['by_pid'])} on CPU {r['by_cpu']}<br>"
        f"then waited {human_ns(r['end_ns'] - r['woken_ns'])} for CPU {r['cpu']}"
        for r in chosen.iter_rows(named=True)
    ]
    fig.add_scatter(
        x=x1, y=y1, mode="markers", marker={"symbol": "triangle-down", "size": 6, "color": te.MUTED}, text=said,
        hovertemplate="%{text}<extra></extra>", showlegend=False, legendgroup="wakeup", name="wakeup",
    )  # fmt: skip
    return chosen


def _add_clocks(
    fig: go.Figure, run: Examined, window: tuple[int, int], axis: TimeAxis, rows: dict[int, int]
) -> bool:  # fmt: skip
    """Shade each CPU by its clock, if the trace tells it: slower is darker. Return False if the clocks change too often."""
    told = run.trace.only("frequency", "tick").filter(
        pl.col("value") > 0, pl.col("ts_ns") <= window[1]
    )
    found = told.select("ts_ns", "cpu", "value").collect().sort("cpu", "ts_ns", maintain_order=True)
    found = found.filter(pl.col("cpu").is_in(list(rows)))
    if not found.height:
        return True
    fastest = int(found["value"].max())  # type: ignore[arg-type]
    until = pl.col("ts_ns").shift(-1).over("cpu").fill_null(window[1])
    shown = found.with_columns(until=until).filter(pl.col("until") > window[0])
    changed = (pl.col("value") != pl.col("value").shift(1).over("cpu")).fill_null(True)
    stays = shown.with_columns(run=changed.cum_sum()).group_by(
        "cpu", "run", "value", maintain_order=True
    )
    spans = stays.agg(pl.col("ts_ns").first(), pl.col("until").last())
    if spans.height > MOST_CLOCKS:
        return False
    for cpu, _, khz, start, end in spans.iter_rows():
        x0, x1 = (float(axis.at(np.clip(t, *window))) for t in (start, end))
        row, grey = rows[cpu], round(250 - 90 * (1 - khz / fastest))
        fig.add_shape(
            type="rect", x0=x0, x1=x1, y0=row - 0.08, y1=row + 0.88, layer="below", line={"width": 0},
            fillcolor=f"rgb({grey},{grey},{grey - 12})",
        )  # fmt: skip
    return True
