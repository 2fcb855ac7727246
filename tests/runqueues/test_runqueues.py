"""Rebuilt runqueues are compared with a small scheduler whose states are all known."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.builders import migrate, nr, switch, trace_of, wakeup

from wastedcores.errors import TraceContentError
from wastedcores.invariant import check
from wastedcores.runqueues.facts import lost_spans
from wastedcores.runqueues.runqueues import comms, runqueues
from wastedcores.runqueues.task_row import PRESUMED_BOUND
from wastedcores.runqueues.waits import waits
from wastedcores.trace.header import Header
from wastedcores.trace.schema import SCHEMA
from wastedcores.trace.trace import Trace

HEADER = Header(source_format="test")
COLUMNS = ("ts_ns", "kind", "cpu", "src_cpu", "pid", "value", "text")


class LittleScheduler:
    """A random but legal scheduler: it emits events and remembers the true state after each of them."""

    def __init__(self, seed: int, cpus: int, tasks: int) -> None:
        self.random = random.Random(seed)
        self.cpus = cpus
        self.running = [0] * cpus
        self.queue: list[list[int]] = [[] for _ in range(cpus)]
        self.last_cpu = {100 + i: self.random.randrange(cpus) for i in range(tasks)}
        self.asleep = set(self.last_cpu)
        self.next_pid = 100 + tasks
        self.now = 1000
        self.events: list[dict] = []
        self.truth: list[list[int]] = []

    def emit(self, event: dict) -> None:
        self.events.append(event)
        self.truth.append(
            [len(q) + (r != 0) for q, r in zip(self.queue, self.running, strict=True)]
        )

    def wake(self, pid: int, kind: str = "wakeup") -> None:
        cpu = self.random.randrange(self.cpus)
        old = self.last_cpu[pid]
        if cpu != old:
            self.last_cpu[pid] = cpu
            self.emit(migrate(self.now, old, cpu, pid))
        self.asleep.discard(pid)
        self.queue[cpu].append(pid)
        self.emit(wakeup(self.now, cpu, pid) | {"kind": kind})

    def switch(self, cpu: int, state: str | None = None) -> None:
        prev = self.running[cpu]
        state = state or self.random.choice(["R", "R+", "S", "D", "X"])
        if prev and not state.startswith("R"):
            self.asleep.add(prev)
        following = (
            self.queue[cpu].pop(self.random.randrange(len(self.queue[cpu])))
            if self.queue[cpu]
            else 0
        )
        if prev and state.startswith("R"):
            if not following:
                return
            self.queue[cpu].append(prev)
        self.running[cpu] = following
        if prev or following:
            self.emit(switch(self.now, cpu, prev, state if prev else "R", following))

    def step(self) -> None:
        self.now += self.random.choice([0, 0, 1, 7])
        what = self.random.random()
        if what < 0.3 and self.asleep:
            self.wake(self.random.choice(sorted(self.asleep)))
        elif what < 0.4:
            pid, self.next_pid = self.next_pid, self.next_pid + 1
            parent_cpu = self.random.randrange(self.cpus)
            if self.running[parent_cpu]:
                self.last_cpu[pid] = parent_cpu
                self.emit(
                    {
                        "ts_ns": self.now,
                        "kind": "fork",
                        "cpu": parent_cpu,
                        "pid": pid,
                        "by_pid": self.running[parent_cpu],
                    }
                )
                self.wake(pid, "wakeup_new")
        elif what < 0.6:
            src, dst = self.random.randrange(self.cpus), self.random.randrange(self.cpus)
            if self.queue[src] and src != dst:
                pid = self.queue[src].pop(0)
                self.queue[dst].append(pid)
                self.last_cpu[pid] = dst
                self.emit(migrate(self.now, src, dst, pid))
        else:
            self.switch(self.random.randrange(self.cpus))

    def drain(self) -> None:
        """Let everybody run and sleep, so that the trace tells of every task."""
        for cpu in range(self.cpus):
            while self.queue[cpu] or self.running[cpu]:
                self.now += 1
                self.last_cpu[self.running[cpu]] = cpu
                self.switch(cpu, "S")


@settings(max_examples=200)
@given(st.integers(0, 2**32), st.integers(1, 6), st.integers(1, 12), st.floats(0, 1))
def test_rebuilt_runqueues_equal_the_truth(seed, cpus, tasks, cut_at):
    little = LittleScheduler(seed, cpus, tasks)
    for _ in range(150):
        little.step()
    cut = int(cut_at * len(little.events))
    little.drain()
    # less than 1 ms apart, the events of two CPUs may be in the wrong order
    events = [e | {"ts_ns": 2_000_000 * e["ts_ns"]} for e in little.events[cut:]]
    truth = little.truth[cut:]
    if not any(e["kind"] == "switch" for e in events):
        return
    state = [-1] * cpus
    rows = [
        (int(t), int(c), int(n))
        for batch in runqueues(trace_of(events, cpus=cpus), affinity=False).batches()
        for t, c, n in zip(*batch.runqueues(), strict=True)
    ]
    at = 0
    for i, event in enumerate(events):
        if i + 1 < len(events) and events[i + 1]["ts_ns"] == event["ts_ns"]:
            continue
        while at < len(rows) and rows[at][0] <= event["ts_ns"]:
            state[rows[at][1]] = rows[at][2]
            at += 1
        for cpu in range(cpus):
            # "unknown" is allowed only if the trace never says what the CPU runs
            told = any(e["kind"] == "switch" and e["cpu"] == cpu for e in events)
            assert state[cpu] == truth[i][cpu] or (state[cpu] == -1 and not told), (i, cpu, event)


@pytest.mark.parametrize("more", [[], [nr(0, 0, 1)]], ids=["tasks only", "with nr_running"])
@pytest.mark.parametrize("affinity", [True, False])
def test_waits__go_on_where_the_task_changes_runqueues(more, affinity):
    events = [
        *more,
        switch(0, 0, 0, "R", 1),
        switch(0, 1, 0, "R", 2),
        wakeup(10, 0, 3),
        migrate(30, 0, 1, 3),
        switch(70, 1, 2, "S", 3),
        switch(90, 0, 1, "R", 4),
    ]
    rq = runqueues(trace_of(events, cpus=2), affinity=affinity)
    assert waits(rq, 0, 90, [0, 1]).rows() == [
        (3, 1, 10, 70),
        (4, 0, 0, 90),  # switched in without a wakeup: it had waited from the beginning
    ]
    assert waits(rq, 0, 90, [1]).rows() == [(3, 1, 10, 70)]
    assert waits(rq, 70, 90, [0, 1]).rows() == [(4, 0, 0, 90)]


def test_waits__are_unknown_where_the_trace_names_no_tasks():
    rq = runqueues(trace_of([nr(0, 0, 1)], cpus=1))
    assert waits(rq, 0, 1, [0]).height == 0


def test_runqueues__kept_changes_are_the_streamed_ones():
    little = LittleScheduler(5, 3, 6)
    for _ in range(100):
        little.step()
    little.drain()
    trace = trace_of(little.events, cpus=3)
    kept = runqueues(trace, keep=True)
    streamed = list(runqueues(trace).batches(waits=True, rows=16))
    assert len(streamed) > 2
    waits = pl.concat([b.waits for b in streamed if b.waits is not None])
    assert waits.height
    for _ in range(2):
        mine = list(kept.batches())
        for column in ("ts_ns", "cpu", "nr", "free", "mask", "code"):
            both = (np.concatenate([getattr(b, column) for b in side]) for side in (mine, streamed))
            assert np.array_equal(*both), column
        assert pl.concat([b.waits for b in mine if b.waits is not None]).equals(waits)


@settings(max_examples=60)
@given(st.integers(0, 2**32))
def test_lost_spans__begin_at_the_last_event_on_that_cpu(seed):
    """Before the first event of a CPU, all of them may be lost."""
    r = random.Random(seed)
    rows = [{"ts_ns": 0, "kind": "mark", "text": "start"}]
    for t in sorted(r.randrange(40) for _ in range(30)):
        cpu, other = r.choice([None, 0, 1, 2]), r.choice([None, 0, 1])
        kind = r.choice(["lost", "mark", "wakeup", "migrate", "cpu_idle"])
        if kind in ("wakeup", "migrate") and cpu is None:
            continue
        rows.append({"ts_ns": t, "kind": kind, "cpu": cpu, "src_cpu": other, "pid": 1, "value": 1})
    spans = []
    for row in rows:
        if row["kind"] != "lost":
            continue
        known = []
        for e in rows:
            # a move may be written on any CPU
            on = {"wakeup": e.get("src_cpu"), "migrate": None}.get(e["kind"], e.get("cpu"))
            if e["kind"] != "lost" and e["ts_ns"] < row["ts_ns"] and row["cpu"] in (None, on):
                known.append(e["ts_ns"])
        start = max(known, default=0)
        spans.append((start, row["ts_ns"], -1 if row["cpu"] is None else row["cpu"]))
    trace = Trace(pl.DataFrame(rows, schema={c: SCHEMA[c] for c in COLUMNS}).lazy(), HEADER)
    assert lost_spans(trace, {r["kind"] for r in rows}, 0) == sorted(s for s in spans if s[1] > 0)


def test_runqueues__says_what_contradicts():
    events = [
        switch(0, 0, 0, "R", 1),
        wakeup(5, 0, 1),
        switch(9, 0, 1, "S", 2),
        switch(11, 0, 2, "S", 1),
    ]
    rq = runqueues(trace_of(events, cpus=1))
    for _ in rq.batches():
        pass
    assert rq.oddities == {"wakeup_of_queued": 1, "in_without_wakeup": 1}


@pytest.mark.parametrize(
    ("out", "dest", "waited"),
    [
        (
            switch(102, 0, 1, "S", 2),
            0,
            {(1, 0): 48},
        ),  # it stopped asleep, so the waker waited for that
        (switch(102, 0, 1, "S", 2), 1, {(1, 1): 48}),
        (switch(102, 0, 1, "R", 2), 0, {(1, 0): 48}),  # it never fell asleep
    ],
)
def test_a_waking_of_a_thread_that_is_about_to_sleep_wakes_it_once_it_stopped(out, dest, waited):
    """``perf sched record`` has sched_waking events only, which come before the thread left its CPU."""
    events = [
        switch(0, 0, 0, "R", 1),
        switch(0, 1, 0, "R", 3),
        wakeup(100, dest, 1),
        out,
        switch(150, dest, 2 if dest == 0 else 3, "S", 1),
        switch(200, dest, 1, "S", 0),
    ]
    # a wakeup right after it first ran might be a late one
    events = events[:2] + [e | {"ts_ns": e["ts_ns"] + 2_000_000} for e in events[2:]]
    rq = runqueues(trace_of(events, cpus=2, wakings=True))
    found = pl.concat(b.waits for b in rq.batches(waits=True) if b.waits is not None)
    rows = found.filter(pl.col("task") == 1).iter_rows(named=True)
    assert {(w["task"], w["cpu"]): w["end_ns"] - w["start_ns"] for w in rows} == waited
    assert rq.oddities == {}
    # it may have gone on after the waking, and have fallen asleep soon after
    assert set(rq.doubts["reason"]) == ({"perhaps_asleep"} if out["prev_state"] == "S" else set())


def test_a_waking_that_kept_a_thread_awake_does_not_wake_it_later():
    """The thread went on and fell asleep later: without another waking nothing tells when it could run again."""
    events = [
        switch(0, 0, 0, "R", 1),
        wakeup(100, 0, 1),
        switch(101, 0, 1, "R", 2),
        switch(102, 0, 2, "S", 1),
        switch(200, 0, 1, "S", 0),
        switch(300, 0, 0, "R", 1),
    ]
    rq = runqueues(trace_of(events, cpus=1, wakings=True))
    rows = [(int(t), int(n)) for b in rq.batches() for t, n in zip(b.ts_ns, b.nr, strict=True)]
    assert rows[-2:] == [(200, 0), (300, 1)]
    assert rq.oddities == {"in_without_wakeup": 1}


def test_runqueues__a_task_that_left_unseen_does_not_stay():
    """Some kernels hide switches (seen on 6.18 virtual machines): CPU 0 runs task 1, and later stops task 2."""
    events = [switch(0, 0, 0, "R", 1), switch(50, 0, 2, "S", 0), switch(90, 0, 0, "R", 1)]
    rq = runqueues(trace_of(events, cpus=1))
    rows = [(int(t), int(n)) for b in rq.batches() for t, n in zip(b.ts_ns, b.nr, strict=True)]
    assert rows[-2:] == [(50, 0), (90, 1)]
    # task 1 was gone when 2 stopped, and is back without having been seen to leave
    assert rq.oddities["left_unseen"] == 2


def test_runqueues__streams_in_small_batches():
    little = LittleScheduler(3, 4, 8)
    for _ in range(300):
        little.step()
    little.drain()
    trace = trace_of(little.events, cpus=4)
    whole = [
        pl.DataFrame({"t": b.ts_ns, "c": b.cpu, "n": b.nr}) for b in runqueues(trace).batches()
    ]
    small = [
        pl.DataFrame({"t": b.ts_ns, "c": b.cpu, "n": b.nr})
        for b in runqueues(trace).batches(rows=7)
    ]
    assert len(small) > len(whole)
    assert pl.concat(small).equals(pl.concat(whole))


def test_switch_that_does_not_say_what_it_stops():
    rows = [
        switch(100, 0, 0, "R", 7),
        switch(200, 1, -1, "R", 8),
        switch(300, 1, 8, "S", 0),
        wakeup(400, 0, 9),
        switch(600, 0, 7, "S", 9),
    ]
    trace = trace_of(rows, cpus=2)
    changes = [
        (int(t), int(c), int(n))
        for b in runqueues(trace, affinity=False).batches()
        for t, c, n in zip(*b.runqueues(), strict=True)
    ]
    # CPU 1 is unknown until 200, and not busy with task 8 from the beginning
    assert [c for c in changes if c[1] == 1] == [(200, 1, 1), (300, 1, 0)]
    assert check(trace).wall_ns == 200


def test_loss_on_a_cpu_unknown_beside_a_fork():
    rows = [
        switch(100, 0, 0, "R", 7),
        {"ts_ns": 150, "kind": "fork", "cpu": 0, "pid": 8, "by_pid": 7},
        {"ts_ns": 200, "kind": "lost", "value": 3},
        switch(300, 0, 7, "S", 0),
    ]
    assert check(trace_of(rows, cpus=2)).verdict == "unknown"


def task_state(ts_ns: int, cpu: int, pid: int, state: str) -> dict:
    return {"ts_ns": ts_ns, "kind": "task_state", "cpu": cpu, "pid": pid, "prev_state": state}


def late_task(*more: dict) -> list[dict]:
    """CPU 1 is idle. CPU 0 runs task 10 until task 99 turns up 300 ms after a snapshot of all tasks."""
    return [
        *more,
        task_state(2, 0, 10, "running"),
        task_state(3, 1, 12, "sleeping"),
        switch(5, 1, 13, "S", 0),
        switch(300_000_000, 0, 10, "S", 99),
        switch(300_000_100, 0, 99, "S", 0),
    ]


@pytest.mark.parametrize(
    ("more", "verdict"),
    [
        # the kernel's count proves that task 99 was not on the runqueue, although it was switched in without a wakeup
        ([nr(1, 0, 1), nr(1, 1, 0)], "clean"),
        # without it nobody knows since when task 99 waited, but the snapshot says that it is not since the beginning
        ([], "unknown"),
        ([task_state(1, 0, 99, "waiting")], "violations"),
    ],
    ids=["hidden and counted", "hidden", "listed"],
)
def test_start__a_task_that_the_snapshot_does_not_list_had_not_waited(more, verdict):
    result = check(trace_of(late_task(*more), cpus=2))
    assert result.verdict == verdict
    assert result.thread_ns == (299_999_995 if verdict == "violations" else 0)


@pytest.mark.parametrize(
    ("more", "verdict"),
    [
        # it waited since the start, or its wakeup was written on a CPU whose clock is late
        ([wakeup(300_000_020, 0, 99)], "unknown"),
        ([migrate(200_000_000, 1, 0, 99), wakeup(300_000_020, 0, 99)], "unknown"),
        # nobody waits before it is born
        ([wakeup(300_000_020, 0, 99) | {"kind": "wakeup_new"}], "clean"),
        (
            [
                {"ts_ns": 300_000_020, "kind": "fork", "cpu": 0, "pid": 99, "by_pid": 10},
                wakeup(300_000_030, 0, 99) | {"kind": "wakeup_new"},
            ],
            "clean",
        ),
        # clocks do not differ by so much: it was woken when it was about to sleep
        ([wakeup(303_000_000, 0, 99)], "violations"),
        ([], "violations"),
    ],
    ids=["late", "moved and late", "born late", "forked late", "about to sleep", "no wakeup"],
)
def test_start__a_task_that_is_woken_right_after_it_first_ran_may_have_slept(more, verdict):
    rows = [
        switch(1, 0, 9, "S", 10),
        switch(5, 1, 13, "S", 0),
        switch(300_000_000, 0, 10, "S", 99),
        switch(305_000_000, 0, 99, "S", 0),
        wakeup(305_000_000, 1, 13),
    ]
    rows = sorted(rows + more, key=lambda row: row["ts_ns"])
    result = check(trace_of(rows, cpus=2), chronic_share=None)
    assert result.verdict == verdict, (result.notes, result.doubts)


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 5), st.integers(2, 12), st.booleans())
def test_strict__is_what_a_trace_with_bound_threads_gives(seed, cpus, tasks, keep):
    """Threads of which nothing tells where they may run do not count; neither do those bound to their CPU by name."""
    little = LittleScheduler(seed, cpus, tasks)
    for _ in range(100):
        little.step()
    little.drain()
    pids = {e["pid"] for e in little.events if e.get("pid")}
    free = np.random.default_rng(seed).random(max(pids) + 1) < 0.5
    told = [{"pid": p, "allowed": f"0-{cpus - 1}"} for p in pids if free[p]]
    trace = trace_of(
        [e for e in little.events[20:] if e["kind"] != "fork"],
        cpus=cpus,
        known=False,
        tasks=told,
        follows_affinity=True,
        quotas={},
    )
    first = runqueues(trace, keep=keep)
    of_task = np.where(first.affinity.known, first.affinity.of_task, np.int32(PRESUMED_BOUND))
    anew = replace(first, affinity=first.affinity._replace(of_task=of_task), keep=False)
    for _ in first.batches():
        pass
    for expected, got in zip(anew.batches(), first.strict().batches(), strict=True):
        for column in ("ts_ns", "cpu", "nr", "free", "mask", "code"):
            assert np.array_equal(getattr(expected, column), getattr(got, column)), column


@pytest.mark.parametrize("column", ["ts_ns", "kind"])
def test_an_event_without_a_time_or_a_kind_is_refused(column):
    trace = trace_of([wakeup(10, 0, 7), switch(20, 0, 0, "R", 7), switch(30, 0, 7, "S", 0)], cpus=1)
    empty = pl.when(pl.col("ts_ns") == 20).then(None).otherwise(pl.col(column)).alias(column)
    damaged = Trace(trace.events.with_columns(empty), trace.header)
    with pytest.raises(TraceContentError, match=f"'{column}' of an event is empty"):
        check(damaged)


def test_the_last_name_of_a_thread_may_be_that_under_which_it_stops():
    rows = [switch(0, 0, 0, "R", 7, comm="make"), switch(5, 0, 7, "X", 0, prev_comm="cc1")]
    assert dict(comms(trace_of(rows, cpus=1)).iter_rows())[7] == "cc1"
    # it is renamed again in a later run
    rows += [wakeup(8, 0, 7, comm="cc1"), switch(9, 0, 0, "R", 7, comm="as")]
    assert dict(comms(trace_of(rows, cpus=1)).iter_rows())[7] == "as"
