"""The lines that ftrace prints, as records (include/trace/events/sched.h and cpuhp.h, v6.12)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from support.random_schedules.tasks import Task

#: what ftrace prints about the context: interrupts off, need_resched, hardirq or softirq, preemption depth, migration disabled
IN_TASK, IN_SCHEDULE, IN_INTERRUPT, IN_SOFTIRQ = ".....", "d..2.", "dNh4.", "d.s4."


class Event(NamedTuple):
    """A line: when and where, in whose context, and what happened to which thread."""

    us: int
    cpu: int
    comm: str
    pid: int
    flags: str
    kind: str
    text: str
    #: ``uid`` of the thread that the event is about; of a switch, the thread that starts to run
    subject: int


@dataclass
class EventLog:
    """Collects events in the order in which they happen."""

    events: list[Event] = field(default_factory=list)
    #: nothing is kept before the recording begins
    on: bool = False

    def add(
        self, us: int, cpu: int, by: Task | None, flags: str, kind: str, text: str, task: Task
    ) -> None:
        """Keep an event in the context of the thread ``by``; None: of the idle thread."""
        if self.on:
            comm, pid = (by.comm, by.pid) if by else ("<idle>", 0)
            self.events.append(Event(us, cpu, comm, pid, flags, kind, text, task.uid))

    def switch(self, us: int, cpu: int, prev: Task | None, letter: str, to: Task | None) -> None:
        """A CPU stops one thread and starts another."""
        if not self.on:
            return
        idle = (f"swapper/{cpu}", 0, 120)
        a, b, c = (prev.comm, prev.pid, prev.prio) if prev else idle
        d, e, f = (to.comm, to.pid, to.prio) if to else idle
        text = (
            f"prev_comm={a} prev_pid={b} prev_prio={c} prev_state={letter} ==> "
            f"next_comm={d} next_pid={e} next_prio={f}"
        )
        comm = prev.comm if prev else "<idle>"
        self.events.append(
            Event(us, cpu, comm, b, IN_SCHEDULE, "sched_switch", text, to.uid if to else 0)
        )

    def wakeup(
        self, us: int, cpu: int, by: Task | None, flags: str, task: Task, kind: str = "sched_wakeup"
    ) -> None:
        """A thread is about to be woken (sched_waking), or was put on a runqueue."""
        text = f"comm={task.comm} pid={task.pid} prio={task.prio} target_cpu={task.cpu:03d}"
        self.add(us, cpu, by, flags, kind, text, task)

    def migrate(
        self, us: int, cpu: int, by: Task | None, flags: str, task: Task, dest: int
    ) -> None:
        """A thread gets another CPU."""
        text = (
            f"comm={task.comm} pid={task.pid} prio={task.prio} orig_cpu={task.cpu} dest_cpu={dest}"
        )
        self.add(us, cpu, by, flags, "sched_migrate_task", text, task)

    def fork(self, us: int, cpu: int, parent: Task, child: Task) -> None:
        """A thread makes another one."""
        text = f"comm={parent.comm} pid={parent.pid} child_comm={child.comm} child_pid={child.pid}"
        self.add(us, cpu, parent, IN_TASK, "sched_process_fork", text, child)

    def exec(self, us: int, cpu: int, task: Task) -> None:
        """A thread became another program."""
        text = f"filename=/usr/bin/{task.comm} pid={task.pid} old_pid={task.pid}"
        self.add(us, cpu, task, IN_TASK, "sched_process_exec", text, task)

    def exit(self, us: int, cpu: int, task: Task) -> None:
        """A thread ends."""
        text = f"comm={task.comm} pid={task.pid} prio={task.prio}"
        self.add(us, cpu, task, IN_TASK, "sched_process_exit", text, task)

    def hotplug(self, us: int, cpu: int, by: Task, online: bool) -> None:
        """The step of CPU hotplug in which the scheduler starts or stops to use a CPU."""
        step, target = ("sched_cpu_activate", 238) if online else ("sched_cpu_deactivate", 0)
        text = f"cpu: {cpu:04d} target: {target:3d} step: 237 ({step})"
        self.add(us, cpu, by, IN_TASK, "cpuhp_enter", text, by)
