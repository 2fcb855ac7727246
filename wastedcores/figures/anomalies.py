"""The figures of Sites, Anomalies in Linux Processor Use: stays of groups of threads, idle states, and page faults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go
import polars as pl
from plotly.subplots import make_subplots

from wastedcores.analysis.idle import exits, idle_intervals
from wastedcores.analysis.thread_groups import evenness, stays
from wastedcores.errors import UsageError
from wastedcores.figures.fork_wait import fork_wait_zoom
from wastedcores.figures.theme import CLASS_COLOURS, GRID, INK, fit_legend, style
from wastedcores.topology.clocks import IdleState
from wastedcores.trace.trace import Trace


def idle_exits(
    trace: Trace, states: Sequence[IdleState], start_ns: int, end_ns: int, title: str = ""
) -> go.Figure:
    """Draw when each CPU was idle, left an idle state or ran a task in a short window, with an arrow per fork and wakeup."""
    fig = fork_wait_zoom(trace, start_ns, end_ns)
    row_of = {int(cpu): row for row, cpu in enumerate(fig.layout.yaxis.ticktext)}
    found = exits(idle_intervals(trace), states).filter(
        pl.col("cpu").is_in(list(row_of)), pl.col("end_ns") > start_ns, pl.col("start_ns") < end_ns
    )
    x: list[float | None] = []
    y: list[float | None] = []
    for cpu, begin, end in found.select("cpu", "start_ns", "end_ns").iter_rows():
        x += [(max(begin, start_ns) - start_ns) / 1e6, (min(end, end_ns) - start_ns) / 1e6, None]
        y += [row_of[cpu], row_of[cpu], None]
    fig.add_scatter(
        x=x, y=y, mode="lines", name="idle", line={"color": INK, "width": 1, "simplify": False}
    )
    late = found.filter(pl.col("exit_ns") > 0, pl.col("end_ns") < end_ns)
    fig.add_bar(
        x=late["exit_ns"] / 1e6, base=(late["end_ns"] - start_ns) / 1e6, y=[row_of[c] for c in late["cpu"]],
        orientation="h", width=0.5, name="leaving an idle state", text=late["state"], textposition="none",
        marker={"color": "white", "line": {"color": INK, "width": 1}, "pattern": {"shape": "/", "fgcolor": INK}},
        hovertemplate="CPU leaves %{text}: %{x:.3f} ms<extra></extra>",
    )  # fmt: skip
    total = int(late["exit_ns"].to_numpy().sum()) / 1e3
    style(
        fig,
        title or f"CPUs left an idle state {late.height} times, which took {total:.0f} us",
        "thin: idle; hatched: leaving an idle state; thick: running, coloured by task; an arrow per fork and wakeup",
        height=200 + 70 * len(row_of),
    )
    return fit_legend(fig)


def spin_costs(costs: pl.DataFrame) -> go.Figure:
    """Draw what policies of spinning before an idle state would have cost."""
    twice = 2 * costs.filter(pl.col("policy") == "oracle")["cost_s"][0]
    most = costs.filter(pl.col("cost_s") <= 4 * max(twice, 1e-9))["cost_s"].max()
    longest = 1.1 * max(twice, float(most or 0))  # type: ignore[arg-type]
    unit, per_s = next(
        ((u, n) for u, n in (("s", 1), ("ms", 1e3)) if longest * n >= 1), ("us", 1e6)
    )
    fig = go.Figure()
    for column, name, colour in (
        ("spun_s", "spinning", CLASS_COLOURS[1]),
        ("late_s", "tasks wait for exits", CLASS_COLOURS[0]),
    ):
        fig.add_bar(
            x=costs[column] * per_s, y=costs["policy"], orientation="h", name=name, marker_color=colour,
            hovertemplate="%{y}: %{x:.4g} " + unit + "<extra>" + name + "</extra>",
        )  # fmt: skip
    fig.add_vline(x=twice * per_s, line={"dash": "dot", "color": INK})
    fig.update_xaxes(
        title_text=f"CPU time ({unit})",
        range=[0, longest * per_s],
        gridcolor=GRID,
        showgrid=True,
    )
    fig.update_yaxes(autorange="reversed")
    fig.update_layout(barmode="stack")
    style(
        fig,
        "What spinning before an idle state would have cost",
        "dotted: twice the cost of who knows each idle interval; bars that are far longer are cut off",
        height=340,
    )
    fig.update_layout(margin_l=130)
    return fit_legend(fig)


_SINGLE, _AT_ONCE = "touch", {4: "4 pages at once", 16: "16 pages at once"}


def page_faults(touches: pl.DataFrame) -> go.Figure:
    """Draw the first touch of every page of an allocation as a dash, and below the dashes the sum of the times so far."""
    length = (touches["end_ns"] - touches["start_ns"]).to_numpy() / 1e3
    start, end = touches["start_ns"].to_numpy() / 1e3, touches["end_ns"].to_numpy() / 1e3
    gap = np.full(len(start), np.nan)
    names = ["the allocation" if p < 0 else f"page {p}" for p in touches["page"]]
    texts = [f"{name}: {us:.1f} us" for name, us in zip(names, length, strict=True)]
    fig = make_subplots(
        rows=2, cols=1, shared_xaxes=True, row_heights=[0.25, 0.75], vertical_spacing=0.06
    )
    for first, last, name, colour in (
        (0, 1, "allocation", CLASS_COLOURS[1]),
        (1, len(start), "first touch of a page", CLASS_COLOURS[0]),
    ):
        x = np.stack([start, end, gap], axis=1)[first:last].ravel()
        fig.add_scatter(
            x=x, y=np.zeros(len(x)), mode="lines", name=name, line={"color": colour, "width": 26},
            text=np.repeat(texts[first:last], 3), hoverinfo="text", row=1, col=1,
        )  # fmt: skip
    fig.add_scatter(
        x=end, y=np.cumsum(length), mode="lines", line={"color": INK, "width": 2}, name="sum", showlegend=False,
        line_shape="hv", row=2, col=1,
    )  # fmt: skip
    fig.update_yaxes(visible=False, range=[-1, 1], row=1, col=1)
    fig.update_yaxes(title_text="sum (us)", gridcolor=GRID, rangemode="tozero", row=2, col=1)
    fig.update_xaxes(showgrid=True, gridcolor=GRID)
    fig.update_xaxes(title_text="time (us)", row=2, col=1)
    style(
        fig,
        f"The allocation took {length[0]:.0f} us, and touching its {len(length) - 1} pages {length[1:].sum():.0f} us",
        "a dash per first touch of a page, and the sum of their times; gaps are this program's own",
        height=420,
    )
    return fit_legend(fig)


def page_costs(table: pl.DataFrame) -> go.Figure:
    """Draw the cost of a page for several ways of touching new memory, with predictions for faults that provide several pages."""
    fig = go.Figure()
    fig.add_bar(
        x=table["page_us"], y=table["way"], orientation="h", name="measured", marker_color=CLASS_COLOURS[0],
        hovertemplate="%{y}: %{x:.2f} us per page<extra></extra>",
    )  # fmt: skip
    found = set(table["way"])
    expected = {way: grouped_cost_us(table, n) for n, way in _AT_ONCE.items() if way in found}
    fig.add_scatter(
        x=list(expected.values()), y=list(expected), mode="markers", name="predicted",
        marker={"symbol": "diamond-open", "size": 13, "color": INK, "line": {"width": 2}},
        hovertemplate="%{y}: predicted %{x:.2f} us per page<extra></extra>",
    )  # fmt: skip
    single = table.filter(pl.col("way") == _SINGLE)["page_us"][0]
    best = table.sort("page_us").row(0, named=True)
    fig.update_yaxes(autorange="reversed")
    fig.update_xaxes(title_text="us per page", showgrid=True, gridcolor=GRID, rangemode="tozero")
    style(
        fig,
        f"{single:.2f} us per page with one fault each; {best['way']}: {best['page_us']:.2f} us",
        "allocation and first touch, medians; predictions use one page per fault and all pages at once only",
        height=380,
    )
    fig.update_layout(margin_l=130)
    return fit_legend(fig)


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
    """Return the ends of the dashes, with a gap after each dash, and the hover texts."""
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
    """Return the title of a panel; for a single group, it says how far apart the first and the last completion are."""
    if group is None:
        return name
    facts = evenness(trace).filter(pl.col("group") == group)
    return f"{name}: {facts['spread_percent'][0]:.0f} % apart"


def _arrow(fig: go.Figure, table: pl.DataFrame, panel: int) -> None:
    """Draw the arrow from the end of the first thread to the end of the last one."""
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


def grouped_cost_us(table: pl.DataFrame, pages: int) -> float:
    """Predict the time per page if each fault provided several pages.

    The prediction uses two measured times per page: that of faults of one page, and that of one call that populates all pages. A
    fault of n pages costs one entry and exit and clears n pages. The one call has almost no entries, so its time is the clearing.
    """
    single, clear = (
        table.filter(pl.col("way") == way)["page_us"][0] for way in ("touch", "populate all")
    )
    return float(clear + max(single - clear, 0) / pages)
