"""A trace may tell events in another order than they happened, or not at all: then a verdict must be unknown, not wrong.

The clocks of two CPUs differ by some microseconds, and some recordings lack kinds of events or begin and end between two that
belong together. CPU 0 runs thread 10 for a second, and CPU 1 is idle; what is told of other threads has two readings.
"""

from __future__ import annotations

import pytest
from support.builders import migrate, switch, trace_of, wakeup

from wastedcores.invariant import check

US, MS, S = 1_000, 1_000_000, 1_000_000_000

#: thread 13 leaves CPU 1 at first and comes back at the end; the move says that moves are recorded
BESIDE = [
    switch(1, 0, 0, "R", 10),
    switch(2, 1, 13, "S", 0),
    migrate(S - 2, 0, 1, 13),
    wakeup(S - 1, 1, 13),
    switch(S, 1, 0, "R", 13),
]
#: thread 11 has run and sleeps from 3 ms on
SLEEPS = [
    wakeup(MS, 0, 11),
    switch(2 * MS, 0, 10, "R", 11),
    switch(3 * MS, 0, 11, "S", 10),
]


def birth(ts_ns: int, pid: int) -> list[dict]:
    fork = {"ts_ns": ts_ns, "kind": "fork", "cpu": 0, "pid": pid, "by_pid": 10}
    return [fork, wakeup(ts_ns + 10 * US, 0, pid) | {"kind": "wakeup_new"}]


def run(ts_ns: int, pid: int, length_ns: int = 30 * US, state: str = "S") -> list[dict]:
    """Thread ``pid`` interrupts 10 on CPU 0 for a while."""
    return [switch(ts_ns, 0, 10, "R", pid), switch(ts_ns + length_ns, 0, pid, state, 10)]


def wakes(ts_ns: int) -> list[dict]:
    """Thread 10 is woken and runs on CPU 0, which is idle."""
    return [wakeup(ts_ns, 0, 10), switch(ts_ns + US, 0, 0, "R", 10)]


def judged(more: list[dict], base: list[dict] = BESIDE, **header):
    rows = sorted([*base, *more], key=lambda row: row["ts_ns"])
    return check(trace_of(rows, cpus=header.pop("cpus", 2), **header), chronic_share=None)


def test_the_others_alone_are_clean_and_a_wait_beside_them_is_a_violation():
    assert judged(SLEEPS).verdict == "clean"
    assert judged([*SLEEPS, wakeup(20 * MS, 0, 11)]).verdict == "violations"


@pytest.mark.parametrize(
    "more",
    [
        # either it was woken right after it fell asleep, and has waited since; or it was woken when it was about to sleep
        [*SLEEPS, wakeup(3 * MS - 20 * US, 0, 11)],
        # the wakeup to its short run is told after it; or it was woken again
        [*SLEEPS, *run(10 * MS, 11), wakeup(10 * MS + 50 * US, 0, 11)],
        # the same of a thread of which nothing is known before
        [*run(10 * MS, 11), wakeup(10 * MS + 50 * US, 0, 11)],
        # a thread that is born, runs and ends within 60 us
        [*run(10 * MS, 11, state="X"), *birth(10 * MS + 40 * US, 11)],
    ],
    ids=["woken early", "woken late", "first woken late", "born late"],
)
def test_clocks_of_two_cpus_may_tell_events_in_the_wrong_order(more):
    found = judged(more)
    assert found.verdict == "unknown", (found.notes, found.doubts)


def test_a_thread_that_runs_elsewhere_before_it_is_told_to_stop_does_not_wait():
    """Thread 11 preempts 10, which CPU 1 pulls and runs; the clock of CPU 1 is late by 60 us."""
    pulled = [migrate(20 * MS, 0, 1, 10), switch(20 * MS + 2 * US, 1, 0, "R", 10)]
    more = [*SLEEPS, wakeup(19 * MS, 0, 11), *pulled, switch(20 * MS + 60 * US, 0, 10, "R", 11)]
    assert judged(more, [*BESIDE[:2], switch(S, 0, 11, "R", 11)]).verdict == "clean"


def test_the_order_of_events_that_are_further_apart_is_believed():
    assert judged([*SLEEPS, wakeup(2 * MS + 1, 0, 11)]).verdict == "unknown"
    slow = [wakeup(MS, 0, 11), switch(2 * MS, 0, 10, "R", 11), wakeup(3 * MS, 0, 11)]
    assert judged([*slow, switch(5 * MS, 0, 11, "S", 10)]).verdict == "clean"
    assert judged([*SLEEPS, *run(10 * MS, 11), wakeup(15 * MS, 0, 11)]).verdict == "violations"


@pytest.mark.parametrize("at", [S - 3, 500 * MS])
def test_a_thread_that_was_only_moved_may_sleep(at):
    """The recording ends before its wakeup, or the balancer of Linux 6.12 moved a thread that sleeps but stays on its queue."""
    found = judged([migrate(at, 0, 1, 12)])
    assert (found.verdict, found.longest_ns > 400 * MS) == ("unknown", True)


def test_a_cpu_whose_first_switch_does_not_say_what_it_stops_may_have_been_idle():
    """Thread 11 waits behind 10 meanwhile."""
    rows = [switch(1, 0, 0, "R", 10), wakeup(2, 0, 11), migrate(3, 0, 1, 13)]
    rows += [wakeup(400 * MS - 1, 1, 13), switch(500 * MS, 0, 10, "S", 11)]
    assert judged([switch(400 * MS, 1, -1, "R", 13)], rows).verdict == "unknown"
    assert judged([switch(400 * MS, 1, 0, "R", 13)], rows).verdict == "violations"


def test_a_cpu_whose_thread_is_seen_elsewhere_may_have_been_idle_since():
    """The switch away from 13 on CPU 1 is missing; it runs on CPU 2 from 2 ms on, while 11 waits behind 10."""
    rows = [switch(1, 0, 0, "R", 10), switch(1, 1, 0, "R", 13), switch(1, 2, 9, "S", 0)]
    rows += [wakeup(MS, 0, 11), migrate(2 * MS - 2, 1, 2, 13), wakeup(2 * MS - 1, 2, 13)]
    rows += [switch(2 * MS, 2, 0, "R", 13), switch(500 * MS, 1, 0, "R", 9)]
    assert judged([], [*rows, switch(501 * MS, 0, 10, "S", 11)], cpus=3).verdict == "unknown"


def test_a_thread_that_no_snapshot_lists_may_have_been_born_where_births_are_not_recorded():
    tasks = [{"pid": pid, "allowed": "0-1"} for pid in (10, 13)]
    assert judged(run(500 * MS, 12), tasks=tasks).verdict == "unknown"
    listed = [*tasks, {"pid": 12, "allowed": "0-1"}]
    assert judged(run(500 * MS, 12), tasks=listed).verdict == "violations"


def test_where_wakeups_are_not_recorded_nobody_knows_how_long_threads_waited():
    rows = [row for row in BESIDE if row["kind"] != "wakeup"]
    assert judged(run(500 * MS, 12), rows).verdict == "unknown"
    assert judged([*run(10 * MS, 12), *run(500 * MS, 12)], rows).verdict == "unknown"
    # the wakeup of a new thread follows its birth
    found = judged([{"ts_ns": MS, "kind": "fork", "cpu": 0, "pid": 12, "by_pid": 10}])
    assert (found.verdict, found.bound.longest_at_most_ns > 900 * MS) == ("unknown", True)


def test_a_thread_that_waits_may_have_run_on_a_cpu_that_was_not_recorded():
    """Nothing happens on CPU 2; whether it was recorded is not known."""
    waits = [*SLEEPS, wakeup(20 * MS, 0, 11)]
    unrecorded = {"cpus": 3, "online": False}
    assert judged(waits, **unrecorded).verdict == "unknown"
    assert judged(waits, unswitched={2: True}, **unrecorded).verdict == "violations"
    back = migrate(700 * MS, 2, 0, 11)
    assert judged([*waits, back], **unrecorded).verdict == "unknown"


def test_a_thread_that_is_first_seen_after_a_loss_may_have_waited_before_it():
    """CPU 2 loses events at 320 ms, and 12 begins to run on CPU 0 without a wakeup at 350 ms."""
    lost = {"ts_ns": 320 * MS, "kind": "lost", "cpu": 2, "value": 5}
    rows = [switch(1, 2, 9, "S", 0), lost, wakeup(330 * MS, 2, 9), switch(330 * MS, 2, 0, "R", 9)]
    rows += [switch(331 * MS, 2, 9, "S", 0), *run(350 * MS, 12)]
    found = judged(rows, cpus=3, lost={2: 5})
    assert (found.verdict, found.bound.longest_at_most_ns > 340 * MS) == ("unknown", True)


@pytest.mark.parametrize(("name", "verdict"), [("perf", "unknown"), ("t12", "clean")])
def test_a_recorder_that_seems_to_sleep_may_wait_until_the_end_of_the_trace(name, verdict):
    """A wakeup of perf can be missing, and CPU 0 is busy since perf fell asleep there."""
    slept = [
        wakeup(MS, 0, 12),
        switch(2 * MS, 0, 10, "R", 12, comm=name),
        switch(3 * MS, 0, 12, "S", 10, prev_comm=name),
    ]
    assert judged(slept).verdict == verdict
    idle = [switch(800 * MS, 0, 10, "S", 0), *wakes(850 * MS)]
    assert judged([*slept, *idle]).verdict == ("unknown" if name == "perf" else "clean")
    again = [switch(980 * MS, 0, 10, "S", 0), *wakes(981 * MS)]
    assert judged([*slept, *idle, *again]).verdict == "clean"


@pytest.mark.parametrize("woken", [10 * MS + 50 * US, 8 * MS], ids=["after its run", "before"])
def test_a_late_wakeup_on_an_idle_cpu_belongs_to_the_run_before_it(woken):
    """CPU 1 idles from the run of thread 12 until thread 14 has run there, so thread 12 did not wait there."""
    first = [switch(1, 0, 0, "R", 10), switch(2, 1, 13, "S", 0), migrate(3, 0, 1, 13)]
    late = [
        wakeup(MS, 1, 12),
        switch(MS + US, 1, 0, "R", 12),
        switch(2 * MS, 1, 12, "S", 0),
        switch(10 * MS, 1, 0, "R", 12),
        switch(10 * MS + 20 * US, 1, 12, "S", 0),
        wakeup(woken, 1, 12),
    ]
    later = [
        wakeup(700 * MS, 1, 14),
        switch(700 * MS + US, 1, 0, "R", 14),
        switch(701 * MS, 1, 14, "S", 0),
        wakeup(S - 1, 1, 12),
        switch(S, 1, 0, "R", 12),
    ]
    found = judged([*first, *late, *later], [])
    assert found.verdict == "clean", (found.notes, found.doubts)
    assert not found.oddities.get("idle_beside_waiting")


@pytest.mark.parametrize("known", [True, False], ids=["slept before", "first seen"])
def test_a_late_wakeup_does_not_hide_that_its_cpu_is_idle(known):
    """Thread 12 runs on CPU 1 for 20 us, and its wakeup is told after that. Thread 11 waits on CPU 0 for the rest of the time."""
    before = [wakeup(MS, 1, 12), switch(MS + US, 1, 0, "R", 12), switch(2 * MS, 1, 12, "S", 0)]
    late = [
        switch(10 * MS, 1, 0, "R", 12),
        switch(10 * MS + 20 * US, 1, 12, "S", 0),
        wakeup(10 * MS + 50 * US, 1, 12),
    ]
    found = judged([*SLEEPS, wakeup(20 * MS, 0, 11), *(before if known else []), *late])
    assert found.verdict == "violations", (found.notes, found.doubts)
