"""Avoidable waiting is compared with the plainest possible computation, and does not depend on the size of batches."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from support import RECORDINGS
from support.builders import mask, migrate, switch, trace_of, wakeup

from wastedcores import figures, words
from wastedcores.analysis.examined import examine
from wastedcores.invariant import check
from wastedcores.invariant.avoidable import AvoidableWaits
from wastedcores.runqueues.runqueues import runqueues
from wastedcores.runqueues.waits import run_times
from wastedcores.trace.io import open_trace

MS = 1_000_000


def rows_of(result):
    columns = ("pid", "waits", "waited_ns", "avoidable_ns", "longest_ns")
    return [tuple(r[c] for c in columns) for r in result.avoidable.to_dicts()]


def affinity(ts_ns, pid, cpus):
    return {"ts_ns": ts_ns, "kind": "affinity", "pid": pid, "cpu_mask": mask(*cpus)}


def two_queues(more=(), **header):
    """Thread 11 waits on CPU 0 from 10 to 60 ms, while CPU 1 is idle from 20 to 40 ms and CPU 2 always."""
    rows = [
        switch(0, 0, 0, "R", 10),
        switch(0, 1, 0, "R", 20),
        switch(0, 2, 30, "S", 0),
        wakeup(10 * MS, 0, 11),
        switch(20 * MS, 1, 20, "S", 0),
        wakeup(40 * MS, 1, 20),
        switch(40 * MS, 1, 0, "R", 20),
        switch(60 * MS, 0, 10, "S", 11),
        switch(90 * MS, 0, 11, "S", 0),
    ]
    rows = sorted([*rows, *more], key=lambda r: r["ts_ns"])
    return trace_of(rows, cpus=3, **header)


def test_a_thread_that_may_run_anywhere_waits_avoidably_beside_any_idle_cpu():
    assert rows_of(check(two_queues())) == [(11, 1, 50 * MS, 50 * MS, 50 * MS)]


@pytest.mark.parametrize(
    ("allowed", "avoidable"), [("0-1", 20), ("0,2", 50), ("0-2", 50), ("0", 0)]
)
def test_only_idle_cpus_that_the_thread_may_use_make_its_waiting_avoidable(allowed, avoidable):
    tasks = [{"pid": 11, "allowed": allowed}, *({"pid": p, "allowed": "0-2"} for p in (10, 20, 30))]
    found = rows_of(check(two_queues(known=False, tasks=tasks, quotas={}, follows_affinity=True)))
    assert found == ([(11, 1, 50 * MS, avoidable * MS, avoidable * MS)] if avoidable else [])


@pytest.mark.parametrize(
    ("when", "allowed", "avoidable"),
    [(30, (0,), 20), (30, (0, 1), 30), (55, (0,), 45), (65, (0,), 50), (5, (0,), 0)],
)
def test_each_part_of_a_wait_counts_with_the_affinity_of_its_time(when, allowed, avoidable):
    trace = two_queues(more=[affinity(when * MS, 11, allowed)])
    found = rows_of(check(trace))
    assert found == ([(11, 1, 50 * MS, avoidable * MS, avoidable * MS)] if avoidable else [])
    assert sum(check(trace).episodes["wasted_ns"]) == avoidable * MS


def test_the_window_and_the_counted_cpus_limit_what_counts():
    assert rows_of(check(two_queues(), between=(30 * MS, 50 * MS))) == [
        (11, 1, 20 * MS, 20 * MS, 20 * MS)
    ]
    assert rows_of(check(two_queues(), cpus=[0, 1])) == [(11, 1, 50 * MS, 20 * MS, 20 * MS)]


def test_a_wait_that_continues_on_another_queue_is_one_wait():
    rows = [
        switch(0, 0, 0, "R", 10),
        switch(0, 1, 0, "R", 20),
        switch(0, 2, 30, "S", 0),
        wakeup(10 * MS, 0, 11),
        migrate(30 * MS, 0, 1, 11),
        switch(70 * MS, 1, 20, "S", 11),
        switch(90 * MS, 1, 11, "S", 0),
    ]
    assert rows_of(check(trace_of(rows, cpus=3))) == [(11, 1, 60 * MS, 60 * MS, 60 * MS)]


def brute_force(trace):
    """Per thread: avoidable time, from sets of tasks per CPU; for a trace whose first events show every CPU and task."""
    queues, running, avoidable = {}, {}, {}
    table = trace.only("switch", "wakeup", "wakeup_new", "migrate", "affinity", "mark").select(
        "ts_ns", "kind", "cpu", "src_cpu", "pid", "prev_pid", "prev_state", "cpu_mask"
    )
    rows = table.collect().to_dicts()
    where, allowed = {}, {}
    for r, after in itertools.zip_longest(rows, rows[1:]):
        pid, cpu = r["pid"], r["cpu"]
        if r["kind"] == "switch":
            if r["prev_pid"] and not r["prev_state"].startswith("R"):
                where.pop(r["prev_pid"], None)
            running[cpu] = pid
            if pid:
                where[pid] = cpu
        elif r["kind"] == "affinity":
            allowed[pid] = {c for c in running if r["cpu_mask"][c // 8] >> c % 8 & 1}
        elif r["kind"] == "wakeup" or pid in where:
            where[pid] = cpu
        if after is None or after["ts_ns"] == r["ts_ns"]:
            continue
        queues = dict.fromkeys(running, 0)
        for c in where.values():
            queues[c] = queues.get(c, 0) + 1
        idle = {c for c, n in queues.items() if n == 0}
        for p, c in where.items():
            if running.get(c) != p and idle & allowed.get(p, idle):
                avoidable[p] = avoidable.get(p, 0) + after["ts_ns"] - r["ts_ns"]
    return avoidable


@pytest.mark.parametrize("seed", range(12))
def test_avoidable_waiting_equals_brute_force(seed):
    """A random scheduler on four CPUs, whose tasks are all seen at the start; every other one changes affinities, too."""
    random = np.random.default_rng(seed)
    cpus, tasks = 4, list(range(10, 10 + int(random.integers(3, 14))))
    rows = [switch(0, c, 900 + c, "S", 0) for c in range(cpus)]
    queues, asleep, t = {c: [] for c in range(cpus)}, list(tasks), 1
    for _ in range(600):
        t += int(random.integers(0, 3)) * 1000
        c = int(random.integers(cpus))
        if seed % 2 and random.random() < 0.2:
            pid, n = int(random.choice(tasks)), int(random.integers(1, cpus + 1))
            rows.append(affinity(t, pid, random.choice(cpus, n, replace=False).tolist()))
        elif asleep and random.random() < 0.4:
            pid = asleep.pop(int(random.integers(len(asleep))))
            rows.append(wakeup(t, c, pid))
            queues[c].append(pid)
            if len(queues[c]) == 1:
                rows.append(switch(t, c, 0, "R", pid))
        elif len(queues[c]) > 1 and random.random() < 0.3:
            to = (c + 1) % cpus
            pid = queues[c].pop()
            rows.append(migrate(t, c, to, pid))
            queues[to].append(pid)
            if len(queues[to]) == 1:
                rows.append(switch(t, to, 0, "R", pid))
        elif queues[c]:
            pid = queues[c].pop(0)
            stays = random.random() < 0.5
            (queues[c] if stays else asleep).append(pid)
            if queues[c][:1] != [pid]:
                rows.append(switch(t, c, pid, "R" if stays else "S", (queues[c] or [0])[0]))
    rows.append({"ts_ns": t + 5000, "kind": "mark", "text": "end"})
    trace = trace_of(rows, cpus=cpus)
    result = check(trace)
    found = {p: a for p, _, _, a, _ in rows_of(result)}
    assert not result.oddities
    assert found == {p: a for p, a in brute_force(trace).items() if a}
    assert any(found.values())


@pytest.mark.parametrize("name", ["db16-buggy-16cpu", "gi-buggy-16cpu"])
def test_avoidable_waiting_does_not_depend_on_the_size_of_batches(name):
    tables = []
    for rows in (1 << 20, 997):
        rq = runqueues(open_trace(RECORDINGS / name / "trace.txt.xz"))
        found = AvoidableWaits(rq, np.ones(rq.cpus, np.uint8), rq.start_ns, rq.end_ns)
        for batch in rq.batches(waits=True, rows=rows):
            found.add(batch)
        tables.append(found.table())
    assert tables[0].equals(tables[1])
    assert tables[0].height > 10


def test_run_times_are_those_of_the_switches():
    rq = runqueues(two_queues())
    ran = run_times(rq, 0, 90 * MS)
    assert {p: int(ran[p]) for p in (10, 11, 20, 30)} == {
        10: 60 * MS, 11: 30 * MS, 20: 70 * MS, 30: 0,
    }  # fmt: skip
    assert int(run_times(rq, 50 * MS, 70 * MS)[11]) == 10 * MS


def test_words_and_figure_name_the_threads_that_lost_most():
    run = examine(two_queues(), "two")
    assert "1 thread waited 50 ms in all" in words.avoidable(run).text
    assert "166.7%" in words.avoidable(run).text
    bars = figures.avoidable(run).data
    assert [(b.x[0], b.y[0]) for b in bars] == [(50, "t11 11"), (0, "t11 11")]


def test_processes_are_grouped_where_the_trace_knows_them():
    tasks = [{"pid": p, "tgid": 10 if p < 20 else p, "allowed": "0-2"} for p in (10, 11, 20, 30)]
    run = examine(two_queues(known=False, tasks=tasks, quotas={}, follows_affinity=True), "two")
    assert "process  pid  threads" in words.avoidable(run).text
