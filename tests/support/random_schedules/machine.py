"""The runqueues, the clock, and ``schedule()``."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from support.random_schedules import balancing, bandwidth, execution, placement
from support.random_schedules.events import IN_INTERRUPT, IN_SCHEDULE, EventLog
from support.random_schedules.tasks import DEADLINE, FAIR, STOP, Group, Task

#: a woken thread that is this much behind the running one preempts it (sysctl_sched_wakeup_granularity, v6.1)
WAKEUP_GRANULARITY_US = 1_000
#: time that a round-robin thread gets (RR_TIMESLICE, include/linux/sched/rt.h, v6.12)
RR_SLICE_US = 100_000
ENDLESS = 10**11


@dataclass(frozen=True)
class Quality:
    """How well the fair class balances, as probabilities that an opportunity is used."""

    newidle: float = 1.0
    periodic: float = 1.0
    wake_idle: float = 1.0
    fork_idle: float = 1.0
    #: CPUs that never exchange fair threads with the others, as when a domain is missing
    apart: int = 0


#: a runqueue at a moment: whether its CPU is online, the running thread's uid (0: idle), the length, and the threads that wait:
#: their uids, the CPUs that could run them for certain, and those that could perhaps; and the uids of those that are throttled
Cell = tuple[bool, int, int, tuple[tuple[int, int, int], ...], tuple[int, ...]]


class Machine:
    """A machine whose scheduler is in a definite state at every moment; ``log`` has all of them."""

    def __init__(self, rng: random.Random, cpus: int, quality: Quality, hz: int = 250) -> None:
        self.rng, self.cpus, self.quality = rng, cpus, quality
        self.tick_us = 1_000_000 // hz
        self.now = 50_000_000
        self.events = EventLog()
        self.all = (1 << cpus) - 1
        #: online: it executes; active: threads may be placed there; isolated: no domain has it
        self.online = self.active = self.all
        self.isolated = 0
        self.current: list[Task | None] = [None] * cpus
        self.queue: list[list[Task]] = [[] for _ in range(cpus)]
        self.tasks: dict[int, Task] = {}
        self.groups: list[Group] = []
        self.stoppers: list[Task] = []
        self.works: list[list[Callable[[], None]]] = [[] for _ in range(cpus)]
        #: whether a stopper has to park, because its CPU goes offline
        self.parked = 0
        self.hotplug_threads: list[Task] = []
        self.softirq_threads: list[Task] = []
        self.cpusets: dict[str, int] = {}
        self.free_pids: list[int] = []
        self.pid_reuse = 0.0
        self.late_wakes = 0.0
        #: threads whose mask was changed, by uid
        self.rebound: set[int] = set()
        #: per CPU, how often a thread began to run, and for how long those ran that have stopped
        self.slices = [0] * cpus
        self.ran_us = [0] * cpus
        #: called before time passes, whether or not something changed
        self.audit: Callable[[Machine], None] | None = None
        self.log: list[tuple[int, tuple[Cell, ...]]] = []
        self._cells: list[Cell] = [(True, 0, 0, (), ())] * cpus
        self._dirty = self.all
        self._heap: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self._number = self._uid = 0
        self._last_pid = 1000
        self._turn = [0] * cpus
        self._since = [0] * cpus
        self._need_resched = self._ticking = 0

    # --- the clock

    def after(self, us: int, action: Callable[..., None], *arguments: Any) -> None:
        """Call ``action`` after so many microseconds."""
        self._number += 1
        heapq.heappush(self._heap, (self.now + max(1, us), self._number, action, arguments))

    def spend(self, us: int) -> None:
        """Let time pass in the middle of an action."""
        self.note()
        self.now += us

    def run_until(self, us: int) -> None:
        """Execute everything up to this time."""
        heap = self._heap
        while heap and heap[0][0] <= us:
            at, _, action, arguments = heapq.heappop(heap)
            if at > self.now:
                self.note()
                self.now = at
            action(*arguments)
        self.note()
        self.now = max(self.now, us)

    # --- the state, for the truth

    def touch(self, cpu: int) -> None:
        """Remember that the state of a CPU changed."""
        self._dirty |= 1 << cpu

    def touch_all(self) -> None:
        """Remember that the state of every CPU may have changed."""
        self._dirty = self.all

    def note(self) -> None:
        """Write the state into the log if it changed."""
        if self.audit is not None:
            self.audit(self)
        if not self._dirty:
            return
        for c in range(self.cpus):
            if self._dirty >> c & 1:
                self._cells[c] = self._cell(c)
        self._dirty = 0
        if self.log and self.log[-1][0] == self.now:
            self.log.pop()
        self.log.append((self.now, tuple(self._cells)))

    def _cell(self, c: int) -> Cell:
        current = self.current[c]
        waiting = [t for t in self.queue[c] if self.runnable(t)]
        length = len(waiting) + (current is not None)
        if current is None and waiting:
            waiting.remove(min(waiting, key=_order))  # it is about to run
        found = tuple((t.uid, self.certain(t), self.possible(t)) for t in waiting)
        throttled = tuple(t.uid for t in self.queue[c] if not self.runnable(t))
        return bool(self.online >> c & 1), current.uid if current else 0, length, found, throttled

    def possible(self, task: Task) -> int:
        """Return the CPUs on which a waiting thread could perhaps run now."""
        return task.mask & ~(task.group.throttled if task.group else 0)

    def certain(self, task: Task) -> int:
        """Return the CPUs on which a waiting thread could run now for certain: its group also has time to give there."""
        mask = self.possible(task) & self.active
        if task.group and task.group.pool <= 0:
            mask &= sum(1 << c for c, us in task.group.remaining.items() if us > 0)
        return mask

    # --- threads

    def add(self, comm: str, mask: int, **facts: Any) -> Task:
        """Make a sleeping thread on a random CPU of its mask."""
        if self.free_pids and self.rng.random() < self.pid_reuse:
            pid = self.free_pids.pop(self.rng.randrange(len(self.free_pids)))
        else:
            self._last_pid += self.rng.randrange(1, 4)
            pid = self._last_pid
        facts.setdefault("cpu", self.rng.choice([c for c in range(self.cpus) if mask >> c & 1]))
        task = Task(facts.pop("pid", pid), comm, mask, **facts)
        task.tgid = task.tgid or task.pid
        self._uid += 1
        task.uid = self._uid
        self.tasks[task.uid] = task
        return task

    def runnable(self, task: Task) -> bool:
        """Whether a queued thread counts: neither its group nor, of a deadline thread, its own budget is used up."""
        group = task.group
        return not task.dl_throttled and not (group and group.throttled >> task.cpu & 1)

    def length(self, cpu: int) -> int:
        """Return nr_running of a CPU."""
        return sum(map(self.runnable, self.queue[cpu])) + (self.current[cpu] is not None)

    # --- runqueues

    def enqueue(self, task: Task, cpu: int) -> None:
        """Put a thread on a runqueue, near the others' virtual time (place_entity(), kernel/sched/fair.c, v6.12)."""
        others = [t.vruntime for t in self.queue[cpu]]
        current = self.current[cpu]
        if current is not None:
            self.update(cpu)
            others.append(current.vruntime)
        if others:
            least = min(others)
            task.vruntime = min(max(task.vruntime, least - 2_000), least + 4_000)
        task.cpu, task.state, task.queued_at = cpu, "queued", self.now
        self.queue[cpu].append(task)
        bandwidth.enqueued(self, task)
        self.touch(cpu)

    def dequeue(self, task: Task) -> None:
        """Take a waiting thread off its runqueue."""
        self.queue[task.cpu].remove(task)
        bandwidth.dequeued(self, task)
        self.touch(task.cpu)

    def move(self, task: Task, dest: int, by: int, context: Task | None, flags: str) -> None:
        """Move a waiting thread to another runqueue, as an action of the CPU ``by`` in the context of a thread."""
        self.dequeue(task)
        self.events.migrate(self.now, by, context, flags, task, dest)
        self.enqueue(task, dest)
        if dest != by or self.current[dest] is None:
            self.check_preempt(task)

    def check_preempt(self, task: Task) -> None:
        """Ask a CPU to reschedule if a thread that was put there goes first (wakeup_preempt(), kernel/sched/core.c, v6.12)."""
        current = self.current[task.cpu]
        if not self.runnable(task):
            return
        if current is None or task.rank < min(current.rank, FAIR):
            self.resched(task.cpu)
        elif task.fair and current.fair:
            if current.vruntime - task.vruntime > WAKEUP_GRANULARITY_US:
                self.resched(task.cpu)
        elif task.rank == current.rank == DEADLINE and task.dl_end < current.dl_end:
            self.resched(task.cpu)

    def resched(self, cpu: int) -> None:
        """Set need_resched; the CPU schedules a little later, after an idle state or at the end of an interrupt."""
        if self._need_resched >> cpu & 1:
            return
        self._need_resched |= 1 << cpu
        slow = self.current[cpu] is None and self.rng.random() < 0.1
        self.after(
            self.rng.randrange(20, 80) if slow else self.rng.randrange(1, 12), self._due, cpu
        )

    def _due(self, cpu: int) -> None:
        if self._need_resched >> cpu & 1 and self.online >> cpu & 1:
            self.schedule(cpu)

    # --- time of the running thread

    def update(self, cpu: int) -> None:
        """Charge the running thread for the time since the last call (update_curr(), kernel/sched/fair.c, v6.12)."""
        task = self.current[cpu]
        if task is None or self.now == self._since[cpu]:
            return
        ran = self.now - self._since[cpu]
        self._since[cpu] = self.now
        task.left -= ran
        task.vruntime += ran
        if task.rank == DEADLINE:
            task.dl_budget -= ran
        elif task.group:
            bandwidth.charge(self, cpu, task, ran)

    def start_timer(self, cpu: int) -> None:
        """Come back when the running thread has computed what it wanted, or used its budget."""
        task = self.current[cpu]
        if task is None:
            return
        self._turn[cpu] += 1
        left = min(task.left, task.dl_budget) if task.rank == DEADLINE else task.left
        if left < ENDLESS:
            self.after(left, self._computed, cpu, self._turn[cpu])

    def _computed(self, cpu: int, turn: int) -> None:
        task = self.current[cpu]
        if task is None or self._turn[cpu] != turn:
            return
        self.update(cpu)
        if task.rank == DEADLINE and task.dl_budget <= 0 < task.left:
            # update_curr_dl(), kernel/sched/deadline.c, v6.12: throttled until the next period
            task.dl_throttled = True
            self.after(max(1, task.dl_end - self.now), self.replenish, task)
            self.schedule(cpu)
        elif task.left <= 0:
            execution.advance(self, task)
        else:
            self.start_timer(cpu)

    def replenish(self, task: Task) -> None:
        """Give a deadline thread the budget of its next period (dl_task_timer(), kernel/sched/deadline.c, v6.12)."""
        task.dl_budget, task.dl_end = task.dl_runtime, self.now + task.dl_period
        if not task.dl_throttled:
            return
        task.dl_throttled = False
        self.touch(task.cpu)
        self.check_preempt(task)
        balancing.push(self, task.cpu)

    # --- schedule()

    def schedule(self, cpu: int, letter: str | None = None) -> None:
        """Choose what a CPU runs next (__schedule(), kernel/sched/core.c, v6.12).

        ``letter`` is the state in which the running thread leaves; None: it would like to go on.
        """
        self.update(cpu)
        self._need_resched &= ~(1 << cpu)
        prev = self.current[cpu]
        self.current[cpu] = None
        if prev is not None:
            if letter is None:
                prev.state, prev.queued_at = "queued", self.now
                # a real-time thread that was preempted stays first of its priority
                self.queue[cpu].insert(0 if not prev.fair else len(self.queue[cpu]), prev)
            else:
                prev.state = "dead" if letter in "XZ" else "sleeping"
            bandwidth.put(self, cpu, prev)
        self.touch(cpu)
        chosen = self._best(cpu)
        urgent_left = prev is not None and STOP < prev.rank < FAIR
        if urgent_left and (chosen is None or chosen.fair):
            balancing.pull(self, cpu, prev)
            chosen = self._best(cpu)
        if chosen is None and self.active >> cpu & 1:
            balancing.newidle(self, cpu, prev)
            chosen = self._best(cpu)
        self._switch(cpu, prev, letter, chosen)

    def _best(self, cpu: int) -> Task | None:
        waiting = [t for t in self.queue[cpu] if self.runnable(t)]
        return min(waiting, key=_order, default=None)

    def _switch(self, cpu: int, prev: Task | None, letter: str | None, chosen: Task | None) -> None:
        if prev is not None and chosen is not prev:
            self.ran_us[cpu] += max(1, self.now - prev.picked_at)
        if chosen is not None:
            self.slices[cpu] += chosen is not prev
            self.queue[cpu].remove(chosen)
            chosen.state = "running"
            self.current[cpu] = chosen
            self._since[cpu] = self.now
            if chosen is not prev:
                chosen.picked_at = self.now
        self.touch(cpu)
        if chosen is not prev:
            # R+ is a preemption inside the kernel
            left_as = letter or ("R" if prev is None else self.rng.choice(("R", "R", "R+")))
            self.events.switch(self.now, cpu, prev, left_as, chosen)
        if chosen is None:
            return
        self.start_timer(cpu)
        if not self._ticking >> cpu & 1:
            self._ticking |= 1 << cpu
            self.after(self.tick_us - (self.now + 37 * cpu) % self.tick_us, self._tick, cpu)
        if any(not t.fair for t in self.queue[cpu]):
            balancing.push(self, cpu)

    # --- the tick

    def _tick(self, cpu: int) -> None:
        """Execute a tick of a busy CPU (sched_tick(), kernel/sched/core.c, v6.12); an idle CPU has none (NO_HZ_IDLE)."""
        task = self.current[cpu]
        if task is None or not self.online >> cpu & 1:
            self._ticking &= ~(1 << cpu)
            return
        self.after(self.tick_us, self._tick, cpu)
        self.update(cpu)
        waiting = [t for t in self.queue[cpu] if self.runnable(t)]
        if task.fair:
            fair = [t.vruntime for t in waiting if t.fair]
            if fair and min(fair) < task.vruntime and self.now - task.picked_at >= 2_500:
                self.resched(cpu)
        elif task.policy == "rr" and self.now - task.picked_at >= RR_SLICE_US:
            same = [t for t in waiting if t.rank == task.rank]
            if same:  # task_tick_rt(), kernel/sched/rt.c, v6.12: to the end of its priority's list
                self.queue[cpu].remove(same[0])
                self.queue[cpu].insert(0, same[0])
                self._rotate(cpu)
        balancing.ticked(self, cpu)

    def _rotate(self, cpu: int) -> None:
        task = self.current[cpu]
        assert task is not None
        self.schedule(cpu)
        # schedule() put it first of its priority; its slice is over, so it goes last
        if task in self.queue[cpu]:
            self.queue[cpu].remove(task)
            self.queue[cpu].append(task)

    # --- wakeups

    def wake(
        self, task: Task, by: int, flags: str, sync: bool = False, kind: str = "sched_wakeup"
    ) -> None:
        """Wake a sleeping thread, as an action of the CPU ``by`` (try_to_wake_up(), kernel/sched/core.c, v6.12)."""
        if task.state != "sleeping":
            return
        waker = self.current[by]
        if kind == "sched_wakeup":
            self.events.wakeup(self.now, by, waker, flags, task, "sched_waking")
            dest = placement.woken(self, task, by, sync)
            if dest != task.cpu:
                self.events.migrate(self.now, by, waker, flags, task, dest)
        else:  # wake_up_new_task() places a new thread without an event
            dest = placement.new(self, task, by)
        if task.rank == DEADLINE and self.now >= task.dl_end:
            task.dl_budget, task.dl_end = task.dl_runtime, self.now + task.dl_period
        if dest != by and kind == "sched_wakeup" and self.rng.random() < 0.5:
            # ttwu_queue_wakelist(): the other CPU puts the thread on its queue when the interrupt arrives
            self.spend(self.rng.randrange(1, 3))
            by, flags = dest, IN_INTERRUPT
        self.enqueue(task, dest)
        self.events.wakeup(self.now, by, self.current[by], flags, task, kind)
        self.check_preempt(task)
        if not task.fair:
            balancing.push(self, dest)

    def timer_wake(self, task: Task, sleep: int) -> None:
        """Wake a thread whose timer fired, in the interrupt of the CPU where it slept, or of a device's CPU."""
        if task.state != "sleeping" or task.sleeps != sleep:
            return
        by = task.cpu
        if task.kthread and not self.active & task.mask:
            self.after(50_000, self.timer_wake, task, sleep)  # what it serves is offline
            return
        if not self.online >> by & 1 or self.rng.random() < 0.1:
            by = self.rng.choice([c for c in range(self.cpus) if self.online >> c & 1])
        self.wake(task, by, IN_INTERRUPT if self.rng.random() < 0.8 else "d.s3.")

    def stop(self, cpu: int, work: Callable[[], None], by: int) -> None:
        """Let the stopper of a CPU do something (stop_one_cpu_nowait(), kernel/stop_machine.c, v6.12)."""
        self.works[cpu].append(work)
        self.wake(self.stoppers[cpu], by, IN_SCHEDULE)


def _order(task: Task) -> tuple[int, int]:
    """Sort as the classes choose: by rank, then deadlines by time, real-time threads in order, fair ones by virtual time."""
    if task.rank == DEADLINE:
        return task.rank, task.dl_end
    return min(task.rank, FAIR), task.vruntime if task.fair else 0
