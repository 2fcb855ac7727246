"""The examples of the talk's introduction to CFS, on machines with four CPUs.

Source: the slides of "The Linux Scheduler: a Decade of Wasted Cores", EuroSys 2016. The numbers that the slides print are in
``tests/lecture/test_lecture.py``; nothing here computes a load.
"""

from __future__ import annotations

from dataclasses import dataclass

from wastedcores.simulator.plain.stepping import (
    Decision,
    Thread,
    balancing_pass,
    cpu_after_wakeup,
)
from wastedcores.topology.machine import Machine
from wastedcores.topology.presets import grid


def _two_by_two() -> Machine:
    # two nodes in one package, as on the paper's machine: only there does hotplug lose levels
    return grid("2 nodes x 2 cores", nodes_per_package=2, cores_per_llc=2)


#: the topologies of the lecture; each has four CPUs
TOPOLOGIES = {
    "2 nodes x 2 cores": _two_by_two(),
    "2 nodes x 2 cores, CPU 3 was offline": _two_by_two().offline(3).online(3),
    "1 node x 4 cores": grid("1 node x 4 cores", cores_per_llc=4),
    "1 node x 2 cores x 2 SMT threads": grid(
        "1 node x 2 cores x 2 SMT threads", cores_per_llc=2, threads=2
    ),
    "4 nodes in a ring": grid(
        "4 nodes in a ring",
        packages=4,
        distance=[[10, 16, 22, 16], [16, 10, 16, 22], [22, 16, 10, 16], [16, 22, 16, 10]],
    ),
}


@dataclass(frozen=True)
class CpuThreads:
    """The threads of one CPU, which are all alike."""

    threads: int = 0  #: how many there are
    #: as in :class:`wastedcores.simulator.plain.stepping.Thread`
    weight: int = 10
    percent: int = 100
    session_threads: int = 1
    pinned: bool = False  #: whether the threads may run on this CPU only


@dataclass(frozen=True)
class Example:
    """A state from which CPUs balance."""

    rows: tuple[CpuThreads, ...]  #: the threads of each CPU
    topology: str = "2 nodes x 2 cores"  #: a name of :data:`TOPOLOGIES`
    kernel: str = "v4.1"  #: name of a kernel model

    @property
    def machine(self) -> Machine:
        """The machine."""
        return TOPOLOGIES[self.topology]

    @property
    def threads(self) -> list[Thread]:
        """All threads, in the order of their CPUs."""
        return [
            Thread(cpu, r.weight, r.percent, r.session_threads, (cpu,) if r.pinned else None)
            for cpu, r in enumerate(self.rows)
            for _ in range(r.threads)
        ]

    def decisions(self, passes: int = 1) -> list[Decision]:
        """Return the decisions of at most ``passes`` balancing passes over all CPUs."""
        return balancing_pass(self.machine, self.kernel, self.threads, passes=passes)


_EMPTY = CpuThreads()
_IMBALANCED = (
    CpuThreads(1),
    _EMPTY,
    CpuThreads(4, session_threads=8),
    CpuThreads(4, session_threads=8),
)

#: the examples of the slides in their order
EXAMPLES = {
    "averages of groups": Example(tuple(CpuThreads(n, weight=5) for n in (4, 6, 8, 6))),
    "a level that fails": Example(
        (CpuThreads(6, pinned=True), _EMPTY, CpuThreads(3), CpuThreads(3))
    ),
    "sessions": Example((CpuThreads(1), CpuThreads(4, session_threads=4)) * 2),
    "without sessions": Example((CpuThreads(1), CpuThreads(4)) * 2),
    "group imbalance": Example(_IMBALANCED),
    "group imbalance, minimum": Example(_IMBALANCED, kernel="v4.1+group_imbalance"),
    "missing domains": Example(
        (CpuThreads(8), _EMPTY, _EMPTY, _EMPTY), "2 nodes x 2 cores, CPU 3 was offline"
    ),
}


def pinned_to_two_nodes() -> tuple[Machine, list[Thread]]:
    """Return the paper's machine, and 16 threads that are pinned to its nodes 1 and 2, two hops apart, and begin on node 1."""
    machine = Machine.preset("bulldozer8x8")
    first, second = machine.cpus_of_node(1), machine.cpus_of_node(2)
    return machine, [Thread(c, allowed=(*first, *second)) for c in first for _ in range(2)]


def threads_per_node_after_wakeup(kernel: str) -> tuple[int, int]:
    """Return how many of 16 threads each of two nodes with eight CPUs has after one of the nine threads of node 0 woke up.

    Seven threads run on node 1, where a CPU is idle. On node 0 eight threads run. The ninth slept there and is woken there.
    """
    machine = grid("2 nodes x 8 cores", nodes_per_package=2, cores_per_llc=8)
    running = [Thread(cpu) for cpu in range(machine.cpus - 1)]
    cpu = cpu_after_wakeup(machine, kernel, running, Thread(0), waker_cpu=1)
    nodes = [int(machine.node_of_cpu[c]) for c in (*(t.cpu for t in running), cpu)]
    return nodes.count(0), nodes.count(1)
