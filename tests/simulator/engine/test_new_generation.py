"""A generation of its own in one file: three rules differ from those of 6.12.107, two of them as functions."""

from __future__ import annotations

import polars as pl
import pytest
from support.random_runs import Case, difference

from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.kernels import KernelModel, generations, rules
from wastedcores.simulator import replay
from wastedcores.simulator.engine import classes
from wastedcores.simulator.engine.fair.cfs_jit import resched
from wastedcores.simulator.engine.world.rows_jit import cpu_rq
from wastedcores.simulator.engine.world.structs import NO_TASK, Kernel, TaskStruct
from wastedcores.topology.machine import Machine
from wastedcores.workload import Script, Workload
from wastedcores.workload.program import Costs

MS = 1_000_000
VERSION = (6, 17, 99)


@apart(VALUE)
def stay(k: Kernel, p: TaskStruct, flag: int, sync: int) -> int:
    """select_task_rq_fair() of this generation: a task stays on its CPU."""
    return p.cpu


@apart(NOTHING)
def let_run(k: Kernel, cpu: int, p: TaskStruct, new: int) -> None:
    """wakeup_preempt_fair() of this generation: only the idle task gives way."""
    if cpu_rq(k, cpu).curr == NO_TASK:
        resched(k, cpu)


@pytest.fixture
def kernel(monkeypatch):
    """Add the generation: the functions, the rules of a release, and the release among those that are replayed."""
    fair, balancer = classes.STRUCTURES["EEVDF"]
    own = {"wakeup_preempt": let_run}
    structure = (lambda: fair() | own), (lambda: balancer() | {"select_task_rq": stay})
    monkeypatch.setitem(classes.STRUCTURES, "lazy", structure)
    changed = rules.RULES[6, 12, 107]._replace(structure="lazy", idle_ticks_before_stop=1)
    monkeypatch.setitem(rules.RULES, VERSION, changed)
    monkeypatch.setattr(generations, "REPLAYED", generations.REPLAYED | {VERSION})
    return KernelModel.named("v6.17.99")


def crowd() -> Workload:
    """Threads that sleep and wake on two of four CPUs."""
    w = Workload("crowd", random_phase=False)
    for i in range(6):
        w.task(f"t{i}", Script().loop(10).compute(MS).sleep(MS // 2, 3 * MS).end(), cpu=i % 2)
    return w


def placed(trace) -> int:
    """How many times a thread was placed on another CPU than its own when it was born or woke."""
    placements = trace.only("wakeup", "wakeup_new").collect()
    return placements.filter(pl.col("src_cpu") != pl.col("cpu")).height


def test_its_rules_hold_in_a_replay(kernel):
    own, usual = (replay(crowd(), "uma8", k).trace for k in (kernel, "v6.12.107"))
    stays, moves = (placed(t) for t in (own, usual))
    assert stays == 0
    assert moves > 0


def test_both_ways_of_running_it_agree(kernel):
    case = Case(Machine.preset("uma8"), kernel, crowd().program(), Costs(), 1, 200 * MS, considered=True)  # fmt: skip
    assert not (text := difference(case)), text


def test_it_is_a_kernel_like_all_others(kernel):
    assert kernel.is_replayed
    assert "v6.17.99" in generations.replayed()
    assert kernel.rules.idle_ticks_before_stop == 1
