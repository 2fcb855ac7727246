"""What a machine is told to do limits the verdict: isolated CPUs, core scheduling, policies, stopped tasks, several boots."""

from __future__ import annotations

import pytest
from support.builders import migrate, nr, switch, trace_of, wakeup

from wastedcores.analysis.examined import examine
from wastedcores.errors import UsageError
from wastedcores.invariant import check
from wastedcores.runqueues import stream
from wastedcores.trace.header import Window

S = 1_000_000_000
MS = 1_000_000


def turns(end: int = S, cpu: int = 0, pids: tuple[int, int] = (10, 11)) -> list[dict]:
    """Two tasks that take turns on one CPU."""
    times = range(4 * MS, end, 4 * MS)
    return [switch(t, cpu, pids[i % 2], "R", pids[(i + 1) % 2]) for i, t in enumerate(times)]


def rows_beside(other: int = 0) -> list[dict]:
    """CPU 0 has two tasks for a second, and CPU 1 runs task ``other``."""
    return [
        switch(1, 0, 0, "R", 10),
        switch(1, 1, 9, "S", other),
        wakeup(2, 0, 11, by_pid=10, src_cpu=0),
        *turns(),
        switch(S, 1, other, "S", 0) if other else switch(S, 1, 0, "R", 9),
    ]


def verdict(**header) -> str:
    return check(trace_of(rows_beside(), cpus=2, **header)).verdict


def test_isolated_cpus_do_not_count():
    trace = trace_of(rows_beside(), cpus=2, isolated_cpus=[1])
    result = check(trace)
    assert (result.verdict, result.counted_cpus) == ("clean", [0])
    assert any("CPUs 1 are isolated" in note for note in result.notes)
    assert check(trace, ignore_affinity=True).verdict == "violations"
    assert verdict(isolated_cpus=[]) == "violations"


@pytest.mark.parametrize(("allowed", "found"), [("0-1", "violations"), ("0", "clean")])
def test_a_thread_that_waits_on_an_isolated_cpu_may_be_able_to_use_another_one(allowed, found):
    tasks = [{"pid": p, "allowed": allowed} for p in (9, 10, 11)]
    result = check(trace_of(rows_beside(), cpus=2, isolated_cpus=[0], tasks=tasks))
    assert (result.verdict, result.counted_cpus) == (found, [0, 1] if found != "clean" else [1])
    assert any("CPUs 0 are isolated" in note for note in result.notes)
    assert any("their waits count" in note for note in result.notes) == (found != "clean")


def test_no_thread_is_moved_to_an_isolated_cpu_whoever_waits_elsewhere():
    """Two threads take turns on each of CPU 0 and CPU 3, which is isolated; CPU 2 is isolated and idle, CPU 1 is busy."""
    rows = [
        *rows_beside(other=20),
        switch(1, 3, 0, "R", 30),
        wakeup(2, 3, 31, by_pid=30, src_cpu=3),
        *turns(cpu=3, pids=(30, 31)),
    ]
    rows = sorted(rows, key=lambda row: row["ts_ns"])
    assert check(trace_of(rows, cpus=4, isolated_cpus=[2, 3])).verdict == "clean"
    assert check(trace_of(rows, cpus=4, isolated_cpus=[3])).verdict != "clean"


def test_cpus_that_were_isolated_meanwhile_decide_nothing():
    assert verdict(isolated_cpus=[], changed=["isolated_cpus"]) == "unknown"


@pytest.mark.parametrize("header", [{"core_scheduling": True}, {"changed": ["core_scheduling"]}])
def test_forced_idle_cannot_be_told_from_wasted(header):
    result = check(trace_of(rows_beside(), cpus=2, **header))
    assert result.verdict == "unknown"
    assert any("core scheduling" in note for note in result.notes)
    quiet = [switch(1, 0, 0, "R", 10), switch(S, 0, 10, "S", 0)]
    assert check(trace_of(quiet, cpus=2, **header)).verdict == "unknown"
    assert check(trace_of(quiet, cpus=2, core_scheduling=False)).verdict == "clean"


def test_one_task_with_a_cookie_is_core_scheduling():
    tasks = [{"pid": 10, "allowed": "0-1", "core_cookie": 7}, {"pid": 11, "allowed": "0-1"}]
    assert verdict(tasks=tasks) == "unknown"


def test_a_cpu_that_runs_sched_idle_tasks_is_busy_and_such_tasks_wait_like_others():
    idle_policy = [{"pid": p, "allowed": "0-1", "policy": "idle"} for p in (10, 11, 12)]
    assert verdict(tasks=idle_policy) == "violations"
    assert check(trace_of(rows_beside(12), cpus=2, tasks=idle_policy)).verdict == "clean"


@pytest.mark.parametrize("state", ["T", "t", "D", "I", "P"])
def test_stopped_and_frozen_tasks_do_not_wait(state):
    rows = rows_beside()
    assert check(trace_of(rows, cpus=2)).waiting_ns > 900 * MS
    stops = [
        *rows[:3],
        switch(4 * MS, 0, 10, state, 11),
        switch(S - 1, 0, 11, "S", 0),
        switch(S, 1, 0, "R", 9),
    ]
    assert check(trace_of(stops, cpus=2)).waiting_ns == pytest.approx(4 * MS, rel=0.01)


@pytest.mark.parametrize(("length_ns", "expected"), [(5 * MS, "clean"), (900 * MS, "unknown")])
def test_a_lasting_difference_from_the_kernels_count_is_in_doubt(length_ns, expected):
    rows = [
        switch(1, 0, 0, "R", 10), nr(1, 0, 1), switch(1, 1, 9, "S", 0), nr(1, 1, 0),
        wakeup(2, 0, 11), switch(2 + length_ns, 0, 10, "S", 11), switch(S, 1, 0, "R", 9), nr(S, 1, 1),
    ]  # fmt: skip
    result = check(trace_of(rows, cpus=2, quotas={}))
    assert result.verdict == expected
    # CPU 0 is busy by both counts, but CPU 1 is idle beside it
    assert ("queue_differs" in result.doubts["reason"]) == (expected == "unknown")


def stale_count(kernel_nr, *more):
    """Two tasks run in turns on CPU 0 for 400 ms, and the kernel's last count of it says something else."""
    turns = [switch(t * MS, 0, 10 + t % 2, "R", 11 - t % 2) for t in range(4, 404)]
    return [
        switch(1, 0, 0, "R", 10), nr(1, 0, 1), wakeup(2, 0, 11), nr(2, 0, 2), switch(1, 1, 0, "R", 20),
        nr(1, 1, 1), nr(3 * MS, 0, kernel_nr), *turns, nr(404 * MS, 0, 2), *more, switch(S, 0, 10, "S", 11),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "expected", "reason"),
    [
        # no CPU is idle beside the queue, however long it is: this kernel hid the event of a task that left
        (stale_count(3), "clean", "queue_differs"),
        # by the kernel's count CPU 0 is idle
        (stale_count(0, wakeup(3, 1, 21), nr(3, 1, 2)), "unknown", "count_differs"),
    ],
    ids=["busy", "idle by the count"],
)
def test_a_queue_of_unknown_length_hides_nothing_while_every_cpu_is_busy(rows, expected, reason):
    result = check(trace_of(rows, cpus=2, quotas={}))
    assert result.doubts["reason"].to_list() == [reason]
    assert result.verdict == expected


@pytest.mark.parametrize(
    ("idle", "verdict", "bounded"), [(True, "unknown", False), (False, "clean", True)]
)
def test_where_the_kernel_counts_more_tasks_than_the_events_tell_some_may_wait(
    idle, verdict, bounded
):
    """The kernel counts two tasks on CPU 0. Threads 7 and 8 run there in turn; a third one without events always waits."""
    rows = [
        nr(0, 0, 2), nr(0, 1, 1), wakeup(5, 0, 7, by_pid=8), nr(4, 0, 3), switch(6, 0, 8, "S", 7), nr(6, 0, 2),
        nr(500 * MS - 1, 0, 3), wakeup(500 * MS, 0, 8, by_pid=7), switch(500 * MS + 10, 0, 7, "S", 8),
        nr(500 * MS + 10, 0, 2), wakeup(S - 1, 0, 7), switch(S, 0, 8, "R", 7),
    ]  # fmt: skip
    if idle:
        rows += [switch(10, 1, 9, "S", 0), nr(10, 1, 0)]
    else:
        rows += [switch(10, 1, 9, "R", 10), wakeup(1, 1, 10), nr(1, 1, 2)]
    result = check(trace_of(rows, cpus=2, quotas={}))
    assert result.doubts["reason"].to_list() == ["queue_differs"]
    assert (result.verdict, result.bounded) == (verdict, bounded)


def test_a_gap_between_two_boots_is_no_violation():
    later = 490 * S
    rows = [
        *rows_beside()[:-1],
        *({**r, "ts_ns": r["ts_ns"] + later} for r in rows_beside()),
    ]
    del rows[3:-1:2]  # the second boot does not go on where the first one ended
    assert check(trace_of(rows, cpus=2, known=False)).verdict == "unknown"


@pytest.mark.parametrize(("later", "verdict"), [(False, "unknown"), (True, "clean")])
def test_a_thread_that_was_preempted_before_the_beginning_may_wait_on_a_busy_cpu(later, verdict):
    """CPU 0's buffer begins at 100 ms. Thread 12 was preempted on CPU 1 before, and starves there unless it is seen again."""
    rows = [
        switch(20 * MS, 1, 12, "R", 10),
        switch(100 * MS, 0, 11, "S", 0),
        wakeup(109 * MS, 1, 15, src_cpu=1, by_pid=10),
        switch(110 * MS, 1, 10, "R", 15),
        switch(111 * MS, 1, 15, "S", 10),
        *([switch(112 * MS, 1, 10, "R", 12), switch(113 * MS, 1, 12, "S", 10)] if later else []),
        wakeup(500 * MS, 0, 11, src_cpu=0, by_pid=0),
        switch(500 * MS, 0, 0, "R", 11),
    ]
    late = {"overwritten": {0: 5}, "lost": {0: 5}}
    assert check(trace_of(rows, cpus=2, known=False, **late)).verdict == verdict


def test_what_a_ring_buffer_overwrote_before_the_beginning_is_left_out():
    """CPU 1's oldest events are gone; from its first one on everything is there."""
    late = {"overwritten": {1: 5}, "lost": {1: 5}}
    rows = [r for r in rows_beside() if r["cpu"] != 1]
    rows = sorted(
        [*rows, switch(700 * MS, 1, 9, "S", 0), switch(S, 1, 0, "R", 9)], key=lambda r: r["ts_ns"]
    )
    result = check(trace_of(rows, cpus=2, **late))
    assert (result.verdict, result.start_ns) == ("violations", 700 * MS)
    assert any("overwritten their oldest" in note for note in result.notes)
    # more was lost than what was overwritten before the beginning
    assert check(trace_of(rows, cpus=2, overwritten={1: 5}, lost={1: 6})).verdict == "unknown"
    told = {"ts_ns": 800 * MS, "kind": "affinity", "cpu": 0, "pid": 10, "cpu_mask": b"\3"}
    rows = sorted([*rows, told], key=lambda r: r["ts_ns"])
    assert check(trace_of(rows, cpus=2, **late)).verdict == "unknown"


@pytest.mark.parametrize(
    ("seen", "allowed", "verdict"),
    [((), "0-1", "unknown"), ((), "0", "clean"), (("moved",), "0-1", "violations")],
)
def test_a_thread_that_was_preempted_before_the_beginning_may_have_been_pulled_unseen(
    seen, allowed, verdict
):
    """Thread 10 waits on CPU 0 at the last event before the beginning. The idle CPU 1 may have pulled it, and it may sleep since.

    If it runs on CPU 1 later without a wakeup, it waited from the beginning on.
    """
    rows = [
        switch(S, 0, 0, "S", 10),
        wakeup(1100 * MS, 0, 11),
        switch(1100 * MS, 0, 10, "R", 11),
        switch(1500 * MS, 1, 12, "S", 0),
        *([migrate(1900 * MS, 0, 1, 10), switch(1900 * MS, 1, 0, "S", 10)] if seen else []),
        *([switch(1950 * MS, 1, 10, "S", 0)] if seen else []),
        wakeup(2 * S - 1, 1, 12),
        switch(2 * S, 1, 0, "S", 12),
    ]
    tasks = [{"pid": p, "allowed": allowed if p == 10 else "0-1"} for p in (10, 11, 12)]
    facts = {"tasks": tasks, "later_tasks": [], "quotas": {}, "known": False}
    found = check(trace_of(rows, cpus=2, overwritten={1: 50}, lost={1: 50}, **facts))
    assert (found.verdict, found.start_ns) == (verdict, 1500 * MS)


def test_a_window_before_everything_that_is_recorded_is_never_clean():
    """What CPU 0 did before 5 s was overwritten, and the window ends before."""
    rows = [switch(S, 1, 0, "S", 20), switch(2 * S, 1, 20, "S", 0)]
    rows += [switch(5 * S, 0, 0, "S", 10), switch(6 * S, 0, 10, "S", 0)]
    trace = trace_of(rows, cpus=2, overwritten={0: 100}, lost={0: 100})
    with pytest.raises(UsageError, match=r"1 to 2 s.* of every CPU only from 5 to 6 s"):
        check(trace, between=(S, 2 * S))
    named = check(trace.with_header(window=Window(start_ns=S, end_ns=2 * S)))
    assert (named.verdict, named.duration_ns) == ("unknown", 0)
    assert any("only from 5 to 6 s" in note for note in named.notes)
    assert check(named.trace, persist_ns=0).verdict == "unknown"


def test_changes_that_are_too_many_for_the_memory_are_streamed_again(monkeypatch):
    trace = trace_of(rows_beside(), cpus=2)
    kept = examine(trace)
    assert kept.result.wall_ns
    assert kept.runqueues._kept
    monkeypatch.setattr(stream, "KEPT_CHANGES", 10)
    streamed = examine(trace)
    assert streamed.result.to_json() == kept.result.to_json()
    assert streamed.waits.equals(kept.waits)
    assert not streamed.runqueues._kept


def test_a_trace_that_does_not_tell_how_many_cpus_there_were():
    """Two CPUs are busy and a thread waits: a third one, without an event, may have been idle all the time."""
    rows = [r for r in rows_beside(12) if r["kind"] != "switch" or (r["cpu"], r["pid"]) != (1, 0)]
    alone = trace_of(rows, cpus=2, online=False, known=False)
    result = check(alone)
    assert (result.verdict, result.cpus) == ("unknown", 2)
    assert result.bound.longest_at_most_ns > 900 * MS
    assert any("does not tell how many CPUs" in note for note in result.notes)
    assert check(alone, cpus="0-1").verdict == "clean"
    assert check(trace_of(rows, cpus=2, known=False)).verdict == "clean"
    quiet = [switch(1, 0, 0, "R", 10), switch(1, 1, 0, "R", 11), switch(S, 0, 10, "S", 0)]
    assert check(trace_of(quiet, cpus=2, online=False, known=False)).verdict == "clean"


@pytest.mark.parametrize(("policy", "found"), [("deadline", "clean"), ("other", "unknown")])
def test_a_deadline_thread_beside_an_idle_cpu_has_used_up_its_budget(policy, found):
    """No group has a quota. CPU 1 stops thread 12, which could run, runs thread 14, and idles until it runs thread 12 again."""
    rows = [
        switch(1, 0, 13, "S", 10),
        switch(2, 1, 0, "R", 12),
        wakeup(100 * MS - 1, 1, 14),
        switch(100 * MS, 1, 12, "R", 14),
        switch(300 * MS, 1, 14, "S", 0),
        switch(500 * MS, 1, 0, "R", 12),
        migrate(S - 2, 0, 1, 13),
        wakeup(S - 1, 1, 13),
        switch(S, 1, 12, "S", 13),
    ]
    tasks = [{"pid": p, "allowed": "0-1", "policy": "other"} for p in (10, 13, 14)]
    tasks += [{"pid": 12, "allowed": "0-1", "policy": policy}]
    result = check(trace_of(rows, cpus=2, tasks=tasks), chronic_share=None)
    assert result.verdict == found, (result.notes, result.doubts)
