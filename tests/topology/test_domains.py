"""Properties of all domains, and a comparison with a construction without any shortcuts."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import domain_naive as naive
from support.domain_machines import KERNELS, machines, machines_after_hotplug

from wastedcores.kernels import KernelModel
from wastedcores.topology import levels as lv
from wastedcores.topology.domains import build_domains, domain_events
from wastedcores.topology.levels import sched_distance
from wastedcores.topology.machine import Machine
from wastedcores.topology.presets import PRESETS, grid, preset

kernels = st.sampled_from(KERNELS).flatmap(
    lambda name: st.booleans().map(lambda debug: KernelModel.named(name, sched_debug=debug))
)


def same_as_naive(machine, kernel):
    for ours in domain_events(machine, kernel):
        m = ours.machine
        theirs = naive.build(ours.levels, m.online_cpus, range(m.cpus), kernel, m.nodes == 1)
        for cpu in m.online_cpus:
            mine = [
                (d.level, d.cpus, [(g.cpus, g.mask_cpus, g.sgc) for g in d.groups])
                for d in ours.of(cpu)
            ]
            assert mine == theirs[cpu], f"{kernel.name} {ours.when} cpu {cpu}"


@pytest.mark.slow
@given(machines_after_hotplug(), kernels)
@settings(max_examples=300)
def test_random_machines_as_the_plain_construction(machine, kernel):
    same_as_naive(machine, kernel)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["v4.1", "v4.1+group_construction", "v4.14", "v6.1"])
@pytest.mark.parametrize("name", ["bulldozer8x8", "ring8", "epyc-7742-nps4", "xeon-8380-snc2"])
def test_presets_as_the_plain_construction(name, kernel):
    same_as_naive(preset(name), KernelModel.named(kernel))


@given(machines_after_hotplug(), kernels)
@settings(max_examples=150)
def test_spans_nest_groups_cover_and_own_group_is_first(machine, kernel):
    doms = build_domains(machine, kernel)
    online = set(machine.online_cpus)
    for cpu in range(machine.cpus):
        inner = {cpu}
        assert cpu in online or not doms.of(cpu)
        for d in doms.of(cpu):
            span = set(d.cpus)
            assert inner <= span <= online
            assert d.weight == len(span) > 1
            assert cpu in d.groups[0].cpus
            assert span <= set().union(*(g.cpus for g in d.groups))
            assert len({(g.span, g.sgc) for g in d.groups}) == len(d.groups)
            inner = span


@given(machines(asymmetric=False), st.sampled_from(("v4.13", "v6.1")))
@settings(max_examples=60)
def test_every_group_since_4_13_has_a_balance_cpu_that_sees_it(machine, kernel):
    doms = build_domains(machine, kernel)
    for cpu in doms.cpus:
        for d in doms.of(cpu):
            for g in d.groups:
                assert g.balance_cpu >= 0
                assert g.mask & ~g.span == 0


def renumbered(machine, new):
    """Return the machine with CPU c renamed to ``new[c]``."""
    old = np.argsort(new)
    fields = {
        k: getattr(machine, k)[old]
        for k in ("node_of_cpu", "package_of_cpu", "core_of_cpu", "llc_of_cpu", "l2_of_cpu")
    }
    return dataclasses.replace(machine, **fields)


def structure(machine, kernel, new=None):
    """Return the domains of each CPU as sets, with the CPU numbers ``new``."""
    names = np.arange(machine.cpus) if new is None else np.asarray(new)
    doms = build_domains(machine, kernel)
    return {
        int(names[c]): [
            (
                d.level,
                frozenset(names[d.cpus].tolist()),
                {frozenset(names[g.cpus].tolist()) for g in d.groups},
            )
            for d in doms.of(c)
        ]
        for c in doms.cpus
    }


@pytest.mark.slow
@given(
    st.sampled_from(("bulldozer8x8", "ring8", "uma8", "xeon-8380-snc2")),
    st.sampled_from(KERNELS),
    st.data(),
)
@settings(max_examples=40)
def test_swapping_alike_cpus_of_a_core_or_cores_of_a_cache_renumbers_the_result(name, kernel, data):
    machine = preset(name)
    core = machine.core_of_cpu
    llc = data.draw(st.sampled_from(sorted(set(machine.llc_of_cpu.tolist()))))
    cores = sorted(set(core[machine.llc_of_cpu == llc].tolist()))
    target = dict(zip(cores, data.draw(st.permutations(cores)), strict=True))
    new = np.arange(machine.cpus)
    for a, b in target.items():
        new[np.flatnonzero(core == a)] = np.flatnonzero(core == b)
    assert structure(renumbered(machine, new), kernel) == structure(machine, kernel, new)


@pytest.mark.parametrize("turn", [1, 3])
@pytest.mark.parametrize("kernel", ["v4.1", "v4.13", "v6.1"])
def test_turning_a_ring_renumbers_the_domains(kernel, turn):
    # groups of the old kernels begin at CPU 0, so only their spans follow the renaming
    machine = preset("ring8")
    new = (np.arange(machine.cpus) + 2 * turn) % machine.cpus
    turned, plain = structure(machine, kernel, new), structure(machine, kernel)
    for cpu, domains in plain.items():
        assert [d[:2] for d in domains] == [d[:2] for d in turned[cpu]]
        if kernel == "v4.13":
            assert domains[1] == turned[cpu][1]


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("kernel", ["v4.1", "v6.1"])
def test_presets_build_and_one_cpu_sees_all(name, kernel):
    doms = build_domains(preset(name), kernel)
    assert all(doms.of(c)[-1].weight == len(doms.cpus) for c in doms.cpus)


def test_levels_by_release():
    machine = preset("epyc-7742-nps4")
    names = {
        k: [d.level for d in build_domains(machine, k).of(0)]
        for k in ("v4.1", "v4.14", "v4.15", "v6.1")
    }
    assert names["v4.1"] == names["v4.14"] == ["SMT", "MC", "NUMA", "NUMA"]
    assert names["v4.15"] == names["v6.1"] == ["SMT", "MC", "NODE", "NUMA", "NUMA"]
    one = preset("epyc-7742-nps1")
    assert [d.level for d in build_domains(one, "v6.6").of(0)] == ["SMT", "MC", "DIE", "NUMA"]
    assert [d.level for d in build_domains(one, "v6.7").of(0)] == ["SMT", "MC", "PKG", "NUMA"]


def test_cluster_level_where_l2_is_shared_beyond_a_core():
    machine = dataclasses.replace(preset("uma8"), l2_of_cpu=np.arange(8) // 4)
    assert [d.level for d in build_domains(machine, "v6.1").of(0)] == ["CLS", "MC"]
    assert [d.level for d in build_domains(machine, "v5.15").of(0)] == ["MC"]


def test_sd_init_numbers_of_v4_1():
    smt, mc, near, far = build_domains(preset("bulldozer8x8"), "v4.1").of(0)
    assert (smt.imbalance_pct, mc.imbalance_pct, near.imbalance_pct) == (110, 117, 125)
    assert (smt.smt_gain, mc.smt_gain) == (1178, 0)
    assert (near.busy_idx, near.idle_idx, mc.busy_idx, near.cache_nice_tries) == (3, 2, 2, 2)
    assert (far.min_interval, far.max_interval, far.busy_factor, far.distance) == (64, 128, 32, 22)
    assert smt.has(lv.SD_PREFER_SIBLING)
    assert not mc.has(lv.SD_PREFER_SIBLING)
    with pytest.raises(AttributeError):
        _ = smt.no_such_number


def test_far_numa_levels_do_not_spread_forks():
    d = build_domains(preset("epyc-7742-nps1"), "v4.1").of(0)[-1]
    assert d.distance == 32
    assert not d.has(lv.SD_BALANCE_FORK)
    assert not d.has(lv.SD_WAKE_AFFINE)


def test_zen_spreads_forks_to_the_other_socket_from_5_4():
    machine = preset("epyc-7742-nps1")
    for kernel, spreads in (("v5.3", False), ("v5.4", True), ("v6.12.107", True), ("v7.2", True)):
        top = build_domains(machine, kernel).of(0)[-1]
        assert top.distance == 32
        assert {
            top.has(f) for f in (lv.SD_BALANCE_FORK, lv.SD_BALANCE_EXEC, lv.SD_WAKE_AFFINE)
        } == {spreads}
    other = dataclasses.replace(machine, microarchitecture="")
    assert not build_domains(other, "v6.12").of(0)[-1].has(lv.SD_BALANCE_FORK)


def test_weight_of_the_leaving_cpu_counts_for_intervals_before_7_1():
    machine = preset("uma8").offline(7)
    for kernel, weight in (("v4.1", 8), ("v4.14", 8), ("v6.12", 8), ("v7.0", 8), ("v7.2", 7)):
        assert build_domains(machine, kernel).of(0)[-1].min_interval == weight


def test_isolated_cpus_count_for_intervals_before_7_1():
    machine = dataclasses.replace(preset("uma8"), isolated=(6, 7))
    assert [build_domains(machine, k).of(0)[-1].min_interval for k in ("v6.12", "v7.2")] == [8, 6]


#: what two sockets of Granite Rapids with three nodes each report, and what 7.2 makes of it (x86/topo: 528d89a4707e)
SNC3 = [
    [10, 15, 17, 21, 28, 26],
    [15, 10, 15, 23, 26, 23],
    [17, 15, 10, 26, 23, 21],
    [21, 28, 26, 10, 15, 17],
    [23, 26, 23, 15, 10, 15],
    [26, 23, 21, 17, 15, 10],
]


@pytest.mark.parametrize(
    ("kernel", "microarchitecture", "levels"),
    [
        ("v6.18", "granite-rapids", 4 + 2),
        ("v6.19", "granite-rapids", 1 + 2),
        ("v7.2", "granite-rapids", 1 + 2),
        ("v7.2", "clearwater-forest", 1 + 2),
        ("v7.2", "", 4 + 2),
    ],
)
def test_remote_distances_of_granite_rapids_are_averaged(kernel, microarchitecture, levels):
    machine = grid("gnr", packages=2, nodes_per_package=3, cores_per_llc=2)
    machine = dataclasses.replace(
        machine, distance=np.array(SNC3), asymmetric=True, microarchitecture=microarchitecture
    )
    found = sched_distance(machine, KernelModel.named(kernel))
    assert len(set(found.ravel().tolist())) - 1 == levels
    if levels == 3:
        assert set(found[:3, 3:].ravel().tolist()) == set(found[3:, :3].ravel().tolist()) == {24}
    assert (found[:3, :3] == machine.distance[:3, :3]).all()


def test_two_nodes_per_package_are_averaged_in_6_19_only():
    table = [[10, 12, 21, 23], [12, 10, 23, 21], [21, 23, 10, 12], [23, 21, 12, 10]]
    machine = grid("gnr", packages=2, nodes_per_package=2, cores_per_llc=2, distance=table)
    machine = dataclasses.replace(machine, microarchitecture="granite-rapids")
    remote = [
        sched_distance(machine, KernelModel.named(k))[0, 2:].tolist()
        for k in ("v6.18", "v6.19", "v7.2")
    ]
    assert remote == [[21, 23], [22, 22], [21, 23]]


def test_a_table_that_is_asymmetric_inside_a_package_is_not_averaged():
    table = np.array(SNC3)
    table[0, 1] = 16
    machine = grid("gnr", packages=2, nodes_per_package=3, cores_per_llc=2)
    machine = dataclasses.replace(
        machine, distance=table, asymmetric=True, microarchitecture="granite-rapids"
    )
    assert (sched_distance(machine, KernelModel.named("v7.2")) == table).all()


def test_isolated_cpus_have_no_domain():
    machine = dataclasses.replace(preset("uma8"), isolated=(6, 7))
    doms = build_domains(machine, "v6.1")
    assert doms.of(7) == ()
    assert doms.of(0)[0].cpus == [0, 1, 2, 3, 4, 5]


def test_shortcuts_of_update_top_cache_domain():
    doms = build_domains(preset("bulldozer8x8"), "v4.1")
    _, mc, near, _ = doms.of(9)
    assert (doms.sd_llc(9), doms.sd_busy(9), doms.sd_numa(9)) == (mc, near, near)
    one = build_domains(preset("uma8"), "v4.1")
    assert one.sd_busy(0) is None
    assert one.sd_numa(0) is None
    assert build_domains(Machine.from_dict({"cpus": 1}), "v4.1").sd_llc(0) is None
    assert build_domains(Machine.from_dict({"cpus": 1}), "v4.1").sd_busy(0) is None


def test_last_cpu_of_a_node_takes_its_distances_along_since_5_18():
    # only node 2 is far away; without it the machine has one distance less
    machine = Machine.from_dict(
        {"node_of_cpu": [0, 1, 2], "distance": [[10, 20, 40], [20, 10, 40], [40, 40, 10]]}
    )
    for kernel, levels in (("v5.15", 4), ("v6.1", 3)):
        doms = build_domains(machine.offline(2), kernel)
        assert len([x for x in doms.levels if x.name in ("NUMA", "NODE")]) == levels - 1
        assert doms.of(0)[-1].cpus == [0, 1]
        assert build_domains(machine.offline(2).online(2), kernel).of(0)[-1].cpus == [0, 1, 2]
