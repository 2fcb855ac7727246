"""Algorithm 2 is compared with the plainest possible checker on hand-made cases, random ones and real recordings."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import MODERN, RECORDINGS
from support.builders import mask, migrate, nr, switch, trace_of, wakeup

from wastedcores.errors import MissingEventsError, TraceContentError, UsageError
from wastedcores.invariant import check


def brute_force(rows, cpus, start, end):
    """Look at the state after every timestamp, in plain Python and O(events x cpus)."""
    state = dict.fromkeys(cpus, -1)
    moments = sorted({r["ts_ns"] for r in rows})
    wall = cpu = thread = 0
    episodes, open_at, wasted, idle_seen, over_seen = [], None, 0, set(), set()
    for t, t2 in itertools.pairwise([*moments, max(end, moments[-1])]):
        for r in rows:
            if r["ts_ns"] == t and r["cpu"] in state:
                state[r["cpu"]] = r["nr_running"]
        lo, hi = max(t, start), min(t2, end)
        if hi <= lo:
            continue
        idle = {c for c in cpus if state[c] == 0}
        over = {c for c in cpus if state[c] >= 2}
        waiting = sum(max(state[c] - 1, 0) for c in cpus)
        if idle and over:
            wall += hi - lo
            cpu += (hi - lo) * min(len(idle), len(over))
            thread += (hi - lo) * min(len(idle), waiting)
            if open_at is None:
                open_at, wasted, idle_seen, over_seen = lo, 0, set(), set()
            wasted += (hi - lo) * min(len(idle), waiting)
            idle_seen |= idle
            over_seen |= over
        elif open_at is not None:
            episodes.append((open_at, lo, wasted, sorted(idle_seen), sorted(over_seen)))
            open_at = None
    if open_at is not None:
        episodes.append(
            (open_at, min(end, moments[-1]), wasted, sorted(idle_seen), sorted(over_seen))
        )
    return wall, cpu, thread, episodes


def found(result):
    columns = ("start_ns", "end_ns", "wasted_ns", "idle_cpus", "overloaded_cpus")
    return [tuple(row[c] for c in columns) for row in result.episodes.to_dicts()]


changes = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 69), st.integers(0, 4)), min_size=1, max_size=60
)


@settings(max_examples=300)
@given(changes, st.sets(st.integers(0, 69), min_size=1), st.booleans())
def test_check_equals_brute_force(changes, chosen, everything):
    rows = [nr(t, c % 7 if c < 60 else c, n) for t, c, n in sorted(changes, key=lambda x: x[0])]
    trace = trace_of(rows, cpus=70)
    cpus = list(range(70)) if everything else sorted(chosen)
    result = check(trace, cpus=None if everything else cpus)
    wall, cpu, thread, episodes = brute_force(rows, cpus, rows[0]["ts_ns"], rows[-1]["ts_ns"])
    assert (result.wall_ns, result.cpu_ns, result.thread_ns) == (wall, cpu, thread)
    assert found(result) == episodes


def test_check__paper_case():
    """One CPU is idle while another has three tasks for 150 ms: this is one persistent episode."""
    ms = 1_000_000
    rows = [nr(0, 0, 0), nr(0, 1, 3), nr(150 * ms, 0, 1), nr(200 * ms, 0, 1)]
    result = check(trace_of(rows, cpus=2))
    assert result.verdict == "violations"
    assert found(result) == [(0, 150 * ms, 150 * ms, [0], [1])]
    assert (result.wall_ns, result.cpu_ns, result.thread_ns) == (150 * ms,) * 3
    assert result.details.to_dicts() == [
        {"episode": 0, "cpu": 0, "idle_ns": 150 * ms, "overloaded_ns": 0},
        {"episode": 0, "cpu": 1, "idle_ns": 0, "overloaded_ns": 150 * ms},
    ]


@pytest.mark.parametrize(
    ("length", "verdict"), [(99_999_999, "unknown"), (100_000_000, "violations")]
)
def test_check__a_window_shorter_than_m_decides_nothing(length, verdict):
    rows = [nr(0, 0, 0), nr(0, 1, 2), nr(length, 0, 1)]
    result = check(trace_of(rows, cpus=2))
    assert result.verdict == verdict
    assert (verdict == "unknown") == any("a verdict needs 100 ms" in n for n in result.notes)


def test_check__a_window_without_a_length_decides_nothing():
    result = check(trace_of([switch(5, 1, 0, "R", 1)], cpus=2))
    assert (result.duration_ns, result.verdict) == (0, "unknown")
    assert any("the window is 0 ns long" in n for n in result.notes)


def test_check__on_one_cpu_there_is_nowhere_to_move_a_thread():
    result = check(trace_of([nr(0, 0, 3), nr(50, 0, 1)], cpus=1))
    assert result.verdict == "clean"
    assert "nowhere to move" in result.notes[-1]


def test_check__changes_of_one_timestamp_are_applied_together():
    """A hand-over within one timestamp is no violation."""
    rows = [nr(0, 0, 1), nr(0, 1, 2), nr(50, 0, 0), nr(50, 0, 1), nr(50, 1, 1), nr(90, 1, 1)]
    result = check(trace_of(rows, cpus=2))
    assert result.wall_ns == 0
    assert result.episodes.height == 0


def test_check__unknown_cpu_is_neither():
    rows = [nr(0, 1, 3), nr(100, 0, 0), nr(150, 1, 3)]
    assert check(trace_of(rows, cpus=2)).wall_ns == 50


# -- task events ---------------------------------------------------------------------------------------------------


def test_check__tasks_are_followed_by_migrate_and_not_by_waking():
    rows = [
        switch(0, 0, 0, "R", 10),
        switch(0, 1, 0, "R", 11),
        wakeup(100, 0, 12),  # waits behind 10 while 2 and 3 are silent, thus idle
        migrate(300, 0, 1, 12),  # waits behind 11 now
        switch(600, 1, 11, "S", 12),
        switch(1000, 1, 12, "S", 0),
    ]
    result = check(trace_of(rows, cpus=4), silent="idle", persist_ns=100)
    assert result.silent_cpus == [2, 3]
    assert (result.wall_ns, result.thread_ns) == (500, 500)
    assert found(result) == [(100, 600, 500, [2, 3], [0, 1])]
    waits = {(w["pid"], w["cpu"]): w["wait_ns"] for w in result.waiting.to_dicts()}
    assert waits == {(12, 0): 200, (12, 1): 300}
    assert check(trace_of(rows, cpus=4)).wall_ns == 0  # one thread may run there alone


def test_check__start_is_inferred_backwards():
    """Task 10 ran and task 11 waited on CPU 0 from the beginning; CPU 1 was idle until its first switch."""
    rows = [
        {"ts_ns": 0, "kind": "mark", "text": "go"},
        switch(500, 1, 0, "R", 20),
        wakeup(499, 1, 20),
        switch(800, 0, 10, "R", 11),
        switch(900, 0, 11, "S", 10),
    ]
    result = check(trace_of(rows, cpus=2))
    assert found(result) == [(0, 499, 499, [1], [0])]


def test_check__preempted_task_waits_and_blocked_one_does_not():
    for state, wall in (("R", 100), ("R+", 100), ("S", 0), ("D", 0), ("I", 0), ("X", 0)):
        rows = [
            switch(0, 1, 5, "S", 0),
            wakeup(0, 0, 11),
            switch(0, 0, 10, state, 11),
            switch(100, 0, 11, "S", 0),
        ]
        assert check(trace_of(rows, cpus=2)).wall_ns == wall, state


def test_check__bound_kernel_threads_cannot_be_stolen():
    """kworker/0:1 waits on CPU 0 while CPU 1 is idle, but no other CPU may run it."""
    rows = [
        switch(0, 0, 0, "R", 10),
        switch(0, 1, 0, "R", 0),
        wakeup(100, 0, 40, comm="kworker/0:1"),
        switch(400, 0, 10, "S", 40, comm="kworker/0:1"),
        switch(500, 0, 40, "I", 0, prev_comm="kworker/0:1"),
    ]
    assert check(trace_of(rows, cpus=2, known=False)).wall_ns == 0
    assert check(trace_of(rows, cpus=2), ignore_affinity=True).wall_ns == 300


def pairs(idle, waiters, allowed):
    """Find the largest number of pairs of an idle CPU and a waiting thread by trying all of them."""
    if not waiters:
        return 0
    first, rest = waiters[0], waiters[1:]
    best = pairs(idle, rest, allowed)
    for c in idle:
        if c in allowed[first]:
            best = max(best, 1 + pairs(idle - {c}, rest, allowed))
    return best


@pytest.mark.slow
@settings(max_examples=150)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 4),
            st.lists(st.sets(st.integers(0, 4), min_size=1), min_size=1, max_size=4),
        ),
        min_size=1,
        max_size=3,
        unique_by=lambda x: x[0],
    )
)
def test_check__affinity_is_a_matching(queues):
    """The number of threads that the idle CPUs could run is the largest matching, for random queues and masks."""
    busy = {c for c, _ in queues}
    rows, allowed, waiters, pid = [], {}, [], 100
    for cpu in range(5):
        rows.append(switch(0, cpu, 0, "R", 0))
    for cpu, masks in queues:
        pid += 1
        rows.append(switch(0, cpu, 0, "R", pid))
        for cpus in masks:
            pid += 1
            rows.append({"ts_ns": 0, "kind": "affinity", "pid": pid, "cpu_mask": mask(*cpus)})
            rows.append(wakeup(0, cpu, pid))
            allowed[pid] = cpus
            waiters.append((cpu, pid))
    rows.append({"ts_ns": 1000, "kind": "mark", "text": "end"})
    result = check(trace_of(rows, cpus=5))
    idle = set(range(5)) - busy
    want = pairs(idle, [p for _, p in waiters], allowed)
    of_cpu = {c: set().union(*(allowed[p] for c2, p in waiters if c2 == c)) for c in busy}
    assert result.thread_ns == 1000 * want
    assert result.cpu_ns == 1000 * pairs(idle, list(busy), of_cpu)
    assert result.wall_ns == (1000 if want else 0)


# -- windows, losses, errors -----------------------------------------------------------------------------------------


def test_check__between_marks_by_prefix_and_by_seconds():
    rows = [
        nr(0, 0, 0),
        nr(0, 1, 2),
        {"ts_ns": 100, "kind": "mark", "text": "rec: make start n=4"},
        {"ts_ns": 400, "kind": "mark", "text": "rec: make end"},
        nr(1000, 1, 2),
    ]
    trace = trace_of(rows, cpus=2)
    result = check(trace, between=("rec: make start", "rec: make end"))
    assert (result.start_ns, result.end_ns, result.wall_ns) == (100, 400, 300)
    result = check(trace, between=("0.000000200", "0.0000005"))
    assert (result.start_ns, result.end_ns, result.wall_ns) == (200, 500, 300)
    with pytest.raises(UsageError, match="no mark begins with 'nothing'"):
        check(trace, between=("nothing", "rec: make end"))
    with pytest.raises(UsageError, match="not after its start"):
        check(trace, between=("rec: make end", "rec: make start"))


def test_check__a_loss_while_a_thread_waits_leaves_its_wait_in_doubt():
    rows = [
        switch(0, 0, 0, "R", 10),
        switch(0, 1, 0, "R", 0),
        wakeup(100, 0, 11),
        {"ts_ns": 500, "kind": "lost", "cpu": 1, "value": 7},
        switch(600, 1, 9, "S", 0),
        switch(900_000_000, 0, 10, "S", 11),
    ]
    result = check(trace_of(rows, cpus=2, lost={1: 7}))
    assert result.verdict == "unknown"
    assert result.unknown_spans == [(0, 500, 1)]
    assert result.to_json()["trace"]["lost"] == 7
    assert result.doubts.select("reason", "cpu", "start_ns").row(0) == ("events_lost", 0, 100)
    # CPU 1 is unknown from its last event before the loss to its next switch
    assert found(result)[0][0] == 600
    # the loss lies outside this window
    after = check(trace_of(rows, cpus=2, lost={1: 7}), between=("0.000001", "0.9"))
    assert after.verdict == "unknown"


@pytest.mark.parametrize(("lost_ms", "verdict"), [(10, "violations"), (400, "unknown")])
def test_check__a_loss_is_in_doubt_and_what_follows_is_not(lost_ms, verdict):
    """11 waits for 10 from 50 ms to 600 ms, beside the idle CPU 1, and events of CPU 1 were lost before or meanwhile."""
    ms = 1_000_000
    rows = [
        switch(0, 0, 0, "R", 10),
        switch(1, 1, 0, "R", 9),
        {"ts_ns": lost_ms * ms, "kind": "lost", "cpu": 1, "value": 7},
        switch(lost_ms * ms, 1, 9, "S", 0),
        wakeup(50 * ms, 0, 11),
        switch(600 * ms, 0, 10, "S", 11),
        switch(601 * ms, 0, 11, "S", 0),
    ]
    trace = trace_of(
        sorted(rows, key=lambda r: r["ts_ns"]), cpus=2, follows_affinity=False, lost={1: 7}
    )
    result = check(trace)
    assert result.verdict == verdict
    assert any("7 events were lost" in note for note in result.notes)


@pytest.mark.parametrize(("idles", "verdict"), [(True, "clean"), (False, "unknown")])
def test_check__after_a_loss_a_thread_may_wait_unseen_until_its_cpu_idles(idles, verdict):
    """12 could have been woken by what was lost, and wait behind 10 to the end; not if CPU 0 was idle in between."""
    ms = 1_000_000
    rows = [
        switch(0, 0, 0, "R", 10),
        switch(1, 1, 0, "R", 9),
        switch(2, 1, 9, "S", 12),
        switch(3, 1, 12, "S", 9),
        {"ts_ns": 20 * ms, "kind": "lost", "cpu": 1, "value": 1},
        switch(20 * ms, 1, 9, "S", 0),
    ]
    if idles:
        rows += [
            switch(30 * ms, 0, 10, "S", 0),
            wakeup(31 * ms, 0, 10),
            switch(31 * ms, 0, 0, "R", 10),
        ]
    rows += [switch(600 * ms, 0, 10, "S", 0)]
    assert check(trace_of(rows, cpus=2, follows_affinity=False, lost={1: 1})).verdict == verdict


@pytest.mark.parametrize(
    ("idle_ms", "moved", "verdict"),
    [
        ((), False, "clean"),
        ((300,), False, "unknown"),
        ((30, 300), False, "clean"),
        ((30, 300), True, "unknown"),
    ],
)
def test_check__who_waits_unseen_after_a_loss_wastes_nothing_while_all_cpus_are_busy(
    idle_ms, moved, verdict
):
    """CPU 1 always works; what was lost may have woken 13, and CPU 0 idles for 1 ms at 30 ms, and for 200 ms at 300 ms."""
    ms = 1_000_000
    rows = [
        switch(0, 0, 0, "R", 10),
        switch(1, 1, 0, "R", 9),
        {"ts_ns": 20 * ms, "kind": "lost", "cpu": 1, "value": 1},
        wakeup(20 * ms, 1, 12, by_pid=9, src_cpu=1),
        switch(20 * ms + 1, 1, 9, "S", 12),
    ]
    if 30 in idle_ms:
        rows += [
            wakeup(25 * ms, 1, 9),
            switch(25 * ms, 1, 12, "S", 0),
            switch(26 * ms, 1, 0, "R", 9),
        ]
    if moved:
        rows += [
            {"ts_ns": 28 * ms, "kind": "migrate", "cpu": 1, "src_cpu": 0, "pid": 13, "by_pid": 9}
        ]
    for at in idle_ms:
        back = (at + (1 if at == 30 else 200)) * ms
        rows += [switch(at * ms, 0, 10, "S", 0), wakeup(back, 0, 10), switch(back, 0, 0, "R", 10)]
    rows += [switch(600 * ms, 0, 10, "S", 0)]
    found = check(trace_of(rows, cpus=2, follows_affinity=False, lost={1: 1}))
    assert found.verdict == verdict


def test_check__raises_where_nothing_can_be_known():
    with pytest.raises(MissingEventsError, match="neither nr_running nor switch"):
        check(trace_of([wakeup(0, 0, 5)], cpus=1))
    with pytest.raises(UsageError, match="CPUs 0-1, not 2"):
        check(trace_of([nr(0, 1, 1)], cpus=2), cpus=[2])
    with pytest.raises(TraceContentError, match="pid 2000000000"):
        check(trace_of([switch(0, 0, 0, "R", 2_000_000_000)], cpus=1))
    with pytest.raises(TraceContentError, match="CPU 100000"):
        check(trace_of([nr(0, 100_000, 1)], cpus=1))


def test_check__many_episodes_do_not_overflow_the_room(monkeypatch):
    monkeypatch.setattr("wastedcores.invariant.sweep.ROOM", 3)
    rows = [nr(0, 1, 2)]
    for t in range(0, 2000, 2):
        rows += [nr(t, 0, 0), nr(t + 1, 0, 1)]
    result = check(trace_of(rows, cpus=2))
    assert result.episodes.height == 1000
    assert result.wall_ns == 1000
    monkeypatch.setattr("wastedcores.invariant.sweep.KEEP", 10)
    fewer = check(trace_of(rows, cpus=2))
    assert fewer.wall_ns == 1000
    assert fewer.episodes.height + fewer.episodes_dropped == 1000


# -- real traces -----------------------------------------------------------------------------------------------------

#: folder of traces that others published without a licence, so they are not in this repository; name it to test them, too
PUBLISHED_TRACES = Path(p) if (p := os.environ.get("WASTEDCORES_SCHED_PROFILER", "")) else None

SCHED_PROFILER = {
    "data_share-output_30_12": (1_006_321_261, 2_855_814_003, 2, 742_180_524),
    "data-output_30": (259_974_451, None, 1, None),
    "output_40_0": (77_661_780, None, 0, None),
}


if PUBLISHED_TRACES:

    @pytest.mark.parametrize("name", SCHED_PROFILER)
    def test_check__published_traces(name):
        from wastedcores.trace.io import open_trace

        trace = open_trace(PUBLISHED_TRACES / f"{name}.txt")
        result = check(trace)
        wall, thread, persistent, longest = SCHED_PROFILER[name]
        assert result.wall_ns == wall
        assert int(result.episodes["persistent"].sum()) == persistent
        assert thread is None or result.thread_ns == thread
        assert longest is None or result.longest_ns == longest
        rows = trace.only("nr_running").select("ts_ns", "cpu", "nr_running").collect().to_dicts()
        if len(rows) < 1000:
            facts = trace.header
            assert (result.wall_ns, result.cpu_ns, result.thread_ns, found(result)) == brute_force(
                rows, range(facts.cpus), facts.start_ns, facts.end_ns
            )


@pytest.mark.slow
def test_check__guest_recordings_agree_with_what_they_measured():
    """Every number of every meta.json agrees within 1 %, or within 1e-3 of the whole if it is near zero."""
    import json

    from wastedcores.trace.io import open_trace

    wrong = []
    folders = sorted(p for place in (RECORDINGS, MODERN) for p in place.iterdir() if p.is_dir())
    assert len(folders) == 32 + 24
    for folder in folders:
        meta = json.loads((folder / "meta.json").read_text())
        sane = meta["sanity"]
        pinned = folder.name.startswith(("gc", "lu")) and not folder.name.startswith("lu60")
        cpus = [c for c, n in enumerate(meta["node_of_cpu"]) if n in (1, 2)] if pinned else None
        start, end = sane["window"]
        result = check(
            open_trace(folder / "trace.txt.xz"),
            cpus=cpus,
            between=(f"{start:.6f}", f"{end:.6f}"),
            ignore_affinity=True,
            silent="idle",
        ).to_json()
        for key, whole in (
            ("idle_while_overloaded_fraction", 1),
            ("mean_busy_cpus", 1),
            ("mean_wasted_cpus", 1),
            ("longest_episode_s", 1),
        ):
            if not np.isclose(result[key], sane[key], rtol=0.01, atol=1e-3 * whole):
                wrong.append((folder.name, key, result[key], sane[key]))
    assert not wrong
