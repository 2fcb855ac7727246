"""The tasks that ran on each CPU, as intervals and as a figure with one row per CPU."""

from __future__ import annotations

import re

import numpy as np
import plotly.graph_objects as go
import polars as pl
from plotly.subplots import make_subplots

from wastedcores.analysis.examined import Examined
from wastedcores.analysis.scene import Scene, TimeAxis
from wastedcores.analysis.states import pixel_edges
from wastedcores.errors import MissingEventsError
from wastedcores.figures import panels
from wastedcores.figures.theme import (
    CLASS_COLOURS,
    CLEAR,
    GRID,
    INK,
    OTHER_CLASS,
    add_hatch,
    fit_legend,
    legend_entry,
    literal,
    palette,
    style,
)
from wastedcores.trace.trace import Trace
from wastedcores.words.rich_text import count


def runs(trace: Trace, start_ns: int, end_ns: int) -> pl.DataFrame:
    """Find out from the context switches which task ran on which CPU in a window.

    A stay has the name that the task has when it leaves the CPU, so a shell that executes a program appears under the program's
    name.

    Some kernels record no switch out of the idle task (seen on 6.18: every ``sched_switch`` has a ``prev_pid`` other
    than 0). Where a switch stops a task that the previous switch had not started, the stopped task is assumed to
    have run since its last wakeup. If it has no wakeup, the time of the missing switch is not known, and the previous task is
    assumed to have run all the time.
    """
    columns = ("ts_ns", "cpu", "pid", "comm", "prev_pid", "prev_comm")
    names = pl.col("comm", "prev_comm").cast(pl.String)
    told = trace.only("switch").select(columns)
    inside = told.filter(pl.col("ts_ns") <= end_ns)
    # the first switch of each CPU after the window tells which task ran at the end of the window, and its name
    after = told.filter(pl.col("ts_ns") > end_ns).group_by("cpu")
    later = after.agg(pl.all().sort_by("ts_ns").first()).select(columns)
    switches = pl.concat(pl.collect_all([inside.with_columns(names), later.with_columns(names)]))
    if switches.is_empty() and not trace.kinds().get("switch"):
        raise MissingEventsError(
            f"{trace.name}: no 'switch' events, so it is not known who ran where. Record sched_switch (perf sched record, "
            "trace-cmd record -e sched, wastedcores capture)."
        )
    # one row per CPU for the time before its first switch, with an unknown task (pid -1)
    begun = (
        switches.select("cpu")
        .unique()
        .with_columns(ts_ns=pl.lit(trace.header.start_ns or 0, pl.Int64))
    )
    begun = begun.with_columns(
        pid=pl.lit(-1, pl.Int32), comm=pl.lit(None, pl.String), prev_pid=-1, prev_comm=None
    )
    table = pl.concat([begun.select(switches.columns).cast(switches.schema), switches])
    follows = {"end_ns": "ts_ns", "then_pid": "prev_pid", "then_comm": "prev_comm"}
    table = table.sort("cpu", maintain_order=True).with_columns(
        pl.col(old).shift(-1).over("cpu").alias(new) for new, old in follows.items()
    )
    table = table.with_columns(
        pl.col("end_ns").fill_null(end_ns), then_pid=pl.coalesce("then_pid", "pid")
    )
    agree = table.filter(pl.col("pid") == pl.col("then_pid")).with_columns(
        comm=pl.coalesce("then_comm", "comm")
    )
    split = _split(trace, table.filter(pl.col("pid") != pl.col("then_pid")))
    stays = [agree.select("cpu", start_ns="ts_ns", end_ns="end_ns", pid="pid", comm="comm"), split]
    both = pl.concat(stays).filter(pl.col("start_ns") < pl.col("end_ns"), pl.col("pid") >= 0)
    return clipped(both, start_ns, end_ns).sort("cpu", "start_ns")


def clipped(stays: pl.DataFrame, start_ns: int, end_ns: int) -> pl.DataFrame:
    """Return the stays that overlap a window, clipped to the window."""
    return stays.filter(pl.col("end_ns") > start_ns, pl.col("start_ns") < end_ns).with_columns(
        pl.col("start_ns").clip(lower_bound=start_ns), pl.col("end_ns").clip(upper_bound=end_ns)
    )


def _split(trace: Trace, gaps: pl.DataFrame) -> pl.DataFrame:
    """Split each span whose two switches name different tasks: the first task ran until the second was woken, then the second."""
    end_ns = int(gaps["end_ns"].max() or 0)  # type: ignore[arg-type]
    wakeups = (
        trace.only("wakeup", "wakeup_new")
        .filter(pl.col("ts_ns") <= end_ns, pl.col("pid").is_in(gaps["then_pid"].unique().to_list()))
        .select("pid", woken_ns="ts_ns")
        .collect()
    )
    gaps = gaps.sort("end_ns").join_asof(
        wakeups.sort("woken_ns"),
        left_on="end_ns",
        right_on="woken_ns",
        by_left="then_pid",
        by_right="pid",
        check_sortedness=False,
    )
    woken = pl.col("woken_ns").clip(lower_bound=pl.col("ts_ns"))
    # the task that is stopped by the first switch of a CPU ran since the beginning, or since its wakeup if it had one
    changed = (
        pl.when(pl.col("pid") < 0)
        .then(woken.fill_null(pl.col("ts_ns")))
        .otherwise(woken.fill_null(pl.col("end_ns")))
    )
    gaps = gaps.with_columns(change=changed)
    return pl.concat(
        [
            gaps.select("cpu", start_ns="ts_ns", end_ns="change", pid="pid", comm="comm"),
            gaps.select(
                "cpu", start_ns="change", end_ns="end_ns", pid="then_pid", comm="then_comm"
            ),
        ]
    )


def task_class(comm: str) -> str:
    """Return the class of a task: its comm up to a number (``kworker`` for ``kworker/3:1H``; ``cc1`` is unchanged)."""
    return re.sub(r"[/:\-.#_ ]\d.*$", "", comm) or comm


def timeline(
    scene: Scene,
    table: pl.DataFrame,
    window: tuple[int, int],
    *,
    cols: int = 600,
    palette_name: str = "safe",
    title: str = "",
    height: int | None = None,
) -> go.Figure:
    """Draw which task ran on which CPU in a window; kinds of tasks share a pixel in proportion to their time."""
    from wastedcores.analysis.binning_jit import bin_share

    colours = palette(palette_name)
    edges = pixel_edges(*window, cols)
    row_of = {cpu: row for row, cpu in enumerate(scene.cpus)}
    part = (
        table.filter(pl.col("cpu").is_in(list(row_of)))
        .with_columns(_row=pl.col("cpu").replace_strict(row_of, return_dtype=pl.Int64))
        .sort("_row", "start_ns", maintain_order=True)
    )
    classes, code_of_interval = _classes(part)
    offsets = np.searchsorted(part["_row"].to_numpy(), np.arange(len(row_of) + 1))
    z, owner = bin_share(
        part["start_ns"].cast(pl.Int64).to_numpy(),
        part["end_ns"].cast(pl.Int64).to_numpy(),
        code_of_interval.astype(np.int64),
        offsets.astype(np.int64),
        edges,
        len(CLASS_COLOURS) + 2,
    )
    # if no task is known to have run and the runqueue was empty, the CPU was idle
    empty = (z < 0) & (scene.states.bin(*window, cols=cols, cpus=scene.cpus).longest == 0)
    z[empty] = 0
    # a large trace has many more intervals than pixels, and only visible ones need a name
    seen, place = np.unique(owner, return_inverse=True)
    stays = part[seen[seen >= 0]].select(pl.col("comm").fill_null("?"), "pid").iter_rows()
    unknown = ["unknown"] if seen.size and seen[0] < 0 else []
    names = np.array([*unknown, *(literal(f"{c}:{p}") if p else "idle" for c, p in stays)])
    steps = (CLEAR, colours.idle, *CLASS_COLOURS, OTHER_CLASS)
    n = len(steps)
    scale = [(e, c) for i, c in enumerate(steps) for e in (i / n, (i + 1) / n)]
    axis = TimeAxis.of(scene.window[0], window[1] - window[0])
    fig = make_subplots(rows=1, cols=1)
    if (z < 0).any():
        add_hatch(fig, "x", "y")
    fig.add_heatmap(
        x=axis.at(edges),
        y=scene.rows(),
        z=z,
        text=np.where(empty, "idle", names[place.reshape(owner.shape)]).tolist(),
        zmin=-1.5,
        zmax=n - 1.5,
        colorscale=scale,
        showscale=False,
        hovertemplate=f"%{{y}}, %{{x:{axis.digits}}} {axis.unit}<br>%{{text}}<extra></extra>",
        name="running task",
        row=1,
        col=1,
    )
    panels.cpu_axis(fig, scene, 1, 1)
    panels.add_marks(fig, scene, axis, window, row=1, col=1)
    present = set(np.unique(z).tolist())
    labels = ["idle", *classes, *[""] * (len(CLASS_COLOURS) - len(classes)), "other"]
    for code, (label, colour) in enumerate(zip(labels, steps[1:], strict=True)):
        if code in present and label:
            legend_entry(fig, literal(label), {"color": colour})
    fig.update_xaxes(range=[float(axis.at(window[0])), float(axis.at(window[1]))], **axis.labels)
    subtitle = " · ".join(p for p in (scene.label, scene.facts) if p)
    tall = height or int(np.clip(200 + 6 * len(scene.cpus), 320, 600))
    style(fig, title, "<br>".join(p for p in (subtitle, scene.loss) if p), tall)
    return fit_legend(fig.update_layout(showlegend=True))


def _classes(part: pl.DataFrame) -> tuple[list[str], np.ndarray]:
    """Return the classes that ran longest, and a code per interval: 0: idle, 1 and up: a class, the last code: other classes."""
    comms = part.select(comm=pl.col("comm").fill_null("?"))["comm"].unique().to_list()
    of_comm = pl.DataFrame(
        {"comm": comms, "kind": [task_class(c) for c in comms]},
        schema={"comm": pl.String, "kind": pl.String},
    )
    stays = part.select(
        "pid", comm=pl.col("comm").fill_null("?"), ran=pl.col("end_ns") - pl.col("start_ns")
    ).join(of_comm, on="comm", how="left", maintain_order="left")
    time = (
        stays.filter(pl.col("pid") != 0)
        .group_by("kind")
        .agg(pl.col("ran").sum())
        .sort("ran", "kind", descending=[True, False])
    )
    top = time["kind"].head(len(CLASS_COLOURS)).to_list()
    code = {name: i + 1 for i, name in enumerate(top)}
    codes = pl.col("kind").replace_strict(
        code, default=len(CLASS_COLOURS) + 1, return_dtype=pl.Int64
    )
    coded = stays.select(code=pl.when(pl.col("pid") == 0).then(0).otherwise(codes))
    return top, coded["code"].to_numpy()


#: height of a node's panel in pixels
_HEIGHT = 70


def threads_per_node(
    run: Examined,
    window: tuple[int, int] | None = None,
    *,
    cols: int = 700,
    palette_name: str = "safe",
    title: str = "",
) -> go.Figure:
    """Draw how many threads run or wait on every node, beside the number of its CPUs.

    On a balanced machine, every node has the same number of threads. CPUs are wasted if one node has more threads than CPUs and
    another node has fewer. In the paper's picture of Overload-on-Wakeup, two nodes of 8 CPUs have 9 and 7 threads.
    """
    scene = run.scene
    starts = scene.node_starts()
    if not starts:
        raise MissingEventsError(
            f"{run.label}: the trace does not tell which CPU is on which node. Name the machine (--machine)."
        )
    start, end = window or scene.window
    bins = scene.states.bin(start, end, cols=cols, cpus=scene.cpus)
    axis = TimeAxis.of(scene.window[0], end - start)
    colours = palette(palette_name)
    fig = make_subplots(
        rows=len(starts), shared_xaxes=True, vertical_spacing=0.25 / len(starts) / 2
    )
    x = np.repeat(axis.at(bins.edges), 2)[1:-1]
    highest = 0.0
    for row, (node, first, size) in enumerate(starts, 1):
        threads = bins.mean[first : first + size].sum(axis=0)  # NaN where a CPU is not known
        known = threads[~np.isnan(threads)]
        highest = max(highest, size, float(known.max()) if known.size else 0.0)
        y = np.repeat(threads.astype(np.float32), 2)
        fig.add_scatter(
            x=x, y=y, name="threads, running or waiting", line={"color": INK, "width": 1.5}, legendgroup="threads",
            showlegend=row == 1, row=row, col=1,
            hovertemplate=f"node {node}: %{{y:.2f}} threads on {size} CPUs<extra></extra>",
        )  # fmt: skip
        for name, colour, edge in (
            # if the number of threads is not known, fmax and fmin return the number of CPUs, so there is no area
            ("more threads than CPUs", colours.waiting, np.fmax(y, size)),
            ("fewer threads than CPUs", colours.idle, np.fmin(y, size)),
        ):
            _between(fig, x, size, edge, name, colour, row)
        fig.update_yaxes(title={"text": f"node {node}", "font": {"size": 11}}, row=row, col=1)
    fig.update_yaxes(range=[0, highest * 1.08], nticks=4, gridcolor=GRID)
    fig.update_xaxes(range=[float(axis.at(start)), float(axis.at(end))])
    fig.update_xaxes(**axis.labels, row=len(starts), col=1)
    sizes = sorted({size for _, _, size in starts})
    return style(
        fig,
        title or f"Threads per node: {run.label}",
        f"{count(len(starts), 'node')} of {' or '.join(map(str, sizes))} CPUs; mean number of threads per pixel",
        height=180 + _HEIGHT * len(starts),
    )


def _between(
    fig: go.Figure, x: np.ndarray, size: int, edge: np.ndarray, name: str, colour: str, row: int
) -> None:
    """Fill the area between the number of CPUs and the number of threads, on one side of the number of CPUs."""
    flat = np.full(x.size, float(size), np.float32)
    line = {"width": 0}
    fig.add_scatter(
        x=x, y=flat, line=line, mode="lines", hoverinfo="skip", showlegend=False, row=row, col=1
    )
    fig.add_scatter(
        x=x, y=edge.astype(np.float32), line=line, mode="lines", fill="tonexty", fillcolor=colour, name=name,
        legendgroup=name, showlegend=row == 1, hoverinfo="skip", row=row, col=1,
    )  # fmt: skip
