"""The load metric of Linux 4.4: its arithmetic by hand, and the engine against the reference."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from support.eevdf_runs import without_policies
from support.random_runs import cases, difference

from wastedcores.kernels import KernelModel
from wastedcores.simulator.engine.fair import entity_jit
from wastedcores.simulator.engine.fair import pelt_v4_4_jit as pelt
from wastedcores.simulator.plain.still import Still
from wastedcores.topology.machine import Machine
from wastedcores.workload.program import TaskSpec

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
def still():
    """A task on CPU 0, in a group, at time 0."""
    task, v4_4 = TaskSpec("t", (), group=1), KernelModel.named("v4.4")
    still = Still(Machine.preset("uma8"), v4_4, [task], shares=(1024, 1024))
    still.k.now_ns = 0
    on_cpu(still, 0)
    still.call(pelt.new_entity, still.tasks[0].se)
    return still


def on_cpu(still, cpu):
    """Point the task at its queue on a CPU; return the queue."""
    still.call(entity_jit.set_task_rq, still.tasks[0], cpu)
    return still.tasks[0].se.cfs_rq


def asleep(still, units):
    """Let the task come, and sleep for some time; return its queue."""
    se = still.tasks[0].se
    still.call(pelt.enqueue_load, se)
    still.call(pelt.dequeue_load, se)
    assert (se.cfs_rq.runnable_load_avg, se.cfs_rq.avg.load_avg) == (0, 1024)
    still.k.now_ns = units * UNIT
    still.call(pelt.update_blocked_queue, se.cfs_rq)
    return se.cfs_rq


def test_a_new_entity_counts_in_full(still):
    se = still.tasks[0].se
    queue = se.cfs_rq
    still.call(pelt.enqueue_load, se)
    assert (se.avg.load_avg, se.avg.util_avg) == (1024, 1024)
    assert (queue.avg.load_avg, queue.runnable_load_avg) == (1024, 1024)
    assert queue.task_group.load_avg == queue.tg_load_contrib == 1024


def test_a_queued_entity_keeps_its_load(still):
    se = still.tasks[0].se
    queue = se.cfs_rq
    still.call(pelt.enqueue_load, se)
    se.on_rq, queue.load_weight, queue.nr_running = 1, 1024, 1
    for ms in range(1, 400):
        still.k.now_ns = ms * UNIT
        still.call(pelt.update_load_avg, se, True)
    # the constant divisor stands for whole periods, and up to one is not over when the average is computed
    assert 1002 <= se.avg.load_avg <= 1024
    assert 1002 <= queue.avg.load_avg <= 1024
    assert queue.runnable_load_avg == queue.avg.load_avg
    assert se.avg.util_avg == 0  # it never ran


def test_sleep_halves_the_load_every_32_periods(still):
    queue = asleep(still, 32)
    assert queue.avg.load_avg == pytest.approx(512, abs=1)
    # update_tg_load_avg() reports what changed by more than 1/64
    assert queue.task_group.load_avg == queue.avg.load_avg


def test_a_migrated_task_takes_its_load_along(still):
    queue, p = asleep(still, 32), still.tasks[0]
    still.call(pelt.migrate, p)  # it is aged to the time at which its queue was last updated
    assert p.se.avg.load_avg == pytest.approx(512, abs=1)
    assert still.call(pelt.is_detached, p.se)
    still.k.now_ns = 33 * UNIT
    still.call(pelt.update_blocked_queue, queue)
    assert queue.avg.load_avg <= 1
    other = on_cpu(still, 1)
    still.k.now_ns = 50 * UNIT
    still.call(pelt.enqueue_load, p.se)
    assert other.avg.load_avg == other.runnable_load_avg == p.se.avg.load_avg


def test_a_new_task_that_is_placed_on_another_cpu_loses_its_load(still):
    p = still.tasks[0]
    queue = p.se.cfs_rq
    still.call(pelt.migrate, p)
    assert (p.se.avg.load_avg, p.se.avg.util_avg, queue.removed_load) == (0, 0, 0)


def test_which_releases_track_load_so():
    tracked = {n: KernelModel.named(n).tracks_load_v4_4 for n in ("v4.1", "v4.3", "v4.4", "v4.9")}
    assert tracked == {"v4.1": False, "v4.3": True, "v4.4": True, "v4.9": False}
    assert KernelModel.named("v4.4").replay_warning is None
    assert "as v4.4 does" in KernelModel.named("v4.3").replay_warning
