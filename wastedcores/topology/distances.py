"""The distances between nodes for which a kernel builds levels: those of the firmware, except on a few Intel machines."""

from __future__ import annotations

import numpy as np

from wastedcores.kernels import KernelModel
from wastedcores.topology.machine import SNC_AVERAGED, ZEN, IntArray, Machine

#: node_reclaim_distance (include/linux/topology.h), and what AMD's Zen sets it to (arch/x86/kernel/cpu/amd.c: init_amd_zn(),
#: a55c7454a8c8, v5.4): there is no fork, exec and affine balancing beyond it
RECLAIM_DISTANCE, RECLAIM_DISTANCE_ZEN = 30, 32
#: REMOTE_DISTANCE: nodes of another package are at least as far
REMOTE_DISTANCE = 20


def reclaim_distance(machine: Machine, kernel: KernelModel) -> int:
    """Return ``node_reclaim_distance``."""
    zen = machine.microarchitecture == ZEN and kernel.at_least(5, 4)
    return RECLAIM_DISTANCE_ZEN if zen else RECLAIM_DISTANCE


def sched_distance(machine: Machine, kernel: KernelModel) -> IntArray:
    """Return the table that ``sched_init_numa()`` scans.

    arch/x86/kernel/smpboot.c: arch_sched_node_distance(), read in public patches. Granite Rapids and Clearwater Forest report
    several distances to the nodes of another package. From v6.19 (4d6dd05d07d0) all remote distances are replaced by their
    average if a package has several nodes, and from v7.0 (528d89a4707e) by the average of both directions between two packages
    if a package has three or more.
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
    """Average the distances between each two packages of ``size`` nodes; the table itself if nodes and packages do not match."""
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
