"""Who ended a sleep: not whom an interrupt interrupted, not the balancer, and with or without the hint of a pipe."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from support.builders import switch, trace_of, wakeup
from support.kept_back.judging import recordings
from support.kept_back.predicting import facts
from support.kept_back.reading import meta_of, recorded
from support.kept_back.work import machine_of

from wastedcores.kernels import KernelModel
from wastedcores.prediction.machines_and_kernels import place_of, task_of
from wastedcores.prediction.one_replay import run, window_of
from wastedcores.recovery import recover
from wastedcores.recovery import stretches_jit as sj
from wastedcores.recovery.messages import find_messages
from wastedcores.recovery.task_tables import Seen, seen
from wastedcores.simulator import replay
from wastedcores.topology.machine import Machine
from wastedcores.trace.named import open as opened
from wastedcores.trace.trace import Trace
from wastedcores.workload.builder import Workload
from wastedcores.workload.ops import OP_COMPUTE, OP_LOCK, OP_POST
from wastedcores.workload.program import costs_of
from wastedcores.workload.script import Script

US, MS = 1_000, 1_000_000
MACHINE = "bd-paper-16"


def told(trace: Trace) -> tuple[Seen, np.ndarray]:
    """Return what a trace shows, and the sleeps of task 7 that ended."""
    s = seen(trace, 0)
    find_messages(s, np.zeros(len(s.tasks), np.bool_))
    task = s.tasks[s.sleeps[:, sj.S_TASK], sj.T_PID]
    return s, s.sleeps[(task == 7) & (s.sleeps[:, sj.S_WAKE_NS] >= 0)]


def rounds(events, times: int = 6) -> Trace:
    """Task 5 forks 7 on CPU 0; then come events of a round of 1 ms, and 7 runs and sleeps."""
    rows = [
        switch(0, 0, 0, "R", 5),
        {"ts_ns": 1, "kind": "fork", "cpu": 0, "pid": 7, "by_pid": 5, "comm": "t7"},
        wakeup(2, 1, 7, src_cpu=0, by_pid=5) | {"kind": "wakeup_new"},
        switch(3, 1, 0, "R", 7),
        switch(10 * US, 1, 7, "S", 0),
    ]
    for i in range(1, times + 1):
        at = i * MS
        rows += [e | {"ts_ns": at + e["ts_ns"]} for e in events]
        cpu = next(e["cpu"] for e in reversed(events) if e["kind"] == "wakeup")
        rows += [switch(at + 20 * US, cpu, 0, "R", 7), switch(at + 30 * US, cpu, 7, "S", 0)]
    return trace_of(rows, cpus=4)


@pytest.mark.parametrize(("irq", "waker"), [(None, 5), (False, 5), (True, None)])
def test_whom_an_interrupt_interrupted_is_no_waker(irq, waker):
    s, sleeps = told(rounds([wakeup(10 * US, 1, 7, src_cpu=0, by_pid=5, in_irq=irq)]))
    named = [int(s.tasks[w, sj.T_PID]) if w >= 0 else None for w in sleeps[:, sj.S_WAKER]]
    assert named[-6:] == [waker] * 6


def waking(ts_ns: int, cpu: int, by: int, irq: bool | None) -> dict:
    return {
        "ts_ns": ts_ns, "kind": "waking", "cpu": 1, "src_cpu": cpu, "pid": 7, "by_pid": by, "comm": "t7", "in_irq": irq,
    }  # fmt: skip


@pytest.mark.parametrize(("irq", "waker"), [(False, 9), (True, None), (None, None)])
def test_a_sched_waking_names_the_waker_although_the_wakeup_is_written_on_an_idle_cpu(irq, waker):
    """Task 9, of no family with 7, runs on CPU 2 and wakes 7 once; without the interrupt's flag nobody knows."""
    events = [
        switch(0, 2, 0, "R", 9),
        waking(5 * US, 2, 9, irq),
        wakeup(8 * US, 1, 7, src_cpu=1, by_pid=0, in_irq=True),
        switch(900 * US, 2, 9, "R", 0),
    ]
    events[-1]["prev_state"] = "R"
    s, sleeps = told(rounds(events, times=1))
    named = [int(s.tasks[w, sj.T_PID]) if w >= 0 else None for w in sleeps[-1:, sj.S_WAKER]]
    assert named == [waker]
    if waker:
        assert sleeps[-1, sj.S_WAKER_NS] - s.start_ns == MS + 5 * US


def test_the_balancer_does_not_hide_whom_a_sched_waking_names():
    """The sleeper is moved between its waking and its wakeup, as every wakeup on another CPU does."""
    events = [
        waking(5 * US, 0, 5, False),
        move(6 * US, 3, 1, 5),
        wakeup(8 * US, 3, 7, src_cpu=3, by_pid=0, in_irq=True),
    ]
    s, sleeps = told(rounds(events))
    assert len(sleeps) >= 6
    assert (s.tasks[sleeps[-6:, sj.S_WAKER], sj.T_PID] == 5).all()
    assert (sleeps[-5:, sj.S_FROM_CPU] == 3).all()


def test_who_slept_before_its_wakeup_was_written_woke_before_that():
    """Task 5 wakes 7 on a far CPU, where the wakeup is written 5 us later, and sleeps until 7 answers."""
    events = [switch(5 * US, 0, 5, "S", 0), wakeup(10 * US, 1, 7, src_cpu=0, by_pid=5)]
    s, sleeps = told(rounds(events, times=1))
    assert s.tasks[sleeps[-1, sj.S_WAKER], sj.T_PID] == 5
    assert sleeps[-1, sj.S_WAKER_NS] - s.start_ns == MS + 5 * US


def test_a_recorded_build_does_not_deadlock():
    """Its wakeups were written up to 10 us after their wakers had fallen asleep; its replays never ended before."""
    trace = opened("kernel-build")
    on, model, _ = place_of(trace, None, None)
    found = recover(trace, costs=costs_of(on), machine=on)
    task = task_of(found, on, None)
    start, end = window_of(task, run(task, model, 1))
    recorded_ns = found.window_ns[1] - found.window_ns[0]
    # the replay balances in its own way: it took 0.3 % longer
    assert end - start == pytest.approx(recorded_ns, rel=0.01)


def move(ts_ns: int, cpu: int, src: int, by: int) -> dict:
    return {
        "ts_ns": ts_ns, "kind": "migrate", "cpu": cpu, "src_cpu": src, "pid": 7, "by_pid": by, "comm": "t7", "in_irq": False,
    }  # fmt: skip


@pytest.mark.parametrize(("apart", "by"), [(400 * US, 5), (5 * US, 5), (5 * US, 0), (0, 5)])
def test_a_sleeper_that_the_balancer_moves_was_not_woken_by_who_ran_there(apart, by):
    """Task 5 pulls it to its CPU 0, and a timer of CPU 0 wakes it there."""
    events = [
        move(500 * US - apart, 0, 1, by),
        wakeup(500 * US, 0, 7, src_cpu=0, by_pid=by, in_irq=True),
    ]
    events = [e | {"ts_ns": e["ts_ns"] - 490 * US} for e in events]
    sleeps = told(rounds(events))[1]
    assert len(sleeps) >= 6
    assert (sleeps[-6:, sj.S_BY] == -1).all()


def test_who_pulls_a_sleeper_and_wakes_it_at_once_is_its_waker():
    events = [
        move(5 * US, 0, 1, 5),
        wakeup(6 * US, 0, 7, src_cpu=0, by_pid=5, in_irq=False),
    ]
    s, sleeps = told(rounds(events))
    assert len(sleeps) >= 6
    assert (s.tasks[sleeps[-6:, sj.S_WAKER], sj.T_PID] == 5).all()
    assert (sleeps[-6:, sj.S_FAR] == 1).all()


def ring(sync: bool) -> Workload:
    """Twelve stages in a ring pass eight tokens on."""
    w = Workload("ring")
    ends = [w.semaphore(1 if i < 8 else 0) for i in range(12)]
    ctl = Script().affinity(range(16)).compute(1000).mark("start")
    for i in range(12):
        stage = Script().loop(150).wait(ends[i]).compute(100 * US, 300 * US)
        stage.post(ends[(i + 1) % 12], sync=sync).end()
        ctl.compute(20 * US).fork(w.template(f"st-{i}", stage))
    w.task("ctl", ctl.wait_children(0).mark("end"), cpu=0, allowed=[0])
    return w


@pytest.mark.parametrize("kernel", ["v6.1.192", "v6.12.107"])
@pytest.mark.parametrize("sync", [True, False])
def test_a_pipe_is_told_from_a_futex_by_the_cpus_that_the_kernel_chose(kernel, sync):
    trace = replay(ring(sync), MACHINE, KernelModel.named(kernel)).trace
    for machine in (Machine.preset(MACHINE), None):
        found = recover(trace.with_header(machine=None), machine=machine).workload.program()
        hints = [r[3] for t in (*found.tasks, *found.templates) for r in t.rows if r[0] == OP_POST]
        assert len(hints) > 200
        if sync and machine is not None:
            assert np.mean(hints) > 0.9
        else:  # a futex, or nothing tells the caches
            assert not any(hints)


@pytest.mark.parametrize("kernel", ["6.1", "6.12"])
def test_the_users_of_two_locks_are_replayed_with_two_locks(kernel):
    """Twelve tasks take one of two locks 250 times, for 100 us each time, between 400 to 800 us of other work."""
    folder = next(f for f in recordings() if f.name == f"mtx-three-{kernel}")
    meta, run = meta_of(folder), recorded(folder)
    found = recover(folder / "trace.txt.xz", facts(run, meta), machine=machine_of(meta))
    assert found.guessed_work < 0.02
    program = found.workload.program()
    assert program.locks == 2
    held, taken = [], 0
    for task in program.templates:
        rows = list(task.rows)
        taken += sum(row[0] == OP_LOCK for row in rows)
        held += [
            work[1] for lock, work in pairwise(rows) if (lock[0], work[0]) == (OP_LOCK, OP_COMPUTE)
        ]
    assert 0.8 * 12 * 250 < taken <= 12 * 250  # those for which nobody waited leave no trace
    # 100 us, one for the call, and the rounds of 4 us in which the recorder computes
    assert np.median(held) == pytest.approx(100 * US, rel=0.05)
