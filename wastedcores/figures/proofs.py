"""Bars that show whether an idle CPU gets a waiting thread, in all states of small machines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go

from wastedcores.figures.theme import GRID, style

#: beginning of an outcome -> its name and colour
_FATES = {
    "pulls": ("at once", "#ebe8e1"),
    "after 1": ("at once", "#ebe8e1"),
    "an idle CPU": ("at once", "#ebe8e1"),
    "after": ("in a later pass", "#f2a33a"),
    "never": ("never, if nothing else happens", "#8c2a12"),
    "busy": ("never, if nothing else happens", "#8c2a12"),
}


def fates(rows: Sequence[dict[str, Any]]) -> go.Figure:
    """Draw in how many states an idle CPU gets a waiting thread that it may run: at once, later, or never."""
    shown = [r for r in rows if set(map(_fate, r["outcomes"])) <= set(_FATES)]
    names = [[r["check"] for r in shown], [r["machine"] for r in shown]]
    fig = go.Figure()
    for name, colour in dict(_FATES.values()).items():
        shares = [_share(r, name) for r in shown]
        fig.add_bar(
            y=names, x=shares, name=name, orientation="h", marker_color=colour,
            text=[_percent(s) if name != "at once" else "" for s in shares], textposition="inside",
            hovertemplate="%{y}: %{x:.2f} % of the states<extra></extra>",
        )  # fmt: skip
    fig.update_layout(
        barmode="stack", legend={"orientation": "h", "y": -0.08, "traceorder": "normal"}
    )
    fig.update_xaxes(
        title_text="share of the states (%)", range=[0, 100], showgrid=True, gridcolor=GRID
    )
    fig.update_yaxes(autorange="reversed", showdividers=True, dividercolor=GRID)
    fig = style(
        fig,
        "Under Linux 6.12 an idle CPU mostly gets the thread that waits, but not always",
        "all states of small machines in which a thread waits that an idle CPU may run; a state is no frequency",
        height=190 + 22 * len(shown),
    )
    return fig.update_layout(margin_l=375, margin_b=90)


def _fate(outcome: str) -> str:
    """Return the longest key of ``_FATES`` with which an outcome begins, or the outcome itself if there is none."""
    keys = [k for k in _FATES if outcome == k or outcome.startswith((f"{k} ", f"{k}:"))]
    return max(keys, key=len, default=outcome)


def _share(row: dict[str, Any], name: str) -> float:
    found = [o["states"] for text, o in row["outcomes"].items() if _FATES[_fate(text)][0] == name]
    return 100 * sum(found) / row["states"] if row["states"] else 0.0


def _percent(share: float) -> str:
    return f"{share:.1f}" if share >= 1.5 else ""
