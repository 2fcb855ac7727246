"""A figure that compares recorded runs with replays of them.

The input is the table of :func:`wastedcores_studies.recordings.agreement.compare_recordings` or ``read_agreement``.
"""

from __future__ import annotations

import plotly.graph_objects as go
import polars as pl
from plotly.subplots import make_subplots

from wastedcores.errors import UsageError
from wastedcores.figures.theme import GRID, INK, MUTED, palette, style

#: unit of a row -> its panel; all other units are results of the run itself
_PANELS = {"busy CPUs": 1, "CPUs wasted": 1, "idle beside waiting": 1, "threads": 2}
#: unit -> the largest difference that does not count
_FLOORS = dict.fromkeys(_PANELS, 0.05) | {"idle beside waiting": 0.02}
_HEADS = ("the run's own result", "busy and wasted CPUs", "threads at the end")
#: the panels end at this many tolerances from the median; marks farther away are drawn on the edge
_EDGE = 7.0
_MINUS = "\u2212"


def recorded_dots(rows: pl.DataFrame, title: str = "", *, palette_name: str = "safe") -> go.Figure:
    """Draw every recorded value as a mark over the 5-95 % range of its replays.

    Distances from the median of the replays are drawn in units of the tolerance. This is 10 % of the median or, if that is
    smaller, the floor below which differences of CPUs and threads do not count.
    """
    if not rows.height:
        raise UsageError("recorded_dots: the table has no row. Give the table of at least one run.")
    colours = palette(palette_name)
    runs = list(dict.fromkeys(rows["run"].to_list()))
    fig = make_subplots(cols=3, shared_yaxes=True, horizontal_spacing=0.02, subplot_titles=_HEADS)
    data = rows.with_columns(*_scaled(), _place(runs), _panel())
    for panel in range(3):
        mine = data.filter(pl.col("panel") == panel)
        _ranges(fig, mine, panel + 1, colours.idle)
        for agree, name, symbol, colour in (
            (True, "recorded, agrees", "diamond-open", INK),
            (False, "recorded, does not agree", "x", colours.violation),
        ):
            _marks(fig, mine.filter(pl.col("agrees") == agree), panel + 1, name, symbol, colour)
    for at in range(1, len(runs), 2):
        fig.add_hrect(y0=at - 0.5, y1=at + 0.5, fillcolor="#f5f6f7", line_width=0, layer="below")
    fig.add_vrect(x0=-1, x1=1, fillcolor="#dfeee4", line_width=0, layer="below", opacity=0.6)
    good = int(rows["agrees"].sum())
    fig = style(
        fig,
        title
        or f"{good} of {rows.height} recorded quantities are where replays of the same run put them",
        f"distance from the replays' median; line: 5{_MINUS}95 % of {_seeds(rows)} seeds; green: within 10 % (or 0.05 "
        "CPUs or threads, or 2 % of the time)<br>the quantities of a run are in the order of the table below; a mark on the edge "
        "of a panel lies beyond it",
        height=210 + 30 * len(runs),
    )
    fig.update_xaxes(
        range=[-_EDGE, _EDGE],
        tickvals=[-5, 0, 5],
        ticktext=[f"{_MINUS}50 %", "0", "+50 %"],
        showgrid=True,
        gridcolor=GRID,
    )
    fig.update_yaxes(range=[len(runs) - 0.5, -0.5], tickvals=list(range(len(runs))), ticktext=runs)
    fig.update_annotations(font={"size": 12, "color": MUTED})
    return fig.update_layout(margin_l=150)


def _seeds(rows: pl.DataFrame) -> int:
    return int(rows["seeds"].to_numpy().max())


def _scaled() -> list[pl.Expr]:
    """Return the distances from the median in units of the tolerance that decides whether run and replays agree."""
    floor = pl.col("unit").replace_strict(_FLOORS, default=1e-12, return_dtype=pl.Float64)
    tolerance = pl.max_horizontal(0.1 * pl.col("median"), floor)
    return [
        ((pl.col(c) - pl.col("median")) / tolerance).clip(-_EDGE, _EDGE).alias(f"{c}_at")
        for c in ("recorded", "low", "high")
    ]


def _panel() -> pl.Expr:
    return pl.col("unit").replace_strict(_PANELS, default=0, return_dtype=pl.Int64).alias("panel")


def _place(runs: list[str]) -> pl.Expr:
    """Return the height at which a quantity is drawn; in each panel, a run has a band, which its quantities fill evenly."""
    order = pl.col("quantity").cum_count().over("run", _panel()) - 1
    count = pl.len().over("run", _panel())
    run = pl.col("run").replace_strict({r: i for i, r in enumerate(runs)}, return_dtype=pl.Float64)
    return (run + (order + 0.5) / count * 0.8 - 0.4).alias("y")


def _ranges(fig: go.Figure, rows: pl.DataFrame, col: int, colour: str) -> None:
    x: list[float | None] = []
    y: list[float | None] = []
    for low, high, at in rows.select("low_at", "high_at", "y").iter_rows():
        x += [low, high, None]
        y += [at, at, None]
    fig.add_scatter(
        x=x,
        y=y,
        mode="lines",
        name="replayed, 5-95 %",
        showlegend=col == 1,
        legendgroup="range",
        line={"color": colour, "width": 4},
        opacity=0.55,
        hoverinfo="skip",
        row=1,
        col=col,
    )


def _marks(
    fig: go.Figure, rows: pl.DataFrame, col: int, name: str, symbol: str, colour: str
) -> None:
    cells = ("run", "quantity", "recorded", "median", "low", "high", "unit")
    if col == 1:  # the legend names both kinds of marks, even if nothing in this panel disagrees
        fig.add_scatter(
            x=[None],
            y=[None],
            mode="markers",
            name=name,
            legendgroup=name,
            marker=_look(symbol, colour),
            row=1,
            col=1,
        )
    fig.add_scatter(
        x=rows["recorded_at"].to_list(),
        y=rows["y"].to_list(),
        mode="markers",
        name=name,
        showlegend=False,
        legendgroup=name,
        cliponaxis=False,
        marker=_look(symbol, colour),
        customdata=rows.select(*cells).rows(),
        hovertemplate="%{customdata[0]}<br>%{customdata[1]}: recorded %{customdata[2]:.4g}, replayed %{customdata[3]:.4g} "
        "[%{customdata[4]:.4g}, %{customdata[5]:.4g}] %{customdata[6]}<extra></extra>",
        row=1,
        col=col,
    )


def _look(symbol: str, colour: str) -> dict[str, object]:
    return {"symbol": symbol, "size": 9 if symbol == "x" else 7, "color": colour}
