"""Recovering the work of a trace: classes, sessions, files, and traces that do not tell enough."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest
from support.builders import switch, trace_of, wakeup

from wastedcores.errors import NotRecoverableError, TraceContentError, UnknownKernelError
from wastedcores.kernels import KernelModel, balancer_of
from wastedcores.prediction.machines_and_kernels import (
    check_modelled,
    check_recoverable,
    elsewhere,
    task_of,
    variants_of,
)
from wastedcores.prediction.one_replay import run, window_of
from wastedcores.prediction.predict import whatif
from wastedcores.recovery import recover
from wastedcores.recovery.facts import _group
from wastedcores.simulator import replay
from wastedcores.simulator.measure import busy_share, marks
from wastedcores.topology.machine import Machine
from wastedcores.trace.header import Header, TaskFacts, Window
from wastedcores.trace.schema import conform
from wastedcores.trace.trace import Trace
from wastedcores.workload.builder import Workload
from wastedcores.workload.file import from_dict, read_workload, to_dict, write_workload
from wastedcores.workload.ops import (
    OP_COMPUTE,
    OP_FORK,
    OP_LOOP,
    OP_NICE,
    OP_POST,
    OP_WAIT_CHILDREN,
)
from wastedcores.workload.script import Script

MS = 1_000_000
MACHINE = "bd-paper-16"


def recorded(w, kernel="v4.1"):
    r = replay(w, MACHINE, kernel)
    marks = r.trace.only("mark").select("ts_ns").collect()["ts_ns"]
    if len(marks) < 2:
        return r.trace
    return r.trace.with_header(window=Window(start_ns=marks[0], end_ns=marks[-1]))


def workers(w, n, body, cpu=0):
    ctl = Script().compute(1000).mark("start")
    ctl.loop(n).compute(20_000).fork(w.template("worker", body)).end()
    w.task("ctl", ctl.wait_children(0).mark("end").compute(1000), cpu=cpu)
    return w


def test_a_barrier_is_recognised_with_its_parties():
    w = Workload("barrier")
    meet = w.barrier(6)
    body = Script().loop(30).compute(1 * MS, 2 * MS).barrier(meet, "block").end()
    found = recover(recorded(workers(w, 6, body)))
    assert found.classes["barrier"] >= 29 * 5
    assert set(found.workload.program().barriers) == {6}
    assert len(found.workload.program().barriers) == 30


def test_groups_that_meet_at_barriers_of_their_own_are_separated():
    w = Workload("groups")
    ctl = Script().compute(1000).mark("start")
    for n in (3, 5):
        body = Script().loop(40).compute(1 * MS, 2 * MS).barrier(w.barrier(n), "block").end()
        ctl.loop(n).compute(20_000).fork(w.template(f"w{n}", body)).end()
    w.task("ctl", ctl.wait_children(0).mark("end").compute(1000))
    parties = recover(recorded(w)).workload.program().barriers
    assert set(parties) == {3, 5}


def test_a_parent_waits_for_its_children():
    body = Script().compute(5 * MS, 9 * MS)
    found = recover(recorded(workers(Workload("children"), 8, body)))
    assert found.classes.get("exit of a child", 0) >= 1
    assert found.unknown == 0


@pytest.mark.slow
def test_a_shell_that_waits_for_all_its_children_does_so_in_a_replay():
    """Three times it starts four children, the last of which computes for 100 ms."""
    w = Workload("phases")
    ctl = Script().mark("start")
    for _ in range(3):
        for ms in (10, 12, 14, 100):
            ctl.compute(50_000).fork(w.template(f"child-{ms}", Script().compute(ms * MS)))
        ctl.wait_children(0).compute(MS)
    w.task("ctl", ctl.mark("end").compute(1000))
    found = whatif(recorded(w), machine=MACHINE, to=["core"], seeds=1, workers=1)
    # switches and wakeups cost the replay its own time: up to 0.02 % were measured
    assert found.itself.windows_ns[0] == pytest.approx(found.window_ns, rel=0.001)


def test_a_throttled_parent_waits_right_after_its_forks_also_where_it_did_not_have_to():
    """It prepares the next child when the wait is over, so the wait must not come after that."""
    w = Workload("throttled")
    child = w.template("child", Script().compute(100_000, 900_000))
    ctl = Script().mark("start").loop(60).compute(200_000).fork(child).wait_children(1).end()
    w.task("ctl", ctl.wait_children(0).mark("end").compute(1000))
    found = recover(recorded(w))
    assert 20 < found.classes["exit of a child"] < 50
    (parent,) = found.workload.program().tasks
    steps = [
        r
        for r in parent.rows
        if r[0] in (OP_FORK, OP_WAIT_CHILDREN) or (r[0] == OP_COMPUTE and r[1] > 20_000)
    ]
    ops = [r[0] for r in steps]
    first = ops.index(OP_FORK)
    between = [OP_FORK, OP_WAIT_CHILDREN, OP_COMPUTE] * 59
    assert ops[first : first + len(between)] == between
    assert {r[1] for r in steps[first : first + len(between)] if r[0] == OP_WAIT_CHILDREN} == {1}


def test_a_recording_without_autogroups_is_replayed_without_them():
    w = workers(Workload("none"), 8, Script().compute(60 * MS, 80 * MS))
    trace = recorded(w).with_header(autogroups=False)
    found = whatif(trace, machine=MACHINE, to=["v4.1"], seeds=1, workers=1)
    assert found.kernel == "v4.1+noautogroup"
    assert found.itself.kernel == "v4.1+noautogroup"
    assert not any("autogroups" in note for note in found.recovered.notes)  # no task had one
    pid = trace.only("fork").collect()["pid"][-1]
    told = recover(trace, [TaskFacts(pid=pid, autogroup="/autogroup-7")])
    assert any("autogroups were switched off" in note for note in told.notes)
    named = whatif(trace, machine=MACHINE, kernel="v4.1", to=["core"], seeds=1, workers=1)
    assert named.kernel == "v4.1+noautogroup"


def test_control_groups_stay_where_autogroups_are_switched_off():
    """A model with +noautogroup would lose the control groups, too. So the kernel is replayed without it and without sessions."""
    trace = recorded(workers(Workload("both"), 8, Script().compute(60 * MS, 80 * MS)))
    pids = trace.only("fork").collect()["pid"].to_list()[-8:]
    facts = [
        {"pid": p, "cgroup": f"/{i % 2}", "autogroup": f"/autogroup-{i}"}
        for i, p in enumerate(pids)
    ]
    tasks = [TaskFacts(**fact) for fact in facts]
    trace = trace.with_header(autogroups=False, task_groups=["/0"], tasks=tasks)
    found = whatif(trace, machine=MACHINE, to=["core"], seeds=1, workers=1)
    assert found.kernel == "v4.1"
    assert len(found.recovered.workload.program().shares) == 2  # the root group and /0
    on = recover(trace.with_header(autogroups=True))
    assert len(on.workload.program().shares) == 6  # and the autogroups of the other four


@pytest.mark.parametrize(
    ("task_groups", "groups"),
    [
        (
            ["/a"],
            ["/a", "/a", "auto", "auto", "root", "parent"],
        ),  # /a/b and /c have no cpu controller
        (["/a", "/a/b", "/c"], ["/a", "/a/b", "/c", "auto", "root", "parent"]),
        (None, ["auto", "auto", "/c", "auto", "root", "parent"]),  # an older snapshot
    ],
)
def test_the_group_of_a_task_is_the_nearest_with_the_cpu_controller_and_else_its_autogroup(
    task_groups, groups
):
    facts = [
        {"cgroup": "/a", "autogroup": "auto"},
        {"cgroup": "/a/b", "autogroup": "auto"},
        {"cgroup": "/c", "autogroup": None if task_groups is None else "auto"},
        {"cgroup": "/", "autogroup": "auto"},
        {"cgroup": "/"},
        {},
    ]
    known = None if task_groups is None else frozenset(task_groups)
    numbers: dict = {}
    found = [_group(TaskFacts(pid=1, **fact), numbers, known) for fact in facts]
    names = {number: name for name, number in numbers.items()} | {0: "root", None: "parent"}
    assert [names[number] for number in found] == groups


def test_a_waker_that_no_event_names_is_the_one_that_ran_at_all_wakeups():
    w = Workload("queue")
    ctl, queue = Script().compute(1000).mark("start"), w.semaphore()
    body = Script().loop(20).wait(queue).compute(600_000, 900_000).end()
    for i in range(3):  # on other nodes than the client, so no wakeup says who decided it
        ctl.compute(20_000).fork(w.template("server", body, allowed=[4 + 4 * i]))
    client = Script().loop(60).compute(200_000, 600_000).post(queue).end()
    ctl.compute(20_000).fork(w.template("client", client, allowed=[1]))
    w.task("ctl", ctl.wait_children(0).mark("end").compute(1000))
    found = recover(recorded(w))
    assert found.classes["likely message or lock"] >= 30
    assert found.classes.get("device", 0) + found.classes.get("timer", 0) <= 1
    posts = {
        t.comm for t in found.workload.program().templates if any(r[0] == OP_POST for r in t.rows)
    }
    assert posts == {"client"}


def test_short_irregular_sleeps_are_no_timer():
    body = Script().loop(20).compute(500_000, 1_500_000).sleep(80_000, 180_000).end()
    found = recover(recorded(workers(Workload("short sleeps"), 4, body)))
    assert found.classes.get("timer", 0) == 0


def test_timers_are_recognised_and_their_work_too():
    body = Script().loop(20).compute(1 * MS).sleep(7 * MS).end()
    w = workers(Workload("timers"), 4, body)
    trace = recorded(w)
    found = recover(trace)
    assert found.classes["timer"] >= 4 * 18
    assert found.ends
    for template in found.workload.program().templates:
        worked = sum(row[1] for row in template.rows if row[0] == OP_COMPUTE)
        assert worked == 20 * MS


def test_the_cpu_time_is_the_recorded_one_without_the_costs_of_the_scheduler():
    body = Script().compute(5 * MS).sleep(5 * MS).compute(2 * MS)
    found = recover(recorded(workers(Workload("time"), 3, body)))
    rows = [t.rows for t in found.workload.program().templates]
    assert [(r[0], r[2], r[3]) for r in rows] == [
        ((1, 5 * MS, 5 * MS, 0, 0), (1, 2 * MS, 2 * MS, 0, 0), (0, 0, 0, 0, 0))
    ] * 3


def test_a_periodic_timer_stays_periodic_if_the_work_before_it_gets_longer():
    """Only the work before the first sleep, which starts the timer, delays the others: at most 4 ms and not 50 ms."""
    w = Workload("period")
    tick = w.timer()
    body = Script().loop(20).compute(1 * MS, 4 * MS).timer(tick, 10 * MS, absolute=True).end()
    found = recover(recorded(workers(w, 1, body)))
    assert found.classes["timer"] >= 19
    again = to_dict(found.workload)
    for row in again["templates"][0]["script"]:
        if row[0] == "compute":
            row[1:] = [2 * row[1], 2 * row[2]]
    longer = recorded(from_dict(again)).header.window
    start, end = found.window_ns
    assert longer.end_ns - longer.start_ns == pytest.approx(end - start, abs=5 * MS)


def test_a_name_leads_a_session_and_children_inherit_it():
    trace = recorded(workers(Workload("names"), 3, Script().compute(5 * MS)))
    found = recover(trace, sessions=("ctl",)).workload.program()
    assert [t.group for t in found.tasks if t.comm == "ctl"] == [1]
    assert not any("session" in n for n in recover(trace, sessions=("ctl",)).notes)
    assert any("share the root group" in n for n in recover(trace).notes)


def test_threads_that_may_be_bound_are_named_until_a_file_tells():
    body = Script().loop(20).compute(1 * MS).sleep(7 * MS).end()
    w = Workload("stay")
    for cpu in range(3):
        w.task("worker", body, allowed=[cpu], cpu=cpu)
    trace = recorded(w)
    said = "some threads (3) woke 10 times or more and always on the same CPU"
    assert any(n.startswith(said) for n in recover(trace).notes)
    tasks = trace.only("wakeup_new").select("pid", "comm").collect().to_dicts()
    told = [{**task, "comm": str(task["comm"]), "allowed": "0-15"} for task in tasks]
    assert not any("on the same CPU" in n for n in recover(trace, tasks=told).notes)


def test_a_tasks_file_tells_sessions_and_affinity():
    trace = recorded(workers(Workload("facts"), 2, Script().compute(5 * MS)))
    born = trace.only("fork").filter(pl.col("by_pid") > 0).select("pid").collect()
    pids = born["pid"].to_list()
    facts = [
        {"pid": pids[0], "allowed": "2-3", "autogroup": "/autogroup-7"},
        {"pid": pids[1], "allowed": "4", "cgroup": "/"},
    ]
    program = recover(trace, facts).workload.program()
    assert [t.allowed for t in program.templates] == [frozenset({2, 3}), frozenset({4})]
    forks = [row for t in program.tasks for row in t.rows if row[0] == 12]
    assert [row[2] for row in forks] == [1, -1]


def test_the_second_of_two_snapshots_tells_of_tasks_that_were_born_meanwhile():
    trace = recorded(workers(Workload("later"), 1, Script().compute(5 * MS)))
    born = trace.only("fork").filter(pl.col("by_pid") > 0).select("pid", "by_pid").collect()
    first, last = (
        TaskFacts(pid=born[name][0], allowed=cpus, nice=0)
        for name, cpus in (("by_pid", "0-15"), ("pid", "2-3"))
    )
    told = trace.with_header(tasks=[first], later_tasks=[last])
    assert [t.allowed for t in recover(told).workload.program().templates] == [frozenset({2, 3})]
    assert [t.allowed for t in recover(told, []).workload.program().templates] == [None]


def test_a_task_that_may_run_anywhere_leaves_the_cpus_of_its_parent():
    trace = recorded(workers(Workload("unbound"), 2, Script().compute(60 * MS)))
    born = trace.only("fork").filter(pl.col("by_pid") > 0).select("pid", "by_pid").collect()
    free, heir = born["pid"].to_list()
    facts = [{"pid": born["by_pid"][0], "allowed": "0"}, {"pid": free, "allowed": "0-15"}]
    found = recover(trace, facts)
    program = found.workload.program()
    assert [t.allowed for t in program.templates] == [frozenset(range(16)), None]
    facts[0]["allowed"] = "0-15"
    program = recover(trace, [*facts, {"pid": heir, "allowed": "3"}]).workload.program()
    assert [t.allowed for t in program.templates] == [None, frozenset({3})]
    # on a larger machine it may run anywhere, too, and --pin binds it
    larger = task_of(found, Machine.preset("bd-paper-64"), None)
    assert [t.allowed for t in larger.program.templates] == [frozenset(range(64)), None]
    pinned = elsewhere(larger, None, [1, 2]).program
    assert [t.allowed for t in pinned.templates] == [frozenset({1, 2}), None]


def exiting(event_ns, *between):
    """Task 5 forks 7, which exits at 9 ms, and waits for it; the event of the exit is written at ``event_ns``."""
    return trace_of(
        [
            switch(0, 0, 0, "R", 5),
            {"ts_ns": 1, "kind": "fork", "cpu": 0, "pid": 7, "by_pid": 5, "comm": "t7"},
            {"ts_ns": 2, "kind": "wakeup_new", "cpu": 1, "pid": 7},
            switch(10, 1, 0, "R", 7),
            switch(1 * MS, 0, 5, "S", 0),
            {"ts_ns": event_ns, "kind": "exit", "cpu": 1, "pid": 7},
            *between,
            wakeup(9 * MS - 20_000, 0, 5),
            switch(9 * MS - 19_000, 0, 0, "R", 5),
            switch(9 * MS, 1, 7, "X", 0),
            switch(80 * MS, 0, 5, "S", 0),
        ],
        cpus=2,
    )


@pytest.mark.parametrize(
    ("event_ns", "until_ns"), [(5 * MS, 9 * MS), (9 * MS - 40_000, 9 * MS - 40_000)]
)
def test_a_task_works_until_it_leaves_its_cpu_for_ever(event_ns, until_ns):
    """Since 6.16 the exit is written before exit_mm() gives back the memory; before that, some us before the task has gone."""
    found = recover(exiting(event_ns))
    (template,) = found.workload.program().templates
    assert template.rows[0][:2] == (OP_COMPUTE, until_ns - 10 - 1000)
    assert found.classes == {"exit of a child": 1}
    assert found.window_ns == (0, until_ns if until_ns < 9 * MS - 20_000 else 9 * MS - 20_000)


@pytest.mark.parametrize(
    ("out_ns", "in_ns", "ran_ns"),
    [(6 * MS, 7 * MS, 8 * MS - 10 - 2000), (5 * MS + 9000, 9 * MS - 50_000, 5 * MS + 9000 - 1010)],
)
def test_a_task_that_sleeps_while_it_exits_stays_one_task(out_ns, in_ns, ran_ns):
    """If it works for less than 100 us after its last sleep, that is not counted."""
    back = [wakeup(in_ns - 5, 1, 7), switch(in_ns, 1, 0, "R", 7)]
    found = recover(exiting(5 * MS, switch(out_ns, 1, 7, "D", 0), *back))
    assert (found.tasks, found.classes) == (2, {"exit of a child": 1})
    (template,) = found.workload.program().templates
    assert template.rows[0][:2] == (OP_COMPUTE, ran_ns)


def niced(found):
    """Return the operations that set nice values, one list per template."""
    return [[row[1] for row in t.rows if row[0] == OP_NICE] for t in found.templates]


def woken_on(cpu: int):
    """Task 1 computes on CPU 0; task 7 has slept on CPU 2 since before the trace, and is woken on another CPU."""
    return trace_of(
        [
            switch(0, 0, 1, "R", 1),
            {"ts_ns": 50 * MS, "kind": "migrate", "cpu": cpu, "src_cpu": 2, "pid": 7},
            wakeup(50 * MS + 1, cpu, 7),
            switch(50 * MS + 2, cpu, 0, "R", 7),
            switch(70 * MS, cpu, 7, "S", 0),
            switch(100 * MS, 0, 1, "R", 1),
        ],
        cpus=16,
        known=False,
    )


def test_a_sleeper_that_was_bound_to_another_cpu_meanwhile_runs_there():
    found = recover(woken_on(3), [{"pid": 7, "allowed": "3"}])
    raw = run(task_of(found, Machine.preset(MACHINE), None), KernelModel.named("v4.1"), 1)
    start = raw.phase_ns + found.lead_ns
    assert busy_share(raw, 16, start + 55 * MS, start + 65 * MS)[3] == 1


@pytest.mark.slow
@pytest.mark.parametrize("facts", [[], [{"pid": 7, "allowed": "2"}]])
def test_a_task_whose_cpu_went_offline_runs_on_another_one(facts):
    off = Machine.preset(MACHINE).after([("offline", 2)])
    ask = {"kernel": "v4.1", "to": ["core"], "tasks": facts, "seeds": 1, "workers": 1}
    found = whatif(woken_on(3), machine=off, **ask)
    # switches and wakeups cost the replay its own time: up to 0.02 % were measured
    assert found.itself.busy[0] == pytest.approx(found.busy_cpus, rel=0.001)
    # the same work on another machine without that CPU
    there = whatif(woken_on(3), machine=MACHINE, to_machine=off, **ask)
    assert there.variants[0].busy[0] == pytest.approx(found.busy_cpus, rel=0.001)


def test_nice_values_of_tasks_that_are_born_in_the_trace():
    """They come from a file or from the priorities of the events; a task of which neither tells inherits its parent's."""
    trace = recorded(workers(Workload("nice"), 3, Script().compute(5 * MS)))
    born = trace.only("fork").filter(pl.col("by_pid") > 0).select("pid", "by_pid").collect()
    pids, parent = born["pid"].to_list(), born["by_pid"][0]
    told = [{"pid": pids[0], "nice": 10}]
    assert niced(recover(trace, told).workload.program()) == [[10], [], []]
    told = [{"pid": parent, "nice": 10}, {"pid": pids[0], "nice": 10}, {"pid": pids[1], "nice": 0}]
    assert niced(recover(trace, told).workload.program()) == [[], [0], []]
    # the first worker is born with its parent's priority, and changes it then
    first = (pl.col("pid") == pids[0]) & (pl.col("kind") != "wakeup_new")
    prio = pl.when(first).then(125).otherwise(120).cast(pl.Int16)
    shown = type(trace)(trace.events.with_columns(prio=prio), trace.header)
    assert niced(recover(shown).workload.program()) == [[5], [], []]


def test_tasks_of_sched_idle_get_the_least_weight_and_so_do_their_children():
    trace = recorded(workers(Workload("idle"), 2, Script().compute(5 * MS)))
    born = trace.only("fork").filter(pl.col("by_pid") > 0).select("pid", "by_pid").collect()
    facts = [
        {"pid": born["by_pid"][0], "policy": "idle", "nice": 0},
        {"pid": born["pid"][1], "policy": "other", "nice": 0},
    ]
    found = recover(trace, facts)
    assert [t.nice for t in found.workload.program().tasks if t.comm == "ctl"] == [19]
    assert niced(found.workload.program()) == [[], [0]]
    assert any("SCHED_IDLE" in note for note in found.notes)


def test_a_nice_value_in_front_of_a_loop_moves_its_jump():
    w = Workload("hogs")
    hog = w.template("hog", Script().loop().compute(50 * MS).end(), daemon=True)
    w.task("ctl", Script().compute(MS).fork(hog).sleep(300 * MS).compute(MS))
    trace = replay(w, MACHINE).trace
    pid = trace.only("fork").filter(pl.col("by_pid") > 0).collect()["pid"][0]
    (template,) = recover(trace, [{"pid": pid, "nice": 3}]).workload.program().templates
    loops = [(i, row[1]) for i, row in enumerate(template.rows) if row[0] == OP_LOOP]
    assert template.rows[0][:2] == (OP_NICE, 3)
    assert [(i, template.rows[to][0]) for i, to in loops] == [(len(template.rows) - 2, OP_COMPUTE)]


def test_a_workload_survives_its_file(tmp_path):
    found = recover(recorded(workers(Workload("file"), 3, Script().compute(5 * MS).sleep(MS))))
    write_workload(found.workload, tmp_path / "w.json")
    again = read_workload(tmp_path / "w.json")
    assert again.program() == found.workload.program()
    assert from_dict(json.loads(json.dumps(to_dict(again)))).program() == again.program()


def test_a_window_that_ends_by_the_clock_has_no_time_to_predict():
    w = Workload("clock")
    hog = w.template("hog", Script().loop().compute(1_000 * MS).end(), daemon=True)
    ctl = Script().mark("start").loop(4).compute(20_000).fork(hog).end().sleep(200 * MS).mark("end")
    w.task("ctl", ctl.compute(1000))
    found = recover(recorded(w))
    assert not found.ends
    assert any("ends by the clock" in n for n in found.notes)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (Script().compute(200 * MS), "never sleep:"),
        (
            Script().compute(100 * MS).sleep(2 * MS).compute(100 * MS),
            "sleep for less than 5% of the time:",
        ),
    ],
)
def test_tasks_that_hardly_sleep_may_spin(body, says):
    found = recover(recorded(workers(Workload("spin"), 6, body)))
    assert not found.ends
    assert any("spins" in n and says in n for n in found.notes)


def test_a_cpu_is_busy_while_it_switches():
    """Two tasks wake each other after 10 us of work; the switch before that takes 1 us."""
    w = Workload("pair")
    ends = [w.semaphore(1), w.semaphore()]
    for mine, other in (ends, ends[::-1]):
        script = Script().loop().wait(mine).compute(10_000).post(other).end()
        w.task("t", script, daemon=True)
    w.task("end", Script().sleep(100 * MS), cpu=5)
    trace = replay(w, MACHINE).trace
    found = recover(trace)
    raw = run(task_of(found, Machine.preset(MACHINE), None), KernelModel.named("v4.1"), 1)
    start = raw.phase_ns + found.lead_ns
    busy = busy_share(raw, 16, start + 50 * MS, start + 100 * MS).sum()
    # switches and wakeups cost the replay its own time: up to 0.02 % were measured
    assert found.busy_cpus() == pytest.approx(busy, rel=0.001)


def test_a_window_ends_where_the_trace_does():
    w = Workload("endless")
    w.task("hog", Script().sleep(MS).loop().compute(3 * MS).sleep(MS).end())
    trace = replay(w, MACHINE, until_ns=100 * MS).trace
    whole = recover(trace)
    for start_ns, end_ns in ((-(10**9), 10**10), (0, 10**10)):
        found = recover(trace.with_header(window=Window(start_ns=start_ns, end_ns=end_ns)))
        assert found.window_ns == whole.window_ns
        assert found.busy_per_cpu == whole.busy_per_cpu


def test_work_without_an_end_is_replayed_for_the_recorded_time():
    w = Workload("endless")
    w.task("t", Script().sleep(MS).loop().compute(3 * MS).sleep(MS).end())
    for i in range(3):
        w.task(f"hog{i}", Script().loop().compute(50 * MS).end(), cpu=i)
    found = recover(replay(w, MACHINE, until_ns=300 * MS).trace)
    assert not found.ends
    task = task_of(found, Machine.preset(MACHINE), None)
    raw = run(task, KernelModel.named("v4.1"), 1)
    start, end = window_of(task, raw)
    assert end - start == pytest.approx(300 * MS, rel=0.02)
    assert busy_share(raw, 16, start, end).sum() == pytest.approx(found.busy_cpus(), rel=0.03)


def test_tasks_that_shared_a_cpu_before_the_trace_have_no_more_work_than_it_shows():
    """Two tasks take turns on CPU 0 when the trace begins: 1 exits after 250 ms of CPU time, and 2 after 350 ms."""
    events = [switch((8 * i + 4) * MS, 0, 1, "R", 2) for i in range(62)]
    events += [switch((8 * i + 8) * MS, 0, 2, "R", 1) for i in range(62)]
    events += [
        {"ts_ns": 499 * MS, "kind": "exit", "cpu": 0, "pid": 1},
        switch(500 * MS, 0, 1, "X", 2),
        {"ts_ns": 600 * MS, "kind": "exit", "cpu": 0, "pid": 2},
        switch(600 * MS, 0, 2, "X", 0),
        wakeup(10 * MS, 1, 9),
        switch(10 * MS, 1, 0, "R", 9),
        switch(11 * MS, 1, 9, "S", 0),
    ]
    trace = trace_of(events, cpus=16, known=False)
    machine = Machine.preset(MACHINE)
    task = task_of(recover(trace, [{"pid": p, "allowed": "0"} for p in (1, 2)]), machine, None)
    start, end = window_of(task, run(task, KernelModel.named("v4.1"), 1))
    # a slice or two more or less; the warm-up would add 200 ms
    assert end - start == pytest.approx(600 * MS, rel=0.03)


def test_a_task_that_always_computed_acts_when_it_did_in_the_trace():
    """It writes a mark 40 ms after the beginning of the trace, and goes on for ever."""
    w = Workload("hog")
    hog = Script().compute(90 * MS).mark("here").loop().compute(50 * MS).end()
    w.task("hog", hog, daemon=True)
    w.task("late", Script().sleep(60 * MS).compute(MS).sleep(200 * MS).compute(MS), cpu=3)
    whole = replay(w, MACHINE).trace
    (at,) = whole.only("mark").collect()["ts_ns"]
    trace = type(whole)(whole.events.filter(pl.col("ts_ns") >= at - 40 * MS), whole.header)
    begin = trace.events.collect()["ts_ns"][0]
    found = recover(trace)
    task = task_of(found, Machine.preset(MACHINE), None)
    raw = run(task, KernelModel.named("v4.1"), 1)
    replayed = marks(raw, task.program)["here"] - raw.phase_ns - found.lead_ns
    # a piece of the warm-up (0.1 ms) can last into the trace; the mark came 200 ms too early before
    assert replayed == pytest.approx(at - begin, abs=MS)


@pytest.mark.slow
def test_work_that_does_not_end_in_time_counts_as_late_and_not_as_done():
    """A task that ends soon does not end the window of others, and a replay that was given up says so."""
    w = Workload("pinned")
    for i in range(32):
        w.task(f"worker{i}", Script().loop(20).compute(5 * MS).sleep(1 * MS).end(), cpu=i)
    w.task("helper", Script().compute(MS), cpu=40)
    trace = replay(w, "bd-paper-64", "v4.1").trace
    found = whatif(trace, machine="bd-paper-64", kernel="v4.1", to=["v4.1"], pin=[0], seeds=1)
    (pinned,) = found.variants
    assert pinned.windows_ns[0] > 4 * found.itself.windows_ns[0]
    assert (found.itself.given_up, pinned.given_up) == (0, 1)
    assert found.trust == "medium"
    assert "1 of 1 replays under v4.1 did not end within 5 times" in found.reasons[0]


def test_a_parent_that_has_more_to_do_does_not_wait_for_its_other_children_first():
    """Task 5 waits for the exit of 6, then wakes 7 and waits for its answer; 7 exits before 5 waits for its last child."""

    def exits(at_ms, pid, cpu):
        gone = {"ts_ns": at_ms * MS, "kind": "exit", "cpu": cpu, "pid": pid}
        return [gone, switch(at_ms * MS + 9000, cpu, pid, "X", 0)]

    def wakes(at_ns, cpu, pid, src, by):
        told = wakeup(at_ns, cpu, pid, src_cpu=src, by_pid=by)
        return [told, switch(at_ns + 9, cpu, 0, "R", pid)]

    events = [switch(0, 0, 0, "R", 5)]
    for cpu, pid in ((1, 6), (2, 7), (3, 8)):
        fork = {"ts_ns": cpu * MS, "kind": "fork", "cpu": 0, "pid": pid, "by_pid": 5, "comm": "c"}
        first, begins = wakes(cpu * MS + 1, cpu, pid, 0, 5)
        events += [fork, first | {"kind": "wakeup_new"}, begins]
    events += [switch(5 * MS, 2, 7, "S", 0), switch(6 * MS, 0, 5, "S", 0)]
    events += [*exits(20, 6, 1), *wakes(20 * MS + 5000, 0, 5, 1, 6), *wakes(21 * MS, 2, 7, 0, 5)]
    events += [switch(22 * MS, 0, 5, "S", 0), *wakes(40 * MS, 0, 5, 2, 7), *exits(45, 7, 2)]
    events += [switch(60 * MS, 0, 5, "S", 0), *exits(90, 8, 3)]
    events += [*wakes(90 * MS + 5000, 0, 5, 3, 8), *exits(100, 5, 0)]
    trace = trace_of(events, cpus=16)
    found = whatif(trace, machine=MACHINE, kernel="v4.1", to=["core"], seeds=1, workers=1)
    assert found.recovered.classes == {"exit of a child": 2, "message or lock": 2}
    # switches and wakeups cost the replay its own time: up to 0.02 % were measured
    assert found.itself.windows_ns[0] == pytest.approx(found.window_ns, rel=0.001)


def test_a_parent_that_waits_beyond_the_end_does_not_hold_up_a_replay():
    """Task 5 forks 7, which forks 8 and waits for 5. The exit of 8 ends the window, and 5 answers 7 only later."""
    fork = {"kind": "fork", "comm": "child"}
    born = {"kind": "wakeup_new"}
    events = [
        switch(0, 0, 0, "R", 5),
        fork | {"ts_ns": 1 * MS, "cpu": 0, "pid": 7, "by_pid": 5},
        wakeup(1 * MS + 1, 1, 7, src_cpu=0, by_pid=5) | born,
        switch(1 * MS + 9, 1, 0, "R", 7),
        fork | {"ts_ns": 2 * MS, "cpu": 1, "pid": 8, "by_pid": 7},
        wakeup(2 * MS + 1, 2, 8, src_cpu=1, by_pid=7) | born,
        switch(2 * MS + 9, 2, 0, "R", 8),
        switch(3 * MS, 1, 7, "S", 0),
        {"ts_ns": 100 * MS, "kind": "exit", "cpu": 2, "pid": 8},
        switch(100 * MS + 9, 2, 8, "X", 0),
        wakeup(150 * MS, 1, 7, src_cpu=0, by_pid=5),
        switch(150 * MS + 9, 1, 0, "R", 7),
        switch(160 * MS, 1, 7, "S", 0),
        switch(200 * MS, 0, 5, "S", 0),
    ]
    trace = trace_of(events, cpus=16)
    found = whatif(trace, machine=MACHINE, kernel="v4.1", to=["core"], seeds=1, workers=1)
    assert found.recovered.classes == {"message or lock": 1}
    # switches and wakeups cost the replay its own time: up to 0.02 % were measured
    assert found.itself.windows_ns[0] == pytest.approx(found.window_ns, rel=0.001)


@pytest.mark.parametrize("kind", ["switch", "wakeup"])
def test_a_trace_without_switches_or_wakeups_says_how_to_record_them(kind):
    trace = recorded(workers(Workload("missing"), 2, Script().compute(5 * MS)))
    cut = trace.events.filter(pl.col("kind") != kind)
    lacking = type(trace)(cut, trace.header.model_copy(update={"kinds": None}))
    with pytest.raises(TraceContentError, match=f"no sched_{kind} events"):
        recover(lacking)


def test_a_short_trace_and_one_with_losses_are_refused():
    trace = recorded(workers(Workload("short"), 2, Script().compute(5 * MS)))
    found = recover(trace)
    with pytest.raises(NotRecoverableError, match="record at least 50 ms"):
        check_recoverable(trace, found)
    trace = recorded(workers(Workload("long"), 2, Script().compute(80 * MS).sleep(MS)))
    with pytest.raises(NotRecoverableError, match="7 events were lost"):
        check_recoverable(trace.with_header(lost={3: 7}), recover(trace))


def test_a_kernel_that_the_replay_does_not_model_is_refused():
    trace = recorded(workers(Workload("kernel"), 2, Script().compute(5 * MS)))
    with pytest.raises(
        NotRecoverableError, match=r"no model of this kernel's balancer.*v6\.1"
    ) as e:
        check_modelled(trace, balancer_of(KernelModel.named("v5.10")))
    assert e.value.exit_code == 3
    for release in ("5.10.0-33-amd64", "5.14.0-503.el9.x86_64", "4.18.0-553.el8_10.x86_64"):
        with pytest.raises(NotRecoverableError, match=release):
            whatif(trace.with_header(kernel_release=release), machine="bd-paper-16", seeds=1)


@pytest.mark.slow
def test_a_trace_that_calls_its_kernel_by_no_release_is_predicted_with_low_trust():
    trace = recorded(workers(Workload("name"), 2, Script().compute(80 * MS).sleep(MS)))
    nameless = trace.with_header(kernel_model=None, kernel_release="mykernel")
    ask = {"machine": MACHINE, "to": ["core"], "seeds": 1, "workers": 1}
    found = whatif(nameless, **ask)
    assert found.trust == "low"
    assert any(
        "the trace calls its kernel 'mykernel', which is no release" in r for r in found.reasons
    )
    with pytest.raises(UnknownKernelError, match="mykernel"):
        whatif(nameless, kernel="mykernel", **ask)


def test_a_kernel_that_is_named_twice_is_predicted_once():
    trace = recorded(workers(Workload("twice"), 2, Script().compute(80 * MS).sleep(MS)))
    to = ["core", "core"]
    found = whatif(trace, machine=MACHINE, kernel="v4.1", to=to, seeds=1, workers=1)
    assert [v.kernel for v in found.variants] == ["core"]


def test_a_fix_that_the_kernel_has_is_no_variant():
    assert variants_of(KernelModel.named("v4.1+overload_on_wakeup:patch")) == [
        "v4.1+group_imbalance:patch+overload_on_wakeup:patch",
        "v4.1+group_construction:patch+overload_on_wakeup:patch",
        "v4.1+overload_on_wakeup:patch+missing_domains:patch",
        "v4.1+all_fixes:patch",
        "core",
    ]
    assert variants_of(KernelModel.named("v4.1+all_fixes")) == ["core"]


def test_a_pid_that_is_used_again_is_another_task():
    w = Workload("reuse")
    child = w.template("worker", Script().compute(5 * MS))
    ctl = Script().mark("start").loop(2).compute(1000).fork(child).wait_children(0).end()
    w.task("ctl", ctl.mark("end").compute(1000))
    trace = recorded(w)
    events = trace.events.collect()
    born = events.filter(pl.col("kind") == "fork", pl.col("by_pid") > 0)
    first, second = born["pid"].to_list()
    again = events.with_columns(pl.col("pid", "prev_pid").replace(second, first))
    found = recover(type(trace)(again.lazy(), trace.header)).workload.program()
    assert [t.rows[0][1] for t in found.templates] == [5 * MS, 5 * MS]


def test_no_cpu_is_busy_twice_where_switches_are_missing():
    """perf does not see the switches of some threads of a virtual machine's agent; 2 CPUs seemed to be 3.7 busy ones."""
    events = [
        switch(0, 0, 0, "R", 1),
        switch(20 * MS, 0, 2, "S", 0),  # the switch from 1 to 2 is missing
        wakeup(30 * MS, 0, 3),
        switch(30 * MS, 0, 0, "R", 3),
        switch(100 * MS, 0, 3, "S", 0),
    ]
    assert recover(trace_of(events, cpus=2)).busy_per_cpu == pytest.approx((0.9, 0), abs=0.01)


def test_marks_that_are_written_again_and_again_are_told_apart():
    w = Workload("marks")
    w.task("t", Script().sleep(MS).mark("a").loop(3).compute(20 * MS).mark("b").end().compute(MS))
    trace = replay(w, MACHINE).trace
    ts = trace.only("mark").select("ts_ns").collect()["ts_ns"]
    found = recover(trace.with_header(window=Window(start_ns=ts[1], end_ns=ts[2])))
    assert found.marks == ("b", "b #2")
    assert found.window_ns[1] - found.window_ns[0] == pytest.approx(20 * MS, rel=0.01)


@pytest.mark.slow
def test_very_many_tasks_that_ran_once():
    count = 100_000
    number = np.arange(count)
    begin, pid, cpu = number * 1000, number + 10, number % 16
    kinds = (("fork", 0), ("wakeup_new", 1), ("switch", 10), ("exit", 900), ("switch", 910))
    parts = []
    for i, (kind, after) in enumerate(kinds):
        leaves = i == 4
        parts.append(
            pl.DataFrame(
                {
                    "ts_ns": begin + after,
                    "kind": [kind] * count,
                    "cpu": cpu,
                    "pid": np.zeros(count, np.int64) if leaves else pid,
                    "by_pid": np.full(count, 5 if kind == "fork" else 0),
                    "prev_pid": pid if leaves else np.zeros(count, np.int64),
                    "prev_state": ["X" if leaves else "R"] * count,
                }
            )
        )
    wake = pl.DataFrame(
        {
            "ts_ns": [-10, -5],
            "kind": ["wakeup", "switch"],
            "cpu": [0, 0],
            "pid": [5, 5],
            "prev_pid": [0, 0],
            "prev_state": ["R", "R"],
        }
    )
    events = pl.concat([wake, *parts], how="diagonal_relaxed").sort("ts_ns", maintain_order=True)
    trace = Trace(conform(events, "test").lazy(), Header(source_format="test", cpus=16))
    found = recover(trace)
    assert found.tasks == count + 1
    assert len(found.workload.program().templates) == count


@pytest.mark.parametrize(
    ("prio", "facts"), [(-1, []), (49, [{"pid": 5, "policy": "fifo", "nice": 0}])]
)
def test_real_time_tasks_are_replayed_with_nice_minus_20(prio, facts):
    """-1 is the priority of SCHED_DEADLINE (MAX_DL_PRIO - 1); the nice value that /proc tells of a FIFO task has no effect."""
    rows = [
        switch(0, 0, 0, "R", 5, prio=prio),
        switch(1 * MS, 0, 5, "S", 0, prev_prio=prio),
        wakeup(2 * MS, 0, 5, prio=prio),
        switch(2 * MS + 10, 0, 0, "R", 5, prio=prio),
        switch(80 * MS, 0, 5, "S", 0, prev_prio=prio),
    ]
    found = recover(trace_of(rows, cpus=1), facts)
    assert any("real-time" in note for note in found.notes)
    (task,) = (t for t in found.workload.program().tasks if t.comm == "t5")
    assert task.nice == -20
