"""The scorecard's dot plot, which compares published numbers with this project's.

Its input is what ``wastedcores reproduce`` writes; :func:`wastedcores_studies.scorecard.read` reads it.

Figures of what the scorecard's predictions depend on: parameters, machine size, noise, and a checker's settings.

The input of these figures is ``sensitivity.json``, which ``wastedcores reproduce all`` writes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from wastedcores.figures.theme import CLASS_COLOURS, GRID, INK, MUTED, style
from wastedcores.words.scorecard import MINUS, grouped, text

_TIMES = "\u00d7"


def tornado(study: dict[str, Any]) -> go.Figure:
    """Draw how much each predicted number changes when one parameter is a quarter smaller or larger."""
    step = study["step"]
    rows = sorted(
        study["tornado"],
        key=lambda r: (r["id"], max(abs(math.log(r[e] / r["base"])) for e in ("low", "high"))),
        reverse=True,
    )
    names = [f"{r['name']}: {r['parameter']}" for r in rows]
    fig = go.Figure()
    for end, label, colour in (
        ("low", f"parameter / {step}", CLASS_COLOURS[3]),
        ("high", f"parameter {_TIMES} {step}", CLASS_COLOURS[4]),
    ):
        fig.add_bar(
            x=[100 * (r[end] / r["base"] - 1) for r in rows],
            y=names,
            orientation="h",
            name=label,
            marker_color=colour,
            hovertemplate="%{y}<br>%{x:+.1f} %<extra>" + label + "</extra>",
        )
    fig.update_layout(barmode="overlay", bargap=0.25, margin_l=270)
    fig.update_traces(opacity=0.85)
    fig.update_xaxes(title_text="change of the predicted number, %", showgrid=True, gridcolor=GRID)
    fig.update_yaxes(tickfont={"size": 10})
    return style(
        fig,
        "What the predictions depend on",
        "one parameter at a time, all others as calibrated; table 3: seconds with the bug; lu beside R: its speedup; "
        "table 2 and make:<br>time with the fix divided by the time without",
        height=180 + 17 * len(rows),
    )


def noise_curves(study: dict[str, Any]) -> go.Figure:
    """Draw what each fix changes in query 18 if kernel threads run more or less often."""
    fig = go.Figure()
    fixes = list(dict.fromkeys(r["fix"] for r in study["noise"]))
    for i, fix in enumerate(fixes):
        mine = [r for r in study["noise"] if r["fix"] == fix]
        fig.add_scatter(
            x=[r["period_ms"] for r in mine],
            y=[r["change"] for r in mine],
            mode="lines+markers",
            name=fix.replace("_", " "),
            line={"color": CLASS_COLOURS[i], "dash": ("solid", "dash", "dot")[i % 3]},
            marker={"symbol": ("circle", "square", "diamond")[i % 3], "size": 8},
            hovertemplate="every %{x} ms on each CPU: %{y:+.1f} %<extra></extra>",
        )
    fig.add_hline(y=0, line={"color": MUTED, "width": 1})
    fig.update_xaxes(
        type="log",
        title_text="mean time between kernel threads on a CPU (ms)",
        tickvals=[r["period_ms"] for r in study["noise"] if r["fix"] == fixes[0]] if fixes else [],
    )
    fig.update_yaxes(title_text="change of query 18 by the fix, %", showgrid=True, gridcolor=GRID)
    return style(
        fig,
        "The group-imbalance fix alone helps a database only where little else runs",
        "the scorecard assumes 1000 ms, as recorded on idle guests; below 0: faster with the fix",
        height=400,
    )


def quiet_curve(study: dict[str, Any]) -> go.Figure:
    """Draw how much the fix speeds up lu beside R if kernel threads run more or less often."""
    rows = study["quiet"]
    fig = go.Figure()
    fig.add_scatter(
        x=[r["period_s"] for r in rows],
        y=[r["speedup"] for r in rows],
        mode="lines+markers",
        name="replayed",
        line={"color": CLASS_COLOURS[1]},
        marker={"size": 8},
        hovertemplate="every %{x} s on each CPU: %{y:.1f}" + _TIMES + "<extra></extra>",
    )
    fig.add_hline(
        y=study["quiet_published"],
        line={"color": MUTED, "width": 1, "dash": "dot"},
        annotation_text="published",
        annotation_position="bottom left",
    )
    fig.update_xaxes(
        type="log",
        title_text="time between kernel threads on a CPU (s)",
        tickvals=[r["period_s"] for r in rows],
    )
    fig.update_yaxes(
        title_text="speedup of lu by the fix", rangemode="tozero", showgrid=True, gridcolor=GRID
    )
    return style(
        fig,
        "The quieter the machine, the longer lu beside R stays stacked",
        "the scorecard assumes one kernel thread per second on each CPU",
        height=360,
    )


def size_curves(study: dict[str, Any]) -> go.Figure:
    """Draw the time with the bug divided by the time with the fix, on machines of 2 to 64 CPUs."""
    fig = go.Figure()
    bugs = list(dict.fromkeys(r["bug"] for r in study["curves"]))
    for i, bug in enumerate(bugs):
        mine = [r for r in study["curves"] if r["bug"] == bug]
        fig.add_scatter(
            x=[r["cpus"] for r in mine],
            y=[r["ratio"] for r in mine],
            mode="lines+markers",
            name=bug.replace("_", " "),
            line={"color": CLASS_COLOURS[i], "dash": ("solid", "dash", "dot", "dashdot")[i % 4]},
            marker={"symbol": ("circle", "square", "diamond", "x")[i % 4], "size": 8},
            hovertemplate="%{x} CPUs: %{y:.2f}" + _TIMES + "<extra></extra>",
        )
    fig.add_hline(y=1, line={"color": MUTED, "width": 1})
    fig.update_xaxes(type="log", title_text="CPUs", tickvals=[2, 4, 8, 16, 32, 64])
    fig.update_yaxes(
        type="log", title_text="time with bug / with fix", showgrid=True, gridcolor=GRID
    )
    return style(
        fig,
        "From how many CPUs does each bug matter?",
        "parts of the paper's machine: up to 8 CPUs of one node, then whole nodes",
        height=430,
    )


def checker_curves(study: dict[str, Any]) -> go.Figure:
    """Draw for each recording the share of the wasted time that a checker would call persistent, for several values of M."""
    fig = go.Figure()
    names = list(dict.fromkeys(r["recording"] for r in study["checker"]))
    for i, name in enumerate(names):
        mine = [r for r in study["checker"] if r["recording"] == name]
        fig.add_scatter(
            x=[r["m_ms"] for r in mine],
            y=[100 * r["caught"] for r in mine],
            mode="lines+markers",
            name=name.removesuffix("-buggy").replace("-", " "),
            line={"color": CLASS_COLOURS[i]},
            customdata=[
                ["never" if r["checks"] is None else f"{r['checks']:.1f} checks"] for r in mine
            ],
            hovertemplate="M = %{x} ms: %{y:.0f} %<br>first flag after %{customdata[0]}<extra></extra>",
        )
    fig.add_vline(x=100, line={"color": MUTED, "width": 1, "dash": "dot"})
    fig.update_xaxes(
        type="log", title_text="M (ms); dotted: the paper's", tickvals=[1, 10, 100, 1000]
    )
    fig.update_yaxes(title_text="wasted time seen, %", showgrid=True, gridcolor=GRID)
    return style(
        fig, "What a checker sees with another M", "recordings of 4.1.3 as released", height=400
    )


#: colour and symbol by kind; the symbol distinguishes the kinds without colour
KINDS = {
    "predicted": (CLASS_COLOURS[1], "circle"),
    "calibrated": (CLASS_COLOURS[2], "square"),
    "measured": (CLASS_COLOURS[3], "diamond"),
    "assumed": (CLASS_COLOURS[0], "cross"),
}


def score_dots(result: dict[str, Any]) -> go.Figure:
    """Draw published numbers (hollow) and the obtained ones (filled, with their 5-95 % range), one line per number."""
    rows = [r for r in result["rows"] if _plottable(r)]
    # rows of the kind "measured" are costs of tools and not speedups
    gains = [r for r in rows if r["unit"] in ("ratio", "percent") and r["kind"] != "measured"]
    seconds = [r for r in rows if r["unit"] == "s"]
    others = [
        r for r in rows if r not in gains and r not in seconds and r["published"] and r["ours"] > 0
    ]
    left = max(len(gains), 1) + max(len(others), 1) + 4
    fig = make_subplots(
        rows=2,
        cols=2,
        specs=[[{}, {"rowspan": 2}], [{}, None]],
        row_heights=[max(len(gains), 1), max(len(others), 1) + 0.5],
        horizontal_spacing=0.27,
        vertical_spacing=3.5 / left,
    )
    panels = (
        (1, 1, gains, "speedup by the fix", _as_speedup),
        (2, 1, others, "other numbers: obtained / published", _as_share),
        (1, 2, seconds, "time (s)", _as_is),
    )
    for row, col, mine, title, shown in panels:
        _dots(fig, row, col, mine, shown)
        fig.update_xaxes(title_text=title, title_standoff=4, row=row, col=col)
    fig.update_xaxes(type="log", showgrid=True, gridcolor=GRID)
    fig.update_yaxes(
        tickfont={"size": 10}, showdividers=True, dividercolor=GRID, autorange="reversed"
    )
    s = result["summary"]
    claim = "Published and obtained numbers"
    if s["predicted"]:
        claim = f"{s['predicted_reproduced']} of {s['predicted']} predictions are reproduced"
    fig = style(
        fig,
        claim,
        f"hollow: published; filled: obtained, median of {result['seeds']} replays, line: 5{MINUS}95 %; circles are predicted, "
        "squares calibrated, diamonds measured",
        height=150 + 17 * max(left, len(seconds), 6),
    )
    return fig.update_layout(margin_l=225, margin_b=100)


def _plottable(row: dict[str, Any]) -> bool:
    # worked examples are exact, so a dot would tell no more than the number
    if row["kind"] == "computed":
        return False
    return isinstance(row["ours"], float | int) and isinstance(row["published"], float | int)


def _as_speedup(value: float, row: dict[str, Any]) -> float:
    return 100 / (100 + value) if row["unit"] == "percent" else value


def _as_share(value: float, row: dict[str, Any]) -> float:
    return float(value / row["published"])


def _as_is(value: float, row: dict[str, Any]) -> float:
    del row
    return value


def _dots(
    fig: go.Figure,
    row: int,
    col: int,
    rows: Sequence[dict[str, Any]],
    shown: Callable[[float, dict[str, Any]], float],
) -> None:
    """Draw one panel; its axis names each row on two levels, by its group and by its number."""
    ordered = [(g.short, r) for g, mine in grouped(rows) for r in mine]
    main = (row, col) == (1, 1)
    fig.add_scatter(
        x=[shown(r["published"], r) for _, r in ordered],
        y=[[g for g, _ in ordered], [r["short"] for _, r in ordered]],
        mode="markers",
        name="published",
        showlegend=main,
        marker={"symbol": "circle-open", "size": 11, "color": INK, "line": {"width": 1.6}},
        customdata=[_hover(r) for _, r in ordered],
        hovertemplate="%{customdata[0]}<br>published %{customdata[1]} (%{customdata[3]})<extra></extra>",
        row=row,
        col=col,
    )
    for kind, (colour, symbol) in KINDS.items():
        mine = [(g, r) for g, r in ordered if r["kind"] == kind]
        if not mine:
            continue
        x = [shown(r["ours"], r) for _, r in mine]
        ends = [
            sorted(shown(v if v is not None else r["ours"], r) for v in (r["low"], r["high"]))
            for _, r in mine
        ]
        fig.add_scatter(
            x=x,
            y=[[g for g, _ in mine], [r["short"] for _, r in mine]],
            mode="markers",
            name=f"obtained, {kind}",
            legendgroup=kind,
            showlegend=main or (kind == "measured" and (row, col) == (2, 1)),
            marker={"symbol": symbol, "size": 7, "color": colour},
            error_x={
                "type": "data",
                "symmetric": False,
                "array": [e[1] - v for e, v in zip(ends, x, strict=True)],
                "arrayminus": [v - e[0] for e, v in zip(ends, x, strict=True)],
                "color": colour,
                "thickness": 1.4,
                "width": 0,
            },
            customdata=[_hover(r) for _, r in mine],
            hovertemplate="%{customdata[0]}<br>obtained %{customdata[2]}, %{customdata[4]}<extra></extra>",
            row=row,
            col=col,
        )


def _hover(r: dict[str, Any]) -> list[str]:
    published, ours = (text(r[k], r["unit"]) for k in ("published", "ours"))
    return [r["quantity"], published, ours, f"{r['source']}, {r['place']}", r["verdict"]]
