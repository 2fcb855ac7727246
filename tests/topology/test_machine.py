"""Machines: descriptions, presets, hotplug, and refused descriptions."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from support.domain_machines import machines_after_hotplug
from support.domain_oracle import load

from wastedcores.cpulist import format_cpulist, parse_cpulist
from wastedcores.errors import TopologyError, UsageError
from wastedcores.topology.describe import read_description
from wastedcores.topology.domains import build_domains
from wastedcores.topology.machine import Machine
from wastedcores.topology.presets import PRESETS, grid, preset
from wastedcores.topology.source import find_machine


@pytest.mark.parametrize("name", PRESETS)
def test_presets_survive_json(name):
    machine = preset(name)
    assert Machine.from_dict(json.loads(json.dumps(machine.to_dict()))) == machine
    assert find_machine(name).machine == machine


@pytest.mark.parametrize(
    ("name", "cpus", "nodes", "threads", "llcs_per_node"),
    [
        ("bulldozer8x8", 64, 8, 2, 1),
        ("xeon-e7-8870", 160, 4, 2, 1),
        ("i3-7100", 4, 1, 2, 1),
        ("i5-4670k", 4, 1, 1, 1),
        ("xeon-8380-snc2", 160, 4, 2, 1),
        ("epyc-7742-nps1", 256, 2, 2, 16),
        ("epyc-9654-nps4", 384, 8, 2, 3),
    ],
)
def test_preset_sizes(name, cpus, nodes, threads, llcs_per_node):
    m = preset(name)
    assert (m.cpus, m.nodes) == (cpus, nodes)
    assert len(m.smt_siblings(0)) == threads
    assert len(set(m.llc_of_cpu[m.cpus_of_node(0)])) == llcs_per_node
    assert sorted(c for n in range(m.nodes) for c in m.cpus_of_node(n)) == list(range(cpus))


@given(machines_after_hotplug())
def test_any_machine_survives_its_dictionary(machine):
    back = Machine.from_dict(machine.to_dict())
    assert back == machine
    assert back.online_cpus == machine.online_cpus


def test_a_cpu_or_a_node_that_the_machine_lacks_is_named():
    machine = preset("i3-7100")
    with pytest.raises(TopologyError, match="'i3-7100': there is no node 2; nodes are 0-0"):
        machine.cpus_of_node(2)
    for cpu in (-1, 4):
        with pytest.raises(TopologyError, match=f"there is no CPU {cpu}; CPUs are 0-3"):
            build_domains(machine, "v4.1").of(cpu)


def test_arrays_cannot_be_changed():
    with pytest.raises(ValueError, match="read-only"):
        preset("uma8").node_of_cpu[0] = 1


def test_hotplug_makes_new_machines_and_remembers():
    m = preset("uma8")
    after = m.offline(3).offline(5).online(3)
    assert m.online_cpus == tuple(range(8))
    assert after.online_cpus == (0, 1, 2, 3, 4, 6, 7)
    assert after.hotplug == (("offline", 3), ("offline", 5), ("online", 3))
    assert after.rebooted().hotplug == ()
    assert after.rebooted().online_cpus == after.online_cpus


def test_written_by_hand():
    m = Machine.from_dict(
        {
            "name": "mine",
            "cpus": 8,
            "cpus_of_node": {"0": "0-1,4-5", "1": "2-3,6-7"},
            "distance": [[10, 21], [21, 10]],
            "thread_siblings": ["0,4", "1,5", "2,6", "3,7", "0,4", "1,5", "2,6", "3,7"],
            "online": "0-6",
        }
    )
    assert m.node_of_cpu.tolist() == [0, 0, 1, 1, 0, 0, 1, 1]
    assert m.smt_siblings(1) == [1, 5]
    assert np.flatnonzero(m.llc_of_cpu == m.llc_of_cpu[2]).tolist() == [2, 3, 6, 7]
    assert m.package_of_cpu.tolist() == m.node_of_cpu.tolist()
    assert m.online_cpus == (0, 1, 2, 3, 4, 5, 6)


def test_oracle_files_keep_numbers_and_asymmetry():
    m = Machine.from_dict(load("4.1.3", "asym-ring4x2"))
    assert m.asymmetric
    assert m.distance[0].tolist() == [10, 25, 30, 20]
    case = load("4.1.3", "nocpu-ring4")
    assert Machine.from_dict(case).nodes == 4
    case["node_ids"] = [0, 1, 2, 5]
    sparse = Machine.from_dict(case)
    assert sparse.nodes == 6
    assert sparse.distance[0, 3] == 20


@pytest.mark.parametrize(
    ("numbers", "nodes"), [([0, 1, 2], 3), ([0, 1], 2), ([0, 1, 4], 5), ([], 2)]
)
def test_nodes_without_cpus_are_there_without_a_distance_table(numbers, nodes):
    m = Machine.from_dict({"node_of_cpu": [0, 0, 1, 1], "node_ids": numbers})
    assert m.nodes == nodes
    assert set(m.distance[~np.eye(nodes, dtype=bool)].tolist()) == {20}


def test_a_case_with_fewer_cpus_than_it_says_is_explained():
    case = load("4.1.3", "nocpu-ring4")
    case["node_of_cpu"][-1], case["requested_node_of_cpu"] = None, [0]
    with pytest.raises(TopologyError, match="the description cannot be read"):
        Machine.from_dict(case)


def test_caches_and_cores_are_cut_at_nodes():
    m = Machine.from_dict(
        {"node_of_cpu": [0, 0, 1, 1], "llc_of_cpu": [7, 7, 7, 7], "core_of_cpu": [0, 1, 1, 2]}
    )
    assert m.llc_of_cpu.tolist() == [0, 0, 1, 1]
    assert m.smt_siblings(1) == [1]


FULL = {"cpus": 4, "node_of_cpu": [0, 0, 1, 1], "distance": [[10, 20], [20, 10]]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"distance": [[10, 20], [21, 10]]}, "asymmetric: 0 to 1 is 20, 1 to 0 is 21"),
        ({"distance": [[10, 9], [9, 10]]}, "distance from node 0 to node 1 is 9"),
        ({"distance": [[10, 10], [10, 10]]}, "another node is farther"),
        ({"distance": [[11, 20], [20, 10]]}, "distance of node 0 to itself is 11"),
        ({"distance": [[10, 255], [255, 10]]}, "is 255"),
        ({"distance": [[10, 20], [20]]}, "square"),
        ({"distance": [[10]]}, "CPU 2 is on node 1"),
        (
            {"node_of_cpu": None, "cpus_of_node": {0: "0-2", 1: "2-3"}},
            "CPU 2 is in two nodes, 0 and 1",
        ),
        ({"node_of_cpu": None, "cpus_of_node": {0: "0-1", 1: "3"}}, "CPU 2 is in no node"),
        (
            {"node_of_cpu": None, "cpus_of_node": {0: "0-1", 1: "2-4"}},
            "has CPU 4, but CPUs are 0-3",
        ),
        ({"online": ""}, "no CPU is online"),
        ({"online": "0-9"}, "online CPUs 4-9 do not exist"),
        ({"online": "3-1"}, "not an ascending range"),
        ({"isolated": "3-4"}, "isolated CPUs 4 do not exist (CPUs are 0-3)"),
        ({"node_of_cpu": [0, 0, 1]}, "node_of_cpu has 3 entries for 4 CPUs"),
        ({"node_of_cpu": "many"}, "cannot be read"),
        ({"node_of_cpu": [0, 0, 1, -1]}, "CPU 3 is on node -1"),
        ({"cpus": 0, "node_of_cpu": []}, "0 CPUs"),
        ({"cpus": 9000, "node_of_cpu": None}, "9000 CPUs"),
        ({"distanse": [[10]]}, "did you mean distance"),
        ({"numa": 2}, "unknown field 'numa'; known are name, cpus"),
        ({"sockets": 2}, "unknown field 'sockets'; known are"),
        ({"nodes": [0, 1]}, "the description cannot be read"),
        ({"nodes": 3}, "it has 3 nodes, but the distance table has 2"),
        ({"node_ids": [0, 1, 2]}, "node_ids [0, 1, 2] are not the numbers of the 2 nodes"),
        ({"node_ids": [0, -1]}, "node_ids [0, -1] are not the numbers"),
        ({"node_ids": [1, 1]}, "node_ids [1, 1] are not the numbers"),
        ({"hotplug": [["sideways", 1]]}, "hotplug step 'sideways'"),
        ({"thread_siblings": ["0,9", "1", "2", "3"]}, "CPU 9, but CPUs are 0-3"),
        ({"thread_siblings": [[0, -1], [1]]}, "CPU -1, but CPUs are 0-3"),
        ({"node_of_cpu": None, "cpus_of_node": [[0, 1, 2], [3, -1]]}, "has CPU -1, but CPUs"),
    ],
)
def test_impossible_machines_are_explained(change, message):
    data = {k: v for k, v in (FULL | change).items() if v is not None}
    with pytest.raises(TopologyError, match="machine") as e:
        Machine.from_dict(data)
    assert message in str(e.value)
    assert "\n" not in str(e.value)


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ((("offline", 9),), "CPUs are 0-3"),
        ((("online", 1),), "it is online already"),
        ((("offline", 1), ("offline", 1)), "it is offline already"),
        (
            (("offline", 0), ("offline", 1), ("offline", 2), ("offline", 3)),
            "no CPU would be online",
        ),
    ],
)
def test_impossible_hotplug_is_explained(steps, message):
    with pytest.raises(TopologyError, match=message):
        preset("i5-4670k").after(steps)


def test_a_description_is_a_mapping():
    with pytest.raises(TopologyError, match="a description must be a mapping, not a list"):
        Machine.from_dict([1, 2])


def test_grid_refuses_what_does_not_fit():
    with pytest.raises(TopologyError, match="numbering 'random'"):
        grid("x", numbering="random")
    with pytest.raises(TopologyError, match="2 nodes, but the distance table is"):
        grid("x", packages=2, distance=[[10]])


def test_numa_in_package_looks_at_online_cpus():
    m = preset("bd-paper-16")
    assert m.numa_in_package(m.online_cpus)
    assert not m.numa_in_package([0, 1, 4, 5])


def test_files_json_yaml_meta_and_trace(tmp_path):
    m = preset("ring4")
    plain = tmp_path / "m.json"
    plain.write_text(json.dumps(m.to_dict()))
    assert find_machine(str(plain)).machine == m
    yaml = tmp_path / "m.yaml"
    yaml.write_text("cpus: 2\nnode_of_cpu: [0, 1]\nkernel: v6.1\n")
    source = find_machine(str(yaml))
    assert source.machine.nodes == 2
    assert source.model().name == "v6.1"
    assert source.model("v4.12", True).sched_debug
    meta = tmp_path / "meta.json"
    meta.write_text(json.dumps(FULL | {"variant": "sgclit", "package_of_cpu": [0, 0, 1, 1]}))
    assert find_machine(str(tmp_path)).kernel == "v4.1+group_construction:patch"
    for kernel, name, sched_debug in (
        ("4.1.3-nodebug", "line4mid-x1", False),
        ("4.1.3", "line4x2", True),
    ):
        plain.write_text(json.dumps(load(kernel, name)))
        assert find_machine(str(plain)).model().sched_debug == sched_debug


def test_a_kernel_that_yaml_reads_as_a_number_is_refused(tmp_path):
    path = tmp_path / "m.yaml"
    path.write_text("cpus: 2\nkernel: 5.10\n")
    with pytest.raises(TopologyError, match=r'kernel 5.1 is not a text.*kernel: "5.10"'):
        find_machine(str(path))
    path.write_text('cpus: 2\nkernel: "5.10"\n')
    assert find_machine(str(path)).model().name == "v5.10"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "neither JSON nor YAML"),
        (b"[1, 2]", "holds a list"),
        (b"\xff\xfe\x00", "cannot be read as a machine"),
    ],
)
def test_files_that_are_no_description(tmp_path, content, message):
    path = tmp_path / "m.json"
    path.write_bytes(content)
    with pytest.raises(TopologyError, match=message):
        read_description(path)


def test_unknown_names_list_what_exists():
    with pytest.raises(TopologyError, match=r"did you mean bulldozer8x8\?.*epyc-7742-nps1"):
        find_machine("bulldozer")


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("0-3,8", [0, 1, 2, 3, 8]),
        ("", []),
        ("5\n", [5]),
        ("0-7:2/4", [0, 1, 4, 5]),
        ("3,1-2,2", [1, 2, 3]),
    ],
)
def test_cpulists(text, cpus):
    assert parse_cpulist(text) == cpus
    assert parse_cpulist(format_cpulist(cpus)) == cpus


def test_cpulist_format_is_the_kernels():
    assert format_cpulist(np.array([9, 0, 1, 2, 8, 5])) == "0-2,5,8-9"


@pytest.mark.parametrize("text", ["a", "3-1", "-1", "1-", "0-99999999", "0-3:0/2", "1.5"])
def test_bad_cpulists(text):
    with pytest.raises(UsageError, match="CPU"):
        parse_cpulist(text)


def test_the_note_of_a_guest_recording_is_no_part_of_its_machine():
    meta = FULL | {"variant": "7.2", "package_of_cpu": [0, 0, 1, 1]}
    noted = meta | {"domains_note": "measured after the run"}
    assert Machine.from_dict(noted) == Machine.from_dict(meta)
