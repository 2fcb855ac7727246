"""The running machine, and copies of /sys with the special cases of real ones: offline CPUs, memory-only nodes, no caches."""

from __future__ import annotations

import os

import numpy as np
import pytest

from wastedcores.errors import TopologyError
from wastedcores.topology.domains import build_domains
from wastedcores.topology.machine import Machine
from wastedcores.topology.source import find_machine
from wastedcores.topology.sysfs import compare_live, kernel_domains, live, parse_schedstat


def write(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")


def two_nodes(root, skip_cache=False):
    """Make a machine of 8 CPUs, 4 per node in SMT pairs (0,4), (1,5), ...; node 2 has memory only and CPU 7 is offline."""
    cpu, node = "sys/devices/system/cpu", "sys/devices/system/node"
    files = {
        f"{cpu}/present": "0-7",
        f"{cpu}/online": "0-6",
        f"{cpu}/isolated": "",
        f"{node}/online": "0-2",
        f"{node}/node0/cpulist": "0-1,4-5",
        f"{node}/node0/distance": "10 21 17",
        f"{node}/node1/cpulist": "2-3,6",
        f"{node}/node1/distance": "21 10 28",
        f"{node}/node2/cpulist": "",
        f"{node}/node2/distance": "17 28 10",
    }
    for c in range(7):
        mates = f"{c % 4},{c % 4 + 4}" if c % 4 != 3 else "3"
        files[f"{cpu}/cpu{c}/topology/thread_siblings_list"] = mates
        files[f"{cpu}/cpu{c}/topology/physical_package_id"] = str(c % 4 // 2)
        if skip_cache:
            continue
        for k, (level, kind, shared) in enumerate(
            [(1, "Data", mates), (1, "Instruction", mates), (2, "Unified", mates),
             (3, "Unified", "0-1,4-5" if c % 4 < 2 else "2-3,6")]
        ):  # fmt: skip
            base = f"{cpu}/cpu{c}/cache/index{k}"
            files |= {
                f"{base}/level": str(level),
                f"{base}/type": kind,
                f"{base}/shared_cpu_list": shared,
            }
    write(root, files)
    (root / cpu / "cpu7").mkdir()
    (root / cpu / "cpu7" / "node1").mkdir()


@pytest.mark.parametrize("skip_cache", [False, True])
def test_offline_cpus_and_nodes_without_cpus(tmp_path, skip_cache):
    two_nodes(tmp_path, skip_cache)
    m = live(tmp_path, "copy")
    assert m.online_cpus == tuple(range(7))
    assert m.node_of_cpu.tolist() == [0, 0, 1, 1, 0, 0, 1, 1]
    assert m.nodes == 3
    assert m.smt_siblings(2) == [2, 6]
    assert m.smt_siblings(7) == [7]
    assert m.package_of_cpu.tolist() == [0, 0, 1, 1, 0, 0, 1, 1]
    assert np.flatnonzero(m.llc_of_cpu == m.llc_of_cpu[2])[:3].tolist() == [2, 3, 6]
    doms = build_domains(m, "v6.1")
    assert [d.cpus for d in doms.of(0)] == [[0, 4], [0, 1, 4, 5], [0, 1, 2, 3, 4, 5, 6]]


def test_container_without_nodes_or_topology(tmp_path):
    write(tmp_path, {"sys/devices/system/cpu/online": "0-1"})
    m = live(tmp_path)
    assert (m.cpus, m.nodes) == (2, 1)
    assert [d.level for d in build_domains(m, "v6.1").of(0)]


def test_a_container_with_lxcfs_shows_the_hosts_cpus(tmp_path):
    """Lxcfs replaces the list of online CPUs by those of the container, and leaves the CPUs as they are."""
    two_nodes(tmp_path)
    host = live(tmp_path)
    write(tmp_path, {"sys/devices/system/cpu/online": "2-3"})
    assert live(tmp_path) == host
    assert host.online_cpus == tuple(range(7))


def test_fake_nodes_are_explained(tmp_path):
    two_nodes(tmp_path)
    write(tmp_path, {f"sys/devices/system/node/node{n}/distance": "10 10 10" for n in range(3)})
    with pytest.raises(TopologyError, match=r"nodes 0 and 1 are at distance 10.*numa=fake"):
        live(tmp_path)


def test_isolated_cpus(tmp_path):
    two_nodes(tmp_path)
    write(tmp_path, {"sys/devices/system/cpu/isolated": "1,5"})
    doms = build_domains(live(tmp_path), "v6.1")
    assert doms.of(5) == ()
    assert doms.of(0)[-1].cpus == [0, 2, 3, 4, 6]


@pytest.mark.parametrize(
    ("vendor", "family", "model", "found"),
    [
        ("GenuineIntel", 6, 173, "granite-rapids"),
        ("GenuineIntel", 6, 221, "clearwater-forest"),
        ("GenuineIntel", 6, 143, ""),
        ("AuthenticAMD", 23, 49, "zen"),
        ("AuthenticAMD", 26, 2, "zen"),
        ("AuthenticAMD", 21, 1, ""),
        ("HygonGenuine", 24, 1, ""),
    ],
)
def test_cpus_for_which_other_domains_are_built(tmp_path, vendor, family, model, found):
    two_nodes(tmp_path)
    text = f"processor\t: 0\nvendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: {model}\nmodel name\t: x\n\n"
    write(tmp_path, {"proc/cpuinfo": text * 2})
    machine = live(tmp_path)
    assert machine.microarchitecture == found
    assert Machine.from_dict(machine.to_dict()) == machine


def test_no_sys_is_explained(tmp_path):
    with pytest.raises(TopologyError, match="there is no list of CPUs"):
        live(tmp_path)


def test_broken_distance_is_explained(tmp_path):
    two_nodes(tmp_path)
    write(tmp_path, {"sys/devices/system/node/node1/distance": "21 10"})
    with pytest.raises(TopologyError, match="2 numbers for 3 nodes"):
        live(tmp_path)


SCHEDSTAT_15 = """version 15
timestamp 4295
cpu0 0 0 0 0 0 0 1 2 3
domain0 03 1 2 3
domain1 00000000,0000000f 1 2 3
cpu1 0 0 0 0 0 0 1 2 3
domain0 03 1 2 3
"""
SCHEDSTAT_17 = """version 17
timestamp 4295
cpu0 0 0 0 0 0 0 1 2 3
domain0 SMT 03 1 2 3
domain1 PKG ff 1 2 3
"""


def test_schedstat_old_and_new():
    assert parse_schedstat(SCHEDSTAT_15) == {
        0: [{"span": [0, 1]}, {"span": [0, 1, 2, 3]}],
        1: [{"span": [0, 1]}],
    }
    assert parse_schedstat(SCHEDSTAT_17)[0] == [
        {"level": "SMT", "span": [0, 1]},
        {"level": "PKG", "span": list(range(8))},
    ]


def schedstat_of(doms):
    lines = ["version 15"]
    for cpu in doms.cpus:
        lines.append(f"cpu{cpu} 0 0")
        lines += [f"domain{k} {d.span:x} 0 0" for k, d in enumerate(doms.of(cpu))]
    return "\n".join(lines)


def test_comparison_with_what_the_kernel_shows(tmp_path):
    two_nodes(tmp_path)
    doms = build_domains(live(tmp_path), "v5.15")
    assert "does not show" in compare_live(doms, tmp_path)
    write(tmp_path, {"proc/schedstat": schedstat_of(doms)})
    assert compare_live(doms, tmp_path) == "agrees with /proc/schedstat of this kernel for 7 CPUs"
    for cpu in doms.cpus:
        for k, d in enumerate(doms.of(cpu)):
            write(tmp_path, {f"sys/kernel/debug/sched/domains/cpu{cpu}/domain{k}/name": d.level})
    assert "/proc/schedstat and /sys/kernel/debug/sched/domains" in compare_live(doms, tmp_path)
    write(tmp_path, {"sys/kernel/debug/sched/domains/cpu3/domain0/name": "CLS"})
    assert "DIFFERS" in compare_live(doms, tmp_path)
    assert "at CPU 3" in compare_live(doms, tmp_path)


@pytest.mark.skipif(
    not os.path.exists("/sys/devices/system/cpu/online"), reason="needs Linux with /sys"
)
def test_this_machine():
    source = find_machine("live")
    m = source.machine
    assert m == Machine.live()
    assert len(m.online_cpus) == os.cpu_count()
    doms = build_domains(m, source.model())
    assert kernel_domains() is None or "agrees" in compare_live(doms)
    if len(m.online_cpus) > 1 and not m.isolated:
        assert all(doms.of(c)[-1].weight == len(m.online_cpus) for c in m.online_cpus)
