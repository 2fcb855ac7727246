"""A figure that compares kernels under the same workloads.

The input is the table of :func:`wastedcores_studies.recordings.kernels.read_kernels`.
"""

from __future__ import annotations

import plotly.graph_objects as go
import polars as pl
from plotly.subplots import make_subplots

from wastedcores.errors import UsageError
from wastedcores.figures.theme import GRID, INK, MUTED, palette, style

#: the axis of wasted CPUs is logarithmic; numbers below this are drawn at its left edge
_FEW = 0.01
_HEADS = ("time, fastest kernel = 1", "CPUs wasted on average")
#: ticks of the two axes, both logarithmic
_TICKS = ((1, 2, 5, 10, 20), (0.01, 0.1, 1, 10, 60))


def kernels_compared(
    rows: pl.DataFrame, title: str = "", *, palette_name: str = "safe"
) -> go.Figure:
    """Draw for every workload how much longer each kernel took than the fastest one, and how many CPUs it wasted."""
    if rows["cpus"].n_unique() != 1:
        raise UsageError(
            f"kernels_compared: expected rows of one size of machine, got {rows['cpus'].n_unique()}; filter the column `cpus`."
        )
    colours = palette(palette_name)
    # a line above each workload is left free for its name
    changed = (rows["workload"] != rows["workload"].shift(1)).fill_null(value=True)
    data = rows.with_columns((pl.int_range(pl.len()) + changed.cum_sum()).alias("y"))
    scale = pl.col("slowdown") / pl.col("result")
    more = pl.col("unit") == "cpus_of_work"
    data = data.with_columns(
        pl.when(more)
        .then(pl.col("slowdown") * pl.col("result") / pl.col(c))
        .otherwise(scale * pl.col(c))
        .alias(f"{c}_at")
        for c in ("low", "high")
    )
    fig = make_subplots(cols=2, shared_yaxes=True, horizontal_spacing=0.03, subplot_titles=_HEADS)
    _replays(fig, data.drop_nulls("low"), colours.idle)
    _marks(fig, data, "slowdown", 1, "recorded", INK)
    _marks(
        fig,
        data.with_columns(shown=pl.col("wasted_cpus").clip(_FEW)),
        "shown",
        2,
        "recorded",
        colours.violation,
    )
    fig.update_annotations(font={"size": 12, "color": MUTED})
    for y, name in data.filter(changed).select("y", "workload").iter_rows():
        fig.add_annotation(
            text=f"<b>{name}</b>",
            x=0,
            xref="paper",
            y=y - 1,
            showarrow=False,
            xanchor="left",
            font={"color": MUTED},
        )
    fig = style(
        fig,
        title or "What each kernel did with the same workloads",
        f"{rows['cpus'][0]} CPUs on 8 nodes; each mark is one recording; bar: 5 to 95 % of replays of its kernel",
        height=200 + 21 * int(data["y"].to_numpy().max()),
    )
    for col, ticks in enumerate(_TICKS, 1):
        words = [str(t) for t in ticks]
        if col == 2:
            words[0] = f"\u2264 {_FEW}"
        fig.update_xaxes(
            type="log",
            tickvals=ticks,
            ticktext=words,
            showgrid=True,
            gridcolor=GRID,
            minor_ticks="",
            row=1,
            col=col,
        )
    fig.update_yaxes(
        range=[int(data["y"].to_numpy().max()) + 0.7, -0.6],
        tickvals=data["y"].to_list(),
        ticktext=data["kernel"].to_list(),
    )
    return fig.update_layout(margin_l=100)


def _replays(fig: go.Figure, rows: pl.DataFrame, colour: str) -> None:
    x = [v for low, high in rows.select("low_at", "high_at").iter_rows() for v in (low, high, None)]
    y = [v for at in rows["y"] for v in (at, at, None)]
    fig.add_scatter(
        x=x, y=y, mode="lines", name="replayed", line={"color": colour, "width": 8}, opacity=0.45, hoverinfo="skip",
        row=1, col=1,
    )  # fmt: skip


def _marks(
    fig: go.Figure, rows: pl.DataFrame, column: str, col: int, name: str, colour: str
) -> None:
    cells = rows.select("run", "result", "unit", "slowdown", "wasted_cpus", "longest_ms").rows()
    fig.add_scatter(
        x=rows[column].to_list(), y=rows["y"].to_list(), mode="markers", name=name, showlegend=col == 1, cliponaxis=False,
        marker={"symbol": "diamond", "size": 8, "color": colour}, customdata=cells,
        hovertemplate="%{customdata[0]}<br>%{customdata[1]:.4g} %{customdata[2]}, %{customdata[3]:.2f} x the fastest<br>"
        "%{customdata[4]:.2f} CPUs wasted, longest %{customdata[5]:.1f} ms<extra></extra>",
        row=1, col=col,
    )  # fmt: skip
