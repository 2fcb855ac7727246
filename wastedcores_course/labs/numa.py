"""Machines of several nodes for labs 2 and 3: random distance tables with one and two hops."""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import combinations

from wastedcores.topology.domains import build_domains
from wastedcores.topology.machine import Machine
from wastedcores.topology.presets import grid

#: the distances of a node to itself, over one hop, and over two
LOCAL, ONE_HOP, TWO_HOPS = 10, 16, 22
CPUS_PER_NODE = 2

Table = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Nodes:
    """A machine of several nodes with two CPUs each, and the CPU whose view counts."""

    distance: Table  #: the distance table
    cpu: int  #: a CPU, not on node 0

    @property
    def machine(self) -> Machine:
        """The machine."""
        return machine_of(self.distance)

    @property
    def node(self) -> int:
        """The node of the CPU."""
        return self.cpu // CPUS_PER_NODE

    def within(self, node: int, distance: int) -> list[int]:
        """Return the CPUs of all nodes that are at most this far from a node."""
        near = (n for n, d in enumerate(self.distance[node]) if d <= distance)
        return [c for n in near for c in cpus_of(n)]

    def hops(self, a: int, b: int) -> int:
        """Return the number of hops between two nodes."""
        return (LOCAL, ONE_HOP, TWO_HOPS).index(self.distance[a][b])


def cpus_of(node: int) -> range:
    """Return the CPUs of a node."""
    return range(node * CPUS_PER_NODE, (node + 1) * CPUS_PER_NODE)


def nodes_of(cpus: list[int]) -> list[int]:
    """Return the nodes of some CPUs, ascending."""
    return sorted({c // CPUS_PER_NODE for c in cpus})


def machine_of(distance: Table) -> Machine:
    """Return the machine with this distance table, one package and one last-level cache per node."""
    return grid(
        f"{len(distance)} nodes x {CPUS_PER_NODE} cores",
        packages=len(distance),
        cores_per_llc=CPUS_PER_NODE,
        distance=distance,
    )


def draw_nodes(rng: random.Random, least: int, most: int) -> Nodes:
    """Draw a machine; :func:`is_two_hops` tells whether each of its nodes has neighbours and nodes two hops away."""
    n = rng.randrange(least, most + 1)
    table = [[LOCAL] * n for _ in range(n)]
    for a, b in combinations(range(n), 2):
        table[a][b] = table[b][a] = rng.choice((ONE_HOP, TWO_HOPS))
    return Nodes(tuple(map(tuple, table)), rng.randrange(CPUS_PER_NODE, n * CPUS_PER_NODE))


def is_two_hops(distance: Table) -> bool:
    """Tell whether every node has nodes one and two hops away, and whether nodes two hops apart have a common neighbour."""
    nodes = range(len(distance))
    if any({ONE_HOP, TWO_HOPS} - set(row) for row in distance):
        return False
    return all(
        distance[a][b] != TWO_HOPS
        or any(distance[a][c] == ONE_HOP == distance[c][b] for c in nodes)
        for a, b in combinations(nodes, 2)
    )


def groups_of(machine: Machine, kernel: str) -> dict[int, list[list[int]]]:
    """Return the scheduling groups of the widest domain of each CPU."""
    built = build_domains(machine, kernel)
    return {cpu: [g.cpus for g in built.of(cpu)[-1].groups] for cpu in built.cpus}


def by_hops(distance: Table) -> str:
    """Return a distance table as text, a row per node."""
    head = "        " + " ".join(f"{n:>3}" for n in range(len(distance)))
    rows = [f"node {n:>2} " + " ".join(f"{d:>3}" for d in row) for n, row in enumerate(distance)]
    return "\n".join([head, *rows])
