"""Columns that are computed for queries: names through fork and exec, spans from pairs of events, and what else a user adds."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from wastedcores.errors import MissingEventsError, UsageError
from wastedcores.queries import EventTable, QueryError, Span, events_where, with_span
from wastedcores.queries.lengths import NUMBERED_BELOW, numbered
from wastedcores.topology.machine import Machine
from wastedcores.trace.header import Header, TaskFacts
from wastedcores.trace.schema import conform
from wastedcores.trace.trace import Trace


def trace(rows, **header) -> Trace:
    frame = conform(pl.DataFrame(rows, infer_schema_length=None), "test")
    return Trace(frame.lazy(), Header(source_format="test", cpus=4, **header))


def row(ts, kind, cpu=None, pid=None, **more):
    return {"ts_ns": ts, "kind": kind, "cpu": cpu, "pid": pid, "comm": None, "text": None,
            "prev_pid": None, "prev_comm": None, "prev_state": None, "by_pid": None, "by_comm": None,
            "nr_running": None, "value": None, "src_cpu": None, "op": None} | more  # fmt: skip


def switch(ts, cpu, prev_pid, pid, state="S", **more):
    return row(ts, "switch", cpu, pid, prev_pid=prev_pid, prev_state=state, **more)


def test_names__go_from_parent_to_child_and_change_at_exec():
    build = trace([
        row(1, "fork", 0, 11, by_pid=10),
        row(2, "wakeup_new", 0, 11, by_pid=10),
        row(3, "exec", 0, 11, text="/usr/bin/x86_64-linux-gnu-gcc-12"),
        row(4, "fork", 0, 12, by_pid=11),
        switch(5, 0, 11, 12),
        row(6, "exec", 0, 12, comm="cc1"),
        row(7, "exit", 0, 12),
        row(8, "fork", 0, 12, by_pid=10),  # the pid is used again
        row(9, "wakeup", 1, 13),
        row(10, "exec", 1, 13),
        row(11, "wakeup", 1, 13, comm="late"),
        switch(12, 1, 13, 12),
    ], tasks=[TaskFacts(pid=10, comm="make")])  # fmt: skip
    table = EventTable(build).with_columns(["comm", "by_comm", "prev_comm"])
    assert table["comm"].to_list() == [
        "make", "make", "x86_64-linux-gn", "x86_64-linux-gn", "x86_64-linux-gn", "cc1", "cc1",
        "make", None, None, "late", "make",
    ]  # fmt: skip
    assert table["by_comm"].to_list()[:4] == ["make", "make", None, "x86_64-linux-gn"]
    assert table["prev_comm"].to_list() == [None] * 4 + ["x86_64-linux-gn"] + [None] * 6 + ["late"]
    assert events_where(build, 'comm == "make" and kind == "fork"').height == 2


def test_names__agree_with_a_dictionary_on_random_events():
    rng = np.random.default_rng(3)
    rows = []
    for i in range(2000):
        kind = str(rng.choice(["fork", "exec", "exit", "wakeup", "mark"]))
        pid, by = (int(x) for x in rng.integers(1, 40, 2))
        name = str(rng.choice(["a", "b", "c"])) if rng.random() < 0.1 else None
        event = row(i, kind, 0, pid, comm=name)
        event |= {"text": "x"} if kind == "mark" else {"by_pid": by} if kind == "fork" else {}
        rows.append(event)
    names: dict[int, str | None] = {}
    expected = []
    for e in rows:
        if e["kind"] == "fork":
            names[e["pid"]] = e["comm"] or names.get(e["by_pid"])
        elif e["kind"] == "exec" or e["comm"]:
            names[e["pid"]] = e["comm"]
        expected.append(names.get(e["pid"]))
        if e["kind"] == "exit":
            names.pop(e["pid"], None)
    assert EventTable(trace(rows)).with_columns(["comm"])["comm"].to_list() == expected


def test_names__the_same_from_a_recording_that_has_them_and_from_one_without():
    """A recording in which every event names its task judges the names that fork and exec give."""
    from wastedcores.trace.named import open as opened

    full = opened("group-imbalance-buggy")
    told = full.events.collect()
    first = pl.col("kind").is_in(["fork", "exec"])
    bare = told.with_columns(comm=pl.when(first).then("comm"))
    got = EventTable(Trace(bare.lazy(), full.header)).with_columns(["pid", "comm"])
    both = got.with_columns(told=told["comm"].cast(pl.String)).drop_nulls()
    assert both.height > 10_000
    # the workload's processes are called make, and name themselves cc1 without an exec before they exit
    renamed = (pl.col("kind") == "exit") & (pl.col("told") == "cc1")
    assert both.filter(~renamed, pl.col("comm") != pl.col("told")).is_empty()


def naive_spans(rows, begins, ends, key, check, breaks=None):
    """The definition of a span, with a dictionary."""
    lengths, opened = [None] * len(rows), {}
    for i, e in enumerate(rows):
        if breaks and e["kind"] == "switch":
            opened.pop(e[breaks], None)
        k = e[key[1]]
        if ends(e) and k in opened:
            at = opened.pop(k)
            if check is None or rows[at][check[0]] == e[check[1]]:
                lengths[at] = e["ts_ns"] - rows[at]["ts_ns"]
        k = e[key[0]]
        if begins(e) and k is not None and k not in opened:
            opened[k] = i
    return lengths


def random_switches(seed, cpus=3, n=600):
    rng = np.random.default_rng(seed)
    rows, on = [], [0] * cpus
    for t in np.cumsum(rng.integers(1, 50, n)):
        cpu, pid = int(rng.integers(cpus)), int(rng.integers(0, 9))
        kind = rng.random()
        if kind < 0.6:
            left = (
                on[cpu] if rng.random() < 0.9 else int(rng.integers(0, 9))
            )  # sometimes one is lost
            rows.append(switch(int(t), cpu, left, pid, str(rng.choice(["S", "R", "R+", "D"]))))
            on[cpu] = pid
        elif kind < 0.8:
            rows.append(row(int(t), "wakeup", cpu, pid))
        else:
            rows.append(row(int(t), "nr_running", cpu, nr_running=int(rng.integers(0, 3))))
    return rows


SWITCH = "switch"


@pytest.mark.parametrize("seed", range(4))
def test_spans__agree_with_their_definition(seed):
    rows = random_switches(seed)
    table = EventTable(trace(rows)).with_columns(
        ["run_ns", "idle_ns", "busy_ns", "wait_ns", "blocked_ns"]
    )
    kind = [e["kind"] for e in rows]
    assert {"switch", "wakeup", "nr_running"} <= set(kind)
    is_switch = lambda e: e["kind"] == SWITCH  # noqa: E731
    cases = {
        "run_ns": (lambda e: is_switch(e) and e["pid"] != 0, is_switch, ("cpu", "cpu"), ("pid", "prev_pid")),
        "idle_ns": (lambda e: is_switch(e) and e["pid"] == 0, is_switch, ("cpu", "cpu"), ("pid", "prev_pid")),
        "busy_ns": (lambda e: (e["nr_running"] or 0) >= 1, lambda e: e["nr_running"] == 0, ("cpu", "cpu"), None),
        "wait_ns": (lambda e: e["kind"] == "wakeup", lambda e: is_switch(e) and e["pid"] != 0, ("pid", "pid"), None),
        "blocked_ns": (
            lambda e: is_switch(e) and e["prev_pid"] > 0 and e["prev_state"] not in ("R", "R+"),
            lambda e: e["kind"] == "wakeup", ("prev_pid", "pid"), None),
    }  # fmt: skip
    for column, (begins, ends, key, check) in cases.items():
        breaks = {"wait_ns": "prev_pid", "blocked_ns": "pid"}.get(column)
        expected = naive_spans(rows, begins, ends, key, check, breaks)
        assert sum(x is not None for x in expected) > 5, column
        assert table[column].to_list() == expected, column


def test_spans__an_end_that_does_not_fit_its_beginning_leaves_the_length_unknown():
    lost = trace(
        [switch(0, 0, 0, 5), switch(10, 0, 6, 0), switch(30, 0, 0, 5), switch(70, 0, 5, 0)]
    )
    table = EventTable(lost).with_columns(["run_ns", "idle_before_ns"])
    assert table["run_ns"].to_list() == [None, None, 40, None]
    assert table["idle_before_ns"].to_list() == [None, None, 20, None]


@pytest.mark.parametrize(
    ("cpu", "run", "wait"), [(0, None, None), (1, 60, None), (None, None, None)]
)
def test_spans__no_length_reaches_over_lost_events(cpu, run, wait):
    rows = [
        switch(10, 0, 0, 5), row(20, "wakeup", 1, 6), row(40, "lost", cpu, value=3),
        row(50, "wakeup", 1, 6), switch(60, 1, 0, 6), switch(70, 0, 5, 0), switch(90, 0, 0, 5),
    ]  # fmt: skip
    table = EventTable(trace(rows)).with_columns(["run_ns", "wait_ns", "idle_ns"])
    assert table["run_ns"].to_list() == [run, *[None] * 6]
    assert table["wait_ns"].to_list() == [None, wait, None, 10, None, None, None]
    assert table["idle_ns"].to_list()[5] == 20


def test_spans__a_wakeup_of_a_running_task_is_no_wait():
    woken = trace(
        [switch(0, 0, 0, 5), row(10, "wakeup", 0, 5), switch(1000, 0, 5, 0),
         row(5000, "wakeup", 0, 5), switch(5100, 0, 0, 5)]
    )  # fmt: skip
    found = EventTable(woken).with_columns(["wait_ns"])
    assert found["wait_ns"].to_list() == [None, None, None, 100, None]


def test_spans__a_task_that_runs_again_without_a_wakeup_was_not_blocked_until_the_next_one():
    again = trace(
        [switch(0, 0, 5, 0, "Z"), row(100, "wakeup_new", 0, 5), switch(110, 0, 0, 5),
         switch(200, 0, 5, 0), row(230, "wakeup", 0, 5)]
    )  # fmt: skip
    found = EventTable(again).with_columns(["blocked_ns"])
    assert found["blocked_ns"].to_list() == [None, None, None, 30, None]


def test_spans__of_the_user_by_any_column():
    irqs = trace([
        row(1, "mark", 0, text="irq 7 begin"), row(3, "mark", 1, text="irq 7 begin"),
        row(4, "mark", 0, text="irq 7 end"), row(9, "mark", 1, text="irq 7 end"),
    ])  # fmt: skip
    mine = Span("irq", 'text.endswith("begin")', 'text.endswith("end")')
    assert events_where(irqs, "irq_ns > 4", spans=[mine])["ts_ns"].to_list() == [3]
    by_text = Span("same", "True", "True", "text")
    assert with_span(irqs.events.collect(), by_text)["same_ns"].to_list() == [2, None, 5, None]
    for bad in (
        Span("irq", "cpu ==", "True"),
        Span("irq", "True", "True", by="nothing"),
        Span("ts", "True", "True"),
    ):
        with pytest.raises(UsageError):
            with_span(irqs.events.collect(), bad)
    with pytest.raises(UsageError, match="made from itself"):
        events_where(irqs, "a_ns > 1", spans=[Span("a", "a_ns > 1", "True")])


def test_numbered__the_same_number_for_the_same_value():
    far = pl.Series([5, NUMBERED_BELOW + 7, None, -3], dtype=pl.Int32)
    a, b = numbered((far, pl.Series([-3, 5], dtype=pl.Int32)))
    assert (a[0], a[3], a[2]) == (b[1], b[0], -1)
    assert a.max() < 4  # an array of these numbers is small, whatever a file claims


def test_columns__node_frequency_and_cause():
    machine = Machine.preset("bd-paper-16")
    told = trace(
        [
            row(1, "frequency", 0, value=1_200_000), row(2, "wakeup", 9, 5, src_cpu=0),
            row(3, "frequency", 9, value=3_000_000), row(4, "wakeup", 9, 5),
            row(5, "migrate", 9, 5, src_cpu=0, op="pull"), row(6, "wakeup_new", 0, 6),
        ],
        machine=machine.to_dict(),
    )  # fmt: skip
    table = EventTable(told).with_columns(["node", "frequency_khz", "cause"])
    assert table["node"].to_list() == [int(machine.node_of_cpu[c]) for c in table["cpu"]]
    assert table["frequency_khz"].to_list()[1:4] == [None, 3_000_000, 3_000_000]
    assert table["cause"].to_list()[3:] == ["wakeup", "pull", "fork"]
    with pytest.raises(MissingEventsError, match="frequency"):
        events_where(trace([row(1, "exit", 0, 3)]), "frequency_khz > 3")
    with pytest.raises(MissingEventsError, match="machine"):
        events_where(trace([row(1, "exit", 0, 3)]), "node == 3")


def test_functions_of_the_user__add_columns_that_queries_use():
    def with_phase(events: pl.DataFrame) -> pl.DataFrame:
        return events.with_columns(phase=pl.when(pl.col("ts_ns") < 30).then(pl.lit("early")))

    four = trace(
        [switch(0, 0, 0, 5), switch(10, 0, 5, 0), switch(30, 0, 0, 5), switch(70, 0, 5, 0)]
    )
    found = events_where(four, 'phase == "early" and run_ns == 10', functions=[with_phase])
    assert found["ts_ns"].to_list() == [0]
    assert events_where(four, pl.col("phase").is_null(), functions=[with_phase]).height == 2
    with pytest.raises(QueryError, match="'phase'"):
        events_where(four, 'phase == "early"')
    with pytest.raises(UsageError, match="<lambda> must return"):
        events_where(four, "cpu == 0", functions=[lambda events: events.drop("kind")])
    with pytest.raises(UsageError, match="no_such"):
        events_where(four, pl.col("no_such") == 1)
