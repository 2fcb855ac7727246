"""Two recorded traces on one time axis: which moments coincide, the difference, and when better or worse is said."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from support.builders import nr, trace_of
from support.typed import typed

from wastedcores.analysis.alignment import (
    ACTIVITY,
    START,
    align,
    common_marks,
    differences,
    first_activity,
)
from wastedcores.analysis.examined import examine
from wastedcores.errors import UsageError
from wastedcores.figures.compare import aligned
from wastedcores.trace.header import Header
from wastedcores.trace.schema import conform
from wastedcores.trace.trace import Trace
from wastedcores.widgets import side_by_side
from wastedcores.words.aligned import compared, rows

MS = 1_000_000


def trace(changes, label, start=0, end=100 * MS):
    """A trace of two CPUs from (ms, cpu, runqueue length)."""
    frame = pl.DataFrame(changes, schema=["ts_ns", "cpu", "nr_running"], orient="row")
    frame = frame.with_columns(kind=pl.lit("nr_running"), ts_ns=pl.col("ts_ns") * MS)
    header = Header(source_format="test", cpus=2, start_ns=start, end_ns=end, events=frame.height)
    return examine(Trace(conform(frame, "a test").lazy(), header), label)


@pytest.fixture(scope="module")
def two():
    """CPU 1 is idle beside two threads: 30 to 50 ms in the first, and 20 ms later to 5 ms more in the second."""
    a = trace([(0, 0, 0), (0, 1, 0), (30, 0, 2), (50, 0, 1), (100, 0, 0)], "a")
    b = trace([(0, 0, 0), (0, 1, 0), (50, 0, 2), (75, 0, 1), (120, 0, 0)], "b", end=120 * MS)
    return a, b


@pytest.fixture(scope="module")
def recorded():
    return examine("group-imbalance-buggy"), examine("group-imbalance-fixed")


def test_first_activity_and_start(two):
    assert [first_activity(r) for r in two] == [30 * MS, 50 * MS]
    assert align(*two).zeros == (30 * MS, 50 * MS)
    assert align(*two, START).zeros == (0, 0)
    assert align(*two).window == (-50 * MS, 70 * MS)
    assert align(*two).shifted(5 * MS).zeros == (30 * MS, 45 * MS)
    with pytest.raises(UsageError, match="no mark begins with 'x'"):
        align(*two, "x")


def test_marks_come_first(recorded):
    marks = common_marks(*recorded)
    assert marks == ["rec: make start", "rec: make end"]
    pair = align(*recorded)
    times = [next(t for t, text in r.marks if text == marks[0]) for r in recorded]
    assert list(pair.zeros) == times
    assert align(*recorded, ACTIVITY).zeros != pair.zeros


def test_difference_strip_is_the_difference_of_the_wasted_cores(two):
    """After alignment the first wastes 20 ms and the second 25, so only 5 ms differ; outside a trace nothing is known."""
    fig = aligned(align(*two), cols=120)
    # a value stands at the beginning and at the end of its pixel
    x = np.asarray(fig.data[2].x)[::2]
    more, less = (np.asarray(fig.data[i].y)[::2] for i in (2, 3))
    assert np.nansum(more) == 0
    assert np.array_equal(x[np.nan_to_num(less) < 0], [20, 21, 22, 23, 24])
    assert set(np.nan_to_num(less)) == {0, -1}
    # the first trace covers -30 to 70 ms, the second -50 to 70 ms
    assert np.array_equal(np.isnan(more), x < -30)
    assert (np.asarray(fig.data[0].z)[:, x < -30] == -1).all()
    assert fig.data[0].zmin == fig.data[1].zmin
    assert fig.data[0].zmax == fig.data[1].zmax
    assert fig.data[0].colorscale == fig.data[1].colorscale


def test_better_only_where_machine_and_work_are_known_to_be_the_same(recorded, two):
    changes = {r["name"]: r["change"] for r in rows(align(*recorded))}
    assert changes["core time wasted"] == changes["time of the work"] == "better"
    swapped = {r["name"]: r["change"] for r in rows(align(*recorded[::-1]))}
    assert swapped["core time wasted"] == "worse"
    # nothing is known to differ between these, but nothing says that the work was the same either
    assert all(r["change"] is None for r in rows(align(*two)))
    said = compared(align(*two)).text
    assert "Better or worse cannot be said: a does not describe its machine" in said
    assert "do not say which work was done" in said
    other = align(recorded[0], two[0])
    assert all(r["change"] is None for r in rows(other))
    assert "64 CPUs count in group-imbalance-buggy and 2 in a" in compared(other).text


def test_other_commands_are_a_difference(two):
    """perf writes its own command line, and behind -- what it recorded; its other options do not matter."""

    def of(run, *words):
        line = " ".join(("/usr/bin/perf sched record -o", run.label, "--", *words))
        return replace(run, trace=run.trace.with_header(provenance={"source cmdline": line}))

    a, b = two
    other = differences(of(a, "make"), of(b, "make", "-j8"))
    assert other == ["a recorded the command make and b make -j8"]
    assert differences(of(a, "make"), of(b, "make")) == []


def test_no_change_where_a_verdict_is_unknown(recorded):
    run, against = recorded
    unsure = replace(against)
    unsure.__dict__["runqueues"] = against.runqueues
    unsure.__dict__["result"] = replace(against.result, verdict="unknown")
    assert all(r["change"] is None for r in rows(align(run, unsure)))
    assert "parts of a trace are not known" in compared(align(run, unsure)).text


def test_widget_aligns_zooms_and_moves(two):
    box = side_by_side(*two)
    box.figure.contents._handle_custom_msg(
        {"kind": "look", "lo": 0.01, "hi": 0.03, "by": "a view", "number": 1}, []
    )
    assert box.figure.window == (10 * MS, 30 * MS)
    assert box.figure.contents.figure["view"]["bounds"] == [-0.05, 0.07]
    box.shift.value = -5.0
    assert box.figure.pair.zeros == (30 * MS, 55 * MS)
    assert "moved by -5 ms" in box.figure.drawn.layout.title.text
    box.by.value = START
    assert box.figure.pair.zeros == (0, 5 * MS)
    box.whole_button.click()
    assert box.figure.contents.figure["view"]["window"] == [-0.005, 0.115]
    assert "cannot be said" in box.table.value


def test_compare_of_two_traces_on_the_command_line(tmp_path):
    names = ("group-imbalance-buggy", "group-imbalance-fixed")
    done = typed("compare", *names, "-o", tmp_path / "pair.html")
    assert done.code == 0
    assert "wait, 99 %" in done.out
    assert "better" in done.out
    assert (tmp_path / "pair.html").stat().st_size > 10**6
    told = json.loads(typed("compare", *names, "--json", "--align", START, "--shift", "5").out)
    assert told["differences"] == []
    assert "moved by 5 ms" in told["aligned_by"]
    assert told["rows"][0]["first"] > told["rows"][0]["second"]
    for words, message in (
        ((*names, "--kernel", "v4.1"), "compared as recorded"),
        (("spmd", "--align", "x"), "for two traces"),
        ((*names, "--align", "nothing"), "no mark begins with 'nothing'"),
    ):
        done = typed("compare", *words)
        assert (done.code, message in done.err) == (2, True), done.err


def test_time_beside_a_waiting_thread_is_no_sum_over_cpus():
    bad = [nr(0, c, 2 if c < 4 else 0) for c in range(8)] + [nr(1000 * MS, 0, 2)]
    run = examine(trace_of(bad, cpus=8), "a")
    told = {r["name"]: r["first"] for r in rows(align(run, run))}
    assert told["idle while a thread waited"] == 1
    assert told["core time wasted"] == 4


def test_a_mark_that_both_have_is_not_the_beginning_of_another_one():
    def marked(label, *marks):
        made = [{"ts_ns": t * MS, "kind": "mark", "cpu": 0, "text": text} for t, text in marks]
        lengths = [nr(0, 0, 1), nr(0, 1, 0), nr(9 * MS, 0, 0)]
        events = sorted([*lengths, *made], key=lambda r: r["ts_ns"])
        return examine(trace_of(events, cpus=2), label)

    a, b = marked("a", (2, "go")), marked("b", (1, "go-ahead"), (5, "go"))
    assert align(a, b).zeros == align(a, b, "go").zeros == (2 * MS, 5 * MS)
    assert align(b, b, "go-").zeros == (1 * MS, 1 * MS)
