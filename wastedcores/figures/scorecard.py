"""The scorecard's dot plot, which compares published numbers with this project's.

Its input is what ``wastedcores reproduce`` writes; :func:`wastedcores.studies.scorecard.read` reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from wastedcores.figures.theme import CLASS_COLOURS, GRID, INK, style
from wastedcores.words.scorecard_rows import MINUS, grouped, text

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
    # the changes that were measured on tools are no speedups
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
    # worked examples are exact, so their dots would say nothing
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
    """Draw one panel; an axis of two levels names the rows, by group and by number."""
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
