"""The load metric of Linux 4.4: its arithmetic by hand, on the engine as plain Python."""

from __future__ import annotations

import pytest

from wastedcores.kernels import KernelModel
from wastedcores.simulator.engine.fair import entity_jit
from wastedcores.simulator.engine.fair import pelt_v4_4_jit as pelt
from wastedcores.simulator.plain.still import Still
from wastedcores.topology.machine import Machine
from wastedcores.workload.program import TaskSpec

#: 1 ms as load tracking counts it
UNIT = 1024 * 1024


class Queue:
    """The queue of a task group on CPU 0 of two, with one new task."""

    def __init__(self):
        machine = Machine.from_dict(
            {"name": "two", "cpus": 2, "node_of_cpu": [0, 0], "distance": [[10]]}
        )
        tasks = [TaskSpec("e", (), group=1)]
        self.s = Still(machine, KernelModel.named("v4.4"), tasks, shares=(1024, 1024))
        (self.p,) = self.s.tasks
        self.begin = self.s.k.now_ns = 1 << 40
        self.s.call(pelt.new_entity, self.p.se)
        self.move(0)

    def move(self, cpu):
        """Assign the task to the queue of a CPU."""
        self.s.call(entity_jit.set_task_rq, self.p, cpu)
        self.q = self.p.se.cfs_rq
        self.q.avg.last_update = self.s.k.now_ns

    def enqueue(self):
        self.s.call(pelt.enqueue_load, self.p.se)

    def sleep(self):
        self.s.call(pelt.dequeue_load, self.p.se)

    def after(self, ms, function, *about):
        """Let time pass since the beginning, and call a function."""
        self.s.k.now_ns = self.begin + ms * UNIT
        self.s.call(function, *about)


@pytest.fixture
def queue():
    return Queue()


def test_a_new_entity_counts_in_full(queue):
    queue.enqueue()
    q, avg = queue.q, queue.p.se.avg
    assert (avg.load_avg, avg.util_avg) == (1024, 1024)
    assert (q.avg.load_avg, q.runnable_load_avg) == (1024, 1024)
    assert q.task_group.load_avg == q.tg_load_contrib == 1024


def test_a_queued_entity_keeps_its_load(queue):
    queue.enqueue()
    q, se = queue.q, queue.p.se
    se.on_rq, q.load_weight, q.nr_running = 1, 1024, 1
    for ms in range(1, 400):
        queue.after(ms, pelt.update_load_avg, se, 1)
    # the constant divisor stands for whole periods, and up to one is not over when the average is computed
    assert 1002 <= se.avg.load_avg <= 1024
    assert 1002 <= q.avg.load_avg <= 1024
    assert q.runnable_load_avg == q.avg.load_avg
    assert se.avg.util_avg == 0  # it never ran


def test_sleep_halves_the_load_every_32_periods(queue):
    queue.enqueue()
    queue.sleep()
    q = queue.q
    assert (q.runnable_load_avg, q.avg.load_avg) == (0, 1024)
    queue.after(32, pelt.update_blocked_queue, q)
    assert q.avg.load_avg == pytest.approx(512, abs=1)
    # update_tg_load_avg() reports what changed by more than 1/64
    assert q.task_group.load_avg == q.avg.load_avg


def test_a_migrated_task_takes_its_load_along(queue):
    queue.enqueue()
    queue.sleep()
    q, se = queue.q, queue.p.se
    queue.after(32, pelt.update_blocked_queue, q)
    queue.after(40, pelt.migrate, queue.p)  # it is aged to the last update of its queue
    assert se.avg.load_avg == pytest.approx(512, abs=1)
    assert queue.s.call(pelt.is_detached, se)
    queue.after(33, pelt.update_blocked_queue, q)
    assert q.avg.load_avg <= 1
    queue.move(1)
    queue.after(50, pelt.enqueue_load, se)
    assert queue.q != q
    assert queue.q.avg.load_avg == queue.q.runnable_load_avg == se.avg.load_avg


def test_a_new_task_that_is_placed_on_another_cpu_loses_its_load(queue):
    queue.s.call(pelt.migrate, queue.p)
    avg = queue.p.se.avg
    assert (avg.load_avg, avg.util_avg, queue.q.removed_load) == (0, 0, 0)


def test_which_releases_track_load_so():
    tracked = {n: KernelModel.named(n).tracks_load_v4_4 for n in ("v4.1", "v4.3", "v4.4", "v4.9")}
    assert tracked == {"v4.1": False, "v4.3": True, "v4.4": True, "v4.9": False}
    assert KernelModel.named("v4.4").replay_warning is None
    assert "as v4.4 does" in KernelModel.named("v4.3").replay_warning
