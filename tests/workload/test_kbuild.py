"""The build of Linux: its processes, phases and jobs, and what the strategies of the fork/wait paper do to it."""

from __future__ import annotations

import warnings

import polars as pl
import pytest

from wastedcores.errors import WorkloadError
from wastedcores.simulator import Replay, replay_scenario


def build(kernel: str = "v4.1", **given: object) -> Replay:
    """Replay a build under a kernel; other releases than v4.1 are modelled in part, which is known here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return replay_scenario("kbuild", kernel, given=given)


def phases(r: Replay) -> dict[str, int]:
    """The time of each mark."""
    return dict(r.trace.events.filter(kind="mark").select("text", "ts_ns").collect().iter_rows())


def test_the_processes_of_a_recipe():
    """Every sh runs one gcc, which runs one cc1 and one as; the parallel phase has a make per directory."""
    names = build().tasks["comm"].value_counts()
    count = dict(names.iter_rows())
    recipes = 110 + 64 + 30 + 4 * 12 + 40
    assert count["sh"] == count["gcc"] == count["cc1"] == count["as"] == recipes
    assert count["make"] == 1 + 1 + 4


def test_no_more_jobs_than_asked_for():
    r = build(jobs=5)
    cc1 = r.tasks.filter(comm="cc1")["pid"].to_list()
    at = phases(r)
    events = r.trace.events.filter(
        pl.col("pid").is_in(cc1), pl.col("ts_ns").is_between(at["compile"], at["finish"])
    )
    born = events.filter(pl.col("kind").is_in(["fork", "exit"])).collect()
    alive = (born["kind"].cast(pl.String) == "fork").cast(pl.Int64) * 2 - 1
    assert alive.cum_sum().max() == 5


def test_strategies_shorten_the_sequential_phases_and_not_the_work():
    runs = {s: build(f"v4.1{s}") for s in ("", "+fork_wait:1", "+fork_wait:2")}
    first = {s: phases(r)["burst"] - phases(r)["make start"] for s, r in runs.items()}
    assert first["+fork_wait:2"] < first["+fork_wait:1"] < 0.7 * first[""]
    assert len({r.tasks.height for r in runs.values()}) == 1


def test_longer_stretches_need_fewer_recipes():
    r = build(stretch=2)
    assert r.tasks.filter(comm="sh").height == 55 + 64 + 15 + 4 * 12 + 20


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"tree": "usr"}, "there are sched, full"),
        ({"jobs": 0}, "1 or more"),
        ({"stretch": 0}, "0.05"),
    ],
)
def test_impossible_builds_are_refused(given, says):
    with pytest.raises(WorkloadError, match=says):
        build(**given)
