"""The explorer without a browser: it shows the static figures of its state."""

from __future__ import annotations

import numpy as np
import pytest

from wastedcores.analysis.examined import examine
from wastedcores.trace.datasets import fetch
from wastedcores.trace.io import open_trace
from wastedcores.widgets import explorer, explorer_static


@pytest.fixture(scope="module")
def run():
    return examine(open_trace(fetch("live-balancing-off")))


def shown(box):
    """Return z of the heat map that the widget shows."""
    return np.asarray(box.place.children[0].data[0].z)


def test_widget_shows_the_static_figure(run):
    box = explorer(run)
    assert np.array_equal(shown(box), np.asarray(explorer_static(run).data[0].z))
    box.show.value = "tasks"
    assert np.array_equal(shown(box), np.asarray(explorer_static(run, show="tasks").data[0].z))


def test_zoom_bins_again(run):
    box = explorer(run)
    start, end = run.scene.window
    figure = box.place.children[0]
    figure.layout.xaxis.range = (100.0, 200.0)  # ms, as the browser reports it
    assert box.window == (start + 100_000_000, start + 200_000_000)
    assert np.array_equal(shown(box), np.asarray(explorer_static(run, box.window).data[0].z))
    box.whole.click()
    assert box.window == (start, end)


def test_going_to_an_episode_and_beyond_the_ends(run):
    box = explorer(run)
    box.episode.value = box.episode.options[1][1]
    assert box.episode.value is None  # so that the same episode can be chosen again
    first, last = box.episode.options[1][1]
    assert box.window[0] <= first < last <= box.window[1]
    box.look(-5, 10**18)
    assert box.window == run.scene.window
    box.look(*[run.scene.window[1] + 5] * 2)
    assert box.window[1] - box.window[0] >= 1000


def test_colours_and_reduction(run):
    box = explorer(run)
    box.palette.value = "paper"
    box.reduce.value = "peak"
    assert (shown(box) >= np.asarray(explorer_static(run, reduce="last").data[0].z)).all()


def test_back_returns_to_the_window_before():
    """Zoom twice and return twice; one more click changes nothing."""
    now = examine(open_trace(fetch("live-balancing-on")))
    box = explorer(now)
    start, end = now.scene.window
    box.look(start, start + 10**9)
    box.look(start, start + 10**8)
    box.back.click()
    assert box.window == (start, start + 10**9)
    for _ in range(2):
        box.back.click()
        assert box.window == (start, end)
