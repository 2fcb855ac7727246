"""One CPU under the fair class of a modern kernel, driven step by step: enqueue, tick, block, wake."""

from __future__ import annotations

from wastedcores.kernels import KernelModel
from wastedcores.simulator.reference import Kernel, schedule
from wastedcores.simulator.reference.state import SchedAvg, Task
from wastedcores.topology.domains import domain_events
from wastedcores.topology.machine import Machine

MS = 1_000_000
V6_12 = KernelModel.named("v6.12.107")


class OneCpu:
    """CPU 0 of a machine; ``order`` has the name of the task that ran in each tick."""

    def __init__(self, cpus: int = 8, kernel: KernelModel = V6_12) -> None:
        machine = Machine.from_dict(
            {"name": "flat", "cpus": cpus, "node_of_cpu": [0] * cpus, "distance": [[10]]}
        )
        self.k = Kernel(machine, kernel, domain_events(machine, kernel))
        self.k.attach_domains(self.k.trees[0], 0)
        self.rq = self.k.rqs[0]
        self.k.now_ns = self.zero = 1 << 32  # a whole number of the periods of load tracking
        self.tasks: dict[str, Task] = {}
        self.order = ""

    @property
    def now(self) -> int:
        """Time since the start, in ns."""
        return self.k.now_ns - self.zero

    def add(self, name: str, nice: int = 0, group=None, from_zero: bool = False) -> Task:
        """Fork a task on the CPU, with the averages of a new task or without any."""
        p = Task(len(self.tasks) + 100, name, group or self.k.groups[0], frozenset([0]), nice)
        self.tasks[name] = p
        self.k.fair.set_task_rq(p, 0)
        self.k.fair.task_fork(self.k, p)
        self.k.fair.post_init(self.k, p)
        if from_zero:
            p.se.avg = SchedAvg()
        p.state = "R"
        self.k.fair.enqueue_task(self.k, self.rq, p, initial=True)
        self.k.check_preempt_curr(self.rq, p)
        return p

    def settle(self) -> None:
        """Let the CPU reschedule if it was asked to."""
        while self.rq.need_resched:
            schedule.schedule(self.k, self.rq)

    def go(self, to_ns: int) -> None:
        """Let time pass, without ticks."""
        self.k.now_ns = self.zero + to_ns

    def tick(self) -> None:
        """Run to the next tick and handle it."""
        self.order += self.rq.curr.comm
        self.go((self.now // (4 * MS) + 1) * 4 * MS)
        if self.rq.curr is not self.rq.idle_task:
            self.k.fair.task_tick(self.k, self.rq, self.rq.curr)
        self.settle()

    def block(self) -> None:
        """Let the running task go to sleep."""
        self.rq.curr.state = "S"
        self.rq.need_resched = True
        self.settle()

    def wake(self, p: Task) -> None:
        """Wake a task, which may still be queued."""
        schedule.try_to_wake_up(self.k, p, 0, sync=False)
        self.settle()

    def charge(self) -> None:
        """Charge the running task up to now."""
        if self.rq.curr is not self.rq.idle_task:
            self.k.fair.update_curr(self.k, self.rq.cfs)
