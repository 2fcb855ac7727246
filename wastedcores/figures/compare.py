"""Figures that compare several runs of one workload with each other and with the paper."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
import polars as pl
from plotly.subplots import make_subplots

from wastedcores.analysis.alignment import Pair
from wastedcores.analysis.compare import REFUSALS, Comparison
from wastedcores.analysis.scene import TimeAxis
from wastedcores.analysis.states import Bins
from wastedcores.errors import MissingEventsError
from wastedcores.figures import panels
from wastedcores.figures.heatmaps import heat_height
from wastedcores.figures.theme import GRID, MUTED, fit_legend, folded_name, palette, style
from wastedcores.units import MS, S, human_ns, number, result_words

#: column of the comparison, title of its panel, and ns per unit if the numbers are times, else 0
_SHOWN = (
    ("makespan_s", "makespan", S),
    ("wasted_core_s", "core time wasted", S),
    ("wait_p99_ms", "99 % of waits up to", MS),
    ("migrations", "migrations", 0),
)


def costs(
    found: Comparison, title: str = "", subtitle: str = "", *, palette_name: str = "safe"
) -> go.Figure:
    """Draw bars per run: makespan or work done, wasted core time, long waits and migrations."""
    colours = palette(palette_name)
    shown = [p for p in _panels(found) if found.table[p[0]].null_count() < found.table.height]
    names = [folded_name(run) for run in found.table["run"].to_list()]
    fig = make_subplots(
        rows=1,
        cols=len(shown),
        shared_yaxes=True,
        horizontal_spacing=0.03,
        subplot_titles=[title for _, title, _ in shown],
    )
    shades = [colours.waiting, *[colours.idle] * (len(names) - 1)]
    for i, (column, _, ns) in enumerate(shown, 1):
        values = found.table[column].to_list()
        if column == "wasted_core_s":
            checks = [found.checks[run] for run in found.table["run"].to_list()]
            values = [v if c.waste_known else None for v, c in zip(values, checks, strict=True)]
        texts = ["unknown" if v is None else human_ns(v * ns) if ns else number(v) for v in values]
        fig.add_bar(
            x=[v or 0 for v in values],  # a text needs a bar, even if it is "unknown"
            y=names,
            orientation="h",
            marker_color=shades,
            text=texts,
            textposition="outside",
            cliponaxis=False,
            showlegend=False,
            hovertemplate="%{y}: %{text}<extra></extra>",
            row=1,
            col=i,
        )
        # the numbers stand beside the bars, so the axis has no labels, but it leaves room to the right of the longest bar
        top = max((v for v in values if v is not None), default=0) or 1
        fig.update_xaxes(range=[0, 1.6 * top], showticklabels=False, ticks="", row=1, col=i)
    fig.update_yaxes(type="category", autorange="reversed", ticks="", automargin=True)
    lines = sum(1 + name.count("<br>") for name in names)
    style(fig, title, subtitle, height=130 + max(34 * len(names), 18 * lines + 12 * len(names)))
    fig.update_annotations(font_size=12)
    return fig.update_layout(margin_t=fig.layout.margin.t + 18, margin_b=16)


def _panels(found: Comparison) -> list[tuple[str, str, int]]:
    """Return the columns to draw: the makespan, or the workload's own result if all makespans are equal, and the costs."""
    name = found.table["result_name"][0]
    makespans = found.table["makespan_s"].drop_nulls()
    # if all runs last equally long, they can differ only in the work that they did
    fixed = makespans.len() > 1 and makespans.max() - makespans.min() < 1e-3 * makespans.max()  # type: ignore[operator]
    first = ("result", result_words(str(name)), 0) if fixed and name else _SHOWN[0]
    return [first, *_SHOWN[1:]]


def balance_calls(found: Comparison, title: str = "", subtitle: str = "") -> go.Figure:
    """Draw the calls of ``load_balance()`` at each level of every run, by result."""
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
        fig.add_bar(
            x=where,
            y=per_level[result].to_list(),
            name=result.replace("_", " "),
            marker_color=colour,
            hovertemplate="%{y} calls<extra>" + result + "</extra>",
        )
    fig.update_layout(barmode="stack")
    fig.update_yaxes(title_text="calls, by result", type="linear", gridcolor=GRID)
    return fit_legend(style(fig, title, subtitle, height=420))


def spread(
    values: dict[str, Sequence[float]],
    recorded: dict[str, float] | None = None,
    title: str = "",
    unit: str = "",
    *,
    palette_name: str = "safe",
) -> go.Figure:
    """Draw the spread of a quantity over the seeds of every run."""
    colours = palette(palette_name)
    fig = go.Figure()
    for name, points in values.items():
        fig.add_box(
            x=list(points),
            name=folded_name(name),
            boxpoints="all",
            jitter=0.6,
            pointpos=0,
            fillcolor="rgba(0,0,0,0)",
            line={"color": MUTED, "width": 1},
            marker={"color": colours.idle, "size": 6},
            showlegend=False,
            hovertemplate="%{x:.4g} " + unit + "<extra>" + name + "</extra>",
        )
    if recorded:
        fig.add_scatter(
            x=list(recorded.values()),
            y=[folded_name(name) for name in recorded],
            mode="markers",
            name="recorded on a real kernel",
            marker={"symbol": "diamond", "size": 13, "color": colours.violation},
            hovertemplate="recorded: %{x:.4g} " + unit + "<extra></extra>",
        )
    fig.update_xaxes(title_text=unit, rangemode="tozero", gridcolor=GRID)
    fig.update_yaxes(automargin=True, ticks="")
    return fit_legend(style(fig, title, "one dot per seed", height=160 + 70 * len(values)))


def wasted(bins: Bins) -> np.ndarray:
    """Return the mean number of wasted cores in the time of each pixel; NaN if it is unknown."""
    return np.where(bins.known > 0, bins.wasted, np.nan)


def aligned(
    pair: Pair,
    window: tuple[int, int] | None = None,
    *,
    cols: int = 700,
    palette_name: str = "safe",
    reduce: str = "share",
    title: str = "",
    height: int | None = None,
) -> go.Figure:
    """Draw two traces above each other, and below them how many more cores the first trace wasted than the second.

    ``window`` is on the common axis. For each trace, ``cols`` columns of pixels, at most 2000, are sent to the browser.
    """
    window = window or pair.window
    colours = palette(palette_name)
    axis = TimeAxis.of(0, window[1] - window[0])
    bins = pair.bins(window, cols)
    rows = [len(r.scene.cpus) for r in pair.runs]
    tall = height or min(sum(heat_height(n) for n in rows), 860)
    fig = make_subplots(
        rows=3,
        cols=1,
        shared_xaxes="columns",
        row_heights=[0.4, 0.4, 0.2],
        vertical_spacing=0.055,
        subplot_titles=[r.label for r in pair.runs] + ["cores wasted: the first minus the second"],
    )
    fig.update_annotations(x=0, xanchor="left", font_size=12)
    for row, (run, b) in enumerate(zip(pair.runs, bins, strict=True), 1):
        bar = panels.bar_beside(1.005, 0.4, 0.78) if row == 1 else None
        panels.add_tasks(fig, run.scene, b, axis, colours, row=row, reduce=reduce, bar=bar)
    difference = wasted(bins[0]) - wasted(bins[1])
    signs = (
        ("the first wastes more", np.maximum, colours.waiting),
        ("the second wastes more", np.minimum, colours.idle),
    )
    for name, part, colour in signs:
        fig.add_scatter(
            **panels.steps(
                axis, bins[0].edges, part(difference, 0), {"color": colour, "width": 1.2}
            ),
            mode="lines",
            fill="tozeroy",
            name=name,
            hovertemplate=f"%{{x:{axis.digits}}} {axis.unit}: %{{y:.1f}} cores<extra></extra>",
            row=3,
            col=1,
        )
    fig.update_yaxes(fixedrange=True, nticks=5, showgrid=True, gridcolor=GRID, row=3, col=1)
    style(fig, title, f"0 is the {pair.how}. Hatched: outside the trace, or not known.", tall)
    ends = [float(axis.at(t)) for t in window]
    fig.update_xaxes(range=ends, showticklabels=False, ticks="")
    fig.update_xaxes(showticklabels=True, ticks="outside", **axis.labels, row=3, col=1)
    fig.update_layout(margin_t=fig.layout.margin.t + 16, margin_r=96, hovermode="closest")
    return fit_legend(fig.update_layout(showlegend=True))


def suggestions(
    found: Comparison, title: str = "", subtitle: str = "", *, palette_name: str = "safe"
) -> go.Figure:
    """Draw how many suggestions the core took and refused, per run, module and moment."""
    made = found.suggestions.filter(pl.col("silent") < pl.col("asked"))
    if not found.suggestions.height:
        raise MissingEventsError(
            "No run has modules whose suggestions could be counted. Compare replays of designs, such as "
            "core+cache_affinity."
        )
    colours = palette(palette_name)
    where = [
        f"{folded_name(run)}<br>{module}: {moment}"
        if made["run"].n_unique() > 1
        else f"{module}: {moment}"
        for run, module, moment in made.select("run", "module", "moment").iter_rows()
    ]
    fig = go.Figure()
    for answer, colour in (("taken", colours.idle), ("refused", colours.waiting)):
        fig.add_bar(
            x=made[answer].to_list(),
            y=where,
            orientation="h",
            name=answer,
            marker_color=colour,
            hovertemplate="%{y}: %{x} " + answer + "<extra></extra>",
        )
    fig.update_layout(barmode="stack")
    fig.update_xaxes(
        title_text="suggestions",
        title_standoff=20,
        rangemode="tozero",
        gridcolor=GRID,
        showgrid=True,
    )
    fig.update_yaxes(type="category", autorange="reversed", ticks="", automargin=True)
    lines = sum(2 + name.count("<br>") for name in where)
    refusals = sum(made["refused"].to_list())
    share = refusals / max(refusals + sum(made["taken"].to_list()), 1)
    title = title or f"The core refused {share:.1%} of the suggestions"
    return fit_legend(style(fig, title, subtitle, height=150 + 16 * max(lines, 6)))
