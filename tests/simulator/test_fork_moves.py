"""Whether the CPU that a fork chooses is a move among the events: in recordings of kernels, and in replays of them."""

from __future__ import annotations

import polars as pl
import pytest
from support import ROOT

import wastedcores
from wastedcores.simulator import replay
from wastedcores.workload import Script, Workload

MS = 1_000_000


def moved_at_birth(trace) -> tuple[int, int]:
    """Return how many threads began on another CPU than their parent's, and how many have a move right before that."""
    events = trace.only("fork", "migrate", "wakeup_new").collect()
    fork, move, wakeup = (
        events.filter(pl.col("kind") == kind).select("pid", pl.col("ts_ns").alias(kind), "cpu")
        for kind in ("fork", "migrate", "wakeup_new")
    )
    born = fork.join(wakeup, on="pid", suffix="_new").filter(pl.col("cpu") != pl.col("cpu_new"))
    told = born.join(move, on="pid", suffix="_move").filter(
        pl.col("migrate").is_between("fork", "wakeup_new")
    )
    return born.height, told["pid"].n_unique()


def forks() -> Workload:
    w = Workload("forks")
    child = w.template("child", Script().compute(5 * MS))
    w.task("parent", Script().loop(10).compute(MS).fork(child).end().wait_children(0))
    return w


@pytest.mark.parametrize(
    ("recording", "kernel", "told"),
    [
        ("recordings/gi-buggy-16cpu", "v4.1", True),
        ("recordings-modern/gi-6.12-16cpu", "v6.12.107", False),
        ("recordings-modern/gi-7.2-16cpu", "v7.2.13", False),
    ],
)
def test_a_replay_tells_of_forks_as_the_kernel_does(recording, kernel, told):
    recorded = wastedcores.open(ROOT / "datasets" / recording / "trace.txt.xz")
    for trace in (recorded, replay(forks(), "bd-paper-16", kernel).trace):
        births, moves = moved_at_birth(trace)
        assert births >= 8
        assert moves == (births if told else 0)


@pytest.mark.filterwarnings("ignore::wastedcores.errors.ModelWarning")
@pytest.mark.parametrize(("kernel", "told"), [("v4.7", True), ("v4.8", False), ("core", True)])
def test_moves_of_forks_end_with_4_8(kernel, told):
    births, moves = moved_at_birth(replay(forks(), "bd-paper-16", kernel).trace)
    assert births >= 8
    assert moves == (births if told else 0)
