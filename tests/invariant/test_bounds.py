"""The verdict stays right at the limits: where numbers are large, spans reach an end of the window, or CPUs are not known."""

from __future__ import annotations

import pytest
from support.builders import migrate, switch, trace_of, wakeup

from wastedcores.invariant import check

S = 1_000_000_000
MS = 1_000_000


@pytest.mark.parametrize("cpus", [126, 127, 300])
def test_threads_may_wait_unseen_on_a_machine_of_any_size(cpus):
    """CPU 0 idles for a second and the others compute, but for the last one, which was not recorded."""
    rows = [switch(1 + c, c, 0, "S", 1000 + c) for c in range(1, cpus - 1)]
    rows = [switch(1, 0, 1000, "S", 0), *rows, wakeup(S - 1, 0, 1000), switch(S, 0, 0, "R", 1000)]
    result = check(trace_of(rows, cpus=cpus))
    assert result.verdict == "unknown"
    assert result.bound.waste_at_most_ns > 0.9 * S


def test_as_many_threads_may_wait_unseen_as_there_are_cpus():
    """Of 300 CPUs half idle, and of the others nothing is known: each idle one may be wasted."""
    rows = [switch(1 + c, c, 1000 + c, "S", 0) for c in range(150)]
    rows += [wakeup(S - 1, 0, 1000), switch(S, 0, 0, "R", 1000)]
    result = check(trace_of(rows, cpus=300))
    assert result.bound.waste_at_most_ns > 149 * S


@pytest.mark.parametrize("from_ms", [0, 350, 500])
def test_what_is_in_doubt_after_the_last_change_of_a_runqueue_decides_nothing(from_ms):
    """A thread waits from 100 ms to the end, but its group has a quota. In the last 0.6 s no runqueue changes."""
    rows = [
        switch(1, 0, 0, "R", 10),
        switch(1, 1, 9, "S", 0),
        wakeup(100 * MS, 0, 11),
        wakeup(399 * MS, 1, 9),
        switch(399 * MS, 1, 0, "R", 9),
        switch(400 * MS, 1, 9, "S", 0),
        {"ts_ns": S, "kind": "cpu_idle", "cpu": 1, "value": 2},
    ]
    tasks = [{"pid": p, "allowed": "0-1", "cgroup": "/"} for p in (9, 10)]
    tasks.append({"pid": 11, "allowed": "0-1", "cgroup": "/limited"})
    trace = trace_of(rows, cpus=2, tasks=tasks, quotas={"/limited": 10_000})
    result = check(trace, between=(from_ms * MS, S))
    assert result.verdict == "unknown"
    assert result.bound.waste_at_least_ns == 0


def test_where_a_wait_may_be_throttling_none_is_certain_in_any_window():
    """Before the window CPU 0 goes idle beside 11, so quotas are in use; in it, 11 waits for 50 ms beside the idle CPU 1."""
    rows = [
        switch(1, 0, 0, "R", 10),
        switch(1, 1, 9, "S", 0),
        wakeup(MS, 0, 11),
        switch(2 * MS, 0, 10, "S", 0),
        switch(40 * MS, 0, 0, "R", 11),
        switch(41 * MS, 0, 11, "S", 0),
        wakeup(49 * MS, 0, 10),
        switch(49 * MS + 1000, 0, 0, "R", 10),
        wakeup(500 * MS, 0, 11),
        switch(550 * MS, 0, 10, "S", 11),
        wakeup(S - 1, 1, 9),
        switch(S, 1, 0, "R", 9),
    ]
    result = check(trace_of(rows, cpus=2, quotas=None), between=(100 * MS, S))
    assert (result.verdict, result.doubts.height) == ("clean", 0)
    assert result.bound.waste_at_least_ns == 0
    assert result.bound.waste_at_most_ns == 50 * MS


@pytest.mark.parametrize(
    ("waits", "quotas", "verdict"),
    [
        (2, {}, "unknown"),
        (2, None, "unknown"),
        (2, {"/limited": 10_000}, "clean"),
        (1, None, "clean"),
    ],
)
def test_threads_that_an_idle_cpu_does_not_run_may_wait_if_no_limit_is_known(
    waits, quotas, verdict
):
    """For 8 of each 20 ms threads are on the queue of CPU 0, which idles, as CPU 1 does; only two of them are an overload."""
    rows = [switch(1, 0, 10, "S", 0), switch(2, 1, 9, "S", 0), switch(3, 2, 0, "R", 8)]
    for t in range(10 * MS, 2 * S, 20 * MS):
        last = 10
        rows += [wakeup(t + 1000 * k, 0, 10 + k) for k in range(waits)]
        for k in range(waits):
            rows.append(switch(t + (8 + k) * MS, 0, last if k else 0, "S" if k else "R", 10 + k))
            last = 10 + k
        rows.append(switch(t + 11 * MS, 0, last, "S", 0))
    rows += [migrate(2 * S - 1, 1, 0, 9), wakeup(2 * S, 0, 9), switch(2 * S + 1000, 0, 0, "R", 9)]
    tasks = [{"pid": p, "allowed": "0-2", "cgroup": "/limited"} for p in (8, 9, 10, 11)]
    assert check(trace_of(rows, cpus=3, quotas=quotas, tasks=tasks)).verdict == verdict


def test_a_thread_that_a_cpu_does_not_run_when_it_goes_idle_may_wait_elsewhere():
    """Moves are not recorded. 12 is woken on CPU 0, which then goes idle beside it; CPU 1 pulled it, and it waits there."""
    rows = [
        switch(1, 0, 0, "R", 10),
        switch(2, 1, 0, "R", 11),
        wakeup(5 * MS, 0, 12),
        switch(5 * MS + 2000, 0, 10, "S", 0),
        switch(320 * MS, 1, 11, "S", 0),
    ]
    result = check(trace_of(rows, cpus=2))
    assert result.verdict == "unknown"
    assert result.bound.waste_at_most_ns >= 314 * MS


def test_where_moves_are_not_recorded_nobody_was_seen_where_it_may_run():
    """11 runs on CPU 1 before and after it waits on CPU 0. Meanwhile it may have been bound to CPU 0, of which no event tells."""
    rows = [
        switch(1, 1, 0, "R", 11),
        switch(2, 0, 0, "R", 10),
        switch(40 * MS, 1, 11, "S", 0),
        wakeup(60 * MS, 0, 11),
        switch(150 * MS, 0, 10, "R", 11),
        switch(151 * MS, 0, 11, "S", 10),
        wakeup(160 * MS, 1, 11),
        switch(160 * MS + 5000, 1, 0, "R", 11),
        switch(400 * MS, 1, 11, "S", 0),
    ]
    told = [migrate(59 * MS, 1, 0, 11), migrate(159 * MS, 0, 1, 11)]
    for moves, verdict in (([], "unknown"), (told, "violations")):
        found = check(trace_of([*rows, *moves], cpus=2, known=False), persist_ns=50 * MS)
        assert found.verdict == verdict
