"""A recording of one CPU, and the fair class of its kernel asked at each of its decisions which thread comes next.

Everything but the choice is taken from the recording: when schedule() ran, which threads woke, blocked or were forked. After a
choice the recorded thread runs, so that one deviation does not change all later ones.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from support.recorded_kernel import V6_12, Event, RecordedKernel, read
from wastedcores.kernels import KernelModel
from wastedcores.simulator.engine.codes import arrival, dequeue, task_state
from wastedcores.simulator.engine.core import wakeup_jit
from wastedcores.simulator.engine.fair import cfs_jit
from wastedcores.simulator.engine.world.structs import NO_TASK, TaskStruct
from wastedcores.topology.machine import Machine

_FLAT = Machine.from_dict({"name": "flat", "cpus": 2, "node_of_cpu": [0] * 2, "distance": [[10]]})
_ZERO_NS = 1 << 32  # a whole number of the periods of load tracking
_THREAD = re.compile(r"n(-?\d+)-\d+$")
_TICK_US = 4_000
#: time from the fork of a thread to its setpriority(), after it began to run
_NICE_NS = 10_000
#: schedule() follows its tick within this time
_SOON_US = 40


@dataclass
class Choice:
    """A decision of the CPU: what the recording and the model chose, and by how much they differ, in ns.

    Deadlines differ under EEVDF, and virtual times under CFS.
    """

    ts_us: int
    recorded: str
    chosen: str
    gap_ns: int | None


def _is_stopper(comm: str) -> bool:
    return comm.startswith("migration/")


class RecordedCpu(RecordedKernel):
    """The run of one recording; ``choices`` has every decision of CPU 1.

    Parameters
    ----------
    path
        The recording.
    worker_lag_ns
        The lag of a kworker when it first wakes. It is the only fact about the time before the recording that matters.
    moved
        For each event by its number, how much later it happens than its stamp says, in ns.
    kernel
        The kernel that was recorded.
    autogroup
        Autogroups were on.
    """

    def __init__(
        self,
        path: Path,
        worker_lag_ns: int = 0,
        moved: dict[int, int] | None = None,
        kernel: KernelModel = V6_12,
        autogroup: bool = True,
    ) -> None:
        events = [
            e for e in read(path) if e.kind.startswith("sched_") or e.kind == "tracing_mark_write"
        ]
        super().__init__(_FLAT, kernel, events, frozenset([0]))
        self.worker_lag_ns, self.rq = worker_lag_ns, self.k.rqs[0]
        self.group = 1 if autogroup else 0
        #: the task that runs, or that the stopper interrupted
        self.curr = NO_TASK
        self.stopper = False
        self.switches = [e for e in events if e.cpu == 1 and e.kind == "sched_switch"]
        self.comm = {e.number("prev_pid"): e.fields["prev_comm"] for e in self.switches}
        self.tasks: dict[int, TaskStruct] = {0: NO_TASK}
        self.choices: list[Choice] = []
        self.moved = moved or {}
        #: the number of the event that is handled
        self.number = 0
        self.base_us = events[0].ts_us // _TICK_US * _TICK_US
        self.k.now_ns = _ZERO_NS
        self.creator = events[0].pid
        self.go(events[0].ts_us)
        self._begin(events)
        for number, event in enumerate(self._with_ticks(events)):
            self.number = number
            self.go(event.ts_us)
            getattr(self, "on_" + event.kind, lambda event: None)(event)

    def go(self, ts_us: int) -> None:
        ns = (ts_us - self.base_us) * 1_000 + self.moved.get(self.number, 0)
        self.at(max(_ZERO_NS + ns, self.k.now_ns))

    def _begin(self, events: list[Event]) -> None:
        """Let the creator run, beside the threads that were queued before the recording began."""
        woken = {e.number("pid") for e in events if e.kind.startswith("sched_wakeup")}
        for pid, comm in self.comm.items():
            user = pid == self.creator or _THREAD.match(comm)
            if pid and pid not in woken and not user and not _is_stopper(comm):
                self.enqueue(pid, in_group=False)
        self.enqueue(self.creator, in_group=True, initial=True)
        self.rq.need_resched = 0
        self.run(self.tasks[self.creator], NO_TASK)

    def run(self, p: TaskStruct, prev: TaskStruct) -> None:
        """Put back the task that ran, and let another one run."""
        self.fair.set_picked(self.k, p, prev)
        self.curr = self.rq.curr = p

    def _with_ticks(self, events: list[Event]) -> list[Event]:
        """Put the ticks between the events, and a call of schedule() behind each tick without a recorded switch."""
        times = [e.ts_us for e in self.switches]
        usual = Counter(t % _TICK_US for t in times[20:]).most_common(1)[0][0]
        phase = min(p for t in times[20:] if abs((p := t % _TICK_US) - usual) < 20) - 2
        out = [(e.ts_us, 1, e) for e in events]
        for ts_us in range(self.base_us + phase, events[-1].ts_us, _TICK_US):
            if ts_us < events[0].ts_us:
                continue
            out.append((ts_us, 0, Event(ts_us, 0, 1, "tick")))
            i = bisect_left(times, ts_us)
            if i == len(times) or times[i] - ts_us >= _SOON_US:
                out.append((ts_us + 12, 2, Event(ts_us + 12, 0, 1, "no_switch")))
        return [event for *_, event in sorted(out, key=lambda e: e[:2])]

    def enqueue(self, pid: int, in_group: bool, initial: bool = False) -> None:
        """Make a task that begins on this CPU now."""
        group = self.group if in_group else 0
        p = self.new(self.comm.get(pid, str(pid)), 0, task_state.READY, group)
        self.tasks[pid] = p
        self.fair.post_init_entity_util_avg(self.k, p)
        if p.comm.startswith("kworker"):
            p.se.vlag = self.worker_lag_ns
        # under CFS, a thread that slept since before the recording is placed as one that has slept for long
        slept = not initial and not self.model.rules.eevdf
        if slept:
            p.se.vruntime = self.cfs(0).min_vruntime - self.k.sched_latency
            p.se.avg.last_update = self.k.now_ns
        how = arrival.WOKEN if slept else arrival.NEW if initial else arrival.MOVED
        self.fair.enqueue_task(self.k, p, how)
        self.call(cfs_jit.check_preempt, 0, p, False)

    # --- events -------------------------------------------------------------------------------------------------------

    def on_tick(self, event: Event) -> None:
        if self.rq.curr:
            self.fair.task_tick(self.k, self.curr)

    def on_no_switch(self, event: Event) -> None:
        if self.rq.need_resched and not self.stopper:
            self.choose(event.ts_us, self.curr)

    def on_sched_wakeup_new(self, event: Event) -> None:
        if event.fields["target_cpu"] == "001":
            self.enqueue(event.number("pid"), in_group=True, initial=True)

    def on_sched_wakeup(self, event: Event) -> None:
        pid = event.number("pid")
        if event.fields["target_cpu"] != "001" or _is_stopper(event.fields["comm"]):
            return
        if pid not in self.tasks:
            self.enqueue(pid, in_group=False)
        elif self.tasks[pid].state == task_state.SLEEPING:
            self.call(wakeup_jit.try_to_wake_up, self.tasks[pid], 0)

    def on_sched_migrate_task(self, event: Event) -> None:
        p = self.tasks.get(event.number("pid"))
        if p and p.se.on_rq and event.fields["orig_cpu"] == "1":
            self.fair.dequeue_task(self.k, p, dequeue.MIGRATING)
            p.state = task_state.SLEEPING

    def on_sched_switch(self, event: Event) -> None:
        if event.cpu != 1:
            return
        if _is_stopper(event.fields["next_comm"]):
            self.fair.put_prev_task(self.k, self.curr)
            self.rq.curr, self.stopper = NO_TASK, True
            return
        following = self.tasks[event.number("next_pid")]
        if event.fields["prev_state"][0] in "SID" and not self.stopper:
            self.curr.state = task_state.SLEEPING
        self.choose(event.ts_us, following)

    # --- decisions ----------------------------------------------------------------------------------------------------

    def choose(self, ts_us: int, recorded: TaskStruct) -> None:
        """Ask the engine for the next task, and let the recorded one run."""
        k, rq, prev = self.k, self.rq, self.curr
        sleeps = prev.state == task_state.SLEEPING
        if sleeps and prev.se.on_rq and not self.stopper:
            self.fair.dequeue_task(k, prev, 1)
        asked = rq.need_resched or self.stopper or sleeps
        chosen = self.fair.pick_task(k, 0)
        if not asked:
            chosen = prev  # the kernel would not have called schedule()
        gap = None
        if chosen != recorded and chosen.se.cfs_rq == recorded.se.cfs_rq:
            key = "deadline" if self.model.rules.eevdf else "vruntime"
            gap = getattr(recorded.se, key) - getattr(chosen.se, key)
        self.choices.append(Choice(ts_us, recorded.comm, chosen.comm, gap))
        rq.need_resched = 0
        self.run(recorded, NO_TASK if self.stopper else prev)
        self.stopper = False
        named = _THREAD.match(recorded.comm)
        if named and recorded.nice != int(
            named[1]
        ):  # it runs for the first time, and sets its nice value
            self.at(k.now_ns + _NICE_NS)
            self.fair.set_user_nice(k, recorded, int(named[1]))
            rq.need_resched = 0
