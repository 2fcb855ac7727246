"""The strategies of the fork/wait paper, and the modules that stand for what it leaves to future work."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

from wastedcores.simulator import Replay, replay
from wastedcores.topology.clocks import Frequency
from wastedcores.topology.presets import grid
from wastedcores.workload import Script, Workload

MS = 1_000_000
TURBO = Frequency(1_200_000, 2_100_000, ((1, 3_000_000), (4, 2_600_000)))
MACHINE = replace(grid("two-sockets", packages=2, cores_per_llc=4), frequency=TURBO)


def chain(kernel: str, forks: int = 60, at_once: int = 1) -> Replay:
    """A parent that forks some children, waits for them, and forks again, as make and sh do."""
    w = Workload("chain", random_phase=False)
    child = w.template("child", Script().compute(3 * MS))
    parent = Script().loop(forks).compute(MS)
    for _ in range(at_once):
        parent = parent.fork(child)
    w.task("parent", parent.wait_children(0).end())
    return replay(w, MACHINE, kernel)


def cpus_used(r: Replay) -> int:
    """On how many CPUs tasks of the workload ran."""
    switches = r.trace.events.filter(pl.col("kind") == "switch", pl.col("pid") > MACHINE.cpus)
    return switches.select(pl.col("cpu").n_unique()).collect().item()


def test_a_chain_of_forks_and_waits_stays_on_one_fast_cpu():
    cfs, first, second = (chain(f"v4.1{s}") for s in ("", "+fork_wait:1", "+fork_wait:2"))
    assert cpus_used(cfs) >= 4
    assert cpus_used(first) == cpus_used(second) == 1
    # the first 12 ms are slow, and then one core of the package runs at 3.0 instead of 1.2 GHz
    assert first.makespan_ns == pytest.approx(60 * 4 * MS * 0.7 + 12 * MS, rel=0.05)
    assert first.makespan_ns < 0.6 * cfs.makespan_ns


def test_strategy_1_leaves_a_second_child_to_cfs_and_strategy_2_does_not():
    first, second = (chain(f"v4.1+fork_wait:{n}", 1, 3) for n in (1, 2))

    def starts(r):
        forks = r.trace.events.filter(pl.col("kind") == "wakeup_new", pl.col("by_pid") > 0)
        return forks.select("cpu", "src_cpu").collect().rows()

    assert [cpu == src for cpu, src in starts(first)] == [True, False, False]
    assert all(cpu == src for cpu, src in starts(second))
    assert cpus_used(second) > 1  # load balancing disperses them


@pytest.mark.filterwarnings("ignore::wastedcores.errors.ModelWarning")
def test_from_v4_17_on_a_child_stays_on_its_parents_node_until_that_has_a_margin_more():
    """The margin is a quarter of a task per CPU: on nodes of four CPUs one task more is within it, and two are not."""

    def stays(kernel):
        forks = chain(kernel, 1, 4).trace.events.filter(pl.col("kind") == "wakeup_new")
        both = forks.filter(pl.col("by_pid") > 0).select("cpu", "src_cpu").collect()
        node = MACHINE.node_of_cpu
        return [bool(node[cpu] == node[src]) for cpu, src in both.rows()]

    assert stays("v4.16") == [False, True, False, True]
    assert stays("v4.17") == stays("v5.4") == [True, False, True, False]


def test_the_core_refuses_a_child_on_its_parents_cpu_while_others_are_idle():
    """The parent runs until it waits, so the fork flag breaks the rule of the core for a microsecond."""
    r = chain("core+fork_flag")
    (row,) = r.suggestions.filter(module="fork_flag", moment="fork").to_dicts()
    assert (row["asked"], row["silent"], row["refused"]) == (61, 1, 60)


def test_the_fastest_idle_core_is_found():
    plain, fast = chain("core"), chain("core+fast_core")
    assert fast.makespan_ns <= plain.makespan_ns
    answers = fast.suggestions.filter(module="fast_core")
    assert answers["taken"].sum() > 0
    ticks = fast.trace.events.filter(kind="tick").collect()
    assert ticks["value"].max() == 3_000_000
