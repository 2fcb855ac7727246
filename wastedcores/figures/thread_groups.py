"""The figures of groups of threads: a dash per stay on a CPU (Sites, Anomalies in Linux Processor Use, Figures 1 and 2)."""

from __future__ import annotations

from collections.abc import Mapping

import plotly.graph_objects as go
import polars as pl
from plotly.subplots import make_subplots

from wastedcores.analysis.thread_groups import evenness, stays
from wastedcores.errors import UsageError
from wastedcores.figures.theme import CLASS_COLOURS, GRID, INK, fit_legend, style
from wastedcores.trace.trace import Trace


def group_stays(runs: Mapping[str, Trace], group: int | None = None) -> go.Figure:
    """Draw one row per thread and one dash per stay on a CPU, coloured by CPU."""
    tables = {name: _of_group(name, stays(trace), group) for name, trace in runs.items()}
    one = group is not None
    fig = make_subplots(
        rows=1 if one else len(runs), cols=len(runs) if one else 1, shared_xaxes=not one, shared_yaxes=one,
        subplot_titles=[_title(n, t, group) for n, t in runs.items()], vertical_spacing=0.08, horizontal_spacing=0.02,
    )  # fmt: skip
    cpus = sorted({cpu for t in tables.values() for cpu in t["cpu"]})
    for panel, table in enumerate(tables.values(), 1):
        at = {"row": 1, "col": panel} if one else {"row": panel, "col": 1}
        for i, cpu in enumerate(cpus):
            fig.add_scatter(
                **_dashes(table.filter(pl.col("cpu") == cpu)), mode="lines", name=f"CPU {cpu}",
                # plotly would leave out dashes that are shorter than a pixel
                line={"color": CLASS_COLOURS[i % len(CLASS_COLOURS)], "width": 9 if one else 2, "simplify": False},
                legendgroup=str(cpu), showlegend=panel == 1, **at,
            )  # fmt: skip
        fig.update_yaxes(autorange="reversed", showticklabels=False, **at)
        fig.update_xaxes(showgrid=True, gridcolor=GRID, **at)
        if one:
            _arrow(fig, table, panel)
        else:
            _name_groups(fig, table, panel)
    fig.update_xaxes(title_text="time (s)", row=1 if one else len(runs))
    fig.update_xaxes(matches="x")
    fig.update_yaxes(title_text="threads", col=1)
    fig.update_annotations(font_size=12, selector={"showarrow": False})
    what = f"{group} equal threads" if one else "Groups of equal threads, one after the other"
    style(
        fig,
        what,
        "one row per thread, a dash where it ran, coloured by CPU"
        + ("; an arrow from the first to the last completion" if one else ""),
        height=420 if one else 150 + 300 * len(runs),
    )
    return fit_legend(fig)


def _of_group(name: str, table: pl.DataFrame, group: int | None) -> pl.DataFrame:
    """Return the stays to draw, with the row of each thread and times in seconds from the first group's start."""
    if group is not None:
        table = table.filter(pl.col("group") == group)
        if table.is_empty():
            raise UsageError(f"{name}: there is no group of {group} threads.")
    begin = table["begin_ns"].min()
    return table.with_columns(
        row=pl.struct("group", "thread").rank("dense").cast(pl.Int64) - 1,
        start_s=(pl.col("start_ns") - begin) / 1e9,
        end_s=(pl.col("end_ns") - begin) / 1e9,
    )


def _dashes(table: pl.DataFrame) -> dict[str, list[object]]:
    """Return the ends of the dashes, with a gap behind each, and what hovering shows."""
    x: list[object] = []
    y: list[object] = []
    text: list[object] = []
    columns = ("start_s", "end_s", "row", "group", "thread")
    for start, end, row, group, thread in table.select(columns).iter_rows():
        x += [start, end, None]
        y += [row, row, None]
        text += [f"g{group}-{thread}: {1000 * (end - start):.1f} ms"] * 3
    return {"x": x, "y": y, "text": text}


def _title(name: str, trace: Trace, group: int | None) -> str:
    """Return the title of a panel: for one group with the time between the first and the last completion."""
    if group is None:
        return name
    facts = evenness(trace).filter(pl.col("group") == group)
    return f"{name}: {facts['spread_percent'][0]:.0f} % apart"


def _arrow(fig: go.Figure, table: pl.DataFrame, panel: int) -> None:
    """Draw the arrow from the first to the last completion."""
    ends = table.group_by("row").agg(pl.col("end_s").max()).sort("end_s", "row")
    axis = "" if panel == 1 else str(panel)
    (row0, x0), (row1, x1) = ends.row(0), ends.row(-1)
    if row0 != row1:
        fig.add_annotation(
            x=x1, y=row1, ax=x0, ay=row0, xref=f"x{axis}", yref=f"y{axis}", axref=f"x{axis}", ayref=f"y{axis}",
            text="", showarrow=True, arrowhead=2, arrowwidth=1.6, arrowcolor=INK,
        )  # fmt: skip


def _name_groups(fig: go.Figure, table: pl.DataFrame, panel: int) -> None:
    """Write the number of threads at the beginning of each group."""
    firsts = table.group_by("group").agg(pl.col("start_s", "row").min()).sort("group")
    fig.add_scatter(
        x=firsts["start_s"], y=firsts["row"], mode="text", text=[f"{g} " for g in firsts["group"]],
        textposition="middle left", textfont={"size": 10, "color": INK}, showlegend=False, hoverinfo="skip",
        row=panel, col=1,
    )  # fmt: skip
