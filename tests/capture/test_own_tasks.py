"""A recording without the recorder's tasks shows what the CPUs would have done without them."""

from __future__ import annotations

import random

import pytest
from support.builders import migrate, switch, trace_of, wakeup

from wastedcores.capture.own_tasks import _Leaver, written_without
from wastedcores.invariant.checking import check
from wastedcores.trace.parquet import write_parquet

OWN, MS = 90, 1_000_000


def without(rows: list[dict], tmp_path, pids=(OWN,), cpus=2) -> list[tuple]:
    """Return (time, kind, CPU, prev_pid, prev_state, pid) of each event that is left."""
    write_parquet(trace_of(rows, cpus=cpus), tmp_path / "with.parquet")
    left = written_without(tmp_path / "with.parquet", set(pids), tmp_path / "without.parquet")
    columns = ("ts_ns", "kind", "cpu", "prev_pid", "prev_state", "pid")
    return left.events.collect().select(columns).rows()


def test_a_task_that_the_recorder_interrupts_goes_on(tmp_path):
    rows = [switch(0, 0, 0, "R", 1), switch(5, 0, 1, "R", OWN), switch(9, 0, OWN, "S", 1)]
    assert without(rows, tmp_path) == [(0, "switch", 0, 0, "R", 1)]


def test_the_recorder_follows_a_task_that_falls_asleep_while_another_one_waits(tmp_path):
    rows = [
        switch(0, 0, 0, "R", 1),
        wakeup(2, 0, 2),
        switch(5, 0, 1, "S", OWN),
        switch(9, 0, OWN, "S", 2),
    ]
    assert without(rows, tmp_path)[1:] == [
        (2, "wakeup", 0, None, None, 2),
        (5, "switch", 0, 1, "S", 2),
    ]


def test_a_task_that_wakes_up_beside_the_recorder_runs_at_once(tmp_path):
    rows = [switch(0, 0, 0, "R", OWN), wakeup(4, 0, 2), switch(9, 0, OWN, "S", 2)]
    assert without(rows, tmp_path) == [
        (4, "wakeup", 0, None, None, 2),
        (4, "switch", 0, 0, "R", 2),
    ]


def test_a_task_that_is_moved_away_while_the_recorder_runs_leaves_the_cpu_to_the_next(tmp_path):
    rows = [
        switch(0, 0, 0, "R", 1),
        wakeup(1, 0, 2),
        switch(2, 0, 1, "R", OWN),
        migrate(5, 0, 1, 1),
        switch(6, 1, 0, "R", 1),
        switch(9, 0, OWN, "S", 2),
    ]
    assert without(rows, tmp_path)[2:] == [
        (5, "switch", 0, 1, "R", 2),
        (5, "migrate", 1, None, None, 1),
        (6, "switch", 1, 0, "R", 1),
    ]


def test_a_task_that_waits_behind_the_recorder_from_the_beginning_has_run_since_then(tmp_path):
    rows = [wakeup(0, 1, 7), switch(3, 0, OWN, "S", 1), switch(8, 0, 1, "S", 0)]
    assert without(rows, tmp_path)[1:] == [(8, "switch", 0, 1, "S", 0)]


def test_a_violation_that_the_recorder_interrupts_again_and_again_is_certain(tmp_path):
    """CPU 0 has two busy tasks and a third that wakes up shortly now and then; after each of its runs the recorder follows."""
    rows = [switch(0, 0, 0, "R", 1), wakeup(1, 0, 2)]
    now, runs, waits = 2, 1, 2
    for _ in range(100):
        now += 2 * MS
        rows += [wakeup(now, 0, 3), switch(now + 1, 0, runs, "R", 3)]
        rows += [switch(now + 2, 0, 3, "S", OWN), switch(now + MS, 0, OWN, "S", waits)]
        now, runs, waits = now + MS, waits, runs
    without(rows, tmp_path)
    found = check(tmp_path / "without.parquet", silent="idle")
    assert found.verdict == "violations"
    assert found.episodes.filter("persistent")["certain"].to_list() == [True]


def schedule(seed: int, cpus: int = 3) -> list[dict]:
    """A random recording in which a CPU is idle only if nobody waits there."""
    dice = random.Random(seed)
    now, rows = 0, []
    queue: dict[int, list[int]] = {c: [] for c in range(cpus)}
    on = dict.fromkeys(range(cpus), 0)
    asleep = [*range(1, 9), *range(OWN, OWN + 3)]
    for _ in range(400):
        now += dice.randrange(1, 9)
        c, act = dice.randrange(cpus), dice.random()
        if act < 0.4 and asleep:
            queue[c].append(asleep.pop(dice.randrange(len(asleep))))
            rows.append(wakeup(now, c, queue[c][-1]))
        elif act < 0.55 and queue[c]:
            to = dice.choice([x for x in range(cpus) if x != c])
            queue[to].append(queue[c].pop(dice.randrange(len(queue[c]))))
            rows.append(migrate(now, c, to, queue[to][-1]))
        elif on[c]:
            goes_on = dice.random() < 0.5
            (queue[c] if goes_on else asleep).append(on[c])
            after = queue[c].pop(dice.randrange(len(queue[c]))) if queue[c] else 0
            if after != on[c]:
                rows.append(switch(now, c, on[c], "R" if goes_on else "S", after))
            on[c] = after
        for cpu in range(cpus):
            if not on[cpu] and queue[cpu]:
                on[cpu] = queue[cpu].pop(dice.randrange(len(queue[cpu])))
                rows.append(switch(now, cpu, 0, "R", on[cpu]))
    return rows


def states(rows: list[tuple], cpus: int = 3) -> list[tuple[int, dict, dict]]:
    """Return time, running tasks and waiting tasks by CPU behind each event, and check that the events fit together."""
    on, waits, out = dict.fromkeys(range(cpus), 0), {}, []
    for ts, kind, cpu, prev, state, pid in rows:
        if kind == "switch":
            assert on[cpu] == prev
            assert not pid or waits.pop(pid) == cpu
            if prev and state == "R":
                waits[prev] = cpu
            on[cpu] = pid
        elif kind == "wakeup" or pid in waits:
            assert pid not in on.values()
            waits[pid] = cpu
        out.append((ts, dict(on), dict(waits)))
    return out


@pytest.mark.parametrize("seed", range(30))
def test_random_recordings(seed, tmp_path):
    rows = schedule(seed)
    own = range(OWN, OWN + 3)
    left = without(rows, tmp_path, own, cpus=3)
    assert not {r[i] for r in left for i in (3, 5)} & set(own)
    after = states(left)
    last = {ts: state for ts, *state in after}  # events of one time may come in any order
    for on, waits in last.values():
        assert not {c for c, p in on.items() if not p} & set(waits.values())
    columns = ("ts_ns", "kind", "cpu", "prev_pid", "prev_state", "pid")
    before = {ts: state for ts, *state in states([tuple(map(r.get, columns)) for r in rows])}
    for ts, (on, waits) in last.items():
        was_on, was_waiting = before[ts]
        runnable = {*was_on.values(), *was_waiting} - set(own)
        assert runnable | {0} == {*on.values(), *waits} | {0}
        for cpu, pid in was_on.items():
            assert pid in own or on[cpu] == pid


def test_the_state_is_kept_between_the_parts_of_a_recording():
    table = trace_of(schedule(1), cpus=3).events.collect()
    whole = _Leaver({OWN}).frames(iter([table]))
    parts = _Leaver({OWN}).frames(iter([table[:150], table[150:151], table[151:]]))
    columns = ("ts_ns", "kind", "cpu", "prev_pid", "prev_state", "pid")
    assert [r for t in parts for r in t.select(columns).rows()] == [
        r for t in whole for r in t.select(columns).rows()
    ]
