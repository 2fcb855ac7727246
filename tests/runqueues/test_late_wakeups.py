"""Recordings that have sched_waking and no sched_wakeup: what is certain holds whenever the threads were queued."""

from __future__ import annotations

import random

import numpy as np
import pytest
from support.builders import switch, trace_of, wakeup

from wastedcores.invariant import check
from wastedcores.runqueues import late_jit
from wastedcores.runqueues.state import MIGRATE, SWITCH, WAKEUP, Events

MS = 1_000_000


def rows(events):
    return list(zip(*(column.tolist() for column in events), strict=True))


def batch(listed):
    types = (np.int8, np.int64, *(np.int32,) * 6)
    return Events(*(np.array(c, t) for c, t in zip(zip(*listed, strict=True), types, strict=True)))


def random_events(rng, n):
    """Switches, wakings and moves that need not make sense."""
    found, t = [], 0
    for _ in range(n):
        t += rng.choice((0, 1, 3, 10))
        pid, other = rng.randint(0, 4), rng.randint(0, 4)
        code = rng.choice((SWITCH, WAKEUP, WAKEUP, MIGRATE))
        found.append((code, t, rng.randint(0, 2), -1, pid, other if code == SWITCH else -1, 9, 0))
    return found


def plainly(listed, late):
    """The same without queues of queues: at each event, whoever is due is looked for among all threads."""
    out, due, cpu, running = [], {}, {}, set()
    for row in listed:
        code, t, c, _, pid, prev, _, _ = row
        for q, (at, _) in sorted(due.items(), key=lambda item: item[1]):
            if at <= t:
                del due[q]
                out += [] if q in running else [(WAKEUP, at, cpu[q], -1, q, -1, -1, 0)]
        if code == WAKEUP and pid > 0:
            if pid not in due and pid not in running:
                due[pid], cpu[pid] = (t + late, len(out)), c
            continue
        if code == SWITCH:
            running.discard(prev)
            if pid > 0:
                if due.pop(pid, None) and pid not in running:
                    out.append((WAKEUP, t, cpu[pid], -1, pid, -1, -1, 0))
                running.add(pid)
        elif pid > 0:
            cpu[pid] = c
        out.append(row)
    return out


@pytest.mark.parametrize("seed", range(30))
def test_wakeups_come_late_or_when_the_thread_runs(seed):
    rng = random.Random(seed)
    listed, late = random_events(rng, 200), rng.choice((1, 5, 40))
    found, at = [], 0
    parts = []
    while at < len(listed):
        n = rng.randint(1, 60)
        parts.append(batch(listed[at : at + n]))
        at += n
    for part in late_jit.delayed(iter(parts), late, np.zeros(5, np.bool_)):
        found += rows(part)
    want = plainly(listed, late)
    assert sorted(found) == sorted(want)
    assert [r[1] for r in found] == sorted(r[1] for r in found)
    assert [r for r in found if r[0] != WAKEUP] == [r for r in want if r[0] != WAKEUP]


def woken_again_and_again(wait_ns, **header):
    """CPU 0 runs thread 1; thread 2 is woken there each 10 ms, and waits, while CPU 1 is idle."""
    events = [switch(0, 0, 0, "R", 1), switch(0, 1, 3, "S", 0)]
    for i in range(1, 200):
        t = 10 * MS * i
        events += [
            wakeup(t, 0, 2, by_pid=1, src_cpu=0),
            switch(t + wait_ns, 0, 1, "R", 2),
            switch(t + wait_ns + 1000, 0, 2, "S", 1),
        ]
    return trace_of(events, cpus=2, **header)


def test_waste_of_which_only_wakings_tell_has_a_bound():
    short, long = (check(woken_again_and_again(w, wakings=True)) for w in (MS // 2, 8 * MS))
    assert short.thread_ns > 90 * MS
    assert short.bound.waste_at_least_ns == 0
    assert (long.verdict, long.kind) == ("violations", "chronic")
    # each of 199 waits of 8 ms is certain but for its first one
    assert long.bound.waste_at_least_ns == pytest.approx(199 * 7 * MS, rel=0.02)
    assert long.bound.waste_at_most_ns >= long.thread_ns


def test_with_wakeups_the_whole_wait_is_certain():
    told = check(woken_again_and_again(8 * MS))
    assert told.verdict == "violations"
    assert told.bound.waste_at_least_ns == told.thread_ns


def test_a_verdict_does_not_rest_on_the_time_between_waking_and_queueing():
    result = check(woken_again_and_again(MS * 9 // 10, wakings=True), chronic_share=0.001)
    assert result.verdict != "violations"
    assert any("sched_waking" in note for note in result.notes) or result.verdict == "clean"
