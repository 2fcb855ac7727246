"""Figures that compare several runs of one workload with each other and with the paper."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from wastedcores.analysis.compare import REFUSALS, Comparison
from wastedcores.figures.theme import GRID, INK, MUTED, palette, style

#: column of the comparison -> title of its panel
_SHOWN = (
    ("makespan_s", "makespan, s"),
    ("wasted_core_s", "core time wasted, s"),
    ("wait_p99_ms", "wait, 99 %, ms"),
    ("migrations", "migrations"),
)


def costs(
    found: Comparison, title: str = "", subtitle: str = "", *, palette_name: str = "safe"
) -> go.Figure:
    """Draw bars per run: makespan, wasted core time, long waits and migrations.

    Parameters
    ----------
    found
        From :func:`wastedcores.analysis.compare.compare`.
    title, subtitle
        What stands above the figure.
    palette_name
        ``safe`` or ``paper``, see :mod:`wastedcores.figures.theme`.

    Returns
    -------
    plotly.graph_objects.Figure
        One panel per quantity; the first run has another colour.
    """
    colours = palette(palette_name)
    shown = [(c, t) for c, t in _SHOWN if found.table[c].null_count() < found.table.height]
    fig = make_subplots(rows=1, cols=len(shown), subplot_titles=[t for _, t in shown])
    names = found.table["run"].to_list()
    shades = [colours.waiting, *[colours.idle] * (len(names) - 1)]
    for i, (column, _) in enumerate(shown, 1):
        values = found.table[column].to_list()
        fig.add_trace(
            go.Bar(
                x=names,
                y=values,
                marker_color=shades,
                text=[f"{v:.3g}" for v in values],
                textposition="outside",
                cliponaxis=False,
                showlegend=False,
                hovertemplate="%{x}: %{y:.4g}<extra></extra>",
            ),
            row=1,
            col=i,
        )
        fig.update_yaxes(rangemode="tozero", gridcolor=GRID, row=1, col=i)
    return style(fig, title, subtitle, height=380)


def balance_calls(found: Comparison, title: str = "", subtitle: str = "") -> go.Figure:
    """Draw the calls of ``load_balance()`` at each level of every run, by result.

    Parameters
    ----------
    found
        From :func:`wastedcores.analysis.compare.compare`.
    title, subtitle
        What stands above the figure.

    Returns
    -------
    plotly.graph_objects.Figure
        Stacked bars: how often the call moved a task, or why it did not.
    """
    shades = dict(
        zip(
            (*REFUSALS, "active", "moved"),
            ("#c4bfb6", "#9aa3ab", "#5c6670", "#c9a227", "#b07d62", "#35978f", "#2f7fc1"),
            strict=True,
        )
    )
    per_level = found.balance.drop("idle").group_by("run", "level", maintain_order=True).sum()
    fig = go.Figure()
    where = [
        per_level["run"].to_list(),
        [f"level {level}" for level in per_level["level"].to_list()],
    ]
    for result, colour in shades.items():
        fig.add_trace(
            go.Bar(
                x=where,
                y=per_level[result].to_list(),
                name=result.replace("_", " "),
                marker_color=colour,
                hovertemplate="%{y} calls<extra>" + result + "</extra>",
            )
        )
    fig.update_layout(barmode="stack")
    fig.update_yaxes(title_text="calls, by result", type="linear", gridcolor=GRID)
    return style(fig, title, subtitle, height=420)


def claims(
    rows: Sequence[tuple[str, str, str]], title: str = "The paper, and this replay"
) -> go.Figure:
    """Draw a table of what is measured, what the paper says, and what this replay gives.

    Parameters
    ----------
    rows
        The three texts of each row.
    title
        What stands above the table.

    Returns
    -------
    plotly.graph_objects.Figure
        The table.
    """
    columns = list(zip(*rows, strict=True)) if rows else [(), (), ()]
    fig = go.Figure(
        go.Table(
            columnwidth=[3, 3, 3],
            header={
                "values": ["<b>measured</b>", "<b>the paper</b>", "<b>here</b>"],
                "align": "left",
                "fill_color": GRID,
                "font": {"color": INK},
            },
            cells={
                "values": [list(c) for c in columns],
                "align": "left",
                "fill_color": "#ffffff",
                "font": {"color": [INK, MUTED, INK]},
                "height": 26,
            },
        )
    )
    return style(fig, title, "", height=150 + 28 * len(rows))


def spread(
    values: dict[str, Sequence[float]],
    recorded: dict[str, float] | None = None,
    title: str = "",
    unit: str = "",
    *,
    palette_name: str = "safe",
) -> go.Figure:
    """Draw the spread of a quantity over the seeds of every run.

    Parameters
    ----------
    values
        Name of a run -> its values, one per seed.
    recorded
        Name of a run -> the value that was recorded on a real kernel; drawn as a diamond.
    title, unit
        What stands above the figure, and the unit of the values.
    palette_name
        ``safe`` or ``paper``, see :mod:`wastedcores.figures.theme`.

    Returns
    -------
    plotly.graph_objects.Figure
        One row per run, one dot per seed, with a box over the quartiles.
    """
    colours = palette(palette_name)
    fig = go.Figure()
    for name, points in values.items():
        fig.add_trace(
            go.Box(
                x=list(points),
                name=name,
                boxpoints="all",
                jitter=0.6,
                pointpos=0,
                fillcolor="rgba(0,0,0,0)",
                line={"color": MUTED, "width": 1},
                marker={"color": colours.idle, "size": 6},
                showlegend=False,
                hovertemplate="%{x:.4g} " + unit + "<extra>" + name + "</extra>",
            )
        )
    if recorded:
        fig.add_trace(
            go.Scatter(
                x=list(recorded.values()),
                y=list(recorded),
                mode="markers",
                name="recorded on a real kernel",
                marker={"symbol": "diamond", "size": 13, "color": colours.violation},
                hovertemplate="recorded: %{x:.4g} " + unit + "<extra></extra>",
            )
        )
    fig.update_xaxes(title_text=unit, rangemode="tozero", gridcolor=GRID)
    return style(fig, title, "one dot per seed", height=140 + 70 * len(values))
