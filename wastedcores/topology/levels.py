"""The levels of domains that a kernel builds on a machine: SMT, CLS, MC, DIE or PKG, NODE, and NUMA by distance.

Sets of CPUs are integers (:mod:`wastedcores.topology.cpumask`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wastedcores.kernels import KernelModel
from wastedcores.topology.cpumask import cpumask_of
from wastedcores.topology.machine import LOCAL_DISTANCE, SNC_AVERAGED, ZEN, IntArray, Machine

#: node_reclaim_distance (include/linux/topology.h), and its value on AMD's Zen (arch/x86/kernel/cpu/amd.c: init_amd_zn(),
#: a55c7454a8c8, v5.4). There is no fork, exec and affine balancing beyond this distance
RECLAIM_DISTANCE, RECLAIM_DISTANCE_ZEN = 30, 32
#: REMOTE_DISTANCE: nodes of another package are at least this far away
REMOTE_DISTANCE = 20


def reclaim_distance(machine: Machine, kernel: KernelModel) -> int:
    """Return ``node_reclaim_distance``."""
    zen = machine.microarchitecture == ZEN and kernel.at_least(5, 4)
    return RECLAIM_DISTANCE_ZEN if zen else RECLAIM_DISTANCE


def sched_distance(machine: Machine, kernel: KernelModel) -> IntArray:
    """Return the table that ``sched_init_numa()`` scans.

    arch/x86/kernel/smpboot.c: arch_sched_node_distance(), read in public patches. Granite Rapids and Clearwater Forest report
    several distances to the nodes of another package. In v6.19 (4d6dd05d07d0) all remote distances are replaced by their average
    if a package has several nodes. From v7.0 (528d89a4707e) the distances between two packages are replaced by the average of
    both directions, if a package has three nodes or more.
    """
    d = machine.distance
    if machine.microarchitecture not in SNC_AVERAGED or not kernel.at_least(6, 19):
        return d
    packages = np.unique(machine.package_of_cpu)
    per_package = machine.nodes // len(packages)
    if len(packages) == 1 or per_package < 2:
        return d
    if kernel.at_least(7, 0):
        return _by_package(machine, per_package) if per_package > 2 else d
    with_cpus = np.unique(machine.node_of_cpu)
    seen = d[np.ix_(with_cpus, with_cpus)]
    remote = seen[seen >= REMOTE_DISTANCE]
    average = int(remote.sum()) // remote.size if remote.size else REMOTE_DISTANCE
    return np.where(d >= REMOTE_DISTANCE, np.int32(average), d)


def _by_package(machine: Machine, size: int) -> IntArray:
    """Average the distances between every two packages of ``size`` nodes. If nodes and packages do not match, average nothing."""
    d = machine.distance
    of_node = {
        n: set(machine.package_of_cpu[machine.node_of_cpu == n].tolist()) for n in range(len(d))
    }
    blocks = [range(i, i + size) for i in range(0, len(d) - len(d) % size, size)]
    for block in blocks:
        own = d[np.ix_(block, block)]
        if len(set().union(*(of_node[n] for n in block))) != 1 or (own != own.T).any():
            return d
    out = d.copy()
    for a in blocks:
        for b in blocks:
            if a != b:
                both = d[np.ix_(a, b)].sum() + d[np.ix_(b, a)].sum()
                out[np.ix_(a, b)] = int(both) // (2 * size * size)
    return out


# include/linux/sched.h, v4.1: the bits that the oracle cases of v4.1 contain. Later kernels number them differently and have
# neither SD_LOAD_BALANCE nor SD_SHARE_POWERDOMAIN. Here this numbering serves all versions.
SD_LOAD_BALANCE = 0x0001
SD_BALANCE_NEWIDLE = 0x0002
SD_BALANCE_EXEC = 0x0004
SD_BALANCE_FORK = 0x0008
SD_BALANCE_WAKE = 0x0010
SD_WAKE_AFFINE = 0x0020
SD_SHARE_CPUCAPACITY = 0x0080
SD_SHARE_PKG_RESOURCES = 0x0200
SD_SERIALIZE = 0x0400
SD_PREFER_SIBLING = 0x1000
SD_OVERLAP = 0x2000
SD_NUMA = 0x4000
SD_CLUSTER = 0x8000


@dataclass(frozen=True)
class Level:
    """One entry of ``sched_domain_topology``."""

    name: str  #: SMT, CLS, MC, DIE (PKG from v6.7), NODE or NUMA
    flags: int  #: the result of the level's ``sd_flags`` function
    mask_of_cpu: Sequence[int]  #: ``tl->mask(cpu)`` for each CPU
    overlap: bool = False  #: groups may overlap (SDTL_OVERLAP)
    distance: int = 0  #: the greatest distance of a NUMA level; otherwise 0


def numa_distances(
    machine: Machine, kernel: KernelModel, nodes_with_cpus: Sequence[int]
) -> list[int]:
    """Return the distances for which there is a NUMA level; all are greater than the local distance.

    kernel/sched/core.c (topology.c from v4.11): sched_init_numa(). Before v5.12 it scans row 0 of the SLIT only. With
    ``sched_debug`` it also scans the later rows, but these can only add distances greater than all distances found before.
    From v5.12 it scans the whole table (620a6dc40754), and from v5.18 it leaves out the nodes without CPUs (0fb3978b0aac).
    """
    d = sched_distance(machine, kernel)
    if kernel.at_least(5, 18):
        some = np.asarray(nodes_with_cpus)
        d = d[np.ix_(some, some)]
    if kernel.at_least(5, 12):
        # the smallest value is the distance of a node to itself, which is the level NODE
        return np.unique(d)[1:].tolist()
    found: list[int] = []
    current = int(d[0, 0])
    for row in d if kernel.sched_debug else d[:1]:
        more = [int(x) for x in np.unique(row) if x > current]
        found += more
        current = found[-1] if found else current
    return found


def _masks(ids: IntArray, up: np.ndarray[Any, Any]) -> list[int]:
    """Return for each CPU the set of online CPUs that have the same number (of core, cache or node)."""
    members: dict[int, list[int]] = {}
    for cpu in up.tolist():
        members.setdefault(int(ids[cpu]), []).append(cpu)
    sets = {key: cpumask_of(cpus) for key, cpus in members.items()}
    return [sets.get(int(key), 0) for key in ids]


def base_levels(
    machine: Machine, kernel: KernelModel, up: Sequence[int], numa_in_package: bool
) -> list[Level]:
    """Return the levels inside a node.

    arch/x86/kernel/smpboot.c: x86_topology, x86_numa_in_package_topology (v4.1: default_topology of
    kernel/sched/core.c and numa_inside_package_topology); CLS from v5.16 (66558b730f25).
    """
    some = np.asarray(up, dtype=np.int64)
    smt = SD_SHARE_CPUCAPACITY | SD_SHARE_PKG_RESOURCES
    levels = [Level("SMT", smt, _masks(machine.core_of_cpu, some))]
    if kernel.at_least(5, 16):
        cluster = SD_SHARE_PKG_RESOURCES | (SD_CLUSTER if kernel.at_least(6, 7) else 0)
        levels.append(Level("CLS", cluster, _masks(machine.l2_of_cpu, some)))
    levels.append(Level("MC", SD_SHARE_PKG_RESOURCES, _masks(machine.llc_of_cpu, some)))
    if not numa_in_package:
        name = "PKG" if kernel.at_least(6, 7) else "DIE"
        levels.append(Level(name, 0, _masks(machine.node_of_cpu, some)))
    return levels


def numa_levels(
    machine: Machine, kernel: KernelModel, up: Sequence[int], distances: Sequence[int]
) -> list[Level]:
    """Return the levels across nodes. From v4.15 the level NODE, which is a single node, is below them (051f3ca02e46)."""
    if not distances and not kernel.at_least(4, 15):
        return []
    node_sets = [0] * machine.nodes
    for cpu, mask in zip(up, _node_masks(machine, up), strict=True):
        node_sets[machine.node_of_cpu[cpu]] = mask
    levels, table = [], sched_distance(machine, kernel)
    steps = [LOCAL_DISTANCE, *distances] if kernel.at_least(4, 15) else list(distances)
    for distance in steps:
        near = table <= distance
        by_node = []
        for row in near:
            bits = 0
            for other in np.flatnonzero(row).tolist():
                bits |= node_sets[other]
            by_node.append(bits)
        masks = [by_node[n] for n in machine.node_of_cpu.tolist()]
        if distance == LOCAL_DISTANCE:
            levels.append(Level("NODE", 0, masks))
        else:
            levels.append(Level("NUMA", SD_NUMA, masks, overlap=True, distance=distance))
    return levels


def _node_masks(machine: Machine, up: Sequence[int]) -> list[int]:
    """Return the node mask of each of these CPUs."""
    masks = _masks(machine.node_of_cpu, np.asarray(up, dtype=np.int64))
    return [masks[cpu] for cpu in up]
