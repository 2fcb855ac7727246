"""The paper's statements about its machine: section 3.2 (groups), 3.4 (lost domains), Table 5 (the machine)."""

from __future__ import annotations

import collections
import dataclasses
import json

import pytest
from support import BEHAVIOUR_GOLDEN, MODERN, RECORDINGS
from support.domain_oracle import load

from wastedcores.analysis.pairs import COULD_PULL, EVERY_GROUP_LOCAL, relation
from wastedcores.kernels import KernelModel
from wastedcores.topology.domains import build_domains
from wastedcores.topology.lint import EVERY_GROUP, MISSING, lint
from wastedcores.topology.machine import Machine
from wastedcores.topology.presets import preset

A, B = {0, 1, 2, 4, 6}, {1, 2, 3, 4, 5, 7}
NODES_1_2 = list(range(8, 24))


def node_groups(doms, cpu, depth=-1):
    node = doms.machine.node_of_cpu
    return [set(node[g.cpus].tolist()) for g in doms.of(cpu)[depth].groups]


@pytest.mark.parametrize("kernel", ["v4.1", "v4.12"])
def test_two_groups_for_every_cpu(kernel):
    doms = build_domains(preset("bulldozer8x8"), kernel)
    for cpu in doms.cpus:
        groups = node_groups(doms, cpu)
        assert len(groups) == 2
        assert A in groups
        assert B in groups


def test_neighbours_of_nodes_0_and_3():
    doms = build_domains(preset("bulldozer8x8"), "v4.1")
    assert set().union(*node_groups(doms, 0, 2)) == A
    assert set().union(*node_groups(doms, 24, 2)) == {1, 2, 3, 4, 5, 7}


@pytest.mark.parametrize(
    ("node", "authors", "mainline"),
    [
        (0, [A, B], [A, B]),
        (6, [{0, 2, 4, 6, 7}, {0, 1, 3, 4, 7}, {2, 3, 4, 5, 7}], None),
        (1, [{0, 1, 3, 4, 7}, {0, 2, 3, 4, 5, 6, 7}], None),
        (2, [{0, 2, 3, 4, 5, 6, 7}, {0, 1, 3, 4, 7}], None),
        (4, [{0, 1, 2, 3, 4, 5, 6}, {1, 2, 3, 5, 6, 7}], None),
        (3, [B, A], [B, {0, 2, 4, 6, 7}]),
        (5, [{2, 3, 4, 5, 7}, A], [{2, 3, 4, 5, 7}, {0, 2, 4, 6, 7}, {0, 1, 3, 4, 7}]),
        (7, [{1, 2, 3, 5, 6, 7}, A], None),
    ],
)
def test_groups_after_the_fix_and_in_mainline(node, authors, mainline):
    machine = preset("bulldozer8x8")

    def same(kernel, want):
        got = node_groups(build_domains(machine, kernel), 8 * node)
        assert sorted(map(sorted, got)) == sorted(map(sorted, want)), kernel
        assert got[0] == want[0] or kernel != "v6.1"

    same("v4.1+group_construction", authors)
    same("v4.1+group_construction:patch", authors)
    same("v6.1", mainline or authors)
    same("v4.13", mainline or authors)


def test_linter_finds_nodes_1_and_2_on_4_1():
    found = lint(build_domains(preset("bulldozer8x8"), "v4.1"), NODES_1_2)
    pair, back = found.blocked
    assert pair.source == tuple(range(8, 16))
    assert pair.target == tuple(range(16, 24))
    assert pair.reason == EVERY_GROUP
    assert pair.level == "NUMA<=22"
    assert not pair.by_third_party
    assert back.by_third_party
    assert (back.source, back.target) == (pair.target, pair.source)


@pytest.mark.parametrize(
    "kernel",
    ["v4.1+group_construction", "v4.1+group_construction:patch", "v4.13", "v4.19", "v5.4", "v6.1"],
)
def test_linter_is_silent_with_the_fix_and_in_mainline(kernel):
    found = lint(build_domains(preset("bulldozer8x8"), kernel), NODES_1_2)
    assert not found.blocked


@pytest.mark.parametrize(
    "pin", [[*range(8), *range(24, 32)], [*range(8, 16), *range(24, 32)], None]
)
def test_linter_is_silent_on_the_controls(pin):
    # tests/simulator/golden/README.md: nodes 0+3 and 1+3 balance on 4.1.3
    found = lint(build_domains(preset("bulldozer8x8"), "v4.1"), pin)
    assert not found.blocked


def test_behaviour_of_real_kernels_agrees():
    # 4 threads pinned to two nodes and forked on the first one: they all stay exactly where the linter finds a blocked pair
    asked = 0
    for path in sorted(BEHAVIOUR_GOLDEN.glob("*.json")):
        case = json.loads(path.read_text())
        kernel = path.name.removeprefix("behaviour-").removesuffix("-bd-paper-8x2-pair.json")
        machine = Machine.from_dict(load("4.1.3", "bd-paper-8x2-pair"))
        node = machine.node_of_cpu
        for scenario in case["scenarios"]:
            allowed = scenario["allowed"]
            if len({int(n) for n in node[allowed]}) != 2:
                continue
            after = scenario["scenario"].endswith("-after")
            state = machine.offline(5).online(5) if after else machine
            found = lint(build_domains(state, kernel), allowed)
            start = scenario["start_cpu"]
            stuck = any(
                start in b.source and node[b.target[0]] != node[start] for b in found.blocked
            )
            last = scenario["samples"][-1]["per_node"]
            elsewhere = sum(last) - last[node[start]]
            assert stuck == (elsewhere == 0), (path.name, scenario["scenario"])
            asked += 1
    assert asked >= 8


def test_onlining_a_cpu_loses_the_levels_across_nodes():
    machine = preset("bulldozer8x8")
    shapes = {
        kernel: [d.weight for d in build_domains(machine.offline(20).online(20), kernel).of(0)]
        for kernel in (
            "v4.1",
            "v4.1+missing_domains",
            "v4.1+missing_domains:patch",
            "v4.9",
            "v4.12",
            "v6.1",
        )
    }
    assert shapes.pop("v4.1") == [2, 8]
    assert all(s == [2, 8, 40, 64] for s in shapes.values())
    assert [d.weight for d in build_domains(machine.offline(20), "v4.1").of(0)] == [2, 8, 39, 63]


def test_one_node_per_package_never_loses_them():
    machine = preset("xeon-e7-8870")
    assert build_domains(machine.offline(3).online(3), "v4.1").of(0)[-1].weight == 160


def test_linter_names_the_missing_level():
    found = lint(build_domains(preset("bd-paper-16").offline(5).online(5), "v4.1"))
    assert len(found.blocked) == 8
    assert {b.reason for b in found.blocked} == {MISSING}
    assert found.blocked[0].target == (0, 1)
    assert found.blocked[0].source == tuple(range(2, 16))
    assert "NUMA<=16 spanned CPUs 0 and 2 at boot and is" in found.blocked[0].detail


def test_linter_does_not_say_that_an_offline_cpu_was_in_a_level_at_boot():
    machine = dataclasses.replace(preset("bd-paper-16"), boot_online=tuple(range(1, 16)))
    found = lint(build_domains(machine.online(0), "v4.1"))
    assert "NUMA<=16 would span CPUs 0 and 2 after a reboot and is" in found.blocked[0].detail


def test_node_2_pulls_from_node_1_with_the_fix_only():
    machine = preset("bulldozer8x8")
    assert relation(build_domains(machine, "v4.1"), 16, 8)[0] == EVERY_GROUP_LOCAL
    fixed = build_domains(machine, "v4.1+group_construction")
    assert relation(fixed, 16, 8) == (COULD_PULL, "NUMA <= 22")


def test_domain_sizes_of_the_guest_recordings():
    metas = sorted(p for place in (RECORDINGS, MODERN) for p in place.glob("*/meta.json"))
    assert len(metas) == 32 + 24
    for path in metas:
        meta = json.loads(path.read_text())
        kernel = KernelModel.of_guest_variant(meta["variant"])
        machine = Machine.from_dict(meta)
        assert machine.to_dict() | {"name": ""} == preset(f"bd-paper-{meta['cpus']}").to_dict() | {
            "name": ""
        }
        if meta["domains_before"]:  # two guests did not print them
            assert _sizes(build_domains(machine, kernel)) == _said(meta["domains_before"]), path
        if meta["domains_after"]:
            cpu = int(meta["params"]["hp"])
            after = build_domains(machine.offline(cpu).online(cpu), kernel)
            assert _sizes(after) == _said(meta["domains_after"]), path


def _sizes(doms):
    return collections.Counter(tuple(d.weight for d in doms.of(c)) for c in doms.cpus)


def _said(rows):
    return {tuple(r["domain_sizes"]): r["cpus"] for r in rows}
