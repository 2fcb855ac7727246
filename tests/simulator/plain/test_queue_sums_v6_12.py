"""The averages of a queue are those of its entities, also after tasks exited (kernel/sched/fair.c, v6.12.107)."""

from __future__ import annotations

import pytest
from support.still_v6_12 import V6_12
from support.watched import watched

from wastedcores.simulator.engine.codes import task_state
from wastedcores.simulator.engine.core.schedule_jit import schedule
from wastedcores.simulator.engine.world.structs import CfsRq, TaskStruct
from wastedcores.simulator.engine.world.table import EPOCH_NS
from wastedcores.topology.source import find_machine
from wastedcores.workload import Script, Workload


@pytest.mark.slow
def test_a_root_queue_has_no_more_load_than_its_entities():
    """An entity that sleeps has not decayed yet, so the sum of the entities is an upper bound.

    The children die in the root group, into which an exiting task is moved, and leave its queue's averages (task_dead_fair()).
    """
    w = Workload("exits")
    child = w.template("child", Script().compute(5_000_000))
    main = Script().loop(400).compute(2_000_000).fork(child).end().wait_children(0)
    w.task("main", main, session=w.session())
    checked = 0

    def compare(k, cpu):
        nonlocal checked
        if k.now_ns - EPOCH_NS < 500_000_000:
            return  # until then, the entity of the group counts twice where it was queued for the first time
        q = CfsRq(k, k.cfs_rq0 + cpu)
        tasks = [TaskStruct(k, k.task0 + i) for i in range(k.nr_tasks)]
        entities = [
            p.se for p in tasks if p.state != task_state.DEAD and p.group == 0 and p.cpu == cpu
        ] + [
            CfsRq(k, k.cfs_rq0 + group * k.nr_cpus + cpu).entity
            for group in range(1, k.task_groups)
        ]
        for signal in ("load", "util"):
            most = sum(getattr(se.avg, f"{signal}_avg") for se in entities if se.avg.last_update)
            left = getattr(q, f"removed_{signal}")
            own = getattr(q.avg, f"{signal}_avg")
            assert own <= 1.01 * (most + left) + 16, (k.now_ns, cpu, signal, own, most, left)
        checked += 1

    watched(w.program(), find_machine("guest-4").machine, V6_12, schedule, compare, until_ns=10**10)
    assert checked > 100
