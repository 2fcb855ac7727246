"""A recording of a whole machine, and the placement of its kernel asked at each wakeup and fork for the CPU.

Everything but the choice is taken from the recording, so that one deviation does not change later ones: who runs where, who
sleeps, and the CPU that each task got. Loads are tracked as the kernel does. A recording does not show three things. The
waker of a task that the CPU of the task itself puts on its queue, is taken to be that CPU's current task. No wakeup counts
as a synchronous one. And a search may look at all CPUs of the LLC, because the kernel's limit is not recorded.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from support.recorded_cpu import Event, read
from wastedcores.kernels import KernelModel
from wastedcores.simulator.reference import Kernel, eevdf_class, placement_v6_12
from wastedcores.simulator.reference import pelt_v6_12 as pelt
from wastedcores.simulator.reference.idle_sibling_v6_12 import update_idle_core
from wastedcores.simulator.reference.signals_v6_12 import task_dead
from wastedcores.simulator.reference.state import Rq, Task
from wastedcores.topology.domains import domain_events
from wastedcores.topology.machine import Machine

TICK_US = 4_000
#: a wakeup follows the choice of its CPU within this time
SOON_US = 50
#: an interrupt reaches another CPU of the lockstep guest after a round of 4 us
IPI_US = 4
EPOCH_NS = 1_000_000_000 * 4
V6_12 = KernelModel.named("v6.12.107")


@dataclass
class Placed:
    """A placement: ``kind`` is ``wakeup``, ``delayed`` (it was still queued), ``fork``; the CPUs are before, chosen, recorded."""

    ts_us: int
    kind: str
    comm: str
    waker_cpu: int
    before: int
    chosen: int
    recorded: int
    idle: frozenset[int]


class RecordedMachine:
    """The run of one recording; ``placed`` has every wakeup and fork whose task was seen before."""

    def __init__(self, path: Path, machine: Machine, kernel: KernelModel = V6_12) -> None:
        events = [e for e in read(path) if e.kind.startswith("sched_")]
        self.k = Kernel(machine, kernel, domain_events(machine, kernel))
        self.k.attach_domains(self.k.trees[0], 0)
        self.k.log_considered = lambda *_: None  # type: ignore[method-assign]
        self.tasks: dict[int, Task] = {}
        self.placed: list[Placed] = []
        #: sleepers that the balancer moved, and how many of these the model had on a queue, too
        self.pulled = self.pulled_queued = 0
        self.base_us = self._tick_us(events)
        #: the jiffy of the last event, and that of the last update of idle CPUs
        self.jiffies = self.blocked = 0
        self.everyone = frozenset(range(machine.cpus))
        for rq in self.k.rqs:
            rq.idle_stamp = 1
            for sd in rq.sd:
                if sd.shared is not None:
                    sd.shared.nr_idle_scan = len(sd.span)
        #: for each CPU, when it puts tasks on its queue that others woke; they count from the interrupt before
        self.arriving: dict[int, list[tuple[int, int]]] = {}
        for e in events:
            if e.kind == "sched_wakeup" and e.number("target_cpu") == e.cpu:
                self.arriving.setdefault(e.cpu, []).append((e.ts_us, e.number("pid")))
        self._begin(events)
        self._mark_newidle(events)
        self._mark_wakeups(events)
        for event in events:
            self.ts_us = event.ts_us
            self.k.now_ns = EPOCH_NS + (event.ts_us - self.base_us) * 1_000
            self._ticks()
            self.k.cpu = event.cpu
            getattr(self, "on_" + event.kind, lambda event: None)(event)
            self.k.log.clear()

    def _begin(self, events: list[Event]) -> None:
        """Let the tasks run that the first switch of each CPU finds there."""
        self.k.now_ns = EPOCH_NS
        first: dict[int, Event] = {}
        for event in events:
            if event.kind == "sched_switch":
                first.setdefault(event.cpu, event)
        woken = {e.number("pid") for e in events if e.kind.startswith("sched_wakeup")}
        seen = {e.pid for e in events[:1]}
        for cpu, event in first.items():
            pid = event.number("prev_pid")
            if pid and (pid not in woken or pid in seen):
                self._current(self.k.rqs[cpu], event)

    @staticmethod
    def _mark_newidle(events: list[Event]) -> None:
        """Mark moves that a CPU makes inside schedule(), after its task has left the queue to sleep."""
        following: dict[int, Event] = {}
        for event in reversed(events):
            if event.kind == "sched_switch":
                following[event.cpu] = event
            elif event.kind == "sched_migrate_task" and event.number("dest_cpu") == event.cpu:
                switch = following.get(event.cpu)
                if switch and switch.pid == event.pid and switch.fields["prev_state"][0] != "R":
                    event.fields["newidle"] = switch.fields["prev_state"]

    @staticmethod
    def _mark_wakeups(events: list[Event]) -> None:
        """Mark the moves that belong to a wakeup, which follows at once. The balancer moves queued sleepers, too."""
        woken: dict[int, int] = {}
        for event in reversed(events):
            if event.kind == "sched_wakeup":
                woken[event.number("pid")] = event.ts_us
            elif event.kind == "sched_migrate_task":
                later = woken.get(event.number("pid"), event.ts_us + SOON_US)
                event.fields["wakes"] = "yes" if later < event.ts_us + SOON_US else ""

    @staticmethod
    def _tick_us(events: list[Event]) -> int:
        """Return the time of a tick before the first event: most switches follow a tick."""
        times = Counter(e.ts_us % TICK_US for e in events if e.kind == "sched_switch")
        phase = times.most_common(1)[0][0] - 5
        return (events[0].ts_us - phase) // TICK_US * TICK_US + phase

    def _ticks(self) -> None:
        """Let the averages of busy CPUs follow at each tick, and those of idle ones every 32 ms (LOAD_AVG_PERIOD)."""
        if self.k.jiffies == self.jiffies:
            return
        self.jiffies, now = self.k.jiffies, self.k.now_ns
        self.k.now_ns = self.jiffies * self.k.tick_ns
        for rq in self.k.rqs:
            if rq.curr is not rq.idle_task:
                self.k.fair.task_tick(self.k, rq, rq.curr)
                if rq.need_resched:
                    self.k.fair.pick_task(self.k, rq)
                    rq.need_resched = False
            elif self.jiffies >= self.blocked + 8:
                pelt.update_queue(self.k.now_ns, rq.cfs)
        if self.jiffies >= self.blocked + 8:
            self.blocked = self.jiffies
        self.k.now_ns = now

    # --- state --------------------------------------------------------------------------------------------------------

    def new(self, pid: int, comm: str, cpu: int) -> Task:
        p = Task(pid, comm, self.k.groups[0], self.everyone, state="S")
        self.tasks[pid] = p
        self.k.fair.set_task_rq(p, cpu)
        self.k.fair.task_fork(self.k, p)
        return p

    def queue(self, p: Task, cpu: int) -> None:
        """Put a task on the queue of a CPU, wherever it is."""
        if p.on_rq:
            if p.cpu == cpu and not p.se.sched_delayed:
                return
            self.k.fair.dequeue_task(self.k, self.k.rqs[p.cpu], p, sleep=False)
        if p.cpu != cpu:
            self.k.fair.migrate_task(self.k, p)
        self.k.fair.set_task_rq(p, cpu)
        if not p.se.avg.last_update and not p.se.sum_exec:
            self.k.fair.post_init(self.k, p)
        p.se.sched_delayed = False
        p.state = "R"
        self.k.fair.enqueue_task(self.k, self.k.rqs[cpu], p, wakeup=True)

    def on_sched_switch(self, event: Event) -> None:
        rq = self.k.rqs[event.cpu]
        prev = self._current(rq, event)
        self._leave(rq, prev, event.fields["prev_state"])
        self.k.fair.pick_task(self.k, rq)  # takes sleepers off the queue that it would choose
        pid = event.number("next_pid")
        if pid:
            p = self.tasks.get(pid) or self.new(pid, event.fields["next_comm"], event.cpu)
            self.queue(p, event.cpu)
        self._put(rq)
        if not pid:
            self._drain(rq)
            rq.curr = rq.idle_task
            rq.idle_stamp = self.k.now_ns
            update_idle_core(self.k, rq)
        else:
            self.k.fair.set_next_task(self.k, p)
            p.comm = event.fields["next_comm"]
            rq.curr = p
            if prev is rq.idle_task:
                rq.idle_stamp = 0
        if prev.state == "X":
            task_dead(prev)

    def _leave(self, rq: Rq, p: Task, state: str) -> None:
        """Take the running task off its queue if it goes to sleep or dies."""
        if p is rq.idle_task or state[0] == "R" or p.state != "R":
            return
        p.state = "X" if state[0] in "XZ" else "S"
        self.k.fair.dequeue_task(self.k, rq, p, sleep=True)

    def _current(self, rq: Rq, event: Event) -> Task:
        """Return the task that runs, which may be seen for the first time."""
        pid = event.number("prev_pid")
        if rq.curr.pid != pid and pid:
            p = self.tasks.get(pid) or self.new(pid, event.fields["prev_comm"], event.cpu)
            self._put(rq)
            self.queue(p, event.cpu)
            self.k.fair.set_next_task(self.k, p)
            rq.curr = p
        return rq.curr

    def _put(self, rq: Rq) -> None:
        if rq.curr is not rq.idle_task and rq.cfs.curr is not None:
            self.k.fair.put_prev_task(self.k, rq.curr)

    def _drain(self, rq: Rq) -> None:
        """Take everything off the queue of a CPU that has nothing to run: sleepers that were still queued."""
        for p in list(rq.cfs_tasks):
            self._take_off(p)
            p.state = "S"

    def _take_off(self, p: Task) -> None:
        """Take a sleeper off its queue, on which it may have stayed."""
        rq = self.k.rqs[p.cpu]
        if self.k.model.rules.eevdf:
            delayed = p.se.sched_delayed
            eevdf_class.dequeue_entities(
                self.k, rq, p.se, sleep=True, delayed=delayed, special=True
            )
        else:
            self.k.fair.dequeue_task(self.k, rq, p, sleep=True)

    # --- placements ---------------------------------------------------------------------------------------------------

    def on_sched_wakeup_new(self, event: Event) -> None:
        p = self.new(event.number("pid"), event.fields["comm"], event.cpu)
        self.ask(p, "fork", event.cpu, event.number("target_cpu"))
        self.queue(p, event.number("target_cpu"))

    def on_sched_migrate_task(self, event: Event) -> None:
        p = self.tasks.get(event.number("pid"))
        target = event.number("dest_cpu")
        if p is None:
            self.new(event.number("pid"), event.fields["comm"], target)
        elif p.state == "S" and not event.fields["wakes"]:
            self.pulled += 1
            if p.se.sched_delayed:
                self.k.fair.dequeue_task(self.k, self.k.rqs[p.cpu], p, sleep=False)
                self.k.set_task_cpu(p, target)
                self.k.fair.enqueue_task(self.k, self.k.rqs[target], p)
                self.pulled_queued += 1
        elif p.state == "R":
            if self.k.rqs[p.cpu].curr is p:
                self._put(self.k.rqs[p.cpu])
            if "newidle" in event.fields:
                rq = self.k.rqs[event.cpu]
                self._leave(rq, rq.curr, event.fields["newidle"])
            self.queue(p, target)
        else:
            self.ask(p, "wake", event.cpu, target)
            self.leave(p, target)

    def leave(self, p: Task, target: int) -> None:
        """Move a sleeper to the CPU on which it wakes."""
        if p.on_rq:
            self._take_off(p)
        p.state = "waking"
        self.k.fair.migrate_task(self.k, p)
        self.k.fair.set_task_rq(p, target)

    def on_sched_wakeup(self, event: Event) -> None:
        p = self.tasks.get(event.number("pid"))
        target = event.number("target_cpu")
        if p is None:
            p = self.new(event.number("pid"), event.fields["comm"], target)
        elif p.state == "S":
            self.ask(p, "wake", event.cpu, target)
        if p.state != "R":
            if p.se.sched_delayed and p.cpu == target:
                self.k.fair.enqueue_task(self.k, self.k.rqs[target], p)
                p.state = "R"
            else:
                self.queue(p, target)

    def _is_pending(self, cpu: int, p: Task) -> bool:
        """Tell whether another task than ``p`` is on its way to a CPU."""
        at = self.arriving[cpu]
        i = bisect_right(at, (self.ts_us, 1 << 30))
        return any(pid != p.pid and ts - self.ts_us <= IPI_US for ts, pid in at[i : i + 3])

    def ask(self, p: Task, flag: str, cpu: int, recorded: int) -> None:
        """Compare the model's choice with the recorded one."""
        pending = [c for c in self.arriving if self._is_pending(c, p)]
        for c in pending:
            self.k.rqs[c].wake_list.append(p)
        idle = frozenset(c for c in self.everyone if self.k.idle_cpu(c))
        before = p.cpu
        if p.se.sched_delayed:
            kind, chosen = "delayed", p.cpu
        else:
            kind = "fork" if flag == "fork" else "wakeup"
            chosen = placement_v6_12.select_task_rq_fair(self.k, p, p.cpu, flag, cpu, False)
        for c in pending:
            self.k.rqs[c].wake_list.clear()
        if "/" not in p.comm:  # the threads of one CPU are called NAME/CPU
            self.placed.append(
                Placed(self.k.now_ns // 1000, kind, p.comm, cpu, before, chosen, recorded, idle)
            )
