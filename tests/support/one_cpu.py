"""One CPU under the fair class of a modern kernel, driven step by step: enqueue, tick, block, wake."""

from __future__ import annotations

from typing import Self

from support.still_v6_12 import MS, V6_12, Still
from wastedcores.kernels import KernelModel
from wastedcores.simulator.engine.codes import arrival, task_state
from wastedcores.simulator.engine.core import wakeup_jit
from wastedcores.simulator.engine.fair import eevdf_jit
from wastedcores.simulator.engine.world.structs import SchedAvg, TaskStruct
from wastedcores.topology.machine import Machine


class OneCpu(Still):
    """CPU 0 of a machine; ``order`` has the name of the task that ran in each tick."""

    def __init__(self, cpus: int = 8, kernel: KernelModel = V6_12, groups: int = 0) -> None:
        machine = Machine.from_dict(
            {"name": "flat", "cpus": cpus, "node_of_cpu": [0] * cpus, "distance": [[10]]}
        )
        super().__init__(machine, kernel=kernel, groups=groups)
        self.rq = self.k.rqs[0]
        self.zero = self.k.now_ns
        self.named: dict[str, TaskStruct] = {}
        self.order = ""

    def again(self) -> Self:
        self.named, self.order = {}, ""
        return super().again()

    @property
    def now(self) -> int:
        """Time since the start, in ns."""
        return self.k.now_ns - self.zero

    def add(self, name: str, nice: int = 0, group: int = 0, from_zero: bool = False) -> TaskStruct:
        """Fork a task on the CPU, with the averages of a new task or without any."""
        self.named[name] = p = self.new(0, [0], nice, group)
        self.comms[p.template] = name
        self.fair.post_init_entity_util_avg(self.k, p)
        if from_zero:
            for field in SchedAvg.__fields__:
                setattr(p.se.avg, field, 0)
        p.state = task_state.READY
        self.fair.enqueue_task(self.k, p, arrival.NEW)
        self.fair.wakeup_preempt(self.k, 0, p, False)
        return p

    def settle(self) -> None:
        """Let the CPU reschedule if it was asked to."""
        while self.rq.need_resched:
            self.schedule(0)

    def go(self, to_ns: int) -> None:
        """Let time pass, without ticks."""
        self.go_to(self.zero + to_ns)

    def tick(self) -> None:
        """Run to the next tick and handle it."""
        self.order += self.rq.curr.comm if self.rq.curr else "-"
        self.go((self.now // (4 * MS) + 1) * 4 * MS)
        if self.rq.curr:
            self.fair.task_tick(self.k, self.rq.curr)
        self.settle()

    def block(self) -> None:
        """Let the running task go to sleep."""
        self.rq.curr.state = task_state.SLEEPING
        self.rq.need_resched = 1
        self.settle()

    def wake(self, p: TaskStruct) -> None:
        """Wake a task, which may still be queued."""
        self.call(wakeup_jit.try_to_wake_up, p, 0)
        self.settle()

    def charge(self) -> None:
        """Charge the running task up to now."""
        if self.rq.curr:
            self.call(eevdf_jit.update_curr, self.cfs())
