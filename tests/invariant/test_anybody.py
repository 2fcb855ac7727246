"""What is true of other people's machines: cpusets, changes of affinity, reused pids, quotas, CPUs that were not recorded."""

from __future__ import annotations

import pytest
from support.builders import migrate, nr, switch, trace_of, wakeup

from wastedcores.analysis.explain import explain
from wastedcores.invariant import check
from wastedcores.topology.machine import Machine
from wastedcores.trace.window import cut
from wastedcores.words.checked import describe

S = 1_000_000_000
MS = 1_000_000
STOPPER = 90


def turns(first, end, cpu, pids, slice_ns=4 * MS):
    """Threads that take turns on a CPU; the first of them runs already."""
    waiting = list(pids)
    rows = []
    for t in range(first + slice_ns, end, slice_ns):
        runs, waiting = waiting[0], waiting[1:] + waiting[:1]
        rows.append(switch(t, cpu, runs, "R", waiting[0]))
    return rows, waiting[0]


def confined(*, back):
    """Threads 10, 11 and 12 move among CPUs 0 and 1, and CPU 2 idles; ``back``: each also ran on CPU 2 before and after."""
    rows = [switch(0, 2, 9, "S", 0), switch(1, 0, 50, "S", 10), switch(1, 1, 51, "S", 12)]
    rows += [wakeup(2, 0, 11)]
    if back:
        for i, pid in enumerate((10, 11, 12)):
            rows += [
                switch(10 + 4 * i, 2, 0, "R", pid + 100),
                switch(11 + 4 * i, 2, pid + 100, "S", 0),
            ]
    moved, runs = turns(2, S, 0, (10, 11))
    rows += moved
    rows += [switch(S, 0, runs, "R", 21 - runs), migrate(S + 1, 0, 1, runs)]
    rows += [switch(S + 2, 1, 12, "R", runs), migrate(S + 3, 1, 0, 12)]
    moved, _ = turns(S + 3, 2 * S, 0, (21 - runs, 12))
    return trace_of(rows + moved, cpus=3, known=False, quotas={})


def test_u1_a_move_from_one_cpu_to_another_says_nothing_of_a_third():
    """Threads in a cpuset of CPUs 0 and 1 wait for each other while CPU 2, which they may not use, is idle."""
    result = check(confined(back=False))
    assert result.verdict == "unknown"
    assert result.rests_on_affinity
    assert result.bound.waste_at_least_ns == 0
    assert result.evidence["assumed_ns"] > 1.9 * S


@pytest.mark.parametrize("waker", ["the thread itself", "another thread", "an idle CPU"])
def test_u2a_a_move_by_the_stopper_on_behalf_of_a_thread_is_a_change_of_affinity(waker):
    """10 and 11 run on CPU 1 before and after, but in between the stopper had moved them to CPU 0, to which they were bound.

    If an idle CPU woke the stopper, it was an active load balance, and nobody was bound.
    """
    by = {"the thread itself": 10, "another thread": 60, "an idle CPU": 0}[waker]
    rows = [switch(0, 1, 50, "S", 10), switch(0, 3, 52, "S", 60), switch(0, 2, 51, "S", 0)]
    rows += [switch(0, 0, 53, "S", 61)]
    for i, pid in enumerate((10, 11)):
        t = 100 + 100 * i
        rows += [
            *([wakeup(t, 1, 11), switch(t + 1, 1, 0, "R", 11)] if pid == 11 else []),
            wakeup(
                t + 2,
                1,
                STOPPER,
                by_pid=by if by != 10 else pid,
                src_cpu={10: 1, 60: 3, 0: 0}[by],
                comm="migration/1",
            ),
            switch(t + 3, 1, pid, "R+", STOPPER, comm="migration/1"),
            {**migrate(t + 4, 1, 0, pid), "by_pid": STOPPER},
            switch(t + 5, 1, STOPPER, "S", 0, prev_comm="migration/1"),
        ]
    rows += [switch(400, 0, 61, "S", 10)]
    moved, runs = turns(400, S, 0, (10, 11))
    rows += moved
    rows += [switch(S, 0, runs, "S", 21 - runs), switch(S + 1, 0, 21 - runs, "S", 0)]
    for i, pid in enumerate((10, 11)):
        t = S + 100 + 10 * i
        rows += [migrate(t, 0, 1, pid), wakeup(t + 1, 1, pid), switch(t + 2, 1, 0, "R", pid)]
        rows += [switch(t + 3, 1, pid, "S", 0)]
    rows += [switch(2 * S, 2, 0, "R", 51)]
    result = check(trace_of(rows, cpus=4, known=False, quotas={}))
    assert result.verdict == ("violations" if by == 0 and waker == "an idle CPU" else "unknown")


@pytest.mark.parametrize(("mover", "verdict"), [("cpuhp/2", "violations"), ("taskset", "unknown")])
def test_u2a_a_cpu_that_goes_offline_moves_its_threads_without_changing_their_affinity(
    mover, verdict
):
    """11 is moved from CPU 2 to CPU 0, in the context of a thread that runs on CPU 2, and waits there beside the idle CPU 1."""
    rows = [switch(0, 0, 0, "R", 10), switch(0, 1, 9, "S", 0), switch(0, 2, 0, "R", 13)]
    rows += [wakeup(1, 2, 11), switch(2, 2, 13, "S", 62, comm=mover)]
    rows += [{**migrate(3, 2, 0, 11), "by_pid": 62}, switch(4, 2, 62, "P", 0, prev_comm=mover)]
    rows += [*turns(5, S, 0, (10, 11))[0], switch(S, 1, 0, "R", 9)]
    told = [{"pid": p, "allowed": "0" if p == 10 else "0-2"} for p in (9, 10, 11, 13)]
    told += [{"pid": 62, "allowed": "2", "kthread": True, "comm": mover}]
    trace = trace_of(rows, cpus=3, known=False, tasks=told, quotas={})
    assert check(trace).verdict == verdict


def test_u4_a_move_from_another_cpu_than_the_trace_knows_leaves_the_wait_in_doubt():
    """11 seems to wait on CPU 0 for a second beside the idle CPU 1; then it is moved from CPU 2, which was not recorded."""
    rows = [switch(0, 0, 0, "R", 10), switch(0, 1, 9, "S", 0), wakeup(1, 0, 11)]
    moved = [migrate(S, 2, 1, 11), switch(S + 1, 1, 0, "R", 11), switch(S + 2, 0, 10, "S", 0)]
    assert check(trace_of(rows + moved, cpus=3)).verdict == "unknown"
    told = [migrate(S, 0, 1, 11), *moved[1:]]
    assert check(trace_of(rows + told, cpus=2)).verdict == "violations"


def test_u2b_a_fork_resets_what_is_known_of_a_pid():
    """Thread 11 ran on CPU 1 and ended. Another thread with its number waits on CPU 0, where it was born."""
    rows = [
        switch(0, 0, 50, "S", 10),
        switch(0, 1, 0, "R", 11),
        switch(1, 1, 11, "Z", 0),
        {"ts_ns": 2, "kind": "fork", "cpu": 0, "pid": 11, "by_pid": 10},
        wakeup(3, 0, 11, by_pid=10, src_cpu=0) | {"kind": "wakeup_new"},
    ]
    moved, runs = turns(4, S, 0, (10, 11))
    rows += [*moved, switch(S, 0, runs, "S", 21 - runs), switch(S + 1, 0, 21 - runs, "S", 0)]
    rows += [{"ts_ns": S + 2, "kind": "fork", "cpu": 0, "pid": 11, "by_pid": 10}]
    rows += [wakeup(S + 3, 1, 11), switch(S + 4, 1, 0, "R", 11), switch(S + 5, 1, 11, "S", 0)]
    result = check(trace_of(rows, cpus=2, known=False, quotas={}))
    assert result.verdict == "unknown"
    assert result.evidence["seen_ns"] == 0


def throttled(*, goes_idle):
    """Every 100 ms thread 11 uses 20 ms and is throttled: it "waits" behind 10, which may be throttled, too."""
    rows = [switch(0, 1, 9, "S", 0), switch(0, 0, 0, "R", 10), wakeup(1, 0, 11)]
    for k in range(12):
        t = k * 100 * MS + 2
        rows += [switch(t, 0, 10, "R", 11), switch(t + 20 * MS, 0, 11, "R", 10)]
        if goes_idle:
            rows += [switch(t + 80 * MS, 0, 10, "R", 0), switch(t + 100 * MS - 1, 0, 0, "R", 10)]
    told = [{"pid": p, "allowed": "0-1"} for p in (9, 10, 11)]
    return trace_of(rows, cpus=2, known=False, tasks=told, follows_affinity=True, quotas=None)


def test_u2c_a_cpu_that_idles_beside_its_own_thread_shows_that_quotas_are_in_use():
    result = check(throttled(goes_idle=True))
    assert result.verdict == "unknown"
    (note,) = (note for note in result.notes if "limits of CPU time" in note)
    assert note.endswith("Record a snapshot")


@pytest.mark.parametrize(
    ("quotas", "group", "verdict"),
    [({"/a": 20_000}, "/b", "violations"), ({"/a": 20_000}, "/a/x", "unknown")],
)
def test_u2c_a_snapshot_tells_which_groups_are_limited(quotas, group, verdict):
    rows = [switch(1, 0, 0, "R", 10), switch(1, 1, 9, "S", 0), wakeup(2, 0, 11)]
    moved, _ = turns(2, S, 0, (10, 11), 20 * MS)
    told = [{"pid": p, "allowed": "0-1", "cgroup": group} for p in (9, 10, 11)]
    trace = trace_of(
        [*rows, *moved], cpus=2, known=False, tasks=told, follows_affinity=True, quotas=quotas
    )
    result = check(trace)
    assert result.verdict == verdict
    assert not any("Record a snapshot" in note for note in result.notes)  # it has one


@pytest.mark.parametrize(
    ("groups", "verdict"),
    [({10: "/c", 11: "/c/d"}, "clean"), ({10: "/c", 11: "/d"}, "unknown"), ({}, "unknown")],
)
def test_u2c_a_cpu_that_idles_beside_a_limited_thread_cannot_run_others_of_its_group(
    groups, verdict
):
    """CPU 0 idles beside 10, which is throttled, and 11 waits on CPU 1: in the same group, it could not run on CPU 0 either."""
    rows = [switch(0, 0, 0, "R", 10), switch(0, 1, 0, "R", 20), wakeup(1, 1, 11)]
    rows += [migrate(2, 0, 1, 12), wakeup(2, 1, 12), switch(3, 0, 10, "R", 0)]
    rows += [switch(S, 0, 0, "R", 10), switch(S, 1, 20, "R", 11)]
    told = [{"pid": p, "allowed": "0-1", "cgroup": groups.get(p, "/")} for p in (10, 11, 20)]
    told += [{"pid": 12, "allowed": "1", "cgroup": "/"}]
    known = {"tasks": told} if groups else {}
    limits = {"/c": 50_000, "/d": 50_000}
    result = check(trace_of(rows, cpus=2, follows_affinity=True, quotas=limits, **known))
    assert result.verdict == verdict


def test_u4_a_cpu_without_any_event_may_have_run_one_thread_alone():
    rows = [switch(1, 0, 0, "R", 10), wakeup(2, 0, 11)]
    moved, _ = turns(2, S, 0, (10, 11))
    trace = trace_of([*rows, *moved], cpus=2)
    result = check(trace)
    assert (result.verdict, result.unknown_cpus, result.wall_ns) == ("unknown", [1], 0)
    assert result.bound.longest_at_most_ns > 0.9 * S
    assert check(trace, silent="idle").verdict == "violations"


@pytest.mark.parametrize("parked", ["P", "x"])
def test_u4_a_cpu_whose_hotplug_threads_parked_is_offline(parked):
    """Until 2023 libtraceevent printed x for a thread that parks."""
    rows = [
        switch(1, 1, 0, "R", 80, comm="cpuhp/1"),
        switch(2, 1, 80, parked, STOPPER, prev_comm="cpuhp/1", comm="migration/1"),
        switch(3, 1, STOPPER, parked, 0, prev_comm="migration/1"),
        switch(3, 0, 0, "R", 10),
        wakeup(4, 0, 11),
    ]
    moved, _ = turns(4, S, 0, (10, 11))
    result = check(trace_of([*rows, *moved], cpus=2))
    assert result.wall_ns == 0
    back = [wakeup(S + 1, 1, 80, comm="cpuhp/1"), switch(S + 2, 1, 0, "R", 80, comm="cpuhp/1")]
    back += [switch(S + 3, 1, 80, "S", 0, prev_comm="cpuhp/1")]
    more, _ = turns(S, 2 * S, 0, (10, 11))
    result = check(trace_of([*rows, *moved, *back, *more], cpus=2))
    assert result.verdict == "violations"
    assert result.wall_ns == pytest.approx(S, rel=0.01)


@pytest.mark.parametrize("parked", ["P", "x"])
def test_u4_a_cpu_that_goes_offline_before_the_oldest_event_of_another_is_kept_stays_offline(
    parked,
):
    rows = [
        switch(1, 1, 0, "R", STOPPER, comm="migration/1"),
        switch(2, 1, STOPPER, parked, 0, prev_comm="migration/1"),
        switch(10 * MS, 0, 0, "R", 10),
        wakeup(10 * MS + 1, 0, 11),
    ]
    moved, _ = turns(10 * MS, S, 0, (10, 11))
    trace = trace_of([*rows, *moved], cpus=2, lost={0: 7}, overwritten={0: 7})
    result = check(trace)
    assert (result.start_ns, result.wall_ns) == (10 * MS, 0)
    assert check(cut(trace, (20 * MS, S))).wall_ns == 0


def test_u6_lengths_of_runqueues_alone_are_judged_as_the_paper_does():
    result = check(trace_of([nr(0, 0, 0), nr(0, 1, 2), nr(200 * MS, 0, 1)], cpus=2))
    assert (result.verdict, result.assumed) == ("violations", "threads may move")
    assert result.to_json()["assumed"] == "threads may move"


def runs_unwoken(name: str, idle_before: bool) -> list[dict]:
    """Thread 12 runs 20 times without a wakeup, as perf does in its own recordings; CPU 1 is idle."""
    rows = [switch(0, 1, 9, "S", 0), migrate(1, 1, 0, 9), switch(2, 0, 0, "R", 10)]
    for k in range(20):
        t = (k + 1) * 50 * MS
        before, state = (0, "R") if idle_before else (10, "R")
        rows += [switch(t - 1000, 0, 10, "S", 0)] if idle_before else []
        rows += [
            switch(t, 0, before, state, 12, comm=name),
            switch(t + 1000, 0, 12, "S", before, prev_comm=name),
        ]
        if idle_before:
            rows += [wakeup(t + 2000, 0, 10), switch(t + 2000, 0, 0, "R", 10)]
    return (
        rows if idle_before else [*rows, wakeup(S + 2 * MS, 1, 9), switch(S + 2 * MS, 1, 0, "R", 9)]
    )


@pytest.mark.parametrize("name", ["perf", "t12"])
@pytest.mark.parametrize(("idle_before", "verdict"), [(True, "clean"), (False, "unknown")])
def test_u10_what_the_recorder_does_to_its_own_threads_is_no_contradiction(
    name, idle_before, verdict
):
    """No thread waits on a CPU while it is idle; on a busy one, perf may have waited as long as any other thread."""
    result = check(trace_of(runs_unwoken(name, idle_before), cpus=2, source_format="perf.data"))
    assert result.verdict == verdict, (result.notes, result.doubts)
    assert bool(result.oddities) == (name != "perf")


@pytest.mark.parametrize(("name", "verdict"), [("trace-cmd", "unknown"), ("t12", "violations")])
def test_u10_nobody_knows_how_long_a_recorder_waited_that_runs_first_without_a_wakeup(
    name, verdict
):
    rows = [switch(0, 1, 9, "S", 0), switch(0, 0, 0, "R", 10)]
    rows += [
        switch(500 * MS, 0, 10, "R", 12, comm=name),
        switch(501 * MS, 0, 12, "S", 10, prev_comm=name),
    ]
    rows += [switch(S, 0, 10, "S", 0), wakeup(S, 1, 9)]
    assert check(trace_of(rows, cpus=2)).verdict == verdict


def test_a_trace_that_contradicts_itself_is_clean_if_nothing_could_have_waited():
    """Where threads are placed is wrong all along, but no thread ever could run while a CPU was idle."""
    rows = [switch(0, 0, 0, "R", 10), switch(0, 1, 0, "R", 11)]
    for k in range(100):
        t = (k + 1) * 10 * MS
        rows += [wakeup(t, k % 2, 12), switch(t + 1, 1 - k % 2, 10 + (1 - k % 2), "R", 12)]
        rows += [switch(t + MS, 1 - k % 2, 12, "S", 10 + (1 - k % 2))]
    result = check(trace_of(rows, cpus=2))
    assert result.oddities["ran_elsewhere"] >= 50
    assert result.verdict == "clean"


def test_the_json_of_a_long_list_of_episodes_is_short_unless_all_is_asked_for():
    rows = [nr(0, c, int(c == 0)) for c in range(64)]
    for k in range(1000):
        rows += [nr(k * 4 * MS + 1, 0, 2), nr(k * 4 * MS + 1 + 2 * MS, 0, 1)]
    result = check(trace_of(rows, cpus=64))
    short, whole = result.to_json(), result.to_json(None)
    assert (len(short["episodes"]), short["episodes_total"]) == (10, 1000)
    assert len(whole["episodes"]) == 1000
    assert short["episodes"][0]["idle_cpus"] == "1-63"


def test_n1_explain_does_not_call_a_trace_free_of_waste_that_check_cannot_decide():
    rows = [switch(1, 0, 0, "R", 10), wakeup(2, 0, 11)]
    moved, _ = turns(2, S, 0, (10, 11))
    result = check(trace_of([*rows, *moved], cpus=2, kernel_release="6.1"))
    found = explain(result, Machine.preset("uma8"))
    assert (result.verdict, found.looks_like) == ("unknown", "in_doubt")
    assert "The verdict of the check is unknown" in found.evidence[-2]
    assert "At most" in found.evidence[-1]


def test_n22_an_overloaded_machine_is_told_so():
    """Ten threads share two CPUs, which are never idle for long."""
    rows = [switch(0, c, 0, "R", 10 + c) for c in (0, 1)]
    rows += [wakeup(1, c, 20 + 2 * k + c) for c in (0, 1) for k in range(4)]
    for c in (0, 1):
        moved, _ = turns(1, S, c, [10 + c, *(20 + 2 * k + c for k in range(4))])
        rows += moved
    result = check(trace_of(sorted(rows, key=lambda r: r["ts_ns"]), cpus=2, known=False))
    assert (result.verdict, result.overloaded) == ("clean", True)
    assert "more work than CPUs" in describe(result)


@pytest.mark.parametrize(
    ("idle_ms", "known", "verdict", "unknown"),
    [
        (30, {}, "clean", [1]),
        (300, {}, "unknown", [1]),
        (300, {"every_cpu": True}, "clean", [1]),
        (300, {"cpus_online": [0]}, "clean", []),
    ],
)
def test_threads_may_wait_unseen_on_a_cpu_of_which_nobody_knows_whether_it_was_recorded(
    idle_ms, known, verdict, unknown
):
    """CPU 0 is idle for a while, and of CPU 1 there is no event; two threads may have run there by turns."""
    rows = [switch(1, 0, 0, "R", 10), switch(S, 0, 10, "S", 0)]
    rows += [wakeup(S + idle_ms * MS, 0, 10), switch(S + idle_ms * MS, 0, 0, "R", 10)]
    rows += [switch(2 * S, 0, 10, "R", 10)]
    found = check(trace_of(rows, cpus=2, source_format="ftrace", **known))
    assert (found.verdict, found.unknown_cpus) == (verdict, unknown)


@pytest.mark.parametrize(
    ("known", "verdict"),
    [
        ({}, "unknown"),
        ({"every_cpu": True}, "violations"),
        ({"cpus_online": [0, 1]}, "violations"),
        # its only task, or its interrupts, may have woken the thread
        ({"unswitched": {2: True}}, "unknown"),
    ],
)
def test_a_cpu_that_was_not_recorded_may_have_woken_a_thread_that_first_runs_late(known, verdict):
    """CPU 1 is idle, and thread 11 runs after 10 on CPU 0 without a wakeup; nothing happens on CPU 2."""
    rows = [switch(1, 0, 0, "R", 10), switch(2, 1, 12, "S", 0)]
    rows += [switch(S, 0, 10, "S", 11), switch(2 * S, 0, 11, "S", 0), wakeup(2 * S, 1, 12)]
    found = check(trace_of(rows, cpus=3, source_format="ftrace", **known))
    assert found.verdict == verdict


@pytest.mark.parametrize("lost_ms", [1, 500])
def test_what_a_cpu_did_is_in_doubt_from_its_last_event_before_a_loss_on(lost_ms):
    """As in text, the loss has the time of the event after it. CPU 1 may have been idle beside 10 and 11 since its last event."""
    moved, runs = turns(2, 2 * S, 0, (10, 11))
    there = [switch(1, 1, 0, "R", 9)]
    for t in range(
        9 * MS, S, 10 * MS
    ):  # and CPU 0 idles now and then, so that nobody waits there unseen
        there += [switch(t, 1, 9, "S", 0), wakeup(t + MS, 1, 9), switch(t + MS, 1, 0, "R", 9)]
    end = S + lost_ms * MS
    there += [{"ts_ns": end, "kind": "lost", "cpu": 1, "value": 2}, switch(end, 1, 9, "S", 0)]
    there += [wakeup(end + MS, 1, 9), switch(end + MS, 1, 0, "R", 9)]
    moved += [switch(2 * S, 0, runs, "S", 21 - runs), switch(2 * S + 1, 0, 21 - runs, "S", 0)]
    rows = sorted(
        [switch(1, 0, 0, "R", 10), wakeup(2, 0, 11), *there, *moved], key=lambda r: r["ts_ns"]
    )
    found = check(trace_of(rows, cpus=2, source_format="ftrace", lost={1: 2}))
    assert found.unknown_spans == [(there[-6]["ts_ns"], end, 1)]
    assert found.bound.waste_at_most_ns >= lost_ms * MS


@pytest.mark.parametrize(
    ("wait", "idle", "verdict"),
    [
        ((10, 30), (35, 40), "clean"),
        ((10, 30), (29.8, 40), "clean"),
        ((10, 30), (20, 40), "unknown"),  # as much as where waste is chronic
        ((59, 60), (59.9, 60), "unknown"),  # nobody knows for how long it goes on
    ],
)
def test_u7_a_window_shorter_than_m_is_clean_if_no_waste_reaches_its_ends(wait, idle, verdict):
    """It is 60 ms long. Thread 11 waits on CPU 0, and CPU 1 is idle, for a while."""
    (wakes, runs), (idles, ends) = ([round(t * MS) for t in span] for span in (wait, idle))
    rows = [switch(1, 0, 0, "R", 10), switch(1, 1, 0, "R", 9), switch(60 * MS, 0, 10, "S", 12)]
    rows += [wakeup(wakes, 0, 11), switch(idles, 1, 9, "S", 0)]
    rows += [
        switch(runs - 1, 0, 10, "S", 11),
        switch(runs, 0, 11, "S", 10),
        wakeup(runs - 1, 0, 10),
    ]
    rows += [wakeup(ends - 1, 1, 9), switch(ends, 1, 0, "R", 9), wakeup(60 * MS - 1, 0, 12)]
    found = check(trace_of(sorted(rows, key=lambda r: r["ts_ns"]), cpus=2))
    assert found.verdict == verdict
    assert (verdict == "unknown") == any("a verdict needs 100 ms" in n for n in found.notes)


def test_a_cpu_of_which_cpuhp_is_the_first_thread_was_idle_and_not_offline():
    """A CPU that comes online runs migration/N first (kernel/cpu.c: cpuhp_online_idle(), v6.12)."""
    rows = [switch(i * 10 * MS, 0, 10 + i % 2, "R", 11 - i % 2) for i in range(40)]
    rows += [wakeup(395 * MS, 1, 80, comm="cpuhp/1", by_pid=0, src_cpu=1)]
    rows += [switch(395 * MS, 1, 0, "R", 80, comm="cpuhp/1")]
    rows += [wakeup(396 * MS, 1, STOPPER, comm="migration/1", by_pid=80, src_cpu=1)]
    rows += [switch(396 * MS, 1, 80, "P", STOPPER, prev_comm="cpuhp/1", comm="migration/1")]
    result = check(trace_of(rows, cpus=2))
    assert (result.verdict, result.kind) == ("violations", "persistent")
    assert result.longest_ns == 395 * MS


@pytest.mark.parametrize("first", ["cpuhp/1", "migration/1"])
def test_a_cpu_of_which_the_stopper_runs_first_may_have_been_offline(first):
    """Whichever of the two is woken first: bringup_wait_for_ap() of v4.14 wakes both from another CPU."""
    rows = [switch(i * 10 * MS, 0, 10 + i % 2, "R", 11 - i % 2) for i in range(40)]
    woken = [(80, "cpuhp/1"), (STOPPER, "migration/1")]
    woken = woken if first == "cpuhp/1" else woken[::-1]
    rows += [wakeup(395 * MS, 1, pid, comm=comm, by_pid=0, src_cpu=1) for pid, comm in woken]
    rows += [switch(395 * MS, 1, 0, "R", STOPPER, comm="migration/1")]
    rows += [switch(396 * MS, 1, STOPPER, "S", 80, prev_comm="migration/1", comm="cpuhp/1")]
    rows += [switch(397 * MS, 1, 80, "S", 0, prev_comm="cpuhp/1")]
    result = check(trace_of(rows, cpus=2))
    assert result.verdict != "violations"
    assert result.longest_ns == 0
