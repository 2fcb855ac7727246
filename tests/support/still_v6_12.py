"""A machine under one of the kernels, usually v6.12.107, that stands still: functions of the engine are called on states.

A test sets the states up. Everything runs as plain Python.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Self

from wastedcores.kernels import KernelModel
from wastedcores.simulator.engine.balance import load_balance_v6_12_jit, nohz_v6_12_jit
from wastedcores.simulator.engine.balance.find_src_group_v6_12_jit import clear
from wastedcores.simulator.engine.codes import arrival, idle_type, log_op, task_state
from wastedcores.simulator.engine.core import schedule_jit
from wastedcores.simulator.engine.fair import entity_jit
from wastedcores.simulator.engine.tasks import program_jit
from wastedcores.simulator.engine.world import cpuset
from wastedcores.simulator.engine.world import rows_jit as rows
from wastedcores.simulator.engine.world.structs import (
    CfsRq,
    LbEnv,
    Rq,
    SchedDomain,
    SchedGroup,
    SgLbStats,
    TaskStruct,
)
from wastedcores.simulator.plain import still
from wastedcores.topology.machine import Machine
from wastedcores.workload.program import TaskSpec

MS = 1_000_000
V6_12 = KernelModel.named("v6.12.107")
#: how many tasks a test can make
TASKS = 48


def machine(
    nodes: int = 1, per_node: int = 4, threads: int = 1, l2: int = 0, far: int = 20
) -> Machine:
    """Return a machine of nodes with one LLC each; ``l2`` CPUs share an L2 cache (0: those of a core)."""
    sizes = {"node": per_node, "llc": per_node, "core": threads, "l2": l2 or threads}
    cpus = nodes * per_node
    facts = {f"{part}_of_cpu": [c // n for c in range(cpus)] for part, n in sizes.items()}
    far_apart = [[10 if a == b else far for b in range(nodes)] for a in range(nodes)]
    return Machine.from_dict(facts | {"name": "still", "cpus": cpus, "distance": far_apart})


def chain(first: Any, following: str) -> Iterator[Any]:
    """Yield the structs of a linked list."""
    while first:
        yield first
        first = getattr(first, following)


def tree(q: CfsRq) -> list[Any]:
    """Return the entities that wait on a queue, in order."""
    return list(chain(q.leftmost, "next"))


def tasks_of(rq: Rq) -> list[TaskStruct]:
    """Return the queued tasks of a CPU, the newest first (rq->cfs_tasks)."""
    return list(chain(rq.cfs_tasks, "cfs_tasks_next"))


def groups(sd: SchedDomain) -> list[SchedGroup]:
    """Return the ring of groups of a domain, the local one first."""
    return [SchedGroup(sd, sd.groups.row + i) for i in range(sd.nr_groups)]


class Still(still.Still):
    """A kernel on a machine, with tasks where a test puts them; besides the root, there are task groups from 1 on."""

    def __init__(self, m: Machine, *, kernel: KernelModel = V6_12, groups: int = 0) -> None:
        # each task has a set of CPUs of its own, which allow() writes
        specs = [TaskSpec("t", (), allowed=frozenset([m.cpus + i])) for i in range(TASKS)]
        super().__init__(m, kernel, specs, shares=[1024] * (1 + groups))
        self.made = 0
        self.go_to(1 << 32)  # a whole number of the periods of load tracking
        for rq in self.k.rqs:
            rq.tick_stopped, rq.idle_stamp = 0, 1000 + rq.cpu
            if kernel.is_modern:
                self.call(nohz_v6_12_jit.busy_again, rq.cpu)
                self.cfs(rq.cpu).avg.last_update = self.k.now_ns
        if kernel.is_modern:
            self.modern, self.fair = self.call(rows.modern), self.call(rows.fair_class)
            self.modern.nohz_has_blocked = self.modern.nohz_needs_update = 0
            self.scan(0)
        self.begun = self.m[: self.k.log0].copy()

    def again(self) -> Self:
        """Return to the beginning, which takes less time than another boot."""
        self.m[: self.k.log0] = self.begun
        self.made = 0
        return self

    def go_to(self, now_ns: int) -> None:
        """Let it be another time."""
        self.k.now_ns, self.k.jiffies = now_ns, now_ns // self.k.tick_ns

    def later(self, ns: int) -> None:
        """Let time pass."""
        self.go_to(self.k.now_ns + ns)

    def cfs(self, cpu: int = 0, group: int = 0) -> CfsRq:
        """Return the queue of a task group on a CPU; its entity is the group's, and its task_group the group."""
        return CfsRq(self.k, self.k.cfs_rq0 + group * self.k.nr_cpus + cpu)

    def sd(self, cpu: int = 0, level: int = -1) -> SchedDomain:
        """Return a domain of a CPU, 0 for the innermost one and -1 for the outermost."""
        rq = self.k.rqs[cpu]
        return SchedDomain(self.k, rq.sd.row + range(rq.nr_domains)[level])

    def allow(self, p: TaskStruct, cpus: Iterable[int]) -> None:
        """Let a task run on these CPUs only."""
        self.m[p.cpus_allowed] = cpuset.bits_of(cpus := list(cpus))
        p.nr_cpus_allowed = len(cpus)

    def new(self, cpu: int = 0, allowed=None, nice: int = 0, group: int = 0) -> TaskStruct:
        """Return a task that is new on a CPU."""
        p = self.tasks[self.made]
        self.made += 1
        p.group = group
        self.allow(p, range(self.machine.cpus) if allowed is None else allowed)
        self.call(program_jit.set_nice, p, nice)
        self.call(entity_jit.set_task_rq, p, cpu)
        if self.model.is_modern:
            self.fair.task_fork(self.k, p)
        return p

    def task(self, cpu: int = 0, allowed=None) -> TaskStruct:
        """Return a task that sleeps; its averages are 0 and count on ``cpu``, and it used CPU 0 before."""
        p = self.new(cpu, allowed)
        p.state, p.recent_used_cpu = task_state.SLEEPING, 0
        p.se.avg.load_avg = 0
        p.se.avg.last_update = self.k.now_ns
        return p

    def run(self, *cpus: int) -> list[TaskStruct]:
        """Let a new task run, or wait, on each of these CPUs."""
        out = []
        for cpu in cpus:
            p = self.task(cpu)
            p.state = task_state.READY
            self.fair.enqueue_task(self.k, p, arrival.MOVED)
            if not self.k.rqs[cpu].curr:
                self.schedule(cpu)
            out.append(p)
        return out

    def schedule(self, cpu: int) -> None:
        """Let a CPU choose what it runs."""
        self.call(schedule_jit.schedule, cpu)

    def sleeps(self, p: TaskStruct) -> None:
        """Let the running task go to sleep."""
        p.state = task_state.SLEEPING
        self.schedule(p.cpu)

    def scan(self, limit: int, idle_cores: int = 0) -> None:
        """Set what the LLCs of all CPUs know for the search of idle CPUs."""
        for rq in self.k.rqs:
            if rq.sd_llc:
                rq.sd_llc.shared.nr_idle_scan, rq.sd_llc.shared.has_idle_cores = limit, idle_cores

    def env(
        self, level: int = -1, cpu: int = 0, idle: int = idle_type.IDLE, src: int = -1
    ) -> LbEnv:
        """Begin an attempt to balance."""
        env = LbEnv(self.k, self.k.scratch + 4)
        begin = load_balance_v6_12_jit.begin
        self.call(begin, env, cpu, self.sd(cpu, level), idle, log_op.PERIODIC)
        env.src_cpu = src
        return env

    def stats(self, row: int, group: SchedGroup, **sums: int) -> SgLbStats:
        """Write statistics of a group into one of the three rows (codes/stats_row.py)."""
        s = SgLbStats(self.k, self.k.scratch + row)
        self.call(clear, s)
        for name, value in {"group": group, **sums}.items():
            setattr(s, name, value)
        return s
