"""What a snapshot tells of a task's affinity is certain only as long as nobody can have changed it unseen."""

from __future__ import annotations

import pytest
from support.builders import switch, trace_of, wakeup

from wastedcores.invariant import check

S = 1_000_000_000
MS = 1_000_000
#: the parent and the other task of CPU 0
TASKS = [{"pid": 9, "tgid": 9, "allowed": "0-1"}, {"pid": 10, "tgid": 10, "allowed": "0-1"}]


def fork_beside_idle(**header):
    """Task 9 forks 11, which then waits behind 10 on CPU 0 for a second, while CPU 1 has no task."""
    rows = [
        switch(1, 0, 0, "R", 10),
        switch(1, 1, 0, "R", 9),
        {"ts_ns": 2, "kind": "fork", "cpu": 1, "pid": 11, "by_pid": 9},
        switch(3, 1, 9, "S", 0),
        wakeup(4, 0, 11),
    ]
    rows += [switch(S, 0, 10, "S", 11), switch(S, 1, 0, "R", 9)]
    facts = {"tasks": TASKS, "quotas": {}, "source_format": "ftrace"} | header
    return trace_of(rows, cpus=2, known=False, **facts)


def later(**more):
    return [{"pid": 11, "tgid": 11, "ppid": 9, "allowed": "0-1"} | more]


@pytest.mark.parametrize(
    ("header", "verdict"),
    [
        ({}, "violations"),
        ({"follows_affinity": True}, "violations"),
        ({"source_format": "schedtrace"}, "violations"),
        ({"source_format": "schedtrace", "follows_affinity": False}, "violations"),
        ({"later_tasks": later()}, "violations"),
        ({"later_tasks": later(allowed="0")}, "unknown"),
        # a sibling got another affinity, so this one may have, too
        ({"later_tasks": later(pid=12, tgid=12, allowed="0")}, "unknown"),
        # the number was another task's before
        ({"later_tasks": later(), "tasks": [*TASKS, {"pid": 11, "allowed": "0"}]}, "violations"),
    ],
)
def test_a_forked_task_inherits_unless_it_or_a_sibling_ends_with_something_else(header, verdict):
    assert check(fork_beside_idle(**header)).verdict == verdict


@pytest.mark.parametrize(
    ("changed", "verdict"),
    [((), "violations"), (("nice",), "violations"), (("allowed",), "unknown")],
)
def test_a_task_whose_affinity_changed_is_unknown(changed, verdict):
    rows = [switch(1, 0, 0, "R", 10), switch(1, 1, 9, "S", 0), wakeup(2, 0, 11)]
    rows += [wakeup(S - 1, 1, 9), switch(S, 1, 0, "R", 9)]
    tasks = [*TASKS, {"pid": 11, "tgid": 11, "allowed": "0-1", "changed": changed}]
    trace = trace_of(rows, cpus=2, known=False, tasks=tasks, quotas={}, source_format="ftrace")
    assert check(trace).verdict == verdict
