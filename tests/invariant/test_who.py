"""Who took my CPU: the five parts add up to the time in which tasks were runnable, and what is not known is null."""

from __future__ import annotations

import random
from collections import defaultdict

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal
from support.builders import nr, switch, trace_of, wakeup

from wastedcores.invariant import check, who, who_took
from wastedcores.invariant.who import PARTS
from wastedcores.words.checked import describe_groups

GROUPS = ("/a", "/a/b", "/c")


class Machine:
    """CPUs and tasks that do random things; it knows what every task does, without a trace."""

    def __init__(self, seed: int, cpus: int, tasks: int) -> None:
        self.random = random.Random(seed)
        self.cpus = cpus
        self.running = [0] * cpus
        self.queued: list[list[int]] = [[] for _ in range(cpus)]
        self.asleep = list(range(1, tasks + 1))
        self.throttled: list[int] = []
        self.rows: list[dict] = []
        self.now = 0
        self.ns: dict[int, dict[str, int]] = defaultdict(lambda: dict.fromkeys(PARTS, 0))

    def wait(self, ns: int) -> None:
        """Let time pass: each task spends it in the part that its state says."""
        idle = any(not r and not q for r, q in zip(self.running, self.queued, strict=True))
        for task in filter(None, self.running):
            self.ns[task]["ran_ns"] += ns
        for task in (t for queue in self.queued for t in queue):
            self.ns[task]["wasted_ns" if idle else "waited_ns"] += ns
        for task in self.throttled:
            self.ns[task]["throttled_ns"] += ns
        self.now += ns

    def step(self) -> None:
        self.wait(self.random.choice((1, 10, 1000, 50_000)))
        cpu = self.random.randrange(self.cpus)
        what = self.random.random()
        if what < 0.4 and self.asleep:
            task = self.asleep.pop(self.random.randrange(len(self.asleep)))
            self.rows.append(wakeup(self.now, cpu, task))
            self.queued[cpu].append(task)
        elif what < 0.5 and self.throttled:
            task = self.throttled.pop()
            self.rows.append({"ts_ns": self.now, "kind": "unthrottle", "cpu": cpu, "pid": task})
            self.queued[cpu].append(task)
        elif self.running[cpu] or self.queued[cpu]:
            self.switch(cpu, what)

    def switch(self, cpu: int, what: float) -> None:
        left = self.running[cpu]
        if left and what > 0.95:
            self.rows.append({"ts_ns": self.now, "kind": "throttle", "cpu": cpu, "pid": left})
            self.throttled.append(left)
        elif left and (what > 0.75 or not self.queued[cpu]):
            self.asleep.append(left)
        elif left:
            self.queued[cpu].append(left)
        state = "S" if left in self.asleep else "R"
        self.running[cpu] = self.queued[cpu].pop(0) if self.queued[cpu] else 0
        self.rows.append(switch(self.now, cpu, left, state, self.running[cpu]))

    def end(self, **header):
        self.wait(1000)
        self.rows.append({"ts_ns": self.now, "kind": "mark", "cpu": 0, "text": "end"})
        tasks = [
            {"pid": p, "allowed": f"0-{self.cpus - 1}", "cgroup": GROUPS[p % 3]}
            for p in range(1, 30)
        ]
        kinds = {r["kind"]: 1 for r in self.rows}
        facts = {"tasks": tasks, "kinds": kinds, "highest_pid": 110, "highest_cpu": self.cpus - 1}
        return trace_of(self.rows, cpus=self.cpus, **(facts | header))


def schedule(seed: int, cpus: int, tasks: int, steps: int) -> Machine:
    machine = Machine(seed, cpus, tasks)
    for cpu in range(cpus):  # every runqueue is known from the beginning
        machine.rows.append(wakeup(0, cpu, 100 + cpu))
        machine.rows.append(switch(0, cpu, 0, "R", 100 + cpu))
        machine.rows.append(switch(0, cpu, 100 + cpu, "S", 0))
    for _ in range(steps):
        machine.step()
    return machine


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**9), st.integers(2, 4), st.integers(1, 8), st.integers(1, 150))
def test_the_parts_are_those_of_the_schedule_and_add_up(seed, cpus, tasks, steps):
    machine = schedule(seed, cpus, tasks, steps)
    steal = dict.fromkeys(range(cpus), 0)
    result = check(machine.end(stolen_ns=steal, quotas={"/a": 1000}), persist_ns=0)
    table = who_took(result)
    truth: dict[str, dict[str, int]] = defaultdict(lambda: dict.fromkeys(PARTS, 0))
    for task, parts in machine.ns.items():
        for part, ns in parts.items():
            truth[GROUPS[task % 3]][part] += ns
    throttles = any(r["kind"] == "throttle" for r in machine.rows)
    for row in table.iter_rows(named=True):
        want = truth.pop(row["name"])
        known = throttles or row["name"] == "/c"  # without events, only /c surely has no limit
        assert row["throttled_ns"] == (want["throttled_ns"] if known else None)
        assert {p: row[p] for p in PARTS if p != "throttled_ns"} == {
            p: want[p] for p in PARTS if p != "throttled_ns"
        }
        assert row["runnable_ns"] == sum(want.values())
    assert not any(sum(parts.values()) for parts in truth.values())


@pytest.mark.parametrize("rows", [1, 7, 100])
def test_the_switches_are_read_in_parts_of_any_size(monkeypatch, rows):
    trace = schedule(3, 4, 8, 400).end(stolen_ns={0: 5000, 1: 0, 2: 0, 3: 7})
    whole = who_took(check(trace, persist_ns=0))
    monkeypatch.setattr(who, "_ROWS", rows)
    assert_frame_equal(who_took(check(trace, persist_ns=0)), whole)


def test_what_a_hypervisor_stole_is_divided_by_who_was_on_the_cpu():
    trace = schedule(7, 2, 6, 300).end(stolen_ns={0: 0, 1: 0})
    without = who_took(check(trace, persist_ns=0)).sort("name")
    trace = schedule(7, 2, 6, 300).end(stolen_ns={0: 100_000, 1: 0})
    table = who_took(check(trace, persist_ns=0)).sort("name")
    assert abs(table["stolen_ns"].sum() - 100_000) <= 6  # each task's share is rounded
    assert (table["ran_ns"] + table["stolen_ns"]).to_list() == without["ran_ns"].to_list()
    assert table["runnable_ns"].to_list() == without["runnable_ns"].to_list()


def test_more_than_a_cpu_ran_is_not_stolen_from_it():
    machine = schedule(7, 2, 6, 300)
    table = who_took(check(machine.end(stolen_ns={0: 10**15, 1: 0}), persist_ns=0))
    assert (table["ran_ns"] >= 0).all()
    assert table["stolen_ns"].sum() > 0


@pytest.mark.parametrize(
    ("header", "unknown"),
    [
        ({}, ["stolen_ns"]),
        ({"quotas": None, "kinds": None, "stolen_ns": {0: 0, 1: 0}}, ["throttled_ns"]),
    ],
)
def test_what_nobody_knows_is_null_and_a_question_mark(header, unknown):
    machine = Machine(1, 2, 0)
    rows = [wakeup(0, 0, 5), switch(0, 0, 0, "R", 5), wakeup(0, 1, 6), switch(0, 1, 0, "R", 6)]
    machine.rows = [*rows, switch(90, 0, 5, "S", 0), switch(90, 1, 6, "S", 0)]
    machine.now = 90
    table = who_took(check(machine.end(**header), persist_ns=0))
    nulls = [p for p in PARTS if table[p].is_null().all()]
    assert nulls == unknown
    assert "?" in describe_groups(table).splitlines()[1]
    assert table["runnable_ns"].sum() == 180


def test_without_groups_the_rows_are_processes():
    rows = [wakeup(0, 0, 5), switch(0, 0, 0, "R", 5), switch(90, 0, 5, "S", 0), nr(95, 1, 0)]
    tasks = [{"pid": 5, "tgid": 5, "comm": "server", "allowed": "0-1", "cgroup": "/"}]
    trace = trace_of([r for r in rows if r["kind"] != "nr_running"], cpus=2, tasks=tasks)
    table = who_took(check(trace, persist_ns=0))
    assert table.select("name", "kind", "ran_ns").rows() == [("server", "process", 90)]


def test_a_trace_of_lengths_alone_has_no_table():
    table = who_took(check(trace_of([nr(0, 0, 2), nr(0, 1, 0), nr(50, 0, 1)], cpus=2)))
    assert table.height == 0
    assert isinstance(table, pl.DataFrame)
    assert "unknown" in describe_groups(table)


@pytest.mark.parametrize("silent", ["idle", "unknown"])
def test_a_cpu_without_events_is_what_the_check_took_it_for(silent):
    """Two tasks share CPU 0 for 400 ms, and CPU 1 may have been idle."""
    turns = [switch(4_000_000 * k, 0, 1 + k % 2, "R", 2 - k % 2) for k in range(101)]
    result = check(trace_of([wakeup(1, 0, 2), *turns], cpus=2), silent=silent)
    avoidable_ns = result.avoidable["avoidable_ns"].sum()
    assert (result.silent, avoidable_ns > 0) == (silent, silent == "idle")
    assert who_took(result)["wasted_ns"].sum() == avoidable_ns
