"""The explorer without a browser: it shows the static figures of its state, and it stays one widget."""

from __future__ import annotations

import json

import numpy as np
import pytest

from wastedcores.analysis.examined import examine
from wastedcores.errors import UsageError
from wastedcores.figures.views import who_ran
from wastedcores.trace.datasets import fetch
from wastedcores.trace.io import open_trace
from wastedcores.widgets import explorer, explorer_static
from wastedcores.widgets.live_figure import packed


@pytest.fixture(scope="module")
def run():
    return examine(open_trace(fetch("live-balancing-off")))


def shown(box):
    """Return z of the heat map that the widget shows."""
    return np.asarray(box.figure.drawn.data[0].z)


def look(box, lo, hi, number=1):
    """Do what the browser does when the reader looks elsewhere; times are in seconds."""
    message = {"kind": "look", "lo": lo, "hi": hi, "by": "a view", "number": number}
    box.figure._handle_custom_msg(message, [])


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
    assert box.figure.figure["answers"] == {"by": "a view", "number": 7}
    assert box.figure.figure["view"]["window"] == [0.1, 0.2]
    box.whole_button.click()
    assert box.window == (start, end)


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

        text = json.dumps(box.figure.figure, default=measured)
        assert len(text) + sum(sent) < most, layer


def test_packed_texts_are_those_of_the_figure():
    table = {"text": [["a", "b"], ["b", "c"]]}
    got = packed(table)["text"]
    codes = np.frombuffer(got["codes"], np.uint16).reshape(got["rows"], got["cols"])
    assert [[got["names"][c] for c in row] for row in codes] == table["text"]
    assert packed({"text": ["one", "row"]}) == {"text": ["one", "row"]}


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


def test_moving_quickly_is_one_step_back(run):
    box = explorer(run)
    for i in range(5):
        look(box, 0.1 * i, 0.1 * i + 0.1, i)
    box.back_button.click()
    assert box.window == run.scene.window
