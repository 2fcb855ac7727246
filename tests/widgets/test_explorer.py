"""The explorer without a browser: it shows the static figures of its state, and it stays one widget."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest
from support.builders import nr, switch, trace_of, wakeup

from wastedcores.analysis.examined import examine
from wastedcores.analysis.scene import TimeAxis
from wastedcores.analysis.selection import span
from wastedcores.errors import UsageError
from wastedcores.figures import found_tasks
from wastedcores.figures.found_tasks import mark_found, matching
from wastedcores.figures.timelines import runs
from wastedcores.figures.views import who_ran
from wastedcores.trace.header import Header
from wastedcores.trace.io import open_trace
from wastedcores.trace.named import fetch
from wastedcores.trace.parquet import write_parquet
from wastedcores.trace.schema import conform
from wastedcores.trace.trace import Trace
from wastedcores.widgets import explore, explorer, explorer_static
from wastedcores.widgets.live_figure import packed

MS = 1_000_000


@pytest.fixture(scope="module")
def run():
    return examine(open_trace(fetch("live-balancing-off")))


def shown(box):
    """Return z of the heat map that the widget shows."""
    return np.asarray(box.figure.drawn.data[0].z)


def look(box, lo, hi, number=1):
    """Do what the browser does when the reader looks elsewhere; times are in seconds."""
    message = {"kind": "look", "lo": lo, "hi": hi, "by": "a view", "number": number}
    box.figure.contents._handle_custom_msg(message, [])


def test_widget_shows_the_static_figure(run):
    box = explorer(run)
    same = explorer_static(run, box.window)
    assert np.array_equal(shown(box), np.asarray(same.data[0].z))
    box.show.value = "tasks"
    assert np.array_equal(shown(box), np.asarray(explorer_static(run, show="tasks").data[0].z))


def test_tasks_of_a_zoom_are_those_of_the_window_alone(run):
    """The explorer cuts the stays of the whole trace; that must give what reading only the window gives."""
    start, end = run.scene.window
    for part in ((start, end), (start + 10**8, start + 2 * 10**8), (end - 10**7, end)):
        cut, read = (
            f.data[0] for f in (explorer_static(run, part, show="tasks"), who_ran(run, part))
        )
        assert np.array_equal(cut.z, read.z)
        assert np.array_equal(cut.text, read.text)


def test_zoom_bins_again_and_answers_the_browser(run):
    box = explorer(run)
    start, end = run.scene.window
    look(box, 0.1, 0.2, 7)
    assert box.window == (start + 100_000_000, start + 200_000_000)
    assert np.array_equal(shown(box), np.asarray(explorer_static(run, box.window).data[0].z))
    assert box.figure.contents.figure["answers"] == {"by": "a view", "number": 7}
    assert box.figure.contents.figure["view"]["window"] == [0.1, 0.2]
    box.whole_button.click()
    assert box.window == (start, end)


def test_the_browser_hears_that_each_question_has_arrived(run, monkeypatch):
    """A click changes no figure, so without an answer the page would take the kernel for dead."""
    box = explorer(run)
    sent = []
    monkeypatch.setattr(box.figure.contents, "send", lambda content, *more: sent.append(content))
    for message in (
        {"kind": "click", "at": 0.1, "row": "0", "curve": 0},
        {"kind": "select", "lo": 0.1, "hi": 0.2, "rows": [0, 1]},
        {"kind": "previous"},
    ):
        box.figure._received(None, message, [])
    assert sent == [{"kind": "heard"}] * 3


@pytest.mark.slow
def test_one_widget_however_often_it_changes(run):
    """A new widget per change would send the plotting library again and keep the old one alive."""
    from ipywidgets import Widget

    box = explorer(run)
    made = []
    Widget.on_widget_constructed(made.append)
    try:
        for i in range(20):
            look(box, 0.01 * i, 0.5, i)
            box.palette.value = ("paper", "safe")[i % 2]
    finally:
        Widget.on_widget_constructed(None)
    assert made == []


def test_a_zoom_is_small_enough(run):
    """What goes to the browser: 900 columns of two CPUs are two small tables, and no text per pixel."""
    box = explorer(run)
    for layer, most in (("runqueues", 60_000), ("tasks", 25_000)):
        box.show.value = layer
        look(box, 0.1, 0.9)
        sent = []

        def measured(value, sent=sent):
            if isinstance(value, memoryview):
                sent.append(value.nbytes)
                return 0
            return value

        text = json.dumps(box.figure.contents.figure, default=measured)
        assert len(text) + sum(sent) < most, layer


def test_packed_texts_are_those_of_the_figure():
    table = {"text": [["a", "b"], ["b", "c"]]}
    got = packed(table)["text"]
    codes = np.frombuffer(got["codes"], np.uint16).reshape(got["rows"], got["cols"])
    assert [[got["names"][c] for c in row] for row in codes] == table["text"]
    assert packed({"text": ["one", "row"]}) == {"text": ["one", "row"]}


@pytest.mark.slow
def test_going_to_an_episode_and_beyond_the_ends(run):
    box = explorer(run)
    box.episode.value = 1
    assert box.episode.value == 0  # so that the same episode can be chosen again
    _, first, last = box.jumps[0]
    assert box.window[0] <= first < last <= box.window[1]
    box.go_to(-5, 10**18)
    assert box.window == run.scene.window
    box.go_to(*[run.scene.window[1] + 5] * 2)
    assert box.window[1] - box.window[0] >= 1000


@pytest.mark.slow
def test_next_and_previous_episode_meet_every_one_in_order(run):
    box = explorer(run)
    table = run.result.episodes
    box.go_to(run.scene.window[0], run.scene.window[0] + 1000)
    met = []
    for _ in range(table.height):
        box.next_button.click()
        met.append(box.window)
    for (start, end), row in zip(met, table.iter_rows(named=True), strict=True):
        assert start <= row["start_ns"] < row["end_ns"] <= end
    box.next_button.click()
    assert "no later episode" in box.says.value
    box.previous_button.click()
    assert box.window == met[-2]


def test_colours_and_reduction(run):
    box = explorer(run)
    box.palette.value = "paper"
    box.reduce.value = "peak"
    last = explorer_static(run, box.window, reduce="last")
    assert (shown(box) >= np.asarray(last.data[0].z)).all()


def test_an_unknown_layer_is_refused(run):
    with pytest.raises(UsageError, match="runqueues, tasks"):
        explorer_static(run, show="colour")
    for given, says in (
        ({"show": "colour"}, "runqueues, tasks"),
        ({"reduce": "mean"}, "share, longest"),
        ({"palette_name": "dark"}, "safe and paper"),
    ):
        with pytest.raises(UsageError, match=says):
            explorer(run, **given)


@pytest.mark.slow
def test_back_returns_to_the_window_before():
    """Zoom twice and return twice; one more click changes nothing."""
    now = examine(open_trace(fetch("live-balancing-on")))
    box = explorer(now)
    start, end = now.scene.window
    box.go_to(start, start + 10**9)
    box.go_to(start, start + 10**8)
    box.back_button.click()
    assert box.window == (start, start + 10**9)
    for _ in range(2):
        box.back_button.click()
        assert box.window == (start, end)


@pytest.mark.slow
def test_moving_quickly_is_one_step_back(run, monkeypatch):
    monkeypatch.setattr(explore, "PAUSE_S", 1000)
    box = explorer(run)
    for i in range(5):
        look(box, 0.1 * i, 0.1 * i + 0.1, i)
    box.back_button.click()
    assert box.window == run.scene.window


@pytest.fixture(scope="module")
def buggy():
    return examine("group-imbalance-buggy")


@pytest.mark.slow
def test_finding_tasks(buggy):
    """By name, pid and both; the runs are those of the trace's stays, and each step goes to the next one."""
    box = explorer(buggy)
    stays = runs(buggy.trace, *buggy.scene.window)
    r = stays.filter(stays["comm"] == "R-0")
    box.finder.text.value = "r-0"
    assert box.finder.found.height == r.height > 0
    assert f"{r.height:,} run" in box.finder.says.value
    pid = r["pid"][0]
    for text in (str(pid), f"R-0:{pid}"):
        box.finder.text.value = text
        assert set(box.finder.found["pid"]) >= {pid}
    assert box.figure.drawn.data[-1].name == "found tasks"
    box.go_to(buggy.scene.window[0], buggy.scene.window[0] + 1000)
    begins = r.sort("start_ns")
    for i in range(3):
        box.finder.next_button.click()
        assert box.window[0] <= begins["start_ns"][i] < begins["end_ns"][i] <= box.window[1]
    box.finder.previous_button.click()
    assert box.window[0] <= begins["start_ns"][1] < box.window[1]
    box.finder.text.value = "nobody of this name"
    assert "No task" in box.finder.says.value
    assert all(t.name != "found tasks" for t in box.figure.drawn.data)


@pytest.fixture
def nested():
    """An explorer that has found a run on CPU 0, and a shorter one on CPU 1 meanwhile."""
    rows = [
        switch(0, 0, 0, "R", 15),
        switch(10 * MS, 1, 0, "R", 16),
        switch(20 * MS, 1, 16, "S", 0),
        switch(100 * MS, 0, 15, "S", 0),
    ]
    box = explorer(examine(trace_of(rows, cpus=2)))
    box.finder.text.value = "t1"
    return box


def test_a_step_leaves_out_no_run_inside_a_longer_one_of_another_cpu(nested):
    nested.go_to(0, 1000)
    for by, seen in ((1, 15), (1, 50), (-1, 15)):
        nested.finder.step(by)
        assert sum(nested.window) / 2 / MS == seen


def test_marks_that_are_left_out_are_counted(nested, monkeypatch):
    assert nested.finder.says.value.endswith("marked yellow")
    monkeypatch.setattr(found_tasks, "MOST_LINES", 1)
    nested.draw()
    said = "marked yellow except at 1 place on the last CPUs; zoom in to see them"
    assert nested.finder.says.value.endswith(said)


def test_marks_of_found_tasks_are_where_they_ran(buggy):
    fig = explorer_static(buggy)
    stays = runs(buggy.trace, *buggy.scene.window)
    found = matching(stays, "R-0")
    mark_found(fig, buggy.scene, found, buggy.scene.window)
    line = fig.data[-1]
    axis = TimeAxis.of(buggy.scene.window[0], buggy.scene.window[1] - buggy.scene.window[0])
    drawn = sum(b - a for a, b in zip(line.x[::3], line.x[1::3], strict=True)) * axis.ns
    ran = int((found["end_ns"] - found["start_ns"]).sum())
    # R-0 runs nearly all the time, so hardly a pixel is only partly filled
    assert drawn == pytest.approx(ran, rel=0.05)
    assert set(line.y[::3]) == {f"CPU {c}" for c in found["cpu"].unique()}


@pytest.mark.slow
def test_the_line_below_opens_the_same_view(buggy):
    box = explorer(buggy)
    box.show.value, box.palette.value = "tasks", "paper"
    box.finder.text.value = "R-0"
    box.go_to(*(buggy.scene.window[0] + t for t in (10**9, 2 * 10**9)))
    again = eval(box.cell.value.rpartition("; ")[2], {"explorer": explorer, "examine": examine})
    assert again.look == box.look
    assert again.finder.text.value == "R-0"
    assert np.array_equal(shown(again), shown(box))
    whole = examine("live-balancing-off", persist_ns=50_000_000, ignore_affinity=True)
    options = eval(
        explorer(whole).cell.value.rpartition("; ")[2], {"explorer": explorer, "examine": examine}
    ).run
    assert (options.persist_ns, options.ignore_affinity) == (50_000_000, True)
    assert options.window == whole.window
    # a trace that is in no file cannot be opened in another notebook
    unwritten = explorer(examine(trace_of([nr(0, 0, 1), nr(MS, 0, 0)], cpus=1)))
    assert (unwritten.cell.value, unwritten.cell.layout.display) == ("", "none")


def test_who_waited_in_a_span(run):
    """The waits of a selected span, from the waits of the whole trace, with what ran meanwhile and the idle CPU."""
    box = explorer(run)
    first, _ = run.scene.window
    low, high = 0.4, 0.5
    box.figure.contents._handle_custom_msg(
        {"kind": "select", "lo": low, "hi": high, "rows": [0, 0]}, []
    )
    start, end = first + int(low * 1e9), first + int(high * 1e9)
    found = span(run, start, end, (0,), box.subject.stays)
    waited = {}
    for pid, cpu, a, b in run.waits.iter_rows():
        inside = min(b, end) - max(a, start)
        if cpu == 0 and inside > 0:
            waited[pid] = waited.get(pid, 0) + inside
    assert dict(found.waiting.select("pid", "waited_ns").iter_rows()) == waited
    assert len(waited) > 1
    says = box.details.value
    assert f"{len(waited)} threads waited" in says
    assert "idle meanwhile" in says
    # balancing was off, and CPU 1 idle: all waiting was avoidable but that of kernel threads that belong to CPU 0
    for row in found.waiting.iter_rows(named=True):
        bound = "/0" in row["comm"]
        assert row["avoidable_ns"] == (0 if bound else row["waited_ns"]), row
    # where one thread waits, the others and nobody else ran
    names = {
        f"{c}:{p}" if p else "no task"
        for c, p in box.subject.stays.select("comm", "pid").iter_rows()
    }
    assert {b.partition(" (")[0] for row in found.waiting["behind"] for b in row} <= names


def test_a_click_selects_the_stay_of_a_task(run):
    box = explorer(run)
    stay = box.subject.stays.filter(box.subject.stays["pid"] != 0).row(5, named=True)
    at = (stay["start_ns"] + stay["end_ns"]) / 2 - run.scene.window[0]
    click = {"kind": "click", "at": at / 1e9, "row": f"CPU {stay['cpu']}", "curve": 0}
    box.figure.contents._handle_custom_msg(click, [])
    assert f"{stay['comm']}:{stay['pid']} ran" in box.details.value
    box.figure.contents._handle_custom_msg(click | {"row": "wasted"}, [])
    assert f"{stay['comm']}:{stay['pid']} ran" in box.details.value


def test_a_trace_of_runqueue_lengths_says_that_it_does_not_know_who_waited(tmp_path):
    path = tmp_path / "nr.parquet"
    frame = pl.DataFrame({"ts_ns": [0, 10, 10**9], "cpu": [0, 1, 0], "nr_running": [2, 0, 1]})
    table = conform(frame.with_columns(kind=pl.lit("nr_running")), "a test")
    header = Header(source_format="test", cpus=2, start_ns=0, end_ns=10**9, events=3)
    write_parquet(Trace(table.lazy(), header), path)
    box = explorer(str(path))
    assert not {"tasks", "load", "considered"} & set(box.show.options)
    box.figure.contents._handle_custom_msg(
        {"kind": "click", "at": 0.5, "row": "CPU 0", "curve": 0}, []
    )
    assert "not known who ran where" in box.details.value
    box.finder.text.value = "make"
    assert "not known who ran where" in box.finder.says.value


def test_all_layers_have_the_same_zero():
    """CPU 0's ring buffer had overwritten its oldest events, so its runqueue is known from 500 ms on."""
    rows = [switch(t * 100 * MS, 1, 5 * (t % 2), "S", 5 * ((t + 1) % 2)) for t in range(10)]
    rows.append(switch(500 * MS, 0, 0, "R", 6))
    run = examine(trace_of(rows, cpus=2, overwritten={0: 3}, lost={0: 3}), "t")
    assert run.scene.window[0] == 500 * MS
    for layer in ("runqueues", "tasks", "events"):
        assert explorer_static(run, show=layer).layout.xaxis.range[0] == 0, layer


def test_a_row_of_the_events_is_the_cpu_that_is_drawn_there():
    """CPU 1 has no event, so the events have rows for CPUs 0 and 2 only; thread 7 waits on CPU 2."""
    rows = [
        switch(0, 0, 0, "R", 4),
        switch(0, 2, 0, "R", 5),
        wakeup(100 * MS, 2, 7, comm="t7"),
        switch(300 * MS, 2, 5, "S", 7),
        switch(400 * MS, 2, 7, "S", 0),
        switch(400 * MS, 0, 4, "S", 0),
    ]
    run = examine(trace_of(rows, cpus=3, source_format="replay"), "t")
    assert run.scene.cpus == (0, 1, 2)
    box = explorer(run, show="events", task="t7")
    send = box.figure.contents._handle_custom_msg
    send({"kind": "select", "lo": 0.1, "hi": 0.3, "rows": [1, 1]}, [])
    assert "waited 200 ms on CPU 2" in box.details.value
    send({"kind": "click", "at": 0.35, "row": "1", "curve": 0}, [])
    assert "t7:7 ran" in box.details.value
    assert set(box.figure.drawn.data[-1].y[::3]) == {1}


def test_the_last_episode_may_touch_the_end():
    rows = [nr(0, 0, 1), nr(0, 1, 1), nr(100 * MS, 0, 2), nr(100 * MS, 1, 0), nr(1000 * MS, 0, 2)]
    box = explorer(examine(trace_of(rows, cpus=2), "t"))
    box.go_to(0, 1000)
    box.next_button.click()
    assert box.window == (10 * MS, 1000 * MS)
    box.next_button.click()
    assert "no later episode" in box.says.value


def test_the_last_run_may_touch_the_end():
    rows = [switch(0, 0, 0, "R", 5), switch(100 * MS, 0, 5, "S", 7), wakeup(1000 * MS, 0, 8)]
    box = explorer(examine(trace_of(rows, cpus=1), "t"), task="t7")
    box.go_to(0, 1000)
    box.finder.next_button.click()
    assert box.window == (10 * MS, 1000 * MS)
    box.finder.next_button.click()
    assert "no later run" in box.finder.says.value
