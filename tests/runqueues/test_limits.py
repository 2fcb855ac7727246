"""A thread that has used up its CPU time is runnable in the events, so its waits decide nothing."""

from __future__ import annotations

import pytest
from support.builders import switch, trace_of, wakeup

from wastedcores.invariant import check

MS = 1_000_000


def waiting(waited_ns, *, born=False, prio=120, cpus=2, **header):
    """Task 12 runs for 10 ms behind 10 on CPU 0 and waits there again, while CPU 1 has no task."""
    fork = {"ts_ns": MS, "kind": "fork", "cpu": 0, "pid": 12, "by_pid": 10}
    rows = [switch(0, 0, 0, "R", 10), switch(0, 1, 11, "S", 0), *([fork] if born else [])]
    rows += [
        wakeup(2 * MS, 0, 12, by_pid=10, src_cpu=0),
        switch(2 * MS, 0, 10, "R", 12, prio=prio),
        switch(12 * MS, 0, 12, "R", 10, prev_prio=prio),
        switch(12 * MS + waited_ns, 0, 10, "R", 12, prio=prio),
        switch(13 * MS + waited_ns, 0, 12, "S", 10, prev_prio=prio),
        wakeup(20 * MS + waited_ns, 1, 11),
        switch(20 * MS + waited_ns, 1, 0, "R", 11),
    ]
    facts = {"source_format": "ftrace", "quotas": {}, "later_tasks": [], "tasks": tasks()} | header
    return check(trace_of(rows, cpus=cpus, known=False, **facts), persist_ns=50 * MS)


def tasks(*pids, **of_12):
    facts = {"ppid": 1, "allowed": "0-1", "cgroup": "/", "policy": "other"}
    told = [{"pid": p, "tgid": p} | facts for p in (10, 11)]
    return [*told, {"pid": 12, "tgid": 12} | facts | of_12] if of_12 else told


@pytest.mark.parametrize("later", [None, []])
def test_a_group_with_a_quota_may_exist_only_between_two_snapshots(later):
    """Task 12 is born and has ended when the second one is taken; a wait of the usual period may be throttling."""
    assert waiting(150 * MS, born=True, later_tasks=later).verdict == "unknown"
    assert waiting(80 * MS, born=True, later_tasks=later).verdict == "violations"
    there = tasks(comm="t12")
    assert waiting(150 * MS, tasks=there, later_tasks=later).verdict == "violations"
    assert waiting(150 * MS, born=True, later_tasks=there[2:]).verdict == "violations"
    moved = tasks(changed=("cgroup",))
    assert waiting(150 * MS, tasks=moved).verdict == "unknown"


@pytest.mark.parametrize("prio", [-1, 120])
def test_a_deadline_thread_may_be_throttled_by_its_own_budget(prio):
    """Its priority is -1 in the events, whatever the snapshots say; a policy that changed may have been this one."""
    there = tasks(policy="other")
    assert waiting(80 * MS, prio=prio, tasks=there).verdict == (
        "unknown" if prio < 0 else "violations"
    )
    assert waiting(80 * MS, prio=prio, tasks=tasks(changed=("policy",))).verdict == "unknown"


@pytest.mark.parametrize(("policy", "prio"), [("fifo", None), ("rr", None), ("other", 49)])
def test_a_real_time_thread_may_be_throttled_with_all_of_its_cpu(policy, prio):
    there = tasks(policy=policy)
    assert waiting(80 * MS, prio=prio, tasks=there).verdict == "violations"
    assert waiting(150 * MS, prio=prio, tasks=there).verdict == "unknown"


def test_where_nothing_tells_of_quotas_a_wait_of_100_ms_is_in_doubt_on_a_long_queue_too():
    """Eleven threads are on the queue, and those of one group have used up a quota whose period is longer."""
    group = range(31, 41)
    rows = [switch(0, 0, 0, "R", 30), switch(0, 1, 99, "S", 0)]
    before = 30
    rows += [wakeup(MS + i, 0, p, by_pid=30, src_cpu=0) for i, p in enumerate(group)]
    for first_ns in (2 * MS, 250 * MS):
        for i, p in enumerate(group):
            rows.append(switch(first_ns + i * MS, 0, before, "R", p))
            before = p
        rows.append(switch(first_ns + 11 * MS, 0, before, "R", 30))
        before = 30
    rows += [wakeup(300 * MS, 1, 99), switch(300 * MS, 1, 0, "R", 99)]
    told = [{"pid": p, "allowed": "0-1"} for p in (30, *group, 99)]
    trace = trace_of(rows, cpus=2, known=False, tasks=told, later_tasks=[], source_format="ftrace")
    assert check(trace).verdict == "unknown"
    assert check(trace.with_header(quotas={})).verdict == "violations"
