"""Placement of the engine against booted kernels: 6.12.107 with a database on 16 CPUs, 6.1.192 with make on 64.

What the model cannot know from a recording is in support/recorded_machine.py. The forks of the database are not judged: which of
several groups of idle CPUs gets a thread depends on the loads from before the recording.
"""

from __future__ import annotations

import pytest
from support import MODERN, RECORDINGS
from support.recorded_machine import RecordedMachine

from wastedcores.kernels import KernelModel
from wastedcores.topology.source import find_machine

FOLDER = MODERN / "db16-6.12-16cpu"


def asked(folder, *kernel, **policies) -> RecordedMachine:
    machine = find_machine(str(folder / "meta.json")).machine
    return RecordedMachine(folder / "trace.txt.xz", machine, *kernel, **policies)


def agreeing(placed) -> int:
    return sum(x.chosen == x.recorded for x in placed)


@pytest.fixture(scope="module")
def run() -> RecordedMachine:
    return asked(FOLDER)


def test_wakeups_get_the_recorded_cpu(run):
    wakeups = [x for x in run.placed if x.kind != "fork"]
    assert len(wakeups) > 6_000
    assert agreeing(wakeups) >= 0.99 * len(wakeups)
    # most tasks stay where they were; these are the others
    moved = [x for x in wakeups if x.recorded != x.before]
    assert len(moved) == 50
    assert agreeing(moved) == 40


def test_every_sleeper_that_the_balancer_moved_is_still_queued_in_the_model(run):
    """The balancer moves queued tasks only, so the kernel had delayed the dequeue of each of them."""
    assert run.pulled == run.pulled_queued == 41


@pytest.mark.slow
def test_a_placement_that_never_moves_a_task_is_noticed():
    stays = asked(FOLDER, select_task_rq=lambda k, p, flag, sync: p.cpu)
    moved = [x for x in stays.placed if x.kind != "fork" and x.recorded != x.before]
    assert agreeing(moved) == 0


@pytest.mark.slow
def test_make_under_cfs_gets_the_recorded_cpus():
    """In gi-6.1-64cpu 4003 compilers are forked, half of them on a machine whose CPUs are all busy."""
    run = asked(RECORDINGS / "gi-6.1-64cpu", KernelModel.named("v6.1.192"))
    wakeups = [x for x in run.placed if x.kind == "wakeup"]
    forks = [x for x in run.placed if x.kind == "fork"]
    assert len(wakeups) > 3_700
    assert agreeing(wakeups) >= 0.99 * len(wakeups)
    assert agreeing([x for x in wakeups if x.recorded != x.before]) > 900
    assert len(forks) == 4_003
    assert agreeing(forks) >= 0.95 * len(forks)
