"""The figures of idle states: wakeups that wait for a CPU to leave its state (Sites, Figure 3), and what spinning costs."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go
import polars as pl

from wastedcores.analysis.idle import exits, idle_intervals
from wastedcores.figures.fork_wait import fork_wait_zoom
from wastedcores.figures.theme import CLASS_COLOURS, GRID, INK, fit_legend, style
from wastedcores.topology.clocks import IdleState
from wastedcores.trace.trace import Trace


def idle_exits(
    trace: Trace, states: Sequence[IdleState], start_ns: int, end_ns: int, title: str = ""
) -> go.Figure:
    """Draw a short window with one row per CPU: idle, leaving an idle state, and running, with an arc per fork and wakeup."""
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
