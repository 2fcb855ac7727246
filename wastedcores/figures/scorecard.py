"""The scorecard's figures: published against ours, what predictions depend on, from which size on a bug matters.

Input is what ``wastedcores reproduce`` writes (``scorecard.json``, ``sensitivity.json``), read with :func:`read`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import polars as pl
from plotly.subplots import make_subplots

from wastedcores.errors import WastedCoresError
from wastedcores.figures.shown import Shown, sentence, table
from wastedcores.figures.theme import CLASS_COLOURS, GRID, INK, MUTED, style

#: colour and symbol by kind; told apart without colour by the symbol
KINDS = {
    "predicted": (CLASS_COLOURS[1], "circle"),
    "calibrated": (CLASS_COLOURS[2], "square"),
    "measured": (CLASS_COLOURS[3], "diamond"),
}
_MINUS, _TIMES = "\u2212", "\u00d7"


def read(folder: str | Path, name: str = "scorecard") -> dict[str, Any]:
    """Read ``scorecard.json`` or ``sensitivity.json`` of a folder; empty if there is none.

    Raises
    ------
    WastedCoresError
        It is not what ``wastedcores reproduce`` writes.
    """
    path = Path(folder) / f"{name}.json"
    if not path.exists():
        return {}
    try:
        content = json.loads(path.read_text())
    except ValueError:
        content = None
    if not isinstance(content, dict) or not str(content.get("schema", "")).startswith(
        "wastedcores."
    ):
        raise WastedCoresError(
            f"{path}: expected the {name} that wastedcores reproduce writes; make it anew or name another folder."
        )
    return content


def score_dots(result: dict[str, Any]) -> go.Figure:
    """Published (hollow) and ours (filled, with the 5-95 % range) on a log axis, a line a number.

    The left panel has what a fix gains, as speedups (a change of -20 % is 1.25); the right one seconds.
    """
    # what was measured of the tools is no speedup; it stands in the table
    gains = [r for r in result["rows"] if r["kind"] != "measured"]
    left = [r for r in gains if r["unit"] in ("ratio", "percent") and _plottable(r)]
    right = [r for r in result["rows"] if r["unit"] == "s" and _plottable(r)]
    fig = make_subplots(cols=2, horizontal_spacing=0.2)
    for column, rows in ((1, left), (2, right)):
        _dots(fig, column, list(reversed(rows)))
    fig.update_xaxes(type="log", showgrid=True, gridcolor=GRID)
    fig.update_xaxes(title_text="speedup by the fix", col=1)
    fig.update_xaxes(title_text="time (s)", col=2)
    fig.update_yaxes(tickfont={"size": 10})
    s = result["summary"]
    good = s["predicted_within_1.5"]
    claim = (
        f"{good:.0%} of the predicted numbers lie within a factor of 1.5 of the published ones"
        if good is not None
        else "Published numbers and ours"
    )
    fig = style(
        fig,
        claim,
        f"hollow: published; filled: median of {result['seeds']} replays, line: 5{_MINUS}95 %; "
        f"circles are predicted, squares calibrated",
        height=180 + 19 * max(len(left), len(right), 6),
    )
    return fig.update_layout(margin_l=230)


def _plottable(row: dict[str, Any]) -> bool:
    return isinstance(row["ours"], float | int) and isinstance(row["published"], float | int)


def _as_shown(value: float, unit: str) -> float:
    return 100 / (100 + value) if unit == "percent" else value


def _dots(fig: go.Figure, column: int, rows: Sequence[dict[str, Any]]) -> None:
    names = [r["id"].replace(".change", "").replace(".speedup", "") for r in rows]
    first = column == 1
    fig.add_scatter(
        x=[_as_shown(r["published"], r["unit"]) for r in rows],
        y=names,
        mode="markers",
        name="published",
        showlegend=first,
        marker={"symbol": "circle-open", "size": 11, "color": INK, "line": {"width": 1.6}},
        customdata=[[r["quantity"], r["place"]] for r in rows],
        hovertemplate="%{customdata[0]}<br>published %{x:.4g} (%{customdata[1]})<extra></extra>",
        row=1,
        col=column,
    )
    for kind, (colour, symbol) in KINDS.items():
        mine = [(n, r) for n, r in zip(names, rows, strict=True) if r["kind"] == kind]
        if not mine:
            continue
        x = [_as_shown(r["ours"], r["unit"]) for _, r in mine]
        ends = [
            sorted(
                _as_shown(v if v is not None else r["ours"], r["unit"])
                for v in (r["low"], r["high"])
            )
            for _, r in mine
        ]
        fig.add_scatter(
            x=x,
            y=[n for n, _ in mine],
            mode="markers",
            name=f"ours, {kind}",
            legendgroup=kind,
            showlegend=first or kind == "measured",
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
            customdata=[[r["quantity"], r["verdict"]] for _, r in mine],
            hovertemplate="%{customdata[0]}<br>ours %{x:.4g}, %{customdata[1]}<extra></extra>",
            row=1,
            col=column,
        )


def score_verdict(result: dict[str, Any]) -> Shown:
    """One paragraph: what was reproduced, what was not, what was not tried."""
    s = result["summary"]
    good = [
        r for r in result["rows"] if r["verdict"] in ("same", "close", "within 1.5x", "not more")
    ]
    text = (
        f"{len(result['rows'])} published numbers were tried: {s['predicted']} predicted, {s['calibrated']} used to "
        f"calibrate, {s['measured']} measured. {len(good)} agree within a factor of 1.5. "
    )
    if s["predicted_median_error"] is not None:
        text += (
            f"Of the predicted ones {s['predicted_within_1.5']:.0%} do, their median error is "
            f"{s['predicted_median_error']:.0%}. "
        )
    wrong = ", ".join(s["direction_wrong"]) or "none"
    text += f"Wrong direction: {wrong}. Missed by more: {', '.join(s['missed']) or 'none'}. "
    text += (
        f"Failed to run: {s['failed']}. Not tried: {len(result['not_tried'])}, listed at the end."
    )
    return sentence(text)


def score_table(result: dict[str, Any], kinds: Sequence[str] = ("predicted", "measured")) -> Shown:
    """Rows of some kinds: published, ours, range, ratio, verdict."""
    return table(
        pl.DataFrame(
            [
                {
                    "number": r["quantity"],
                    "where": f"{r['source']}, {r['place']}",
                    "published": _text(r["published"], r["unit"]),
                    "ours": _text(r["ours"], r["unit"]),
                    "5-95 %": ""
                    if r["low"] is None
                    else f"{_text(r['low'], r['unit'])} to {_text(r['high'], r['unit'])}",
                    "ratio": "" if r["ratio"] is None else f"{r['ratio']:.2f}",
                    "part of the effect": "" if r["effect"] is None else f"{r['effect']:.0%}",
                    "kind": r["kind"],
                    "verdict": r["verdict"],
                }
                for r in result["rows"]
                if r["kind"] in kinds
            ]
            or [{"number": "none"}]
        )
    )


def score_reasons(result: dict[str, Any], *, beyond: float = 1.1) -> Shown:
    """Why ours differ, for rows that are off by more than a factor; other readings of a fix beside them."""
    rows = []
    for r in result["rows"]:
        off = math.inf if not r["ratio"] else max(r["ratio"], 1 / r["ratio"])
        other = "; ".join(
            f"{label}: {_text(v, r['unit'])}" for label, v in r["beside"].items() if v is not None
        )
        if r["kind"] != "calibrated" and (off > beyond or other):
            rows.append(
                {
                    "number": r["quantity"],
                    "published": _text(r["published"], r["unit"]),
                    "ours": _text(r["ours"], r["unit"]),
                    "why": r["reason"],
                    "other readings": other,
                }
            )
    return table(pl.DataFrame(rows or [{"number": "every number is within ten percent"}]))


def score_not_tried(result: dict[str, Any]) -> Shown:
    """Published claims that have no row, and why."""
    return table(pl.DataFrame(result["not_tried"] or [{"quantity": "nothing was left out"}]))


def _text(value: Any, unit: str) -> str:
    if value is None:
        return "none"
    if isinstance(value, str):
        return value
    return (
        f"{value:+.1f} %"
        if unit == "percent"
        else f"{value:.4g} {'' if unit == 'ratio' else unit}".strip()
    )


def tornado(study: dict[str, Any]) -> go.Figure:
    """How much each predicted number moves when one parameter is a quarter smaller or larger, worst first."""
    step = study["step"]
    rows = sorted(
        study["tornado"],
        key=lambda r: (r["id"], max(abs(math.log(r[e] / r["base"])) for e in ("low", "high"))),
        reverse=True,
    )
    names = [f"{_number_name(r['id'])}: {r['parameter']}" for r in rows]
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
        "one parameter at a time, all others as calibrated; table 3: seconds with the bug; table 2 and make: time "
        "with the fix over time without",
        height=180 + 17 * len(rows),
    )


def _number_name(name: str) -> str:
    """``table2.q18.both.change`` as ``table 2 q18 both``."""
    words = name.removesuffix(".change").removesuffix(".bug").removeprefix("claims.")
    return words.replace("table", "table ").replace(".", " ").replace("_", " ")


def noise_curves(study: dict[str, Any]) -> go.Figure:
    """What each fix does to query 18 where kernel threads come more often or less."""
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
            hovertemplate="every %{x} ms a CPU: %{y:+.1f} %<extra></extra>",
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
        "the scorecard's rows: every 1000 ms, as on the recorded idle guests; below 0: faster with the fix",
        height=400,
    )


def size_curves(study: dict[str, Any]) -> go.Figure:
    """Time with the bug over time with the fix, on machines of 2 to 64 CPUs."""
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
        "From how many CPUs on does each bug matter?",
        "machines cut from the paper's: up to 8 CPUs one node, then whole nodes",
        height=430,
    )


def checker_curves(study: dict[str, Any]) -> go.Figure:
    """Share of the wasted time that a checker with another M would call persistent, by recording."""
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


def tick_table(study: dict[str, Any]) -> Shown:
    """Table 3's predicted times under other ticks."""
    by: dict[str, dict[str, Any]] = {}
    for r in study["tick"]:
        row = by.setdefault(r["id"], {"program": r["id"].split(".")[1]})
        row[f"tick {r['tick_ms']} ms"] = f"{r['s']:.4g} s"
    return table(pl.DataFrame(list(by.values()) or [{"program": "none"}]))
