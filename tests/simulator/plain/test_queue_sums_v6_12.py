"""The averages of a queue are those of its entities, also after tasks exited (kernel/sched/fair.c, v6.12.107)."""

from __future__ import annotations

from wastedcores.kernels import KernelModel
from wastedcores.simulator.reference import Kernel, Simulation
from wastedcores.simulator.reference.kernel import EPOCH_NS
from wastedcores.topology.domains import domain_events
from wastedcores.topology.source import find_machine
from wastedcores.workload import Script, Workload

V6_12 = KernelModel.named("v6.12.107")


def test_a_root_queue_has_no_more_load_than_its_entities():
    """An entity that sleeps has not decayed yet, so the sum of the entities is an upper bound.

    The children die in the root group, into which an exiting task is moved, and leave its queue's averages (task_dead_fair()).
    """
    machine = find_machine("guest-4").machine
    w = Workload("exits")
    child = w.template("child", Script().compute(5_000_000))
    main = Script().loop(400).compute(2_000_000).fork(child).end().wait_children(0)
    w.task("main", main, session=w.session())
    program = w.program()
    k = Kernel(machine, V6_12, domain_events(machine, V6_12))
    run = Simulation(k, program, 1)
    checked, switched = 0, k.on_switch

    def compare(rq, prev, task):
        nonlocal checked
        switched(rq, prev, task)
        if k.now_ns - EPOCH_NS < 500_000_000:
            return  # until then, the entity of the group counts twice where it was queued for the first time
        root = k.groups[0]
        alive = [
            t.se
            for t in run.tasks
            if (t.state != "X" or t is rq.curr) and t.tg is root and t.cpu == rq.cpu
        ]
        groups = [tg.se[rq.cpu] for tg in k.groups[1:]]
        for signal in ("load", "util"):
            most = sum(
                getattr(se.avg, f"{signal}_avg") for se in (*alive, *groups) if se.avg.last_update
            )
            left = rq.cfs.removed_load if signal == "load" else rq.cfs.removed_util
            own = getattr(rq.cfs.avg, f"{signal}_avg")
            assert own <= 1.01 * (most + left) + 16, (k.now_ns, rq.cpu, signal, own, most, left)
        checked += 1

    k.on_switch = compare
    run.run(10_000_000_000)
    assert checked > 100
