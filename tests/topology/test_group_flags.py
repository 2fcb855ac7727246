"""What the balancer of today's kernels reads beside flags and spans: sg->flags and sd->imb_numa_nr."""

from __future__ import annotations

import pytest

from wastedcores.topology import levels as lv
from wastedcores.topology.domains import build_domains
from wastedcores.topology.group_flags import group_flags
from wastedcores.topology.machine import Machine

LLC, SIBLING, CLUSTER = lv.SD_SHARE_PKG_RESOURCES, lv.SD_PREFER_SIBLING, lv.SD_CLUSTER


def machine(nodes, per_node, threads=1, llcs=1, l2=None, distance=None, packages=None):
    cpus = range(nodes * per_node)
    plain = [[10 if a == b else 20 for b in range(nodes)] for a in range(nodes)]
    return Machine.from_dict(
        {
            "name": "m",
            "cpus": len(cpus),
            "node_of_cpu": [c // per_node for c in cpus],
            "package_of_cpu": [c * (packages or nodes) // len(cpus) for c in cpus],
            "distance": distance or plain,
            "core_of_cpu": [c // threads for c in cpus],
            "llc_of_cpu": [c * llcs // per_node for c in cpus],
            "l2_of_cpu": [c // (l2 or threads) for c in cpus],
        }
    )


def line(nodes):
    return [[10 + 10 * abs(a - b) for b in range(nodes)] for a in range(nodes)]


@pytest.mark.parametrize(
    ("m", "allowances"),
    [
        (machine(2, 32), {"NUMA": [4]}),
        (machine(2, 64, llcs=8), {"PKG": [8], "NUMA": [8]}),
        (machine(2, 4), {"NUMA": [1]}),
        # the first NUMA level spans two nodes and is the unit
        (machine(4, 8, distance=line(4)), {"NUMA": [1, 1, 2]}),
        (machine(4, 16, llcs=2, distance=line(4)), {"PKG": [2], "NUMA": [2, 2, 4]}),
        # two nodes per package, so NODE is the level above the LLC
        (machine(4, 32, packages=2), {"NUMA": [4]}),
        (machine(1, 8, llcs=2), {"PKG": [2]}),
    ],
)
def test_how_many_tasks_a_node_may_have_before_a_small_imbalance_counts(m, allowances):
    by_level: dict[str, list[int]] = {}
    for d in build_domains(m, "v6.12.107").of(0):
        if not d.has(LLC):
            by_level.setdefault(d.level, []).append(d.imb_numa_nr)
    assert by_level == allowances


def test_kernels_before_5_18_have_no_allowance():
    assert {d.imb_numa_nr for d in build_domains(machine(2, 32), "v4.1").of(0)} == {0}


def flags_of(m, level, cpu=0, kernel="v6.12.107"):
    domains = build_domains(m, kernel)
    return group_flags(domains, cpu, next(d for d in domains.of(cpu) if d.level == level))


def test_a_group_has_the_flags_of_the_domain_below():
    smt = machine(2, 8, threads=2)
    assert flags_of(smt, "SMT") == [0, 0]
    mc = flags_of(smt, "MC")
    assert len(mc) == 4
    assert all(f & lv.SD_SHARE_CPUCAPACITY for f in mc)


def test_the_own_group_follows_when_degenerate_levels_are_removed():
    """PKG and NODE repeat the LLC. The local group gets the flags of MC, and remote ones keep those of NODE."""
    local, remote = flags_of(machine(2, 8, threads=2), "NUMA")
    assert local & LLC
    assert not remote & LLC
    assert local & remote & SIBLING


def test_groups_of_single_cpus_have_no_flags():
    assert flags_of(machine(1, 4), "MC") == [0, 0, 0, 0]


def test_clusters():
    assert flags_of(machine(1, 8, l2=4), "MC")[0] & CLUSTER


def test_groups_that_do_not_overlap_agree_on_all_cpus():
    """A single core in a node leaves its cluster: its group has no flags, whatever CPU looks at it."""
    m = machine(1, 6, l2=4)
    seen = [flags_of(m, "MC", cpu) for cpu in range(6)]
    assert [sorted(f) for f in seen] == [sorted(seen[0])] * 6
    own = flags_of(m, "MC", 0)
    assert flags_of(m, "MC", 4) == own[::-1]


def test_farther_levels_have_groups_without_prefer_sibling():
    flags = flags_of(machine(4, 4, distance=line(4)), "NUMA")
    assert all(f & SIBLING for f in flags)
    domains = build_domains(machine(4, 4, distance=line(4)), "v6.12.107")
    assert not any(f & SIBLING for f in group_flags(domains, 0, domains.of(0)[-1]))
