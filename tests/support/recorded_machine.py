"""A recording of a whole machine, and the placement of its kernel asked at each wakeup and fork for the CPU.

Everything but the choice is taken from the recording, so that one deviation does not change later ones: who runs where, who
sleeps, and the CPU that each task got. Loads are tracked as the kernel does. A recording does not show three things. The
waker of a task that the CPU of the task itself puts on its queue, is taken to be that CPU's current task. No wakeup counts
as a synchronous one. And a search may look at all CPUs of the LLC, because the kernel's limit is not recorded.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from support.recorded_kernel import V6_12, Event, RecordedKernel, read
from wastedcores.kernels import KernelModel
from wastedcores.simulator.engine.balance import idle_sibling_v6_12_jit, placement_v6_12_jit
from wastedcores.simulator.engine.codes import arrival, sd_flag, task_state
from wastedcores.simulator.engine.codes.dequeue import DELAYED, MIGRATING, SLEEP, SPECIAL
from wastedcores.simulator.engine.fair import eevdf_class_jit, entity_jit, pelt_v6_12_jit
from wastedcores.simulator.engine.world.structs import NO_TASK, Rq, TaskStruct
from wastedcores.topology.machine import Machine

TICK_US = 4_000
#: a wakeup follows the choice of its CPU within this time
SOON_US = 50
#: an interrupt reaches another CPU of the lockstep guest after a round of 4 us
IPI_US = 4
EPOCH_NS = 1_000_000_000 * 4


@dataclass
class Placed:
    """A placement: ``kind`` is ``wakeup``, ``delayed`` (it was still queued), ``fork``; the CPUs are before, chosen, recorded."""

    ts_us: int
    kind: str
    comm: str
    before: int
    chosen: int
    recorded: int


class RecordedMachine(RecordedKernel):
    """The run of one recording; ``placed`` has every wakeup and fork whose task was seen before."""

    def __init__(
        self, path: Path, machine: Machine, kernel: KernelModel = V6_12, **policies: Callable
    ) -> None:
        events = [e for e in read(path) if e.kind.startswith("sched_")]
        super().__init__(machine, kernel, events, policies=policies)
        self.tasks: dict[int, TaskStruct] = {}
        #: the recorded pids of tasks by their rows
        self.pids = {NO_TASK.row: 0}
        self.placed: list[Placed] = []
        #: sleepers that the balancer moved, and how many of these the model had on a queue, too
        self.pulled = self.pulled_queued = 0
        self.base_us = self._tick_us(events)
        #: the jiffy of the last event, and that of the last update of idle CPUs
        self.jiffies = self.blocked = 0
        for rq in self.k.rqs:
            rq.idle_stamp = 1
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
            self.at(EPOCH_NS + (event.ts_us - self.base_us) * 1_000)
            self._ticks()
            self.k.this_cpu = event.cpu
            getattr(self, "on_" + event.kind, lambda event: None)(event)

    def _begin(self, events: list[Event]) -> None:
        """Let the tasks run that the first switch of each CPU finds there."""
        self.at(EPOCH_NS)
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
            if rq.curr:
                self.fair.task_tick(self.k, rq.curr)
                if rq.need_resched:
                    self.fair.pick_task(self.k, rq.cpu)
                    rq.need_resched = 0
            elif self.jiffies >= self.blocked + 8:
                self.call(pelt_v6_12_jit.update_queue, self.cfs(rq.cpu))
        if self.jiffies >= self.blocked + 8:
            self.blocked = self.jiffies
        self.k.now_ns = now

    # --- state --------------------------------------------------------------------------------------------------------

    def born(self, pid: int, comm: str, cpu: int) -> TaskStruct:
        p = self.tasks[pid] = self.new(comm, cpu, task_state.SLEEPING)
        self.pids[p.row] = pid
        return p

    def queue(self, p: TaskStruct, cpu: int) -> None:
        """Put a task on the queue of a CPU, wherever it is."""
        if p.se.on_rq:
            if p.cpu == cpu and not p.se.sched_delayed:
                return
            self.fair.dequeue_task(self.k, p, MIGRATING)
        if p.cpu != cpu:
            self.fair.migrate_task_rq(self.k, p)
        self.call(entity_jit.set_task_rq, p, cpu)
        if not p.se.avg.last_update and not p.se.sum_exec_runtime:
            self.fair.post_init_entity_util_avg(self.k, p)
        p.se.sched_delayed = 0
        p.state = task_state.READY
        self.fair.enqueue_task(self.k, p, arrival.WOKEN)

    def on_sched_switch(self, event: Event) -> None:
        rq = self.k.rqs[event.cpu]
        prev = self._current(rq, event)
        self._leave(prev, event.fields["prev_state"])
        self.fair.pick_task(self.k, rq.cpu)  # takes sleepers off the queue that it would choose
        pid = event.number("next_pid")
        p = NO_TASK
        if pid:
            p = self.tasks.get(pid) or self.born(pid, event.fields["next_comm"], event.cpu)
            self.queue(p, event.cpu)
        self._put(rq)
        if pid:
            self._set(rq, p)
            self.still.comms[p.template] = event.fields["next_comm"]
            if not prev:
                rq.idle_stamp = 0
        else:
            self._drain(rq)
            rq.curr = NO_TASK
            rq.idle_stamp = self.k.now_ns
            self.call(idle_sibling_v6_12_jit.update_idle_core, rq.cpu)
        if prev and prev.state == task_state.DEAD:
            self.fair.task_dead(self.k, prev)

    def _leave(self, p: TaskStruct, state: str) -> None:
        """Take the running task off its queue if it goes to sleep or dies."""
        if p and state[0] != "R" and p.state == task_state.READY:
            p.state = task_state.DEAD if state[0] in "XZ" else task_state.SLEEPING
            self.fair.dequeue_task(self.k, p, 1)

    def _current(self, rq: Rq, event: Event) -> TaskStruct:
        """Return the task that runs, which may be seen for the first time."""
        pid = event.number("prev_pid")
        if pid not in (0, self.pids[rq.curr.row]):
            p = self.tasks.get(pid) or self.born(pid, event.fields["prev_comm"], event.cpu)
            self._put(rq)
            self.queue(p, event.cpu)
            self._set(rq, p)
        return rq.curr

    def _set(self, rq: Rq, p: TaskStruct) -> None:
        self.fair.set_picked(self.k, p, NO_TASK)
        rq.curr = p

    def _put(self, rq: Rq) -> None:
        if rq.curr and self.cfs(rq.cpu).curr:
            self.fair.set_picked(self.k, NO_TASK, rq.curr)

    def _drain(self, rq: Rq) -> None:
        """Take everything off the queue of a CPU that has nothing to run: sleepers that were still queued."""
        while rq.cfs_tasks:
            p = rq.cfs_tasks
            self._take_off(p)
            p.state = task_state.SLEEPING

    def _take_off(self, p: TaskStruct) -> None:
        """Take a sleeper off its queue, on which it may have stayed."""
        if self.model.rules.eevdf:
            flags = SLEEP | SPECIAL | (DELAYED if p.se.sched_delayed else 0)
            self.call(eevdf_class_jit.dequeue_entities, p.se, flags)
        else:
            self.fair.dequeue_task(self.k, p, 1)

    # --- placements ---------------------------------------------------------------------------------------------------

    def on_sched_wakeup_new(self, event: Event) -> None:
        p = self.born(event.number("pid"), event.fields["comm"], event.cpu)
        self.ask(p, sd_flag.BALANCE_FORK, event.number("target_cpu"))
        self.queue(p, event.number("target_cpu"))

    def on_sched_migrate_task(self, event: Event) -> None:
        p = self.tasks.get(event.number("pid"))
        target = event.number("dest_cpu")
        if p is None:
            self.born(event.number("pid"), event.fields["comm"], target)
        elif p.state == task_state.SLEEPING and not event.fields["wakes"]:
            self.pulled += 1
            if p.se.sched_delayed:
                self.fair.dequeue_task(self.k, p, MIGRATING)
                self.move(p, target)
                self.fair.enqueue_task(self.k, p, arrival.MOVED)
                self.pulled_queued += 1
        elif p.state == task_state.READY:
            if self.k.rqs[p.cpu].curr == p:
                self._put(self.k.rqs[p.cpu])
            if "newidle" in event.fields:
                self._leave(self.k.rqs[event.cpu].curr, event.fields["newidle"])
            self.queue(p, target)
        else:
            self.ask(p, sd_flag.BALANCE_WAKE, target)
            if p.se.on_rq:
                self._take_off(p)
            p.state = task_state.WAKING
            self.move(p, target)

    def move(self, p: TaskStruct, target: int) -> None:
        """Move a task that is not queued to another CPU."""
        self.fair.migrate_task_rq(self.k, p)
        self.call(entity_jit.set_task_rq, p, target)

    def on_sched_wakeup(self, event: Event) -> None:
        p = self.tasks.get(event.number("pid"))
        target = event.number("target_cpu")
        if p is None:
            p = self.born(event.number("pid"), event.fields["comm"], target)
        elif p.state == task_state.SLEEPING:
            self.ask(p, sd_flag.BALANCE_WAKE, target)
        if p.state != task_state.READY:
            if p.se.sched_delayed and p.cpu == target:
                self.fair.enqueue_task(self.k, p, arrival.MOVED)
                p.state = task_state.READY
            else:
                self.queue(p, target)

    def _is_pending(self, cpu: int, p: TaskStruct) -> bool:
        """Tell whether another task than ``p`` is on its way to a CPU."""
        at = self.arriving[cpu]
        i = bisect_right(at, (self.ts_us, 1 << 30))
        own = self.pids[p.row]
        return any(pid != own and ts - self.ts_us <= IPI_US for ts, pid in at[i : i + 3])

    def ask(self, p: TaskStruct, flag: int, recorded: int) -> None:
        """Compare the engine's choice with the recorded one."""
        pending = [c for c in self.arriving if self._is_pending(c, p)]
        for c in pending:
            self.k.rqs[c].wake_list = p
        before = p.cpu
        if p.se.sched_delayed:
            kind, chosen = "delayed", p.cpu
        else:
            kind = "fork" if flag == sd_flag.BALANCE_FORK else "wakeup"
            chosen = self.call(placement_v6_12_jit.select_task_rq_fair, p, flag, 0)
        for c in pending:
            self.k.rqs[c].wake_list = NO_TASK
        if "/" not in p.comm:  # the threads of one CPU are called NAME/CPU
            now_us = self.k.now_ns // 1000
            self.placed.append(Placed(now_us, kind, p.comm, before, chosen, recorded))
