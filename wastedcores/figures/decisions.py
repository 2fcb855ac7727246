"""Figures of the balancer's decisions: a mark for each call over the runqueues, and one call followed through Algorithm 1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import plotly.graph_objects as go
import polars as pl
from plotly.subplots import make_subplots

from wastedcores.analysis.decisions import decisions
from wastedcores.analysis.examined import Examined
from wastedcores.analysis.scene import TimeAxis
from wastedcores.errors import UsageError
from wastedcores.figures import panels
from wastedcores.figures.balancing import ABOVE, algorithm, marked_line, with_slider
from wastedcores.figures.heatmaps import heat_height
from wastedcores.figures.theme import fit_legend, palette, style
from wastedcores.words.decisions import Step, call_name, call_steps
from wastedcores.words.rich_text import count

#: result -> colour and symbol of its marks, in the order of Algorithm 1
MARKS = {
    "no_domain": ("#000000", "x"),
    "not_designated": ("#9aa0a6", "line-ew"),
    "balanced": ("#a0287d", "x"),
    "no_queue": ("#7b5ea7", "triangle-up"),
    "pinned": ("#000000", "square"),
    "hot": ("#d62728", "diamond"),
    "failed": ("#d1561b", "cross"),
    "nothing_moved": ("#d1561b", "circle-open"),
    "active": ("#4d6b2f", "triangle-down"),
    "moved": ("#00795c", "circle"),
}
#: more marks than this cannot be told from each other and make the page slow
MOST_MARKS = 6000
#: a hover text lists at most this many groups of a call
_MOST_GROUPS = 8


def decision_marks(
    run: Examined,
    window: tuple[int, int] | None = None,
    level: str = "",
    *,
    cols: int = 1000,
    palette_name: str = "safe",
    title: str = "",
) -> go.Figure:
    """Draw a mark for every call of the balancer over the heat map of the runqueues."""
    scene = run.scene
    start, end = window or scene.window
    calls = decisions(run.trace, (start, end))
    if level:
        known = calls["level"].drop_nulls().unique().sort().to_list()
        if level not in known:
            raise UsageError(
                f"level {level!r}: the decisions in this window are at {', '.join(known) or 'no level'}."
            )
        calls = calls.filter(pl.col("level") == level)
    rows = dict(zip(scene.cpus, scene.rows(), strict=True))
    shown = calls.filter(pl.col("cpu").is_in(list(rows)))
    axis = TimeAxis.of(scene.window[0], end - start)
    fig = make_subplots(rows=1, cols=1)
    bins = scene.states.bin(start, end, cols=cols, cpus=scene.cpus)
    colours = palette(palette_name)
    panels.add_tasks(fig, scene, bins, axis, colours, bar=panels.bar_beside(1.01, 1.0, 0.5))
    fig.data[0].opacity = 0.45
    left_out = _thinned(shown)
    for result, (colour, symbol) in MARKS.items():
        part = left_out.filter(pl.col("result") == result)
        if part.height:
            fig.add_trace(_marks(part, rows, axis, result, colour, symbol))
    fig.update_xaxes(range=[float(axis.at(start)), float(axis.at(end))], **axis.labels)
    moved = int((shown["moved"] > 0).sum())
    head = title or (
        f"{run.label}: the CPUs asked {count(shown.height, 'time')} for work, and {count(moved, 'call')} moved a thread"
    )
    missing = shown.height - left_out.height
    words = [
        " · ".join(p for p in (scene.label, scene.facts, level) if p),
        "Each mark is a call of the balancer for the CPU of its row. The background has the threads per runqueue.",
        f"{count(missing, 'call')} are not drawn: choose a shorter window or a level."
        if missing
        else "",
        scene.loss,
    ]
    style(fig, head, "<br>".join(w for w in words if w), heat_height(len(scene.cpus)))
    fig.update_layout(margin_r=96)
    return fit_legend(fig)


def _thinned(calls: pl.DataFrame) -> pl.DataFrame:
    """If there are too many calls, leave out those of CPUs that are not designated to balance, and then the last calls."""
    if calls.height > MOST_MARKS:
        calls = calls.filter(pl.col("result") != "not_designated")
    return calls.head(MOST_MARKS)


def _marks(
    calls: pl.DataFrame,
    rows: Mapping[int, str],
    axis: TimeAxis,
    result: str,
    colour: str,
    symbol: str,
) -> go.Scatter:
    return go.Scatter(
        x=axis.at(calls["ts_ns"].to_numpy()),
        y=[rows[c] for c in calls["cpu"]],
        mode="markers",
        marker={
            "color": colour,
            "symbol": symbol,
            "size": 7,
            "line": {"color": colour, "width": 1.5 if symbol.startswith("line") else 0.5},
        },
        name=result.replace("_", " "),
        text=[_hover(call) for call in calls.iter_rows(named=True)],
        hovertemplate="%{text}<extra></extra>",
    )


def _hover(call: Mapping[str, Any]) -> str:
    """Return the lines of a mark's hover text."""
    lines = [
        f"<b>{call_name(call)}: {call['result'].replace('_', ' ')}</b>",
        call_steps(call)[-1].text,
    ]
    groups = call["groups"]
    if groups is not None:
        for i in range(min(len(groups["cpus"]), _MOST_GROUPS)):
            name = "local" if groups["local"][i] else "busiest" if i == call["busiest"] else "group"
            lines.append(
                f"{name} CPUs {groups['cpus'][i]}: average {groups['avg_load'][i]}, least {groups['min_load'][i]}, "
                f"{groups['nr_running'][i]} threads, capacity {groups['capacity'][i]}, {groups['type'][i] or 'type unknown'}"
            )
        if len(groups["cpus"]) > _MOST_GROUPS:
            lines.append(f"and {len(groups['cpus']) - _MOST_GROUPS} more groups")
    return "<br>".join(lines)


def decision_step(call: Mapping[str, Any], number: int = 0) -> go.Figure:
    """Draw one step of a call: the loads of the groups beside the line of Algorithm 1."""
    steps = call_steps(call)
    if not 0 <= number < len(steps):
        raise UsageError(f"step {number}: expected 0 to {len(steps) - 1}.")
    step = steps[number]
    fig = make_subplots(cols=2, rows=1, column_widths=[0.47, 0.53], horizontal_spacing=0.02)
    fig.add_trace(_loads(call, step), row=1, col=1)
    for trace in (marked_line(step.line), algorithm()):
        fig.add_trace(trace, row=1, col=2)
    style(fig, f"Line {step.line} of Algorithm 1: {call_name(call)}", step.text, height=560)
    names = _group_names(call)
    top = max(fig.data[0].y) or 1
    fig.update_xaxes(
        range=[-0.6, len(names) - 0.4],
        tickvals=list(range(len(names))),
        ticktext=names,
        row=1,
        col=1,
    )
    by_type = call["compares"] == "group_type"
    title = "threads of the group" if by_type else "compared load of the group"
    fig.update_yaxes(title=title, range=[0, 1.15 * top], row=1, col=1)
    fig.update_xaxes(visible=False, range=[0, 1], row=1, col=2)
    fig.update_yaxes(visible=False, range=[23.6, 0.4], row=1, col=2)
    return fig.update_layout(height=560, margin_t=ABOVE + 22, margin_b=84, showlegend=False)


def _loads(call: Mapping[str, Any], step: Step) -> go.Bar:
    """Draw a bar per group, which is pale until the algorithm has computed loads and grey until it has chosen the groups."""
    groups = call["groups"]
    if groups is None:
        return go.Bar(x=[0], y=[0], hoverinfo="skip")
    colours, known = palette(), step.line >= 10
    tints = []
    for i, local in enumerate(groups["local"]):
        chosen = colours.violation if local else colours.waiting if i == call["busiest"] else None
        tints.append(chosen if chosen and step.line >= 13 else "#c4bfb6")
    # since Linux 5.5, the types of the groups are compared first, and only overloaded groups have a load
    by_type = call["compares"] == "group_type"
    loads = [v or 0 for v in groups["nr_running" if by_type else call["compares"] or "avg_load"]]
    detail = [
        f"CPUs {cpus}<br>{n} threads, {idle} idle CPUs, {kind}"
        for cpus, n, idle, kind in zip(
            groups["cpus"], groups["nr_running"], groups["idle_cpus"], groups["type"], strict=True
        )
    ]
    return go.Bar(
        x=list(range(len(loads))),
        y=loads,
        text=[f"{v}" if known else "" for v in loads],
        textposition="outside",
        cliponaxis=False,
        marker={"color": tints},
        opacity=1 if known else 0.25,
        customdata=detail,
        hovertemplate=f"%{{customdata}}<br>{'threads' if by_type else 'load'} %{{y}}<extra></extra>",
    )


def _group_names(call: Mapping[str, Any]) -> list[str]:
    """Name the bars: say which group is the local one and which the busiest, and list their CPUs if there are few."""
    groups = call["groups"]
    if groups is None:
        return ["no load was compared"]
    wide = len(groups["cpus"]) > 5 or any(len(cpus) > 9 for cpus in groups["cpus"])
    return [
        f"{'local' if local else 'busiest' if i == call['busiest'] else i}{'' if wide else f'<br>{cpus}'}"
        for i, (cpus, local) in enumerate(zip(groups["cpus"], groups["local"], strict=True))
    ]


def decision_steps(call: Mapping[str, Any]) -> go.Figure:
    """Draw all steps of a call, with a slider that steps forward and back."""
    each = [decision_step(call, i) for i in range(len(call_steps(call)))]
    return with_slider(each, "step ", above=54).update_layout(height=660, margin_b=174)
