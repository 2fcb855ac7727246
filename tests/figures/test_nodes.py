"""Threads per node over time: the sums of the runqueues of a node's CPUs, and gaps where one of them is unknown."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

import wastedcores as wc
from wastedcores import figures as fg
from wastedcores.analysis.scene import Scene, by_node
from wastedcores.analysis.states import States
from wastedcores.errors import MissingEventsError

MS = 1_000_000


def run(nodes):
    """CPU 0 has 3 threads and then 2, CPU 2 has 1. CPU 1 is first unknown and then idle, and CPU 3 is idle."""
    ts = np.array([0, 0, 0, 500 * MS, 800 * MS], np.int64)
    cpu = np.array([0, 2, 3, 1, 0], np.int32)
    nr = np.array([3, 1, 0, 0, 2], np.int32)
    none = pl.DataFrame(schema={"start_ns": pl.Int64, "end_ns": pl.Int64, "persistent": pl.Boolean})
    states = States.collect([(ts, cpu, nr)], 4, 0, 1000 * MS)
    scene = Scene(
        states=states,
        cpus=by_node(range(4), nodes),
        nodes=nodes,
        episodes=none,
        label="t",
        facts="",
    )
    return SimpleNamespace(scene=scene, label="t")


def lines(fig):
    return [t for t in fig.data if t.name == "threads, running or waiting"]


def test_the_threads_of_a_nodes_cpus_are_added():
    fig = fg.threads_per_node(run((0, 1, 0, 1)), cols=10)
    first, second = lines(fig)
    # each pixel has two points, so that the line has steps
    assert list(first.y) == [4] * 16 + [3] * 4
    assert np.isnan(second.y[:10]).all()
    assert list(second.y[10:]) == [0] * 10
    # two CPUs: everything above 2 is filled in the one colour, everything below in the other
    more = next(t for t in fig.data if t.name == "more threads than CPUs")
    fewer = [t for t in fig.data if t.name == "fewer threads than CPUs"]
    assert list(more.y) == [4] * 16 + [3] * 4
    assert set(fewer[0].y) == {2}
    assert list(fewer[1].y[10:]) == [0] * 10
    assert fig.layout.yaxis.range[1] >= 4


def test_nodes_of_eight_cpus_have_nine_and_seven_threads_under_overload_on_wakeup():
    """As on the slide about the bug, in the recording of a real kernel: all 64 workers run, on one node 9 and on another 7."""
    examined = wc.examine("overload-on-wakeup-buggy")
    start = examined.scene.window[0]
    fig = fg.threads_per_node(examined, (start + 658_500_000, start + 659_500_000), cols=1)
    per_node = [float(t.y[0]) for t in lines(fig)]
    assert per_node == pytest.approx([8, 8, 7, 8, 8, 8, 9, 8], abs=0.01)


def test_a_trace_without_nodes_says_so():
    with pytest.raises(MissingEventsError, match="which CPU is on which node"):
        fg.threads_per_node(run(None))
