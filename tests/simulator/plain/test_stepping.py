"""The recorded pass does what the engine does, own decisions are asked, and bad threads get one sentence."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from wastedcores.errors import WorkloadError
from wastedcores.lecture import TOPOLOGIES
from wastedcores.simulator.engine.balance import load_balance_v4_1_jit
from wastedcores.simulator.engine.codes import idle_type, log_op
from wastedcores.simulator.engine.fair import load_jit
from wastedcores.simulator.plain.stepping import Thread, balancing_pass, still_kernel

KERNELS = ("v4.1", "v4.1+group_imbalance", "v4.1+group_construction:patch")


def some_threads(rng):
    return [
        Thread(
            rng.randrange(4), rng.randint(1, 40), rng.randint(1, 100), rng.choice((1, 1, 4, 8)),
        )
        for _ in range(rng.randrange(1, 16))
    ]  # fmt: skip


@pytest.mark.parametrize("seed", range(60))
def test_watching_changes_nothing(seed):
    rng = random.Random(seed)
    machine, kernel = rng.choice(list(TOPOLOGIES.values())), rng.choice(KERNELS)
    threads, cpu = some_threads(rng), rng.randrange(4)
    steps = balancing_pass(machine, kernel, threads, cpus=[cpu])
    first = [d for d in steps[1:] if d.level == steps[1].level]
    still = still_kernel(machine, kernel, threads)
    still.k.this_cpu = cpu
    idle = idle_type.IDLE if still.call(load_jit.idle_cpu, cpu) else idle_type.NOT_IDLE
    sd = still.k.rqs[cpu].sd
    moved = still.call(load_balance_v4_1_jit.load_balance, cpu, sd, idle, log_op.PERIODIC)
    assert max(moved, 0) == sum(len(d.moved) for d in first)
    where = {i: c for c, queue in enumerate(first[-1].queues) for i in queue}
    assert [p.cpu for p in still.tasks] == [where[i] for i in range(len(threads))]


@pytest.mark.parametrize("seed", range(60))
def test_every_decision_follows_from_the_queues(seed):
    rng = random.Random(seed)
    machine = rng.choice(list(TOPOLOGIES.values()))
    steps = balancing_pass(machine, rng.choice(KERNELS), some_threads(rng), passes=3)
    for before, d in pairwise(steps):
        assert sorted(i for q in d.queues for i in q) == list(range(len(d.loads)))
        assert {
            i for q, r in zip(before.queues, d.queues, strict=True) for i in set(r) - set(q)
        } == set(d.moved)
        assert d.loads == before.loads
        assert bool(d.moved) == (d.reason == "moved")
        for g in d.groups:
            seen = [c for c in g.cpus if not (d.reason != "moved" and before.reason == "tasksets")]
            assert not seen or g.total == sum(d.cpu_load(c) for c in seen)
        if d.reason == "average":
            local = next(g for g in d.groups if g.local)
            busiest = next(g for g in d.groups if g.cpus == d.source)
            assert busiest.average <= local.average


def test_decisions_of_somebodys_own_are_asked_and_written_down():
    asked = []

    def never(k, env, group):
        asked.append(env.dst_cpu)
        return -1

    machine = TOPOLOGIES["2 nodes x 2 cores"]
    steps = balancing_pass(machine, "v4.1", [Thread(0)] * 3, policies={"find_busiest_queue": never})
    assert [d.cpu for d in steps if d.reason == "no queue"] == asked != []
    assert not any(d.moved for d in steps)


@pytest.mark.parametrize(
    "thread",
    [Thread(9), Thread(0, allowed=(1,)), Thread(0, weight=0), Thread(0, weight=401), Thread(0, percent=101),
     Thread(0, session_threads=0)],
)  # fmt: skip
def test_a_thread_that_cannot_be_is_refused(thread):
    with pytest.raises(WorkloadError, match=r"thread 1 .* expected"):
        still_kernel(TOPOLOGIES["2 nodes x 2 cores"], "v4.1", [Thread(0), thread])


@pytest.mark.parametrize("kernel", ["v4.4", "v6.12.107"])
def test_kernels_with_other_loads_are_refused(kernel):
    with pytest.raises(WorkloadError, match=r"expected v4\.1, with fixes or without"):
        still_kernel(TOPOLOGIES["2 nodes x 2 cores"], kernel, [Thread(0)])
