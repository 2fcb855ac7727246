"""The recorded pass does what the reference does, and bad threads get one sentence."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from wastedcores.errors import WorkloadError
from wastedcores.lecture import TOPOLOGIES
from wastedcores.simulator.reference import balance, stats
from wastedcores.simulator.reference.stepping import Thread, balancing_pass, still_kernel

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
    k, tasks = still_kernel(machine, kernel, threads)
    k.cpu = cpu
    idle = stats.IDLE if k.idle_cpu(cpu) else stats.NOT_IDLE
    moved, _ = balance.load_balance(k, cpu, k.rqs[cpu].sd[0], idle)
    assert moved == sum(len(d.moved) for d in first)
    where = {i: c for c, queue in enumerate(first[-1].queues) for i in queue}
    assert [p.cpu for p in tasks] == [where[i] for i in range(len(tasks))]


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


@pytest.mark.parametrize(
    "thread",
    [Thread(9), Thread(0, allowed=(1,)), Thread(0, weight=0), Thread(0, weight=401), Thread(0, percent=101),
     Thread(0, session_threads=0)],
)  # fmt: skip
def test_a_thread_that_cannot_be_is_refused(thread):
    with pytest.raises(WorkloadError, match=r"thread 1 .* expected"):
        still_kernel(TOPOLOGIES["2 nodes x 2 cores"], "v4.1", [Thread(0), thread])
