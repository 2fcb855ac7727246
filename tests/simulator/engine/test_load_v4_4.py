"""The load metric of Linux 4.4: its arithmetic by hand, and the engine against the reference."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from support.eevdf_runs import without_policies
from support.random_runs import cases, difference

from wastedcores.kernels import KernelModel
from wastedcores.simulator.reference import pelt_v4_4 as pelt
from wastedcores.simulator.reference.state import CfsRq, Entity, Rq, Task, TaskGroup

CALM = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
KERNELS = st.sampled_from(
    [KernelModel.named(f"v4.4{fixes}") for fixes in ("", "", "+all_fixes", "+all_fixes:patch")]
)
#: 1 ms as load tracking counts it
UNIT = 1024 * 1024


def agree(case):
    return difference(replace(case, program=without_policies(case.program)))


@pytest.mark.slow
@settings(
    max_examples=40, derandomize=True, deadline=None, database=None, suppress_health_check=CALM
)
@given(cases(of=KERNELS))
def test_engine_equals_reference(case):
    assert not (text := agree(case)), text


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("part", range(10))
def test_engine_equals_reference__thousands(part):
    @seed(part)
    @settings(
        max_examples=500,
        derandomize=False,
        deadline=None,
        database=None,
        suppress_health_check=CALM,
    )
    @given(cases(of=KERNELS))
    def all_agree(case):
        assert not (text := agree(replace(case, decisions=part % 2 == 1))), text

    all_agree()


@pytest.fixture
def queue():
    idle = Task(0, "idle", TaskGroup("root", 1024), frozenset([0]))
    return CfsRq(Rq(0, idle), TaskGroup("g", 1024))


def entity(queue):
    se = Entity("e")
    se.cfs_rq = queue
    pelt.new_entity(se)
    return se


def test_a_new_entity_counts_in_full(queue):
    se = entity(queue)
    pelt.enqueue_load_avg(se, 0, wakeup=False)
    assert (se.avg.load_avg, se.avg.util_avg) == (1024, 1024)
    assert (queue.avg.load_avg, queue.runnable_load_avg) == (1024, 1024)
    assert queue.tg.load_avg == queue.tg_load_contrib == 1024


def test_a_queued_entity_keeps_its_load(queue):
    se = entity(queue)
    pelt.enqueue_load_avg(se, 0, wakeup=False)
    se.on_rq, queue.weight, queue.nr_running = True, 1024, 1
    for ms in range(1, 400):
        pelt.update_entity_load_avg(se, ms * UNIT, True)
    # the constant divisor stands for whole periods, and up to one is not over when the average is computed
    assert 1002 <= se.avg.load_avg <= 1024
    assert 1002 <= queue.avg.load_avg <= 1024
    assert queue.runnable_load_avg == queue.avg.load_avg
    assert se.avg.util_avg == 0  # it never ran


def test_sleep_halves_the_load_every_32_periods(queue):
    se = entity(queue)
    pelt.enqueue_load_avg(se, 0, wakeup=False)
    pelt.dequeue_load_avg(se, 0, sleep=True)
    assert (queue.runnable_load_avg, queue.avg.load_avg) == (0, 1024)
    pelt.update_blocked_queue(queue, 32 * UNIT)
    assert queue.avg.load_avg == pytest.approx(512, abs=1)
    # update_tg_load_avg() reports what changed by more than 1/64
    assert queue.tg.load_avg == queue.avg.load_avg


def test_a_migrated_task_takes_its_load_along(queue):
    se = entity(queue)
    pelt.enqueue_load_avg(se, 0, wakeup=False)
    pelt.dequeue_load_avg(se, 0, sleep=True)
    pelt.update_blocked_queue(queue, 32 * UNIT)
    pelt.migrate(se)  # it is aged to the time at which its queue was last updated
    assert se.avg.load_avg == pytest.approx(512, abs=1)
    assert pelt.is_detached(se)
    pelt.update_blocked_queue(queue, 33 * UNIT)
    assert queue.avg.load_avg <= 1
    other = CfsRq(queue.rq, queue.tg)
    se.cfs_rq = other
    pelt.enqueue_load_avg(se, 50 * UNIT, wakeup=True)
    assert other.avg.load_avg == other.runnable_load_avg == se.avg.load_avg


def test_a_new_task_that_is_placed_on_another_cpu_loses_its_load(queue):
    se = entity(queue)
    pelt.migrate(se)
    assert (se.avg.load_avg, se.avg.util_avg, queue.removed_load) == (0, 0, 0)


def test_which_releases_track_load_so():
    tracked = {n: KernelModel.named(n).tracks_load_v4_4 for n in ("v4.1", "v4.3", "v4.4", "v4.9")}
    assert tracked == {"v4.1": False, "v4.3": True, "v4.4": True, "v4.9": False}
    assert KernelModel.named("v4.4").replay_warning is None
    assert "as v4.4 does" in KernelModel.named("v4.3").replay_warning
