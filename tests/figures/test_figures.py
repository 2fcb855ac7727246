"""The data of the figures; the browser tests look at the pixels."""

from __future__ import annotations

import inspect
import json
import pkgutil
import re

import numpy as np
import plotly.graph_objects as go
import polars as pl
import pytest
from support.builders import nr, switch, trace_of, wakeup

from wastedcores import figures, words
from wastedcores.analysis.critical_path import critical_path
from wastedcores.analysis.examined import examine
from wastedcores.analysis.scene import Scene, TimeAxis, by_node
from wastedcores.analysis.states import States
from wastedcores.errors import MissingEventsError, UsageError
from wastedcores.figures import theme, views
from wastedcores.figures.critical_path import path_timeline
from wastedcores.figures.heatmaps import heatmap, load_heatmap, side_by_side
from wastedcores.figures.masks import considered, unpack_masks
from wastedcores.figures.panels import strip_ticks
from wastedcores.figures.timelines import runs, task_class, timeline
from wastedcores.figures.waiting import waiting_times
from wastedcores.reports.html import figure_div
from wastedcores.trace.header import Header
from wastedcores.trace.schema import conform
from wastedcores.trace.trace import Trace
from wastedcores.words import figure_or_reason

MS = 1_000_000


def scene(**changes) -> Scene:
    """Four CPUs, numbered across two nodes. CPU 0 has 3 tasks; CPU 1 is first unknown and then idle."""
    ts = np.array([0, 0, 0, 500 * MS, 800 * MS], np.int64)
    cpu = np.array([0, 2, 3, 1, 0], np.int32)
    nr = np.array([3, 1, 0, 0, 9], np.int32)
    nodes = (0, 1, 0, 1)
    episodes = pl.DataFrame(
        {
            "start_ns": [100 * MS, 700 * MS],
            "end_ns": [600 * MS, 701 * MS],
            "persistent": [True, False],
        }
    )
    facts = {
        "states": States.collect([(ts, cpu, nr)], 4, 0, 1000 * MS),
        "cpus": by_node(range(4), nodes),
        "nodes": nodes,
        "episodes": episodes,
        "label": "t",
        "facts": "Linux 9",
    }
    return Scene(**(facts | changes))


def by_name(fig, name, nth=0):
    return [t for t in fig.data if t.name == name][nth]


def test_heatmap__rows_by_node_colours_by_length():
    fig = heatmap(scene(), cols=10, title="claim")
    trace = by_name(fig, "threads per runqueue")
    assert list(trace.y) == ["CPU 0", "CPU 2", "CPU 1", "CPU 3"]
    z = np.asarray(trace.z)
    assert z[0].tolist() == [3] * 8 + [5] * 2  # 9 tasks are "5 or more"
    assert z[2].tolist() == [-1] * 5 + [0] * 5
    assert np.asarray(trace.customdata)[0].max() == 9
    # one colour per length; unknown is transparent, so that the hatching shows
    scale = dict(trace.colorscale)
    assert scale[0] == theme.CLEAR
    assert [c for _, c in trace.colorscale][2::2] == list(theme.palette("safe").tasks)
    assert len(fig.layout.images) == 1
    assert fig.layout.title.text.startswith("claim<br>")
    assert "Linux 9" in fig.layout.title.text


def test_heatmap__no_hatching_where_everything_is_known():
    known = scene(cpus=(0, 2))
    assert not heatmap(known, cols=10).layout.images


def test_heatmap__strip_counts_idle_cpus_and_waiting_threads():
    fig = heatmap(scene(), cols=10)
    assert np.allclose(by_name(fig, "idle CPUs").y, [1] * 5 + [2] * 6)
    assert np.allclose(by_name(fig, "waiting threads").y, [2] * 8 + [8] * 3)


@pytest.mark.parametrize(
    ("top", "ticks"),
    [
        (1.0, [0, 0.5]),
        (1.25, [0, 0.5, 1]),
        (10.6, [0, 5]),  # 10 would cover the name of the panel above
        (12.5, [0, 5, 10]),
        (80.0, [0, 20, 40, 60]),
        (5000.0, [0, 2000, 4000]),
    ],
)
def test_strip__its_numbers_keep_away_from_the_panel_above(top, ticks):
    assert strip_ticks(top) == ticks


def test_heatmap__band_marks_persistent_and_short_episodes():
    fig = heatmap(scene(), cols=10)
    long, short = (np.asarray(by_name(fig, f"{n} episodes").z)[0] for n in ("persistent", "short"))
    assert long.tolist() == [0] + [1] * 5 + [0] * 4
    assert short[7] == pytest.approx(0.01)
    assert short[0] == short[9] == 0


def test_heatmap__a_persistent_episode_that_is_narrower_than_a_pixel_has_a_triangle():
    table = pl.DataFrame({"start_ns": [220 * MS], "end_ns": [270 * MS], "persistent": [True]})
    name = "persistent episodes, narrower than a pixel"
    fig = heatmap(scene(episodes=table), cols=10)
    assert by_name(fig, name).x.tolist() == [245]
    assert np.asarray(by_name(fig, "persistent episodes").z)[0][2] == pytest.approx(0.5)
    assert name not in [t.name for t in heatmap(scene(episodes=table), cols=100).data]


def test_heatmap__thousands_of_episodes_are_no_shapes():
    start = np.arange(5000) * 100_000
    many = pl.DataFrame({"start_ns": start, "end_ns": start + 50_000, "persistent": [False] * 5000})
    fig = heatmap(scene(episodes=many), cols=100)
    assert len(fig.layout.shapes) <= 2
    assert np.allclose(np.asarray(by_name(fig, "short episodes").z)[0][:50], 0.5)


def test_heatmap__at_most_two_thousand_columns():
    fig = heatmap(scene(), cols=10**6)
    assert np.asarray(by_name(fig, "threads per runqueue").z).shape[1] == 2000


def test_heatmap__says_that_events_were_lost():
    assert "LOSSY" in heatmap(scene(loss="LOSSY TRACE: 3 events lost")).layout.title.text


@pytest.mark.parametrize("bad", [{"palette_name": "pink"}, {"reduce": "mode"}, {"window": (5, 5)}])
def test_heatmap__refuses(bad):
    with pytest.raises(UsageError):
        heatmap(scene(), **bad)


def test_side_by_side__one_time_axis():
    short = scene(
        states=States.collect([(np.array([0]), np.array([0]), np.array([1]))], 4, 0, 400 * MS)
    )
    fig = side_by_side(scene(), short, cols=10)
    ranges = {tuple(fig.layout[a].range) for a in ("xaxis", "xaxis2", "xaxis5", "xaxis6")}
    assert ranges == {(0.0, 1000.0)}
    assert fig.layout.xaxis2.matches == "x"


def test_load_heatmap__needs_load_events():
    with pytest.raises(MissingEventsError, match="no 'load' events"):
        load_heatmap(scene())
    loads = States.collect(
        [(np.array([0, 500 * MS]), np.array([0, 0]), np.array([1024, 2048]))], 4, 0, 1000 * MS
    )
    trace = load_heatmap(scene(loads=loads), cols=10).data[0]
    assert np.asarray(trace.customdata)[0].tolist() == [1024] * 5 + [2048] * 5
    # on the slides' scale 0, 1, 1024 a compiler of a big session (15) is not an idle CPU
    z = np.asarray(trace.z)
    assert 2 ** z[0] - 1 == pytest.approx([1024] * 5 + [2048] * 5, rel=1e-4)
    assert trace.colorbar.ticktext[0::4] == ("0", "1024")
    assert np.log2(16) / trace.zmax > 0.3


def test_hover_texts__do_not_take_what_is_unknown_for_a_number():
    """A text per pixel would say it better, but would make a page of 64 CPUs two megabytes longer."""
    some, all_known = (by_name(heatmap(s, cols=10), "threads per runqueue").hovertemplate
                       for s in (scene(), scene(cpus=(0, 2))))  # fmt: skip
    assert "threads; -1 is unknown<extra>" in some
    assert "threads<extra>" in all_known
    loads = States.collect([(np.array([0]), np.array([0]), np.array([1024]))], 4, 0, 1000 * MS)
    assert load_heatmap(scene(loads=loads), cols=10).data[0].hoverongaps is False


def mask(*cpus):
    return bytes(sum(1 << (c % 8) for c in cpus if c // 8 == byte) for byte in range(9))


def test_masks__cpus_beyond_sixty_four():
    bits = unpack_masks(pl.Series([mask(0, 9, 70), None]), 72)
    assert np.flatnonzero(bits[0]).tolist() == [0, 9, 70]
    assert not bits[1].any()


def test_considered__draws_the_cpus_looked_at():
    events = pl.DataFrame({"ts_ns": [0, 950 * MS], "cpu_mask": [mask(0, 1), mask(3)]})
    z = np.asarray(by_name(considered(scene(), events, cols=10), "considered").z)
    assert np.argwhere(z).tolist() == [[0, 0], [2, 0], [3, 9]]


def test_considered__draws_a_decision_at_the_end_of_the_window():
    events = pl.DataFrame({"ts_ns": [500 * MS, 1000 * MS], "cpu_mask": [mask(0), mask(3)]})
    for window, drawn in (((0, 500 * MS), [[0, 9]]), (None, [[0, 5], [3, 9]])):
        z = by_name(considered(scene(), events, window, cols=10), "considered").z
        assert np.argwhere(np.asarray(z)).tolist() == drawn


def switches(*rows) -> Trace:
    """Rows (ts in ms, cpu, prev_pid, prev_comm, pid, comm)."""
    names = ("ts_ns", "cpu", "prev_pid", "prev_comm", "pid", "comm")
    frame = pl.DataFrame([(t * MS, *rest) for t, *rest in rows], schema=names, orient="row")
    frame = frame.with_columns(kind=pl.lit("switch"), prev_state=pl.lit("S"))
    return Trace(
        conform(frame, "test").lazy(), Header(source_format="test", start_ns=0, end_ns=1000 * MS)
    )


#: a name of 15 bytes, as tasks can have; in a page it would hide all that follows
HOSTILE = "<!--<script>"


def test_names_of_tasks_and_marks_are_no_markup():
    rows = [
        switch(0, 0, 0, "R", 5, comm=HOSTILE),
        switch(0, 1, 9, "S", 0),
        wakeup(100 * MS, 0, 7, comm="<b>bold</b>"),
        {"ts_ns": 150 * MS, "kind": "mark", "cpu": 0, "text": "<a href='x'>mark</a>"},
        switch(300 * MS, 0, 5, "S", 7, prev_comm=HOSTILE, comm="<b>bold</b>"),
        switch(400 * MS, 0, 7, "S", 0, prev_comm="<b>bold</b>"),
    ]
    run = examine(trace_of(rows, cpus=2), "t")
    drawn = [
        views.overview(run),
        views.who_ran(run),
        views.avoidable(run),
        path_timeline(critical_path(run.trace)),
    ]
    said = json.dumps([json.loads(fig.to_json()) for fig in drawn])
    assert not re.search("<!--|<b>bold|<a href", said)
    for text in ("&lt;!--", "&lt;b>bold", "&lt;a href"):
        assert text in said


def test_a_figure_in_a_page_cannot_end_or_hide_its_script():
    div = figure_div({"data": [{"text": [HOSTILE, "</script>"]}], "layout": {}}, "f")
    assert HOSTILE not in div
    assert div.count("</script>") == 1
    assert json.loads(re.search(r'wcDraw\("f",(\[.*?\]),', div)[1]) == [
        {"text": [HOSTILE, "</script>"]}
    ]


def test_runs__a_stay_lasts_until_the_next_switch():
    trace = switches((100, 0, 5, "a", 6, "b"), (300, 0, 6, "b", 0, "swapper/0"))
    table = runs(trace, 50 * MS, 1000 * MS)
    assert [(r[1] // MS, r[2] // MS, r[3]) for r in table.iter_rows()] == [
        (50, 100, 5),
        (100, 300, 6),
        (300, 1000, 0),
    ]


def test_runs__a_switch_out_of_idle_that_was_not_recorded():
    frame = switches(
        (100, 0, 5, "a", 0, "swapper/0"), (300, 0, 6, "b", 0, "swapper/0")
    ).events.collect()
    woken = conform(
        pl.DataFrame({"ts_ns": [250 * MS], "kind": ["wakeup"], "cpu": [0], "pid": [6]}), "test"
    )
    trace = Trace(
        pl.concat([frame, woken]).sort("ts_ns").lazy(), Header(source_format="t", start_ns=0)
    )
    table = runs(trace, 0, 400 * MS)
    assert [(r[1] // MS, r[2] // MS, r[3]) for r in table.iter_rows()] == [
        (0, 100, 5),
        (100, 250, 0),
        (250, 300, 6),
        (300, 400, 0),
    ]


def test_runs__a_window_that_ends_within_a_run_of_which_the_beginning_was_not_recorded():
    frame = switches(
        (100, 0, 5, "a", 0, "swapper/0"), (300, 0, 6, "b", 0, "swapper/0"), (310, 1, 8, "c", 0, "")
    ).events.collect()
    woken = conform(
        pl.DataFrame({"ts_ns": [250 * MS], "kind": ["wakeup"], "cpu": [0], "pid": [6]}), "test"
    )
    trace = Trace(
        pl.concat([frame, woken]).sort("ts_ns").lazy(), Header(source_format="t", start_ns=0)
    )
    table = runs(trace, 0, 280 * MS)
    assert [(r[0], r[1] // MS, r[2] // MS, *r[3:]) for r in table.iter_rows()] == [
        (0, 0, 100, 5, "a"),
        (0, 100, 250, 0, "swapper/0"),
        (0, 250, 280, 6, "b"),
        (1, 0, 280, 8, "c"),
    ]


def test_timeline__colours_by_class_and_names_the_task():
    trace = switches((0, 0, 9, "old", 6, "cc1"), (500, 0, 6, "cc1", 0, "swapper/0"))
    fig = timeline(scene(cpus=(0, 3)), runs(trace, 0, 1000 * MS), (0, 1000 * MS), cols=10)
    z = np.asarray(fig.data[0].z)
    assert z[0].tolist() == [1] * 5 + [0] * 5
    assert z[1].tolist() == [0] * 10  # no switch there, but its runqueue is known to be empty
    assert fig.data[0].text[0][0] == "cc1:6"
    assert {t.name for t in fig.data[1:]} == {"idle", "cc1"}


@pytest.mark.parametrize(
    ("comm", "kind"),
    [
        ("kworker/3:1H", "kworker"),
        ("cc1", "cc1"),
        ("noise/12", "noise"),
        ("R-0", "R"),
        ("12", "12"),
    ],
)
def test_task_class(comm, kind):
    assert task_class(comm) == kind


def test_waiting_times__nothing_is_lost_in_the_bins():
    waits = {"a": np.array([10_000, 2_000_000, 0, 350_000_000]), "b": np.array([5])}
    fig = waiting_times(waits, persist_ns=100 * MS)
    total = sum(by_name(fig, "a").y)
    assert total == pytest.approx((10_000 + 2_000_000 + 350_000_000) / 1e9)
    share = by_name(fig, "a", 1)
    assert share.x[0] == 0.001
    assert share.y[0] == 0.75  # a wait of 0 is shorter than the axis begins
    assert min(share.y) == 0.25


def test_waiting_times__short_waits_have_a_unit_of_their_own_and_shares_end_at_all():
    fig = waiting_times({"a": np.array([5_000] * 39)})
    assert sum(by_name(fig, "a").y) == pytest.approx(0.195)
    assert fig.layout.yaxis.title.text == "thread-ms"
    assert 10 ** fig.layout.yaxis2.range[1] < 2


@pytest.mark.parametrize(("width", "unit"), [(3 * 10**9, "s"), (5 * MS, "ms"), (2000, "us")])
def test_time_axis__unit_by_width(width, unit):
    assert TimeAxis.of(0, width).unit == unit


def test_views__refuse_what_a_trace_cannot_answer():
    from wastedcores.analysis.examined import examine

    rows = {
        "ts_ns": [0, 10, 20],
        "kind": ["nr_running"] * 3,
        "cpu": [0, 1, 0],
        "nr_running": [1, 1, 1],
    }
    trace = Trace(conform(pl.DataFrame(rows), "t").lazy(), Header(source_format="t", cpus=2))
    run = examine(trace, "quiet")
    for draw, reason in (
        (views.zoom, "there is no episode"),
        (views.who_ran, "there is no episode"),
        (views.waits, "names no tasks"),
        (views.looked_at, "no 'considered' events"),
    ):
        with pytest.raises(MissingEventsError, match=reason):
            draw(run)
        assert reason in figure_or_reason(draw, run).text
    with pytest.raises(UsageError, match="two marks"):
        examine(trace, between=["a"])


def test_public_figures__are_functions_that_return_figures():
    for name in figures.__all__:
        assert inspect.signature(getattr(figures, name)).return_annotation == "go.Figure", name


@pytest.mark.parametrize("package", [figures, words])
def test_public_names__are_not_hidden_by_a_module_of_the_same_name(package):
    modules = {m.name for m in pkgutil.iter_modules(package.__path__)}
    assert modules.isdisjoint(package.__all__)
    assert all(callable(getattr(package, name)) for name in package.__all__)


def test_runs__a_task_has_the_name_with_which_it_leaves_the_cpu():
    """A shell that became a compiler is drawn as the compiler, also where it leaves after the end of the window."""
    trace = switches(
        (100, 0, 5, "a", 6, "make"), (300, 0, 6, "cc1", 7, "rec"), (900, 0, 7, "R", 0, "swapper/0")
    )
    table = runs(trace, 0, 500 * MS)
    assert table["comm"].to_list() == ["a", "cc1", "R"]


def test_looked_at__counts_the_decisions_of_the_window_and_says_where_they_are():
    frame = pl.DataFrame(
        {
            "ts_ns": [600 * MS, 700 * MS],
            "kind": "considered",
            "cpu": [0, 0],
            "cpu_mask": [mask(1)] * 2,
        }
    )
    switch = switches((10, 1, 5, "a", 6, "b")).events.collect()
    events = pl.concat([switch, conform(frame, "t")]).sort("ts_ns")
    run = examine(
        Trace(events.lazy(), Header(source_format="t", start_ns=0, end_ns=1000 * MS)), "t"
    )
    shown = views.looked_at(run, 0, window=(500 * MS, 650 * MS))
    assert "for CPU 0: 1 decision<br>" in shown.layout.title.text
    assert np.asarray(by_name(shown, "considered").z).sum() == 1
    with pytest.raises(MissingEventsError, match="between 590 ms and 690 ms"):
        views.looked_at(run, 0, window=(0, 100 * MS))


def test_title__long_ones_are_broken_and_get_their_room():
    fig = theme.style(go.Figure(), "a long finding " * 10, "s", height=400)
    lines = fig.layout.title.text.partition("<br><span")[0].split("<br>")
    assert len(lines) == 3
    assert max(map(len, lines)) <= theme.TITLE_CHARS
    assert fig.layout.height == 444


def test_legend__more_lines_get_more_room():
    entries = [go.Scatter(x=[None], y=[None], name=f"entry number {i}") for i in range(9)]
    few, many = (
        theme.fit_legend(theme.style(go.Figure(part), "t", height=400))
        for part in (entries[:2], entries)
    )
    assert few.layout.margin.b < many.layout.margin.b
    assert many.layout.height - 400 == many.layout.margin.b - few.layout.margin.b
    assert theme.fit_legend(many).layout.height == many.layout.height


def test_legend__columns_are_as_wide_as_the_longest_name_unless_there_are_groups():
    """Eight short names and a long one: plotly makes columns of them, but with groups it puts them one behind the other."""
    names = ["a", "b", "c", "d", "e", "f", "g", "the long name of an entry"]

    def bottom(**more) -> int:
        fig = go.Figure([go.Scatter(x=[None], y=[None], name=n * 2, **more) for n in names])
        return theme.fit_legend(theme.style(fig, "t", height=400)).layout.margin.b

    assert bottom() > bottom(legendgroup="one")


def test_fit_legend__stays_at_the_bottom_of_a_tall_figure():
    """A share of the height would put it over the title of the time axis, which stays where it is."""
    low, tall = (
        theme.fit_legend(theme.style(go.Figure(), "t", height=height)).layout
        for height in (300, 1100)
    )
    assert low.legend.y * low.height == pytest.approx(tall.legend.y * tall.height)


def test_marks__texts_that_are_close_stand_on_two_sides_or_are_left_out():
    close = scene(
        marks=((500 * MS, "start"), (510 * MS, "end"), (515 * MS, "late"), (990 * MS, "last"))
    )
    texts = {a.text: a.xanchor for a in heatmap(close, cols=10).layout.annotations}
    assert texts == {"start": "right", "end": "left", "last": "right"}
    assert len([s for s in heatmap(close, cols=10).layout.shapes if s.line.dash == "dot"]) == 4


def test_marks__of_a_short_trace_beside_a_long_one_have_less_room():
    short = scene(marks=((200 * MS, "lu start"), (280 * MS, "lu end")))
    alone = heatmap(short, (0, 400 * MS), cols=10)
    assert {a.text: a.xanchor for a in alone.layout.annotations} == {
        "lu start": "left",
        "lu end": "left",
    }
    both = side_by_side(scene(), short, (None, (0, 400 * MS)), cols=10)
    texts = {a.text: a.xanchor for a in both.layout.annotations if a.text.startswith("lu")}
    assert texts == {"lu start": "right", "lu end": "left"}


def windowed(between=None):
    """Two threads queue beside an idle CPU from 100 to 400 ms of 1100 ms; only a window counts."""
    rows = [nr(0, 0, 1), nr(0, 1, 1), nr(100 * MS, 0, 2), nr(100 * MS, 1, 0), nr(400 * MS, 0, 1)]
    return examine(trace_of([*rows, nr(1100 * MS, 1, 1)], cpus=2), "t", between=between)


def test_overview__says_where_nobody_looked():
    def covered(fig):
        return [(s.x0, s.x1, s.xref) for s in fig.layout.shapes if s.fillcolor == "#c9cdd1"]

    part, whole = windowed([100 * MS, 300 * MS]), windowed()
    name = "outside the window: not looked at"
    assert covered(views.overview(part)) == [(0, 100, "x2"), (300, 1100, "x2")]
    assert by_name(views.overview(part), name).marker.color == "#c9cdd1"
    assert covered(views.overview(part, window=(50 * MS, 250 * MS))) == [(50, 100, "x2")]
    assert not covered(views.overview(part, window=(100 * MS, 300 * MS)))
    both = views.overview(whole, part)
    assert [c[:2] for c in covered(both)] == [(0, 100), (300, 1100)]
    assert not covered(views.overview(whole))
    assert name not in [t.name for t in views.overview(whole).data]


def test_waits__of_two_traces_of_one_name_are_both_drawn():
    rows = [
        switch(0, 0, 0, "R", 5),
        wakeup(100 * MS, 0, 7, comm="t7"),
        switch(300 * MS, 0, 5, "S", 7),
        switch(400 * MS, 0, 7, "S", 0),
    ]
    run = examine(trace_of(rows, cpus=1), "t")
    fig = views.waits(run, run)
    assert "200 ms for a CPU, against 200 ms" in fig.layout.title.text.replace("<br>", " ")
    assert {t.name for t in fig.data if t.legendgroup} == {"t (1)", "t (2)"}
