"""The verdict is never wrong: what contradicts itself, what nobody knows and what cannot run decide nothing."""

from __future__ import annotations

import pytest
from support.builders import migrate, nr, switch, trace_of, wakeup
from support.mutants import MUTANTS, tried

from wastedcores.invariant import check
from wastedcores.invariant.details import CAUSES
from wastedcores.runqueues.events import CODES
from wastedcores.trace.header import TaskFacts

S = 1_000_000_000
MS = 1_000_000


def busy_pair(end: int = S, slice_ms: int = 4, cpu: int = 0, pids: tuple[int, int] = (10, 11)):
    """Two tasks that take turns on one CPU."""
    turns = range(slice_ms * MS, end, slice_ms * MS)
    for i, t in enumerate(turns):
        yield switch(t, cpu, pids[i % 2], "R", pids[(i + 1) % 2])


def pair_beside_idle(**more):
    """CPU 0 has two tasks for a second while CPU 1 has none."""
    rows = [
        switch(1, 0, 0, "R", 10),
        switch(1, 1, 9, "S", 0),
        wakeup(2, 0, 11, by_pid=10, src_cpu=0),
        *busy_pair(),
        wakeup(S - 1, 1, 9),
        switch(S, 1, 0, "R", 9),
    ]
    return trace_of(rows, cpus=2, **more)


def test_a_plain_violation_is_certain():
    result = check(pair_beside_idle())
    assert result.verdict == "violations"
    assert result.episodes["certain"].to_list() == [True]
    assert not result.doubts.height


def sharing(moved: str, cpu: int = 0, first: int = 10):
    """Threads ``first`` and the next one share a CPU for a second, and have run on the next CPU, which is idle, at most before or
    after that.
    """
    two, idle, others = (first, first + 1), cpu + 1, (first + 40, first - 1)
    both = two if moved != "one around" else two[1:]
    rows = [switch(1, idle, others[1], "S", 0), switch(1, cpu, 0, "R", others[0])]
    if moved != "never" and moved != "after":
        for i, pid in enumerate(both):
            t = 2 + 10 * i
            rows += [
                wakeup(t, idle, pid),
                switch(t + 1, idle, 0, "R", pid),
                switch(t + 2, idle, pid, "S", 0),
            ]
            rows += [migrate(t + 3, idle, cpu, pid), wakeup(t + 4, cpu, pid)]
        rows += [] if len(both) == 2 else [wakeup(30, cpu, two[0])]
    else:
        rows += [wakeup(30, cpu, two[0]), wakeup(30, cpu, two[1])]
    rows += [
        switch(40, cpu, others[0], "S", two[0]),
        *busy_pair(cpu=cpu, pids=two),
        switch(S, cpu, two[1], "S", two[0]),
        switch(S + 1, cpu, two[0], "S", 0),
    ]
    if moved != "never" and moved != "before":
        for i, pid in enumerate(both):
            t = S + 2 + 10 * i
            rows += [
                migrate(t, cpu, idle, pid),
                wakeup(t + 1, idle, pid),
                switch(t + 2, idle, 0, "R", pid),
            ]
            rows += [switch(t + 3, idle, pid, "S", 0)]
    return rows


@pytest.mark.parametrize(
    ("moved", "verdict", "kind"),
    [
        ("never", "unknown", "occasional"),
        ("before", "unknown", "occasional"),
        ("after", "unknown", "occasional"),
        ("one around", "violations", "chronic"),
        ("around", "violations", "persistent"),
    ],
)
def test_unknown_affinity_decides_only_if_the_waiting_threads_ran_on_the_idle_cpu_before_and_after(
    moved, verdict, kind
):
    """A thread that ran there before may have been pinned since, and one that ran there later may have been pinned until then.

    If one of two threads that take turns ran there, there was nobody to move whenever the other one waited: the waste is
    chronic, but not persistent.
    """
    rows = sharing(moved)
    result = check(trace_of(rows, cpus=2, known=False, quotas={}))
    assert (result.verdict, result.kind) == (verdict, kind)
    assert result.affinity_unknown >= 2
    certain = result.episodes.filter("persistent")["certain"].to_list()
    assert certain == [moved == "around"]


@pytest.mark.parametrize(
    ("moved_ns", "verdict"), [(S // 2, "unknown"), (20, "unknown"), (60 + 2 * S, "violations")]
)
def test_what_was_seen_before_a_change_of_affinity_says_nothing_of_what_comes_after(
    moved_ns, verdict
):
    """Thread 71 moves thread 72 from CPU 2 to CPU 4. A change of a cpuset does so, and it concerns other threads, too."""
    t = moved_ns
    change = [
        switch(t - 9, 2, 0, "R", 70),
        switch(t - 8, 3, 0, "R", 71),
        wakeup(t - 7, 2, 72, by_pid=70, src_cpu=2),
        migrate(t, 2, 4, 72) | {"by_pid": 71},
        switch(t + 1, 4, 0, "R", 72),
        *(switch(t + 2, cpu, pid, "S", 0) for cpu, pid in ((2, 70), (3, 71), (4, 72))),
    ]
    rows = sorted([*sharing("around"), *change], key=lambda r: r["ts_ns"])
    assert check(trace_of(rows, cpus=5, known=False, quotas={})).verdict == verdict


@pytest.mark.parametrize(
    ("asked", "isolated"),
    [(None, None), ([0, 1], None), (None, [2, 3])],
    ids=["all", "0-1", "isolated"],
)
def test_what_was_seen_on_cpus_that_do_not_count_proves_nothing_about_the_others(asked, isolated):
    """Two threads of unknown affinity share CPU 0 beside the idle CPU 1; two others share CPU 2 and were seen on CPU 3."""
    rows = sorted([*sharing("never"), *sharing("around", 2, 20)], key=lambda r: r["ts_ns"])
    trace = trace_of(rows, cpus=4, known=False, quotas={}, isolated_cpus=isolated)
    result = check(trace, cpus=asked)
    assert result.episodes.filter("persistent").height == 1
    assert result.verdict == ("unknown" if asked or isolated else "violations")
    assert result.bound.waste_at_least_ns <= result.thread_ns
    if asked or isolated:
        assert (result.bound.waste_at_least_ns, result.evidence["seen_ns"]) == (0, 0)


@pytest.mark.parametrize("brief", [False, True])
def test_a_free_thread_that_waits_briefly_proves_nothing_about_the_others(brief):
    """Two threads of unknown affinity share CPU 0; a third one, which may run anywhere, waits beside them now and then."""
    events = [switch(0, 0, 0, "R", 1), switch(0, 1, 50, "S", 0), wakeup(1, 0, 2)]
    runs, waits = 1, 2
    for i in range(100):
        now = 4_000_000 * (i + 1)
        if brief and i % 10 == 5:
            events += [
                wakeup(now, 0, 3),
                switch(now + 100_000, 0, runs, "R", 3),
                switch(now + 200_000, 0, 3, "S", waits),
            ]
        else:
            events.append(switch(now, 0, runs, "R", waits))
        runs, waits = waits, runs
    told = [{"pid": pid, "allowed": "0-1"} for pid in (3, 50)]
    trace = trace_of(events, cpus=2, known=False, quotas={}, tasks=told, follows_affinity=True)
    result = check(trace)
    assert result.verdict == "unknown"
    assert result.affinity_unknown == 2


def test_a_snapshot_that_pins_the_waiting_threads_makes_the_trace_clean():
    pinned = [{"pid": p, "allowed": "0"} for p in (10, 11)]
    assert check(pair_beside_idle(known=False, tasks=pinned, quotas={})).verdict == "clean"


@pytest.mark.parametrize("name", ["kworker/0:7", "t11"])
def test_names_prove_nothing(name):
    rows = [
        switch(1, 0, 0, "R", 10),
        switch(1, 1, 9, "S", 0),
        wakeup(2, 0, 11, comm=name),
        switch(900 * MS, 0, 10, "S", 11, comm=name),
        switch(S, 1, 0, "R", 9),
    ]
    assert check(trace_of(rows, cpus=2, known=False, quotas={})).verdict == "unknown"


def test_the_kernels_count_wins_over_throttled_tasks():
    # three tasks of a group with a quota stay runnable on CPU 0, which the kernel says is empty most of the time
    rows = [switch(1, 1, 9, "S", 0), nr(1, 1, 0), switch(1, 0, 0, "R", 10), nr(1, 0, 1)]
    for k in range(9):
        t = 10 + k * 100 * MS
        rows += [
            nr(t + 1, 0, 3), wakeup(t + 2, 0, 11), wakeup(t + 2, 0, 12),
            nr(t + 4 * MS, 0, 0), switch(t + 4 * MS + 1, 0, 10, "R", 0),
            nr(t + 100 * MS, 0, 3), switch(t + 100 * MS + 1, 0, 0, "R", 10),
        ]  # fmt: skip
    # the 4 ms of each 100 ms in which threads do wait there are chronic waste, which is not asked here
    result = check(trace_of(rows, cpus=2), chronic_share=None)
    assert result.verdict == "clean"
    assert result.longest_ns < 5 * MS
    # CPU 0 is idle while they are throttled
    assert result.idle_ns > result.duration_ns * 1.9


@pytest.mark.parametrize(("quotas", "verdict"), [(None, "clean"), ({}, "unknown")])
def test_a_cpu_that_goes_idle_beside_waiting_tasks_shows_that_they_cannot_run(quotas, verdict):
    """They are throttled. Where nothing can be, a move of task 11 is missing, and it may have waited elsewhere."""
    rows = [
        switch(1, 1, 9, "S", 0),
        switch(1, 0, 0, "R", 10),
        wakeup(2, 0, 11),
        switch(4 * MS, 0, 10, "R+", 0),
        switch(900 * MS, 0, 0, "R", 11),
        switch(901 * MS, 0, 11, "S", 0),
    ]
    result = check(trace_of(rows, cpus=2, quotas=quotas))
    assert result.verdict == verdict
    assert result.wall_ns <= 4 * MS
    elsewhere = set() if quotas is None else {"perhaps_elsewhere"}
    assert set(result.doubts["reason"]) == {"idle_beside_waiting"} | elsewhere


@pytest.mark.parametrize(("quotas", "verdict"), [(None, "unknown"), ({}, "violations")])
def test_a_task_that_waits_for_whole_quota_periods_may_be_throttled(quotas, verdict):
    rows = [
        switch(1, 0, 0, "R", 10),
        switch(1, 1, 9, "S", 0),
        wakeup(2, 0, 11),
        switch(900 * MS, 0, 10, "S", 11),
        switch(S, 1, 0, "R", 9),
    ]
    assert check(trace_of(rows, cpus=2, quotas=quotas)).verdict == verdict


def test_one_missing_switch_makes_the_span_unknown():
    rows = [
        switch(1, 0, 0, "R", 10),
        switch(1, 1, 9, "S", 0),
        wakeup(2, 0, 11),
        switch(8 * MS, 0, 10, "S", 11),
        switch(9 * MS, 0, 11, "S", 12),  # 12 works alone
        wakeup(9 * MS - 1, 0, 12),
        switch(S, 0, 12, "S", 0),
        switch(S + 1, 1, 0, "R", 9),
    ]
    assert check(trace_of(rows, cpus=2)).verdict == "clean"
    del rows[4]
    result = check(trace_of(rows, cpus=2))
    assert result.verdict == "unknown"
    assert result.longest_ns > 900 * MS
    assert result.episodes.filter("persistent")["certain"].to_list() == [False]
    assert "left_unseen" in result.doubts["reason"]


@pytest.mark.parametrize(("wait_ms", "verdict"), [(1, "clean"), (3, "unknown")])
def test_a_cpu_without_events_matters_only_if_a_wait_is_long_enough_to_count(wait_ms, verdict):
    """Nobody knows whether CPU 1 was idle while thread 11 waited, again and again."""
    rows = [switch(1, 0, 0, "R", 10)]
    for t in range(10 * MS, 2 * S, 10 * MS):
        rows += [
            wakeup(t, 0, 11, by_pid=10, src_cpu=0),
            switch(t + wait_ms * MS, 0, 10, "R", 11),
            switch(t + wait_ms * MS + MS // 5, 0, 11, "S", 10),
        ]
    result = check(trace_of(rows, cpus=2))
    assert (result.verdict, result.unknown_cpus) == (verdict, [1])
    assert result.bound.waste_at_most_ns >= 190 * wait_ms * MS


def test_an_offline_cpu_is_neither_idle_nor_overloaded():
    offline = {"ts_ns": 3, "kind": "cpu_online", "cpu": 1, "value": 0}
    trace = pair_beside_idle()
    rows = [
        offline,
        *({k: v for k, v in r.items() if v is not None} for r in trace.events.collect().to_dicts()),
    ]
    result = check(trace_of([r for r in rows if r["ts_ns"] < S], cpus=2))
    assert result.verdict == "clean"
    assert result.wall_ns <= 3


def test_throttled_tasks_do_not_wait_until_they_are_back():
    """Task 10 is throttled beside 11, and both CPUs know it: only the time after its return wastes the idle CPU."""

    def rows(*kinds):
        told = [{"ts_ns": ts, "kind": k, "cpu": 0, "pid": 10} for ts, k in kinds]
        return sorted(
            [
                switch(1, 0, 0, "R", 10),
                switch(1, 1, 9, "S", 0),
                wakeup(2, 0, 11),
                *told,
                switch(8 * MS, 0, 10, "R", 11),
                switch(S, 0, 11, "S", 10),
                switch(2 * S, 0, 10, "S", 0),
            ],
            key=lambda r: r["ts_ns"],
        )

    def waste_ns(*kinds):
        trace = trace_of(rows(*kinds), cpus=2)
        return check(trace, ignore_affinity=True).wall_ns

    assert waste_ns() == pytest.approx(S, rel=0.01)
    assert waste_ns((8 * MS - 1, "throttle"), (S - 1, "unthrottle")) == pytest.approx(
        8 * MS, rel=0.01
    )
    assert waste_ns((8 * MS - 1, "throttle"), (S - 50 * MS, "unthrottle")) == pytest.approx(
        58 * MS, rel=0.01
    )


def test_a_task_that_was_throttled_before_the_trace_did_not_wait():
    rows = [
        switch(1, 0, 0, "R", 10),
        switch(1, 1, 9, "S", 0),
        {"ts_ns": S, "kind": "unthrottle", "cpu": 0, "pid": 11},
        switch(S + 1, 0, 10, "S", 11),
    ]
    assert check(trace_of(rows, cpus=2), ignore_affinity=True).wall_ns <= 1


def test_a_task_that_slept_in_the_snapshot_did_not_wait_before():
    """Its wakeup is missing, so nobody knows since when it waited; it did not when the snapshot was taken."""
    rows = [
        switch(1, 0, 0, "R", 10),
        switch(1, 1, 9, "S", 0),
        {"ts_ns": S // 2, "kind": "task_state", "cpu": 0, "pid": 11, "prev_state": "sleeping"},
        switch(S + 1, 0, 10, "S", 11),
    ]
    result = check(trace_of(rows, cpus=2), ignore_affinity=True)
    assert result.wall_ns <= S // 2 + 1
    assert result.verdict == "unknown"


def test_every_event_of_the_state_machine_can_begin_an_overload():
    assert len(CAUSES) == 1 + max(CODES.values()) + 1


def test_a_waiting_task_that_is_throttled_waits_no_longer():
    rows = [
        switch(1, 0, 0, "R", 10),
        switch(1, 1, 9, "S", 0),
        wakeup(2, 0, 11),
        {"ts_ns": 50 * MS, "kind": "throttle", "cpu": 0, "pid": 11},
        switch(S, 0, 10, "S", 0),
    ]
    assert check(trace_of(rows, cpus=2), ignore_affinity=True).wall_ns == pytest.approx(
        50 * MS, rel=0.01
    )


@pytest.mark.parametrize("cpu", [1, None])
def test_what_was_lost_before_the_window_may_have_changed_what_is_known_in_it(cpu):
    """11 waits beside the idle CPU 1; what was lost 10 ms before may have bound it to CPU 0, or have been anywhere."""
    rows = [
        switch(0, 0, 0, "R", 10),
        switch(1, 1, 0, "R", 9),
        {"ts_ns": 10 * MS, "kind": "lost", "cpu": cpu, "value": 7},
        switch(10 * MS, 1, 9, "S", 0),
        wakeup(50 * MS, 0, 11),
        switch(600 * MS, 0, 10, "S", 11),
        switch(601 * MS, 0, 11, "S", 0),
    ]
    after = (20 * MS, 601 * MS)
    trace = trace_of(rows, cpus=2, lost={-1 if cpu is None else cpu: 7})
    assert check(trace).verdict == "unknown"
    found = check(trace, between=after)
    assert (found.verdict, found.unknown_spans) == ("unknown", [])
    # the place is known, and the trace does not rely on events that tell changes of affinity
    placed = trace.with_header(follows_affinity=False)
    expected = "violations" if cpu is not None else "unknown"
    assert check(placed, between=after).verdict == expected


@pytest.mark.parametrize(("next_ms", "verdict"), [(15, "clean"), (500, "unknown")])
@pytest.mark.parametrize("cpu", [0, 1])
def test_a_length_that_was_lost_is_unknown_until_the_next_one(cpu, next_ms, verdict):
    """CPU 0 has two tasks in a trace that has only lengths. CPU 1 lost events, which may have told a length of either CPU."""
    rows = [nr(0, 0, 2), nr(0, 1, 1), {"ts_ns": 10 * MS, "kind": "lost", "cpu": 1, "value": 7}]
    rows += [nr(15 * MS, 1 - cpu, 1 + cpu), nr(next_ms * MS, cpu, 2 - cpu), nr(S, 0, 2)]
    trace = trace_of(rows, cpus=2, lost={1: 7}, known=False)
    assert check(trace).verdict == "unknown"
    assert check(trace, between=(20 * MS, S)).verdict == verdict


def test_a_cpu_that_goes_offline_is_not_idle_in_a_trace_of_lengths():
    """CPU 1 is empty, goes offline at 10 ms, where its stopper runs once more, and comes back at 990 ms."""
    rows = [nr(0, 0, 2), nr(1, 1, 0), nr(11 * MS, 1, 1), nr(12 * MS, 1, 0), nr(S, 0, 2)]
    steps = [
        {"ts_ns": t * MS, "kind": "cpu_online", "cpu": 1, "value": v}
        for t, v in ((10, 0), (990, 1))
    ]
    result = check(trace_of([*rows, *steps, nr(991 * MS, 1, 0)], cpus=2))
    assert result.verdict == "clean"
    assert result.wall_ns == 19 * MS - 1


def woken_after_a_run_without_a_wakeup(wakes_ns, *more):
    """10 runs at 10 ms without a wakeup, sleeps 0.2 ms later, and is woken; CPU 1 is idle until 500 ms, and 11 runs on CPU 0."""
    rows = [
        switch(1, 1, 9, "S", 0),
        switch(1, 0, 50, "S", 10),
        switch(5 * MS, 0, 10, "S", 11),
        switch(10 * MS, 0, 11, "R", 10),
        switch(10 * MS + 200_000, 0, 10, "S", 11),
        wakeup(wakes_ns, 0, 10),
        *more,
        wakeup(500 * MS - 1, 1, 9),
        switch(500 * MS, 1, 0, "R", 9),
    ]
    return check(trace_of(rows, cpus=2, known=False, quotas={}))


def runs(t, waits_ns=0):
    """10 runs on CPU 0 for 0.1 ms, and was woken before if it waits."""
    woken = [wakeup(t - waits_ns, 0, 10)] if waits_ns else []
    return [*woken, switch(t, 0, 11, "R", 10), switch(t + 100_000, 0, 10, "S", 11)]


@pytest.mark.parametrize(
    ("wakes_ns", "more", "verdict"),
    [
        (10_100_000, [], "clean"),  # while it runs: the clocks differ
        (10_500_000, [], "unknown"),  # late, or it waits from then on
        (11_500_000, [], "unknown"),
        (10_500_000, runs(300 * MS, 1000), "clean"),  # it was late, for 10 is woken again
        (10_500_000, runs(300 * MS), "unknown"),
        (10_500_000, [*runs(300 * MS), wakeup(300 * MS + 500_000, 0, 10)], "unknown"),
        (10_500_000, [*runs(12 * MS), *runs(400 * MS, 1000)], "clean"),
    ],
)
def test_a_wakeup_after_a_short_run_is_late_or_begins_a_wait(wakes_ns, more, verdict):
    assert woken_after_a_run_without_a_wakeup(wakes_ns, *more).verdict == verdict


def test_a_trace_that_is_cut_short_is_never_clean():
    rows = [switch(1, 0, 0, "R", 10), switch(S, 0, 10, "S", 0)]
    assert check(trace_of(rows, cpus=2)).verdict == "clean"
    assert check(trace_of(rows, cpus=2, truncated_last_line="half a line")).verdict == "unknown"
    assert check(pair_beside_idle(truncated_last_line="half a line")).verdict == "violations"


# -- recordings with lines taken out, moved or changed: the truth is the verdict of the whole one ---------------------

SMALL = (
    "gc-buggy-16cpu",
    "gc-sgclit-16cpu",
    "lu1ms-sgclit-64cpu",
    "lu60R4-alllit-64cpu",
    "ms-all-16cpu",
    "ms-buggy-16cpu",
)


@pytest.mark.slow
@pytest.mark.parametrize("kind", MUTANTS)
def test_damaged_recordings_give_no_wrong_verdict_where_a_contradiction_shows(kind, tmp_path):
    runs = [
        (name, other, tried(kind, name, other, number, tmp_path))
        for number, (name, other) in enumerate(zip(SMALL * 4, SMALL[1:] * 5, strict=False))
    ]
    assert not [run for run in runs if run[2] == "flip, visible"]


@pytest.mark.slow
@pytest.mark.parametrize("other", ["lu60R4-buggy-64cpu", "gc-sgclit-16cpu"])
def test_two_interleaved_recordings_decide_nothing(other, tmp_path):
    assert tried("two recordings interleaved", "gi-all-64cpu", other, 0, tmp_path) == "unknown"


def test_a_loss_that_is_stated_at_the_end_may_have_happened_before():
    """Perfetto and perf say only at the end of a trace that events were lost, and not when."""
    rows = [switch(0, 0, 0, "R", 10), switch(1, 1, 0, "R", 9), switch(500 * MS, 1, 9, "R", 8)]
    rows += [switch(S, 1, 8, "S", 0), {"ts_ns": S, "kind": "lost", "cpu": None, "value": -1}]
    trace = trace_of(rows, cpus=2, lost={-1: -1})
    assert check(trace, between=(0, 400 * MS)).verdict == "unknown"


def test_where_a_cpu_idles_beside_its_own_thread_for_long_there_is_no_upper_limit():
    """11 waits on the idle CPU 0 for 500 ms, and no group has a limit."""
    rows = [switch(0, 0, 10, "S", 0), switch(1, 1, 0, "R", 9), wakeup(10 * MS, 0, 11)]
    rows += [switch(510 * MS, 0, 0, "R", 11), switch(S, 1, 9, "S", 0)]
    found = check(trace_of(rows, cpus=2))
    assert "idle_beside_waiting" in found.doubts["reason"]
    assert not found.bounded


def test_a_wakeup_that_is_missing_is_not_made_up_for_by_the_next_one():
    rows = [switch(1, 1, 9, "S", 0), switch(1, 0, 50, "S", 10), switch(5 * MS, 0, 10, "S", 11)]
    rows += [switch(400 * MS, 0, 11, "R", 10), switch(400 * MS + 200_000, 0, 10, "S", 11)]
    rows += [wakeup(400 * MS + 500_000, 0, 10), *runs(400 * MS + 600_000)]
    rows += [wakeup(500 * MS - 1, 1, 9), switch(500 * MS, 1, 0, "R", 9)]
    assert check(trace_of(rows, cpus=2, known=False, quotas={})).verdict == "unknown"


def test_a_thread_that_a_snapshot_shows_runnable_may_have_waited_all_the_time():
    """Thread 12 has no event. CPU 0 is never idle, so 12 may wait there from the beginning to the end, beside the idle CPU 1."""
    rows = [switch(0, 0, 8, "R", 7), switch(10 * MS, 1, 9, "S", 0), switch(S // 2, 0, 7, "R", 8)]
    rows += [wakeup(S - 3 * MS, 1, 9), switch(S - 2 * MS, 1, 0, "R", 9), switch(S, 0, 8, "S", 7)]

    def verdict(runnable, more=()):
        facts = [{"pid": pid, "allowed": "0"} for pid in (7, 8)] + [{"pid": 9, "allowed": "1"}]
        told = [*facts, {"pid": 12, "allowed": "0-1", "runnable": runnable}]
        tasks = [TaskFacts.model_validate(fact) for fact in told]
        return check(
            trace_of([*rows, *more], cpus=2, known=False).with_header(tasks=tasks, quotas={})
        )

    assert verdict(False).verdict == "clean"
    found = verdict(True)
    assert found.verdict == "unknown"
    assert "unseen_waiting" in found.doubts["reason"]
    idle = [
        switch(S + MS, 0, 7, "S", 0),
        wakeup(S + 2 * MS, 0, 7),
        switch(S + 3 * MS, 0, 0, "R", 7),
    ]
    assert verdict(True, idle).verdict == "unknown"  # too late to prove anything
