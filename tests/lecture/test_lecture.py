"""The lecture's examples give the numbers that the slides of the talk print."""

from __future__ import annotations

from dataclasses import replace

import pytest

from wastedcores.lecture import (
    EXAMPLES,
    TOPOLOGIES,
    pinned_to_two_nodes,
    threads_per_node_after_wakeup,
)
from wastedcores.simulator.plain.stepping import (
    Thread,
    balancing_pass,
    groups_seen,
    still_kernel,
    time_slices,
)
from wastedcores.topology.domains import build_domains
from wastedcores.topology.machine import Machine

NODES = ((0, 1), (2, 3))


def averages(d):
    return tuple(d.average(node) for node in NODES)


def cpu_loads(d):
    return [d.cpu_load(c) for c in range(4)]


def load_of(**thread):
    machine = TOPOLOGIES["2 nodes x 2 cores"]
    return still_kernel(machine, "v4.1", [Thread(0, **thread)]).tasks[0].se.load_avg_contrib


@pytest.mark.parametrize("percent", range(1, 101))
def test_load_is_weight_times_share_of_cpu(percent):
    assert load_of(weight=10, percent=percent) == 10 * percent
    assert load_of(weight=400, percent=percent) == 400 * percent


def test_loads_of_the_sessions():
    assert load_of(session_threads=1) == 1000
    assert load_of(session_threads=4) == 250
    assert load_of(session_threads=8) == 125


def test_time_slice_grows_with_the_weight():
    slices = time_slices((0, 0, -5))
    (light, short), _, (heavy, long) = slices
    assert (light, heavy) == (1024, 3121)
    assert long / short == pytest.approx(heavy / light, rel=1e-5)
    # together they are sysctl_sched_latency of one CPU, 6 ms, and each slice is rounded down
    assert 6_000_000 - 10 < sum(ns for _, ns in slices) <= 6_000_000


def test_averages_2500_and_3500_become_3000_and_3000():
    steps = EXAMPLES["averages of groups"].decisions()
    compared = next(d for d in steps if d.level.startswith("NUMA"))
    assert (compared.line, averages(compared)) == (13, (2500, 3500))
    assert [g.average for g in compared.groups] == [2500, 3500]
    assert averages(steps[-1]) == (3000, 3000)
    assert cpu_loads(steps[-1]) == [3000] * 4


def test_nothing_happens_above_a_level_that_fails():
    steps = EXAMPLES["a level that fails"].decisions(passes=3)
    assert not any(d.moved for d in steps)
    assert averages(steps[-1]) == (3000, 3000)
    assert not steps[-1].queues[1]
    assert 21 in {d.line for d in steps}


def test_sessions_share_fairly_only_with_the_division():
    assert not any(d.moved for d in EXAMPLES["sessions"].decisions())
    alone = EXAMPLES["without sessions"].decisions()[-1]
    assert len(alone.queues[0]) > 1


def test_group_imbalance_leaves_a_core_idle_at_500_and_500():
    example = EXAMPLES["group imbalance"]
    steps = example.decisions(passes=5)
    assert set(steps[0].loads) == {1000, 125}
    upper = [d for d in steps if d.cpu == 1 and d.level.startswith("NUMA")]
    assert [(d.line, d.reason) for d in upper] == [(16, "average")]
    assert [(g.average, g.least) for g in upper[0].groups] == [(500, 0), (500, 500)]
    assert cpu_loads(steps[-1]) == [1000, 0, 500, 500]


def test_the_minimum_fills_the_idle_core_and_does_not_settle():
    example = EXAMPLES["group imbalance, minimum"]
    first = example.decisions(passes=1)
    assert all(first[-1].queues)
    moved = [sum(len(d.moved) for d in example.decisions(passes=n)) for n in (1, 2, 3, 4)]
    assert moved == sorted(set(moved)), "every pass moves threads"
    average = replace(example, kernel="v4.1")
    assert not any(d.moved for d in average.decisions(passes=4))


def test_both_groups_of_core_0_have_the_load_of_16_threads():
    machine, threads = pinned_to_two_nodes()
    _, groups = groups_seen(machine, "v4.1", threads, cpu=0)[-1]
    assert [g.total for g in groups] == [16 * 1000] * 2
    per_node = {}
    for kernel in ("v4.1", "v4.1+group_construction:patch"):
        queues = balancing_pass(machine, kernel, threads)[-1].queues
        per_node[kernel] = [sum(len(queues[c]) for c in machine.cpus_of_node(n)) for n in (1, 2)]
    assert list(per_node.values()) == [[16, 0], [8, 8]]


def test_levels_are_lost_after_hotplug():
    big = Machine.preset("bulldozer8x8")
    small, after = (
        TOPOLOGIES[n] for n in ("2 nodes x 2 cores", "2 nodes x 2 cores, CPU 3 was offline")
    )
    for before, then, levels in ((big, big.offline(1).online(1), (4, 2)), (small, after, (2, 1))):
        assert tuple(len(build_domains(m, "v4.1").of(0)) for m in (before, then)) == levels
    lost = EXAMPLES["missing domains"]
    assert not any(lost.decisions(passes=5)[-1].queues[2:])
    fixed = replace(lost, kernel="v4.1+missing_domains")
    assert all(len(q) == 2 for q in fixed.decisions(passes=5)[-1].queues)


def test_the_ninth_thread_wakes_up_on_its_node():
    assert threads_per_node_after_wakeup("v4.1") == (9, 7)
    assert threads_per_node_after_wakeup("v4.1+overload_on_wakeup") == (8, 8)
