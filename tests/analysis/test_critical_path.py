"""The critical path of hand-made traces, of replays, and of a recording."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from support import RECORDINGS
from support.builders import mask, switch, trace_of, wakeup

import wastedcores as wc
from wastedcores import figures, words
from wastedcores.analysis.critical_path import critical_path
from wastedcores.errors import UsageError
from wastedcores.trace.header import Window
from wastedcores.trace.io import open_trace
from wastedcores.trace.named import fetch
from wastedcores.workload import Script, Workload

MS = 1_000_000


def segments(path):
    return [
        (s["start_ns"] // MS, s["end_ns"] // MS, s["what"], s["pid"], s["avoidable_ns"] // MS)
        for s in path.segments.to_dicts()
        if s["end_ns"] - s["start_ns"] >= MS
    ]


def fork(ts_ns, cpu, parent, child):
    return {"ts_ns": ts_ns, "kind": "fork", "cpu": cpu, "by_pid": parent, "pid": child}


def leave(ts_ns, cpu, pid):
    return {"ts_ns": ts_ns, "kind": "exit", "cpu": cpu, "pid": pid}


def handed_over():
    """10 runs 10 ms and wakes 11, which waits behind 20 for 30 ms beside idle CPU 2, runs 5 ms and exits."""
    rows = [
        switch(0, 0, 0, "R", 10),
        switch(0, 1, 0, "R", 20),
        switch(0, 2, 30, "S", 0),
        wakeup(10 * MS, 1, 11, by_pid=10, src_cpu=0),
        switch(12 * MS, 0, 10, "S", 0),
        switch(40 * MS, 1, 20, "R", 11),
        leave(45 * MS, 1, 11),
        switch(45 * MS + 10, 1, 11, "X", 20),
        switch(60 * MS, 1, 20, "S", 0),
    ]
    return trace_of(rows, cpus=3)


def test_the_path_goes_from_the_sleeper_to_its_waker():
    path = critical_path(handed_over())
    assert segments(path) == [
        (0, 10, "running", 10, 0),
        (10, 40, "waiting", 11, 30),
        (40, 45, "running", 11, 0),
    ]
    assert path.totals == {
        "running": 15 * MS,
        "avoidable": 30 * MS,
        "other_waiting": 0,
        "sleeping": 0,
    }
    assert path.end == "the exit of t11 (11)"


def test_what_the_waker_did_afterwards_is_not_on_the_path():
    """10 runs until 12 ms, but woke 11 at 10 ms."""
    path = critical_path(handed_over(), 11)
    assert int(path.threads.filter(pl.col("pid") == 10)["running_ns"][0]) == 10 * MS


def test_a_thread_that_slept_since_before_the_window_did_not_wait():
    path = critical_path(handed_over(), window=Window(start_ns=5 * MS, end_ns=60 * MS))
    assert segments(path) == [
        (5, 10, "running", 10, 0),
        (10, 40, "waiting", 11, 30),
        (40, 45, "running", 11, 0),
    ]


@pytest.mark.parametrize(("bound_ms", "avoidable_ms"), [(5, 0), (20, 10)])
def test_a_wait_counts_with_the_cpus_that_the_thread_might_use_then(bound_ms, avoidable_ms):
    def bind(ms, *cpus):
        return {"ts_ns": ms * MS, "kind": "affinity", "cpu": 0, "pid": 11, "cpu_mask": mask(*cpus)}

    rows = [
        {k: v for k, v in r.items() if v is not None}
        for r in handed_over().events.collect().to_dicts()
    ]
    rows = sorted([*rows, bind(bound_ms, 1), bind(42, 0, 1, 2)], key=lambda r: r["ts_ns"])
    found = segments(critical_path(trace_of(rows, cpus=3)))
    assert (10, 40, "waiting", 11, avoidable_ms) in found


def test_an_isolated_cpu_makes_no_wait_avoidable():
    trace = handed_over().with_header(isolated_cpus=[0, 2])
    assert critical_path(trace).totals["avoidable"] == 0


def test_a_child_hands_over_to_its_parent_at_the_fork_and_at_its_exit():
    rows = [
        switch(0, 0, 0, "R", 10),
        switch(0, 1, 99, "S", 0),
        fork(5 * MS, 0, 10, 11),
        {**wakeup(5 * MS, 1, 11, by_pid=10, src_cpu=0), "kind": "wakeup_new"},
        switch(6 * MS, 1, 0, "R", 11),
        switch(8 * MS, 0, 10, "S", 0),
        leave(20 * MS, 1, 11),
        wakeup(20 * MS + 10, 0, 10, by_pid=11, src_cpu=1),
        switch(20 * MS + 20, 1, 11, "X", 0),
        switch(20 * MS + 30, 0, 0, "R", 10),
        leave(25 * MS, 0, 10),
        switch(25 * MS + 10, 0, 10, "X", 0),
    ]
    path = critical_path(trace_of(rows, cpus=2), 10)
    assert [(a, b, w, p) for a, b, w, p, _ in segments(path)] == [
        (0, 5, "running", 10),
        (5, 6, "waiting", 11),
        (6, 20, "running", 11),
        (20, 25, "running", 10),
    ]


def test_a_sleep_that_nobody_ended_is_on_the_path():
    rows = [
        switch(0, 0, 0, "R", 10),
        switch(3 * MS, 0, 10, "S", 0),
        wakeup(23 * MS, 0, 10),
        switch(23 * MS, 0, 0, "R", 10),
        leave(30 * MS, 0, 10),
        switch(30 * MS + 1, 0, 10, "X", 0),
    ]
    path = critical_path(trace_of(rows, cpus=1))
    assert [(a, b, w) for a, b, w, _, _ in segments(path)] == [
        (0, 3, "running"),
        (3, 23, "sleeping"),
        (23, 30, "running"),
    ]
    assert "20 ms" in words.path_cost(path).text


def test_where_nothing_ends_the_path_leads_to_the_thread_that_ran_longest():
    rows = [
        switch(0, 0, 0, "R", 10),
        wakeup(9 * MS, 0, 20),
        switch(9 * MS, 0, 10, "R", 20),
        switch(12 * MS, 0, 20, "R", 10),
    ]
    assert (
        "it ran longest, and nothing ends"
        in words.path_cost(critical_path(trace_of(rows, cpus=1))).text
    )
    with pytest.raises(UsageError, match="thread 77 never ran"):
        critical_path(trace_of(rows, cpus=1), 77)
    with pytest.raises(UsageError, match="no mark begins with 'end'"):
        critical_path(trace_of(rows, cpus=1), "end")


def test_the_thread_that_ran_longest_is_that_of_the_window():
    rows = [
        switch(0, 0, 0, "R", 10),
        switch(40 * MS, 0, 10, "S", 0),
        wakeup(50 * MS, 0, 20),
        switch(50 * MS, 0, 0, "R", 20),
        switch(60 * MS, 0, 20, "S", 0),
        wakeup(70 * MS, 0, 30),
    ]
    window = Window(start_ns=45 * MS, end_ns=70 * MS)
    path = critical_path(trace_of(rows, cpus=1), window=window)
    assert path.end.startswith("the last run of t20 (20;")


def test_the_path_covers_the_time_without_a_gap():
    path = critical_path(
        open_trace(RECORDINGS / "db64-buggy-64cpu" / "trace.txt.xz"), "rec: db end"
    )
    starts, ends = (path.segments[c].to_numpy() for c in ("start_ns", "end_ns"))
    assert (starts[1:] == ends[:-1]).all()
    assert ends[-1] == path.end_ns
    assert sum(path.totals.values()) == path.length_ns
    # without any waiting the work takes 0.8 s (ideal_s in meta.json); the fixed kernel needs 1.11 s, this one 1.42 s
    assert path.totals["running"] == pytest.approx(0.8e9, rel=0.03)
    assert path.totals["avoidable"] > 0.3e9


def barrier_rounds(threads=24, rounds=20):
    """Threads of equal work that meet at a barrier."""
    w = Workload("rounds")
    meet = w.barrier(threads)
    for k in range(threads):
        script = Script()
        for _ in range(rounds):
            script.compute(900_000).barrier(meet, "block")
        w.task(f"t{k}", script)
    return w


def chain(threads=12, rounds=10):
    """Each thread computes, lets the next one go, and waits for its turn; hogs keep the CPUs busy beside them."""
    w = Workload("chain")
    turns = [w.semaphore(int(k == 0)) for k in range(threads)]
    for k in range(threads):
        script = Script()
        for _ in range(rounds):
            script.wait(turns[k]).compute(700_000).post(turns[(k + 1) % threads])
        w.task(f"link-{k}", script)
    for k in range(20):
        w.task(f"hog-{k}", Script().compute(10**9), daemon=True)
    return w


@pytest.mark.parametrize("work", [barrier_rounds, chain])
def test_without_its_waiting_the_work_takes_what_is_left_of_the_path(work):
    """On 16 CPUs threads wait; on 64 each has a CPU of its own, and the time is the running and sleeping of the path."""
    crowded, free = (wc.replay(work(), f"bd-paper-{n}", "v4.1") for n in (16, 64))
    path = critical_path(crowded.trace)
    left = path.totals["running"] + path.totals["sleeping"]
    took = critical_path(free.trace).length_ns
    assert path.totals["avoidable"] + path.totals["other_waiting"] > 0.1 * path.length_ns
    assert left <= took * 1.01
    assert left == pytest.approx(took, rel=0.05)


def test_figure_and_words_agree_with_the_path():
    path = critical_path(handed_over())
    fig = figures.path_timeline(path)
    drawn = {
        t.name.split(":")[0]: np.nansum(np.diff(np.array(t.x).reshape(-1, 3)[:, :2]))
        for t in fig.data
        if len(t.x)
    }
    assert drawn == pytest.approx({"running": 15, "waiting beside an idle CPU that it may use": 30})
    assert (
        "Of 45 ms, 30 ms on the critical path were spent waiting beside an idle CPU."
        in words.path_cost(path).text
    )
    assert "30 ms" in words.path_threads(path).text


def test_hogs_that_might_be_spinning_still_have_a_path():
    off, on = (critical_path(open_trace(fetch(f"live-balancing-{name}"))) for name in ("off", "on"))
    assert off.totals["avoidable"] > 0.6 * off.length_ns
    assert on.totals["avoidable"] < 0.01 * on.length_ns


def test_what_happened_before_everything_was_recorded_is_no_avoidable_waiting():
    """CPU 2's oldest events were overwritten up to 50 ms, when threads 10 and 11 are gone: no check knows them."""
    trace = handed_over()
    late = switch(50 * MS, 2, 0, "S", 5)
    ends = switch(55 * MS, 2, 5, "S", 0)
    rows = [r for r in trace.events.collect().to_dicts() if r["cpu"] != 2]
    rows = [
        {k: v for k, v in r.items() if v is not None} | {"pid": 100 * r["pid"]}
        if r["pid"] == 11
        else r
        for r in rows
    ]
    rows = [r | {"prev_pid": 1100} if r.get("prev_pid") == 11 else r for r in rows]
    rows = sorted([*rows, late, ends], key=lambda r: r["ts_ns"])
    path = critical_path(trace_of(rows, cpus=3, overwritten={2: 9}, lost={2: 9}))
    assert (10, 40, "waiting", 1100, 0) in segments(path)
