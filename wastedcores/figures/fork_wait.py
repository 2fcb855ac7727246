"""The figures of the fork/wait paper: the frequency of busy CPUs at each tick, and which task ran where in a short window."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import numpy as np
import plotly.graph_objects as go
import polars as pl
from plotly.subplots import make_subplots

from wastedcores.errors import MissingEventsError
from wastedcores.figures.theme import CLASS_COLOURS, GRID, MUTED, fit_legend, literal, style
from wastedcores.figures.timelines import runs as stays_of
from wastedcores.trace.trace import Trace

#: the paper's classes of frequencies in GHz; the paper shows the highest one in red (section 4.4) and names no other colour
CLASSES = (
    (1.2, 1.6, "#9ecae1"),
    (1.6, 2.1, "#4292c6"),
    (2.1, 2.6, "#f2a33a"),
    (2.6, 3.0, "#d7191c"),
)
#: a tick at 250 Hz
_TICK_NS = 4_000_000
#: at most this many marks of a CPU are drawn side by side; if there are more ticks, each mark is the mean of several ticks
_COLUMNS = 700


def _ticks(name: str, trace: Trace) -> pl.DataFrame:
    """Return the time since the beginning of the trace, the CPU and the GHz of each tick of a busy CPU."""
    out = (
        trace.only("tick")
        .filter(pl.col("value") > 0)
        .select(pl.col("ts_ns") - (trace.header.start_ns or 0), "cpu", ghz=pl.col("value") / 1e6)
        .collect()
    )
    if out.is_empty():
        raise MissingEventsError(
            f"{name}: no 'tick' events with a frequency. Replay on a machine that has frequencies (xeon-e7-8870-turbo), or "
            "record ticks where the processor tells its clock."
        )
    return out


def tick_frequencies(runs: Mapping[str, Trace]) -> go.Figure:
    """Draw one mark per busy CPU and tick, coloured by frequency, and below the number of busy CPUs (figures 1 and 3)."""
    panels = len(runs)
    fig = make_subplots(
        rows=panels + 1, cols=1, shared_xaxes=True, vertical_spacing=0.05,
        row_heights=[1.0] * panels + [0.6], subplot_titles=[*runs, "busy CPUs at a tick"],
    )  # fmt: skip
    tables = {name: _ticks(name, trace) for name, trace in runs.items()}
    longest = max(int(t["ts_ns"].max()) for t in tables.values())  # type: ignore[arg-type]
    cpus = max(t.header.cpus or 1 for t in runs.values())
    per = max(1, -(-longest // (_COLUMNS * _TICK_NS)))  # each mark stands for this many ticks
    step = per * _TICK_NS
    for panel, (name, ticks) in enumerate(tables.items(), 1):
        marks = ticks.group_by(pl.col("ts_ns") // step, "cpu").agg(pl.col("ghz").mean())
        for i, (low, high, colour) in enumerate(CLASSES):
            top = high if i + 1 < len(CLASSES) else np.inf
            mine = marks.filter((pl.col("ghz") > low) | (i == 0), pl.col("ghz") <= top)
            fig.add_scattergl(
                x=mine["ts_ns"] * step / 1e9, y=mine["cpu"], mode="markers",
                marker={"color": colour, "size": 3}, name=f"{low}-{high} GHz",
                legendgroup=str(i), showlegend=False, row=panel, col=1,
                hovertemplate="CPU %{y} at %{x:.3f} s<extra>" + f"{low}-{high} GHz</extra>",
            )  # fmt: skip
            if panel == 1:
                fig.add_scatter(
                    x=[None], y=[None], mode="markers", marker={"color": colour, "size": 9},
                    name=f"{low}-{high} GHz", legendgroup=str(i), row=1, col=1,
                )  # fmt: skip
        each = ticks.select(pl.col("ts_ns") // _TICK_NS, "cpu").unique()["ts_ns"].to_numpy()
        busy = np.bincount(each // per) / np.bincount(np.arange(each.max() + 1) // per)
        fig.add_scatter(
            x=np.arange(busy.size) * step / 1e9, y=busy, mode="lines", name=name,
            line={"color": CLASS_COLOURS[panel - 1], "width": 1.2}, row=panels + 1, col=1,
        )  # fmt: skip
        fig.update_yaxes(title_text="CPU", range=[-2, cpus + 1], row=panel, col=1)
    fig.update_xaxes(title_text="time (s)", row=panels + 1, col=1)
    fig.update_yaxes(showgrid=True, gridcolor=GRID, row=panels + 1, col=1)
    fig.update_annotations(font_size=12, x=0, xanchor="left")
    style(
        fig,
        "The frequency of every busy CPU at its ticks",
        f"one mark per busy CPU and {step / 1e6:g} ms; the highest class is red, as in the paper",
        height=180 + 210 * panels,
    )
    return fit_legend(fig)


def fork_wait_zoom(trace: Trace, start_ns: int, end_ns: int, by: str = "task") -> go.Figure:
    """Draw every stay of a task on a CPU in a short window, with arrows for forks and wakeups (figures 2a and 2b)."""
    stays = stays_of(trace, start_ns, end_ns).filter(pl.col("pid") > 0).sort("start_ns")
    if by == "frequency":
        # a tick has the value 0 if the machine does not tell its frequency
        told = trace.only("frequency", "tick").filter(pl.col("value") > 0)
        khz = told.select("ts_ns", "cpu", ghz=pl.col("value") / 1e6).collect()
        if khz.is_empty():
            raise MissingEventsError(
                f"{trace.name}: no event tells a frequency, so tasks cannot be coloured by it. Colour them by task, or replay on "
                "a machine that has frequencies (xeon-e7-8870-turbo)."
            )
        stays = stays.join_asof(
            khz.sort("ts_ns"),
            left_on="end_ns",
            right_on="ts_ns",
            by="cpu",
            check_sortedness=False,
        ).with_columns(label=_class_names(pl.col("ghz")))
        colours = {f"{low}-{high} GHz": colour for low, high, colour in CLASSES}
    else:
        stays = stays.with_columns(label=pl.col("comm").fill_null("unnamed"))
        names = sorted(set(stays["label"]))
        colours = {n: CLASS_COLOURS[i % len(CLASS_COLOURS)] for i, n in enumerate(names)}
    row_of = {cpu: i for i, cpu in enumerate(sorted(set(stays["cpu"])))}
    fig = go.Figure()
    for label, colour in colours.items():
        mine = stays.filter(pl.col("label") == label)
        x, y = [], []
        for a, b, cpu in mine.select("start_ns", "end_ns", "cpu").iter_rows():
            x += [(a - start_ns) / 1e6, (b - start_ns) / 1e6, None]
            y += [row_of[cpu], row_of[cpu], None]
        fig.add_scatter(x=x, y=y, mode="lines", name=literal(label),
                        line={"color": colour, "width": 7, "simplify": False})  # fmt: skip
    _arrows(fig, trace, start_ns, end_ns, row_of)
    fig.update_yaxes(
        title_text="CPU", tickvals=list(row_of.values()), ticktext=[str(c) for c in row_of],
        range=[-0.7, len(row_of) - 0.3],
    )  # fmt: skip
    fig.update_xaxes(title_text="time (ms)")
    return style(
        fig,
        "Tasks fork and wait from CPU to CPU"
        if by == "task"
        else "The frequency at which each task ran",
        "thick: at least one task on the CPU (RQSIZE >= 1), coloured by "
        + ("task" if by == "task" else "the frequency at its end")
        + "<br>thin: a fork or a wakeup, from the CPU where it happened",
        height=170 + 22 * max(len(row_of), 6),
    )


def _class_names(ghz: pl.Expr) -> pl.Expr:
    """Name the class of a frequency; a CPU that no event has named yet is in the lowest class."""
    out = pl.lit(f"{CLASSES[0][0]}-{CLASSES[0][1]} GHz")
    for below, (low, high, _) in pairwise(CLASSES):
        out = pl.when(ghz > below[1]).then(pl.lit(f"{low}-{high} GHz")).otherwise(out)
    return out


def _arrows(
    fig: go.Figure, trace: Trace, start_ns: int, end_ns: int, row_of: dict[int, int]
) -> None:
    """Draw a line from the CPU of a fork or wakeup to the CPU on which the task is put."""
    moves = (
        trace.only("wakeup", "wakeup_new")
        .filter(
            pl.col("ts_ns").is_between(start_ns, end_ns), pl.col("cpu") != pl.col("src_cpu"),
            pl.col("cpu").is_in(list(row_of)), pl.col("src_cpu").is_in(list(row_of)),
        )
        .select("ts_ns", "cpu", "src_cpu")
        .collect()
    )  # fmt: skip
    x, y = [], []
    for ts_ns, cpu, src in moves.iter_rows():
        x += [(ts_ns - start_ns) / 1e6] * 2 + [None]
        y += [row_of[src], row_of[cpu], None]
    fig.add_scatter(
        x=x, y=y, mode="lines+markers", name="fork or wakeup", line={"color": MUTED, "width": 1},
        marker={"symbol": "arrow", "size": 6, "angleref": "previous"},
    )  # fmt: skip


def idle_before(runs: Mapping[str, Trace]) -> go.Figure:
    """Draw how long a CPU had been idle whenever it began to run a task."""
    fig = go.Figure()
    for i, (name, trace) in enumerate(runs.items()):
        last_ns = int(trace.only("switch").select(pl.col("ts_ns").max()).collect().item())
        stays = stays_of(trace, 0, last_ns)
        # the time before a CPU's first switch is not known, and its last stay has not ended
        begun = pl.col("start_ns") > (trace.header.start_ns or 0)
        idle = stays.filter(begun, pl.col("pid") == 0, pl.col("end_ns") < last_ns)
        ms = np.sort((idle["end_ns"] - idle["start_ns"]).to_numpy() / 1e6)
        fig.add_scatter(
            x=ms, y=100 * np.arange(1, len(ms) + 1) / max(len(ms), 1), mode="lines", name=name,
            line={"color": CLASS_COLOURS[i % len(CLASS_COLOURS)]},
        )  # fmt: skip
    fig.update_xaxes(type="log", title_text="idle before (ms)", showgrid=True, gridcolor=GRID)
    fig.update_yaxes(title_text="stays on a CPU that was idle, %", showgrid=True, gridcolor=GRID)
    return style(fig, "How long a CPU had been idle before it ran a task", "cumulated", height=380)


def assumptions(rows: list[dict[str, float]]) -> go.Figure:
    """Draw how much each strategy gains when one assumption changes."""
    base, *rest = rows
    names = [f"{r['parameter']} = {r['value']:g}" for r in rest]
    fig = go.Figure()
    for i, key in enumerate(("s1", "s2")):
        fig.add_scatter(
            x=[r[key] for r in rest], y=names, mode="markers", name=f"strategy {key[1]}",
            marker={"color": CLASS_COLOURS[i], "size": 10, "symbol": ("circle", "square")[i]},
        )  # fmt: skip
        fig.add_vline(x=base[key], line={"color": CLASS_COLOURS[i], "dash": "dash"})
    fig.update_xaxes(title_text="time saved against CFS, %", showgrid=True, gridcolor=GRID)
    fig.update_layout(margin_l=140)
    return style(
        fig,
        "What the gain of the strategies depends on",
        "kernel/sched with 32 jobs, one assumption at a time; dashed: all as assumed",
        height=170 + 26 * len(rest),
    )
