"""A machine under a modern kernel, at first v6.12.107, that stands still: functions of the reference are called on states.

A test sets the states up.
"""

from __future__ import annotations

from wastedcores.kernels import KernelModel
from wastedcores.simulator.reference import Kernel, schedule
from wastedcores.simulator.reference.state import Task
from wastedcores.topology.domains import domain_events
from wastedcores.topology.machine import Machine

V6_12 = KernelModel.named("v6.12.107")


def machine(
    nodes: int = 1, per_node: int = 4, threads: int = 1, l2: int = 0, far: int = 20
) -> Machine:
    """Return a machine of nodes with one LLC each; ``l2`` CPUs share an L2 cache (0: those of a core)."""
    cpus = range(nodes * per_node)
    facts = {
        "name": "still",
        "cpus": len(cpus),
        "node_of_cpu": [c // per_node for c in cpus],
        "distance": [[10 if a == b else far for b in range(nodes)] for a in range(nodes)],
        "core_of_cpu": [c // threads for c in cpus],
        "llc_of_cpu": [c // per_node for c in cpus],
        "l2_of_cpu": [c // (l2 or threads) for c in cpus],
    }
    return Machine.from_dict(facts)


class Still:
    """A kernel on a machine, with tasks where a test puts them."""

    def __init__(self, m: Machine, *, kernel: KernelModel = V6_12) -> None:
        self.k = Kernel(m, kernel, domain_events(m, kernel))
        self.k.attach_domains(self.k.trees[0], 0)
        self.k.now_ns = 1 << 32
        self.everyone = frozenset(range(m.cpus))
        self.made = 0
        for rq in self.k.rqs:
            rq.idle_stamp = 1000 + rq.cpu
            rq.cfs.avg.last_update = self.k.now_ns

    def task(self, cpu: int = 0, allowed=None, comm: str = "t") -> Task:
        """Return a task that sleeps; its averages are 0 and count on ``cpu``."""
        self.made += 1
        p = Task(100 + self.made, comm, self.k.groups[0], frozenset(allowed or self.everyone))
        p.state = "S"
        self.k.fair.set_task_rq(p, cpu)
        self.k.fair.task_fork(self.k, p)
        p.se.avg.load_avg = 0
        p.se.avg.last_update = self.k.now_ns
        return p

    def run(self, *cpus: int, comm: str = "busy") -> list[Task]:
        """Let a new task run, or wait, on each of these CPUs."""
        out = []
        for cpu in cpus:
            p = self.task(cpu, comm=comm)
            p.state = "R"
            rq = self.k.rqs[cpu]
            self.k.fair.enqueue_task(self.k, rq, p)
            if rq.curr is rq.idle_task:
                schedule.schedule(self.k, rq)
            out.append(p)
        return out

    def scan(self, limit: int, idle_cores: bool = False) -> None:
        """Set what the LLCs of all CPUs know for the search of idle CPUs."""
        for rq in self.k.rqs:
            for sd in rq.sd:
                if sd.shared is not None:
                    sd.shared.nr_idle_scan = limit
                    sd.shared.has_idle_cores = idle_cores
