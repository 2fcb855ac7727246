"""Machines by name, and a builder for regular machines.

CPU numbers are consecutive within a core, a cache and a node (``numbering="packed"``, as in the paper's figures), or the
first threads of all cores come first (``"threads-last"``, as Linux usually numbers Intel and AMD servers).
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from wastedcores.errors import TopologyError
from wastedcores.topology.clocks import Frequency, IdleState
from wastedcores.topology.machine import ZEN, Machine

#: SLIT of the paper's machine: N(0) = {1,2,4,6} and N(3) = {1,2,4,5,7} (paper 3.2), nodes 1 and 2 are not adjacent, and there are
#: at most two hops (paper 5.1, Figure 4). All other distances are from a public SLIT of the same platform with d(3,7) = 16; see
#: docs/scheduler-model.md, section 3.5.
BULLDOZER = (
    (10, 16, 16, 22, 16, 22, 16, 22),
    (16, 10, 22, 16, 16, 22, 22, 16),
    (16, 22, 10, 16, 16, 16, 16, 16),
    (22, 16, 16, 10, 16, 16, 22, 16),
    (16, 16, 16, 16, 10, 16, 16, 22),
    (22, 22, 16, 16, 16, 10, 22, 16),
    (16, 22, 16, 22, 16, 22, 10, 16),
    (22, 16, 16, 16, 22, 16, 16, 10),
)


def grid(
    name: str,
    *,
    packages: int = 1,
    nodes_per_package: int = 1,
    llcs_per_node: int = 1,
    cores_per_llc: int = 1,
    threads: int = 1,
    distance: Sequence[Sequence[int]] | None = None,
    numbering: str = "packed",
) -> Machine:
    """Build a regular machine: all packages are alike, and so are all nodes, caches and cores.

    * ``name``: name of the machine.
    * ``nodes_per_package``, ``llcs_per_node``, ``cores_per_llc``, ``threads``: numbers of nodes, caches, cores and threads
      within the next larger part.
    * ``distance``: SLIT; default: 10 on the diagonal, 20 elsewhere.
    * Returns the machine, with all CPUs online.
    """
    if numbering not in ("packed", "threads-last"):
        raise TopologyError(
            f"machine {name!r}: numbering {numbering!r}; expected 'packed' or 'threads-last'."
        )
    nodes = packages * nodes_per_package
    cores = nodes * llcs_per_node * cores_per_llc
    core = (
        np.repeat(np.arange(cores), threads)
        if numbering == "packed"
        else np.tile(np.arange(cores), threads)
    )
    llc = core // cores_per_llc
    node = llc // llcs_per_node
    if distance is None:
        table = np.where(np.eye(nodes, dtype=bool), 10, 20)
    else:
        table = np.array(distance)
        if table.shape != (nodes, nodes):
            raise TopologyError(
                f"machine {name!r}: {nodes} nodes, but the distance table is {table.shape}."
            )
    fields: dict[str, Any] = {
        "node_of_cpu": node,
        "package_of_cpu": node // nodes_per_package,
        "core_of_cpu": core,
        "llc_of_cpu": llc,
        "l2_of_cpu": core,
        "distance": table,
    }
    return Machine(name, **fields, boot_online=tuple(range(cores * threads)))


def two_packages(inside: int, across: int, nodes_per_package: int) -> list[list[int]]:
    """Make a SLIT of two packages."""
    nodes = range(2 * nodes_per_package)
    return [
        [
            10 if i == j else inside if i // nodes_per_package == j // nodes_per_package else across
            for j in nodes
        ]
        for i in nodes
    ]


def _bulldozer(name: str, cores_per_node: int) -> Machine:
    # the two cores of a Bulldozer module share the front end; Linux treats them as SMT siblings (match_smt() with topoext)
    return grid(
        name,
        packages=4,
        nodes_per_package=2,
        cores_per_llc=cores_per_node,
        threads=2,
        distance=BULLDOZER,
    )


def _epyc(name: str, nodes_per_package: int, llcs: int, cores_per_llc: int) -> Machine:
    machine = grid(
        name,
        packages=2,
        nodes_per_package=nodes_per_package,
        llcs_per_node=llcs // nodes_per_package,
        cores_per_llc=cores_per_llc,
        threads=2,
        distance=two_packages(12, 32, nodes_per_package),
        numbering="threads-last",
    )
    return replace(machine, microarchitecture=ZEN)


#: the fork/wait paper (section 2) states the range and the nominal frequency, and that all cores together stay at or below
#: 2.6 GHz. The steps in between, the delay of 3 ticks ("several", section 4.1) and the hold are assumptions.
XEON_E7_FREQUENCY = Frequency(
    1_200_000,
    2_100_000,
    ((2, 3_000_000), (4, 2_900_000), (8, 2_800_000), (12, 2_700_000), (20, 2_600_000)),
)


#: the idle state in the anomalies article: the idle loop spins for 400 to 900 ns, and leaving C6 takes about 30 us
I3_7100_C6 = IdleState("C6", 30_000, 600)
#: calibrated only on the total time of the article's Figure 1
I3_7100_SMT_SPEED = 0.79


def _xeon_e7(name: str) -> Machine:
    return grid(
        name,
        packages=4,
        cores_per_llc=20,
        threads=2,
        numbering="threads-last",
        distance=np.where(np.eye(4, dtype=bool), 10, 21).tolist(),
    )


def _ring(name: str, nodes: int, cpus: int) -> Machine:
    hops = [[min((i - j) % nodes, (j - i) % nodes) for j in range(nodes)] for i in range(nodes)]
    return grid(
        name,
        packages=nodes,
        cores_per_llc=cpus,
        distance=[[10 + 10 * h for h in row] for row in hops],
    )


#: for each name: a line for menus, and a builder
PRESETS: dict[str, tuple[str, Callable[[str], Machine]]] = {
    "bulldozer8x8": ("the paper's machine: 4 AMD Opteron 6272, 8 nodes, 64 CPUs", lambda n: _bulldozer(n, 4)),
    "bd-paper-64": ("the same, as in the guest recordings", lambda n: _bulldozer(n, 4)),
    "bd-paper-16": ("the same with 2 CPUs per node", lambda n: _bulldozer(n, 1)),
    "guest-2": ("2 cores, as in the recordings of policies", lambda n: grid(n, cores_per_llc=2)),
    "guest-4": (
        "2 cores, 4 CPUs, as in the recordings of policies",
        lambda n: grid(n, cores_per_llc=2, threads=2),
    ),
    "xeon-e7-8870": ("4 Xeon E7-8870 v4, 80 cores, 160 CPUs (fork/wait paper)", _xeon_e7),
    "xeon-e7-8870-turbo": (
        "the same with frequencies and shared cores, whose turbo table is an assumption",
        lambda n: replace(_xeon_e7(n), frequency=XEON_E7_FREQUENCY, smt_speed=0.65),
    ),
    "i3-7100": (
        "2 cores, 4 CPUs (anomalies article)",
        lambda n: grid(n, cores_per_llc=2, threads=2, numbering="threads-last"),
    ),
    "i3-7100-c6": (
        "the same with C6 after 0.6 us, which takes 30 us to leave, and shared cores",
        lambda n: replace(
            grid(n, cores_per_llc=2, threads=2, numbering="threads-last"),
            smt_speed=I3_7100_SMT_SPEED, idle_states=(I3_7100_C6,),
        ),
    ),
    "i5-4670k": ("4 cores without SMT (reproduction report)", lambda n: grid(n, cores_per_llc=4)),
    "xeon-8380": (
        "2 Xeon Platinum 8380, 80 cores, 160 CPUs",
        lambda n: grid(
            n, packages=2, cores_per_llc=40, threads=2, numbering="threads-last", distance=two_packages(10, 20, 1)
        ),
    ),
    "xeon-8380-snc2": (
        "the same with sub-NUMA clusters, 4 nodes",
        lambda n: grid(
            n, packages=2, nodes_per_package=2, cores_per_llc=20, threads=2, numbering="threads-last",
            distance=two_packages(11, 20, 2),
        ),
    ),
    "epyc-7742-nps1": ("2 EPYC 7742, 16 caches per node, 256 CPUs", lambda n: _epyc(n, 1, 16, 4)),
    "epyc-7742-nps4": ("the same with 4 nodes per socket", lambda n: _epyc(n, 4, 16, 4)),
    "epyc-9654-nps1": ("2 EPYC 9654, 12 caches per node, 384 CPUs", lambda n: _epyc(n, 1, 12, 8)),
    "epyc-9654-nps4": ("the same with 4 nodes per socket", lambda n: _epyc(n, 4, 12, 8)),
    "ring4": ("4 nodes in a ring, 2 CPUs each", lambda n: _ring(n, 4, 2)),
    "ring4x4": ("4 nodes in a ring, 4 CPUs each", lambda n: _ring(n, 4, 4)),
    "ring8": ("8 nodes in a ring, 2 CPUs each", lambda n: _ring(n, 8, 2)),
    "uma8": ("1 node, 8 CPUs", lambda n: grid(n, cores_per_llc=8)),
    "caches-2x1": ("1 node, 2 CPUs with a cache each", lambda n: grid(n, llcs_per_node=2)),
    "caches-2x4": ("1 node, 2 caches with 4 CPUs each", lambda n: grid(n, llcs_per_node=2, cores_per_llc=4)),
    "nodes-2x1": ("2 nodes, 1 CPU each", lambda n: grid(n, packages=2)),
    "nodes-2x2": ("2 nodes, 2 CPUs each", lambda n: grid(n, packages=2, cores_per_llc=2)),
    "nodes-2x4": ("2 nodes, 4 CPUs each", lambda n: grid(n, packages=2, cores_per_llc=4)),
    "nodes-2x16": ("2 nodes, 16 CPUs each", lambda n: grid(n, packages=2, cores_per_llc=16)),
}  # fmt: skip


def preset(name: str) -> Machine:
    """Return a machine by name."""
    if name not in PRESETS:
        near = difflib.get_close_matches(name, PRESETS, 1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        raise TopologyError(
            f"machine {name!r} is neither a preset{hint} nor an existing file; the presets are {', '.join(PRESETS)}."
        )
    return PRESETS[name][1](name)
