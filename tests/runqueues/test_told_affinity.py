"""What a snapshot tells of a task's affinity is certain only as long as nobody can have changed it unseen."""

from __future__ import annotations

import pytest
from support.builders import mask, switch, trace_of, wakeup

from wastedcores.invariant import check

S = 1_000_000_000
MS = 1_000_000
#: the parent and the other task of CPU 0
TASKS = [{"pid": 9, "tgid": 9, "allowed": "0-1"}, {"pid": 10, "tgid": 10, "allowed": "0-1"}]


def fork_beside_idle(**header):
    """Task 9 forks 11, which then waits behind 10 on CPU 0 for 80 ms, while CPU 1 has no task."""
    rows = [
        switch(1, 0, 0, "R", 10),
        switch(1, 1, 0, "R", 9),
        {"ts_ns": 2, "kind": "fork", "cpu": 1, "pid": 11, "by_pid": 9},
        switch(3, 1, 9, "S", 0),
        wakeup(4, 0, 11),
    ]
    rows += [switch(80 * MS, 0, 10, "S", 11), switch(80 * MS, 1, 0, "R", 9)]
    facts = {"tasks": TASKS, "quotas": {}, "source_format": "ftrace"} | header
    return trace_of(rows, cpus=2, known=False, **facts)


def later(**more):
    return [{"pid": 11, "tgid": 11, "ppid": 9, "allowed": "0-1"} | more]


@pytest.mark.parametrize(
    ("header", "verdict"),
    [
        ({}, "violations"),
        ({"follows_affinity": True}, "violations"),
        ({"source_format": "schedtrace"}, "violations"),
        ({"source_format": "schedtrace", "follows_affinity": False}, "violations"),
        ({"later_tasks": later()}, "violations"),
        ({"later_tasks": later(allowed="0")}, "unknown"),
        # a sibling got another affinity, so this one may have, too
        ({"later_tasks": later(pid=12, tgid=12, allowed="0")}, "unknown"),
        # the number was another task's before
        ({"later_tasks": later(), "tasks": [*TASKS, {"pid": 11, "allowed": "0"}]}, "violations"),
    ],
)
def test_a_forked_task_inherits_unless_it_or_a_sibling_ends_with_something_else(header, verdict):
    assert check(fork_beside_idle(**header), persist_ns=50 * MS).verdict == verdict


@pytest.mark.parametrize(
    ("changed", "verdict"),
    [((), "violations"), (("nice",), "violations"), (("allowed",), "unknown")],
)
def test_a_task_whose_affinity_changed_is_unknown(changed, verdict):
    rows = [switch(1, 0, 0, "R", 10), switch(1, 1, 9, "S", 0), wakeup(2, 0, 11)]
    rows += [wakeup(S - 1, 1, 9), switch(S, 1, 0, "R", 9)]
    tasks = [*TASKS, {"pid": 11, "tgid": 11, "allowed": "0-1", "changed": changed}]
    trace = trace_of(rows, cpus=2, known=False, tasks=tasks, quotas={}, source_format="ftrace")
    assert check(trace).verdict == verdict


def beside_idle(more, **header):
    """Task 11 waits behind 10 on CPU 0 for a second, while CPU 1 has no task; 12 is another one."""
    rows = [switch(1, 0, 0, "R", 10), switch(1, 1, 9, "S", 0), wakeup(2, 0, 11), *more]
    rows += [wakeup(S - 1, 1, 9), switch(S, 1, 0, "R", 9)]
    tasks = [{"pid": p, "tgid": p, "ppid": 1, "allowed": "0-1"} for p in (9, 10, 11, 12)]
    tasks.append({"pid": 13, "tgid": 13, "ppid": 1, "allowed": "0"})
    facts = {"tasks": tasks, "quotas": {}, "source_format": "ftrace"} | header
    return trace_of(sorted(rows, key=lambda r: r["ts_ns"]), cpus=2, known=False, **facts)


STOPPER = {"comm": "migration/1"}
#: task 9 wakes the stopper of CPU 1, which moves task 12 to CPU 0
MOVED_BY_ANOTHER = [
    switch(2 * MS, 1, 0, "R", 12),
    wakeup(3 * MS, 1, 21, by_pid=9, src_cpu=1, comm="migration/1"),
    switch(3 * MS, 1, 12, "R", 21, **STOPPER),
    {"ts_ns": 3 * MS, "kind": "migrate", "cpu": 0, "src_cpu": 1, "pid": 12, "by_pid": 21},
    switch(3 * MS, 1, 21, "S", 0, prev_comm="migration/1"),
]
#: what moves a thread itself, for exec or for a change of its own affinity
MOVED_BY_ITSELF = [r | ({"by_pid": 12} if r.get("by_pid") == 9 else {}) for r in MOVED_BY_ANOTHER]
EXECUTED = {"ts_ns": 4 * MS, "kind": "exec", "cpu": 0, "pid": 12, "comm": "t12"}
#: task 12 runs on CPU 0 later, although no move of it was recorded
SEEN_THERE = [
    switch(S + 1, 0, 10, "R", 12),
    switch(S + 2, 0, 12, "S", 0),
]
OUTSIDE = [wakeup(2 * MS, 1, 13), switch(2 * MS, 1, 0, "R", 13), switch(3 * MS, 1, 13, "S", 0)]
ENDED = {"later_tasks": []}


@pytest.mark.parametrize(
    ("more", "header", "verdict"),
    [
        ([], {}, "violations"),
        (MOVED_BY_ANOTHER, {}, "unknown"),
        (MOVED_BY_ITSELF, {}, "unknown"),
        ([*MOVED_BY_ITSELF, EXECUTED], {}, "violations"),
        ([r for r in MOVED_BY_ANOTHER if r["kind"] != "migrate"], {}, "violations"),
        ([r for r in MOVED_BY_ANOTHER if r["kind"] != "migrate"] + SEEN_THERE, {}, "unknown"),
        (OUTSIDE, {}, "unknown"),
        # a second snapshot shows that the threads which wait may still use the same CPUs
        (MOVED_BY_ANOTHER, ENDED, "violations"),
        (MOVED_BY_ITSELF, ENDED, "violations"),
        (OUTSIDE, ENDED, "violations"),
    ],
)
def test_one_snapshot_is_not_believed_where_somebody_changes_affinities(more, header, verdict):
    found = check(beside_idle(more, **header))
    assert found.verdict == verdict
    assert any("taken once" in note for note in found.notes) == (verdict == "unknown")


#: task 10 on CPU 0 wakes task 12 and moves it to CPU 1, or moves it there while it waits
WAKING = wakeup(2 * MS, 1, 12, by_pid=10, src_cpu=0)
MOVE = {"ts_ns": 2 * MS + 1, "kind": "migrate", "cpu": 1, "src_cpu": 0, "pid": 12, "by_pid": 10}
RAN = [switch(3 * MS, 1, 0, "R", 12), switch(4 * MS, 1, 12, "S", 0)]
#: task 9 wakes task 12, and moves it to the CPU on which 9 itself runs, or to another one; the switch to 9 is missing
WOKE = wakeup(2 * MS, 1, 12, by_pid=9, src_cpu=1)
PULL = MOVE | {"by_pid": 9}


@pytest.mark.parametrize(
    ("more", "header", "verdict"),
    [
        # the readers place a sched_waking by the move after it
        ([WAKING, MOVE, *RAN], {"wakings": True}, "violations"),
        ([WAKING | {"cpu": 0}, MOVE, *RAN], {"wakings": True}, "unknown"),
        # a sched_wakeup comes after the move that belongs to it
        ([MOVE, WAKING | {"ts_ns": 2 * MS + 2}, *RAN], {}, "violations"),
        ([WAKING | {"cpu": 0}, MOVE, *RAN], {}, "unknown"),
        ([WOKE, PULL | {"src_cpu": 1, "cpu": 0}, *RAN], {}, "unknown"),
        ([WOKE | {"cpu": 0}, PULL, *RAN], {}, "violations"),
        ([WOKE | {"cpu": 0, "src_cpu": 0}, PULL, *RAN], {}, "unknown"),
    ],
)
def test_the_move_of_a_wakeup_and_a_pull_are_no_changes_of_affinity(more, header, verdict):
    found = check(beside_idle(more, **header))
    assert found.verdict == verdict
    assert any("taken once" in note for note in found.notes) == (verdict == "unknown")


@pytest.mark.parametrize(
    ("child", "by", "verdict"),
    [
        ({"ppid": 9}, 9, "violations"),
        ({"tgid": 9, "ppid": 1}, 9, "violations"),
        ({"ppid": 9, "allowed": "0"}, 9, "unknown"),
        # somebody else forked it: the snapshot shows another task of this number
        ({"ppid": 9}, 10, "unknown"),
        ({"ppid": 1}, 9, "unknown"),
    ],
)
def test_a_task_that_the_trace_forks_and_the_only_snapshot_shows(child, by, verdict):
    """A sibling was moved as by a change of affinity, so the task inherits nothing; what the snapshot says of it counts."""
    fork = {"kind": "fork", "cpu": 1, "by_pid": by}
    rows = [
        switch(1, 0, 0, "R", 10),
        switch(1, 1, 0, "R", by if by != 10 else 9),
        fork | {"ts_ns": 2, "pid": 11},
        fork | {"ts_ns": 2, "pid": 12, "by_pid": by},
        wakeup(3, 0, 12),
        # by an unknown thread
        {"ts_ns": 4, "kind": "migrate", "cpu": 1, "src_cpu": 0, "pid": 12},
        switch(5, 1, by if by != 10 else 9, "S", 12),
        switch(6, 1, 12, "S", 0),
        wakeup(7, 0, 11),
        switch(S, 0, 10, "S", 11),
        switch(S, 1, 0, "R", 9),
    ]
    born = [{"pid": 11, "tgid": 11, "allowed": "0-1"} | child]
    tasks = [{"pid": 9, "tgid": 9, "ppid": 1, "allowed": "0-1"}, TASKS[1] | {"ppid": 1}, *born]
    trace = trace_of(rows, cpus=2, known=False, tasks=tasks, quotas={}, source_format="ftrace")
    assert check(trace).verdict == verdict


@pytest.mark.parametrize(
    ("unswitched", "verdict"),
    [(None, "unknown"), ({2: False}, "violations"), ({2: True}, "clean"), ({1: False}, "unknown")],
)
def test_a_cpu_without_events_is_known_where_no_task_began_or_ceased_to_run(unswitched, verdict):
    """Task 11 waits behind 10 while CPU 1 is busy, too; only CPU 2 could have run it."""
    rows = [switch(1, 0, 0, "R", 10), switch(1, 1, 0, "R", 9), wakeup(2, 0, 11)]
    rows += [switch(S, 0, 10, "S", 11), switch(S, 1, 9, "S", 0)]
    tasks = [{"pid": p, "allowed": "0-2"} for p in (9, 10, 11)]
    facts = {"tasks": tasks, "later_tasks": [], "quotas": {}, "unswitched": unswitched}
    found = check(trace_of(rows, cpus=3, known=False, source_format="ftrace", **facts))
    assert found.verdict == verdict
    assert found.unknown_cpus == ([2] if verdict == "unknown" else [])


def test_cpus_that_the_machine_does_not_have_allow_nothing():
    """Task 11 may run on all of 32 possible CPUs but CPU 0, and the machine has two."""
    bound = {"ts_ns": 0, "kind": "affinity", "cpu": 1, "pid": 11, "cpu_mask": mask(*range(1, 32))}
    rows = [bound, switch(0, 0, 99, "S", 0), switch(0, 1, 0, "R", 10), wakeup(MS, 1, 11)]
    rows += [switch(300 * MS, 1, 10, "S", 11)]
    assert check(trace_of(rows, cpus=2)).avoidable.height == 0
    anywhere = [bound | {"cpu_mask": mask(*range(32))}, *rows[1:]]
    assert check(trace_of(anywhere, cpus=2)).avoidable["pid"].to_list() == [11]


@pytest.mark.parametrize("later", [None, []])
def test_a_worker_that_kthreadd_forks_inherits_nothing(later):
    """Whoever asks for it binds it before it runs, which moves nobody; here its name says to which CPU."""
    name = "kworker/0:2"
    rows = [
        switch(0, 0, 0, "R", 2, comm="kthreadd"),
        switch(0, 1, 9, "S", 0),
        {"ts_ns": MS, "kind": "fork", "cpu": 0, "pid": 11, "by_pid": 2, "comm": name},
        switch(2 * MS, 0, 2, "S", 10, prev_comm="kthreadd"),
        wakeup(3 * MS, 0, 11, comm=name),
        switch(80 * MS, 0, 10, "S", 11, comm=name),
        switch(81 * MS, 0, 11, "I", 0, prev_comm=name),
        wakeup(100 * MS, 1, 9),
        switch(100 * MS, 1, 0, "R", 9),
    ]
    tasks = [{"pid": 2, "tgid": 2, "ppid": 0, "allowed": "0-1"}, *TASKS]
    facts = {"tasks": tasks, "later_tasks": later, "quotas": {}, "source_format": "ftrace"}
    found = check(trace_of(rows, cpus=2, known=False, **facts), persist_ns=50 * MS)
    assert found.verdict == "unknown"


def test_a_cpu_that_was_not_recorded_may_have_woken_others_although_it_switched_nothing():
    """Task 12 seems to wait from the beginning, and the only task of CPU 1 may have woken it at the end."""
    rows = [
        switch(0, 2, 13, "S", 0),
        switch(0, 0, 15, "S", 10),
        switch(500 * MS, 0, 10, "R", 12),
        switch(501 * MS, 0, 12, "S", 10),
        wakeup(600 * MS, 2, 13, src_cpu=2, by_pid=0),
        switch(600 * MS, 2, 0, "R", 13),
    ]
    tasks = [{"pid": p, "allowed": "0-2"} for p in (10, 12, 13, 15)]
    facts = {"tasks": tasks, "later_tasks": [], "quotas": {}, "source_format": "ftrace"}
    for busy in (True, False):
        trace = trace_of(rows, cpus=3, known=False, unswitched={1: busy}, **facts)
        assert check(trace).verdict == "unknown"
    assert check(trace.with_header(every_cpu=True)).verdict == "violations"


def test_a_thread_that_runs_alone_is_one_runnable_thread_although_it_has_events():
    """It wakes 9, so it is named by an event, and no switch shows it; 12 was runnable, too, and may wait all the time."""
    rows = []
    for t in (MS, 990 * MS):
        rows += [wakeup(t, 1, 9, by_pid=7, src_cpu=0), switch(t, 1, 0, "R", 9)]
        rows += [switch(t + MS, 1, 9, "S", 0)]
    tasks = [{"pid": p, "allowed": "0-1", "runnable": p != 9} for p in (7, 9, 12)]
    facts = {"tasks": tasks, "later_tasks": [], "quotas": {}, "source_format": "ftrace"}
    for unswitched in (None, {0: True}):
        trace = trace_of(rows, cpus=2, known=False, unswitched=unswitched, **facts)
        assert check(trace).verdict == "unknown"
    alone = trace.with_header(tasks=trace.header.tasks[:2])
    assert check(alone).verdict == "clean"


#: task 12 is moved to CPU 0, by a thread that the event does not name
MOVED_BY_SOMEBODY = [MOVE | {"cpu": 0, "src_cpu": 1, "by_pid": None}]


@pytest.mark.parametrize(
    ("more", "verdict"),
    [
        ([wakeup(MS, 1, 12, by_pid=9, src_cpu=0), *MOVED_BY_SOMEBODY], "unknown"),
        (MOVED_BY_ITSELF, "unknown"),
        ([*MOVED_BY_ITSELF, EXECUTED], "violations"),
        # it is moved before it is woken, as a wakeup does
        ([*MOVED_BY_SOMEBODY, wakeup(2 * MS + 2, 0, 12, by_pid=9, src_cpu=0)], "violations"),
    ],
)
def test_a_thread_that_somebody_may_have_bound_and_given_back_is_not_told(more, verdict):
    """Both snapshots show the same affinity of 12, which waits after it was moved; it ends or is given back afterwards."""
    rows = [switch(0, 0, 0, "R", 10), switch(1, 1, 9, "S", 0), *more]
    rows += [switch(80 * MS, 0, 10, "R", 12), switch(81 * MS, 0, 12, "S", 10)]
    rows += [wakeup(100 * MS, 1, 9, by_pid=0, src_cpu=1), switch(100 * MS, 1, 0, "R", 9)]
    tasks = [{"pid": p, "tgid": p, "ppid": 1, "allowed": "0-1"} for p in (9, 10, 12)]
    facts = {"tasks": tasks, "later_tasks": [], "quotas": {}, "source_format": "ftrace"}
    trace = trace_of(sorted(rows, key=lambda r: r["ts_ns"]), cpus=2, known=False, **facts)
    assert check(trace, persist_ns=50 * MS).verdict == verdict


@pytest.mark.parametrize("born", [True, False])
def test_a_thread_that_runs_where_its_affinity_forbids_it_has_another_one(born):
    """Task 10 is bound to CPU 0, and so is 12, or it inherits that; it waits there for long and then runs on CPU 1."""
    fork = {"ts_ns": MS, "kind": "fork", "cpu": 0, "pid": 12, "by_pid": 10}
    rows = [switch(0, 0, 0, "R", 10), switch(0, 1, 9, "S", 0), *([fork] if born else [])]
    rows += [
        wakeup(2 * MS, 0, 12, by_pid=10, src_cpu=0),
        {"ts_ns": 82 * MS, "kind": "migrate", "cpu": 1, "src_cpu": 0, "pid": 12, "by_pid": 0},
        switch(82 * MS, 1, 0, "R", 12),
        switch(83 * MS, 1, 12, "S", 0),
        wakeup(100 * MS, 1, 9, by_pid=0, src_cpu=1),
        switch(100 * MS, 1, 0, "R", 9),
    ]
    bound = [{"pid": p, "tgid": p, "ppid": 1, "allowed": "0"} for p in (10, 12)]
    tasks = [{"pid": 9, "tgid": 9, "ppid": 1, "allowed": "0-1"}, *bound[: 1 if born else 2]]
    facts = {"tasks": tasks, "later_tasks": [], "quotas": {}, "source_format": "ftrace"}
    found = check(trace_of(rows, cpus=2, known=False, **facts), persist_ns=50 * MS)
    assert found.verdict == "unknown"


#: task 12 waits behind 10 on CPU 0, while CPU 1 has no task, until 80 ms
WAITS = [switch(0, 0, 0, "R", 10), switch(1, 1, 9, "S", 0), wakeup(2, 0, 12)]
RUNS = [switch(80 * MS, 0, 10, "S", 12)]
ENDS = [wakeup(100 * MS, 1, 9), switch(100 * MS, 1, 0, "R", 9)]


def bound(ts_ns, *cpus):
    return {"ts_ns": ts_ns, "kind": "affinity", "cpu": 0, "pid": 12, "cpu_mask": mask(*cpus)}


@pytest.mark.parametrize(
    ("first", "event", "format_", "verdict"),
    [
        ((0, 1), bound(80 * MS, 0), "schedtrace", "unknown"),
        ((0,), bound(80 * MS, 0, 1), "schedtrace", "unknown"),
        ((0, 1), bound(80 * MS, 0, 1), "schedtrace", "violations"),
        # it bound itself, which is told when it leaves the CPU
        ((0, 1), bound(81 * MS, 0), "schedtrace", "violations"),
        ((0, 1), bound(80 * MS, 0), "tracefs", "violations"),
        ((0,), bound(80 * MS, 0, 1), "tracefs", "clean"),
    ],
)
def test_a_capture_tells_of_a_change_only_when_its_thread_runs(first, event, format_, verdict):
    """Another thread may have bound or freed it while it waited."""
    every = [(p, (0, 1)) for p in (9, 10)] + [(12, first)]
    states = [
        {"ts_ns": 0, "kind": "task_state", "cpu": 0, "prev_state": "sleeping"}
        | {"pid": pid, "cpu_mask": mask(*cpus)}
        for pid, cpus in every
    ]
    rows = [*states, *WAITS, *RUNS, event, switch(82 * MS, 0, 12, "S", 0), *ENDS]
    facts = {"source_format": format_, "quotas": {}, "follows_affinity": True}
    trace = trace_of(rows, cpus=2, known=False, **facts)
    assert check(trace, persist_ns=50 * MS).verdict == verdict


@pytest.mark.parametrize(
    ("event", "verdict"), [([], "violations"), ([bound(81 * MS, 0, 1)], "unknown")]
)
def test_the_snapshot_of_a_flight_recording_is_of_its_end(event, verdict):
    """A thread whose affinity changed in it began with one that nobody knows."""
    tasks = [{"pid": p, "allowed": "0-1"} for p in (9, 10, 12)]
    rows = [*WAITS, *RUNS, *event, switch(82 * MS, 0, 12, "S", 0), *ENDS]
    facts = {"source_format": "schedtrace", "quotas": {}, "tasks": tasks}
    trace = trace_of(rows, cpus=2, known=False, **facts)
    assert check(trace, persist_ns=50 * MS).verdict == verdict


@pytest.mark.parametrize(("forker", "verdict"), [(13, "unknown"), (9, "violations")])
def test_a_task_whose_parent_has_ended_need_not_have_the_affinity_of_its_next_one(forker, verdict):
    """Task 13 binds itself before it forks 11, and has ended at the second snapshot, which shows 11 as a child of 9."""
    moves = [
        r | {k: 13 for k in ("pid", "prev_pid", "by_pid") if r.get(k) == 12}
        for r in MOVED_BY_ITSELF
    ]
    rows = [
        switch(0, 0, 0, "R", 10),
        switch(0, 1, 0, "R", 9),
        {"ts_ns": MS, "kind": "fork", "cpu": 1, "pid": 13, "by_pid": 9},
        wakeup(MS, 1, 13, by_pid=9, src_cpu=1),
        switch(2 * MS, 1, 9, "S", 13),
        *moves[1:],
        switch(4 * MS, 0, 10, "R", 13),
        {"ts_ns": 5 * MS, "kind": "fork", "cpu": 0, "pid": 11, "by_pid": forker},
        wakeup(5 * MS, 0, 11, by_pid=13, src_cpu=0),
        switch(6 * MS, 0, 13, "X", 10),
        switch(86 * MS, 0, 10, "R", 11),
        switch(87 * MS, 0, 11, "S", 10),
        wakeup(100 * MS, 1, 9),
        switch(100 * MS, 1, 0, "R", 9),
    ]
    tasks = [t | {"ppid": 1} for t in TASKS]
    facts = {"tasks": tasks, "later_tasks": later(), "quotas": {}, "source_format": "ftrace"}
    found = check(trace_of(rows, cpus=2, known=False, **facts), persist_ns=50 * MS)
    assert found.verdict == verdict
