"""Modes of CPUs from transitions between user and kernel mode: computed by hand, and without influence on the verdict."""

from __future__ import annotations

import polars as pl
import pytest
from support.recorders import as_kutrace, random_run

import wastedcores
from wastedcores.analysis.transitions import modes, shares, waits
from wastedcores.errors import MissingEventsError
from wastedcores.invariant import check
from wastedcores.trace.header import Header
from wastedcores.trace.inspector import JUMP_NS, Inspector
from wastedcores.trace.parquet import read_parquet, write_parquet
from wastedcores.trace.schema import TRANSITIONS, conform
from wastedcores.trace.trace import Trace

A, B, KTHREAD, PREEMPTED = 10, 11, 12, 13


def switch(ts, cpu, prev, state, pid):
    return {
        "ts_ns": ts,
        "kind": "switch",
        "cpu": cpu,
        "prev_pid": prev,
        "prev_state": state,
        "pid": pid,
    }


def enter(ts, cpu, pid, op, text, value=0):
    return {
        "ts_ns": ts,
        "kind": "kernel_entry",
        "cpu": cpu,
        "pid": pid,
        "op": op,
        "text": text,
        "value": value,
    }


def leave(ts, cpu, pid, op):
    return {"ts_ns": ts, "kind": "kernel_exit", "cpu": cpu, "pid": pid, "op": op, "value": 0}


EVENTS = [
    {"ts_ns": 0, "kind": "fork", "pid": KTHREAD, "by_pid": 2},
    enter(100, 0, A, "syscall", "read"),  # so that A was in user mode before
    enter(
        120, 0, A, "fault", "page_fault", 2
    ),  # the kernel's own fault returns into the system call
    leave(140, 0, A, "fault"),
    switch(200, 0, A, "S", 0),
    enter(250, 0, 0, "vector", "timer"),
    enter(255, 0, 0, "softirq", "rcu"),
    leave(260, 0, 0, "softirq"),
    leave(270, 0, 0, "vector"),
    {"ts_ns": 290, "kind": "wakeup", "cpu": 0, "pid": A, "src_cpu": 1, "by_pid": B},
    switch(300, 0, 0, "R", A),
    leave(350, 0, A, "syscall"),
    switch(400, 0, A, "R+", KTHREAD),
    switch(500, 0, KTHREAD, "S", A),
    switch(600, 0, A, "R", PREEMPTED),
    leave(50, 1, B, "syscall"),
    switch(700, 1, B, "S", 0),
]


def trace_of(events):
    table = conform(pl.DataFrame(events).sort("ts_ns", maintain_order=True), "test")
    return Trace(table.lazy(), Header(source_format="test", cpus=2))


def test_modes_of_a_run_computed_by_hand():
    table = modes(trace_of(EVENTS), 0, 800)
    rows = table.select("cpu", "start_ns", "end_ns", "pid", "mode", "op", "text").rows()
    syscall = ("kernel", "syscall", "read")
    assert rows == [
        (0, 100, 120, A, *syscall),
        (0, 120, 140, A, "kernel", "fault", "page_fault"),
        (0, 140, 200, A, *syscall),
        (0, 200, 250, 0, "idle", None, None),
        (0, 250, 255, 0, "kernel", "vector", "timer"),
        (0, 255, 260, 0, "kernel", "softirq", "rcu"),
        (0, 260, 270, 0, "kernel", "vector", "timer"),
        (0, 270, 300, 0, "idle", None, None),
        (0, 300, 350, A, *syscall),
        (0, 350, 400, A, "user", None, None),
        (0, 400, 500, KTHREAD, "kernel", None, None),
        (0, 500, 600, A, "user", None, None),
        (0, 600, 800, PREEMPTED, "unknown", None, None),
        (1, 50, 700, B, "user", None, None),
        (1, 700, 800, 0, "idle", None, None),
    ]
    assert shares(table).filter(pl.col("cpu") == 1)["ns"].to_list() == [650, 100]


def test_why_a_thread_waited():
    found = waits(trace_of(EVENTS), 0, 800)
    columns = ("pid", "start_ns", "woken_ns", "end_ns", "why", "by_pid", "by_cpu")
    assert found.select(columns).rows() == [
        (A, 200, 290, 300, "read", B, 1),
        (A, 400, None, 500, "preempted", None, None),
    ]


def test_a_trace_without_transitions_says_how_to_record_them():
    with pytest.raises(MissingEventsError, match="--transitions"):
        modes(trace_of([e for e in EVENTS if not e["kind"].startswith("kernel")]), 0, 800)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_the_verdict_is_the_same_without_transitions(tmp_path, seed):
    whole = wastedcores.open_trace(as_kutrace(random_run(seed), tmp_path / "t.json"))
    seen = whole.only("switch").select("ts_ns", "cpu", "pid").collect().rows()
    often = [
        e
        for t, cpu, pid in seen
        for e in (enter(t, cpu, pid, "syscall", "read"), leave(t + 7, cpu, pid, "syscall"))
    ]
    # more of them, before, behind and between all other events, on a CPU and of a thread that nothing else names
    far = [enter(t, 7, 77_777, "irq", "far") for t in (0, 5_000, 10**15)]
    events = pl.concat([whole.events.collect(), conform(pl.DataFrame(often + far), "test")]).sort(
        "ts_ns", maintain_order=True
    )
    more = Trace(
        events.lazy(),
        whole.header.model_copy(update={"kinds": None, "start_ns": None, "end_ns": None}),
    )
    without = Trace(more.without(*TRANSITIONS), more.header)
    assert check(more).to_json() == check(without).to_json()
    written = [
        read_parquet(write_parquet(t, tmp_path / f"{n}.parquet"))
        for n, t in (("with", more), ("without", without))
    ]
    answers = [check(t).to_json() for t in written]
    counts = [answer["trace"].pop("events") for answer in answers]
    assert counts[0] > counts[1]
    assert answers[0] == answers[1]


def test_a_silence_of_the_scheduler_is_one_though_interrupts_went_on():
    long = 3 * JUMP_NS
    events = [switch(0, 0, A, "S", 0), *(enter(t, 0, 0, "irq", "disk") for t in range(0, long, JUMP_NS // 2)),
              switch(long, 0, 0, "R", A), enter(long + 5, 1, A, "syscall", "read")]  # fmt: skip
    seen = Inspector("test")
    frame = conform(pl.DataFrame(events).sort("ts_ns", maintain_order=True), "test")
    out = pl.concat(seen.order(seen.ranges([frame])), how="diagonal")
    assert (seen.jumps, seen.start_ns, seen.end_ns, seen.highest_cpu) == (1, 0, long, 0)
    assert out.filter(pl.col("kind") == "lost")["ts_ns"].to_list() == [long - 1]
