"""A recording of one CPU, and the fair class of its kernel asked at each of its decisions which thread comes next.

Everything but the choice is taken from the recording: when schedule() ran, which threads woke, blocked or were forked. After a
choice the recorded thread runs, so that one deviation does not change all later ones.
"""

from __future__ import annotations

import lzma
import re
from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from support.one_cpu import V6_12, OneCpu
from wastedcores.kernels import KernelModel
from wastedcores.simulator.reference import schedule, tasks_v6_12
from wastedcores.simulator.reference.state import Task

_LINE = re.compile(r"\s*(.+)-(\d+)\s+\[(\d+)\]\s+\S+\s+([\d.]+): (\w+): (.*)")
_FIELD = re.compile(r"(\w+)=(\S+)")
_THREAD = re.compile(r"n-?\d+-\d+$")
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


@dataclass
class Event:
    """A recorded event, or a tick; ``fields`` are those of the tracepoint."""

    ts_us: int
    pid: int
    cpu: int
    kind: str
    fields: dict[str, str] = field(default_factory=dict)

    def number(self, name: str) -> int:
        return int(self.fields[name])


def read(path: Path) -> list[Event]:
    """Read the events of an ftrace text."""
    out = []
    with lzma.open(path, "rt") as lines:
        for line in lines:
            if m := _LINE.match(line):
                ts_us = round(float(m[4]) * 1e6)
                out.append(Event(ts_us, int(m[2]), int(m[3]), m[5], dict(_FIELD.findall(m[6]))))
    return out


def _is_stopper(comm: str) -> bool:
    return comm.startswith("migration/")


class RecordedCpu:
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
        self.cpu, self.worker_lag_ns = OneCpu(2, kernel), worker_lag_ns
        self.k, self.rq = self.cpu.k, self.cpu.rq
        self.group = self.k.add_group("autogroup", 1024) if autogroup else self.k.groups[0]
        self.switches = [e for e in events if e.cpu == 1 and e.kind == "sched_switch"]
        self.comm = {e.number("prev_pid"): e.fields["prev_comm"] for e in self.switches}
        self.nice = {e.number("prev_pid"): e.number("prev_prio") - 120 for e in self.switches}
        self.tasks: dict[int, Task] = {0: self.rq.idle_task}
        self.choices: list[Choice] = []
        self.niced: set[int] = set()
        self.moved = moved or {}
        #: the number of the event that is handled
        self.number = 0
        self.base_us = events[0].ts_us // _TICK_US * _TICK_US
        self.creator = events[0].pid
        self.at(events[0].ts_us)
        self._begin(events)
        for number, event in enumerate(self._with_ticks(events)):
            self.number = number
            self.at(event.ts_us)
            getattr(self, "on_" + event.kind, lambda event: None)(event)

    def at(self, ts_us: int) -> None:
        ns = (ts_us - self.base_us) * 1_000 + self.moved.get(self.number, 0)
        self.cpu.go(max(ns, self.cpu.now))

    def _begin(self, events: list[Event]) -> None:
        """Let the creator run, beside the threads that were queued before the recording began."""
        woken = {e.number("pid") for e in events if e.kind.startswith("sched_wakeup")}
        for pid, comm in self.comm.items():
            user = pid == self.creator or _THREAD.match(comm)
            if pid and pid not in woken and not user and not _is_stopper(comm):
                self.enqueue(pid, in_group=False)
        self.enqueue(self.creator, in_group=True, initial=True)
        self.rq.need_resched = False
        creator = self.tasks[self.creator]
        self.k.fair.set_next_task(self.k, creator)
        self.rq.curr = creator

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
        group = self.group if in_group else self.k.groups[0]
        p = Task(pid, self.comm.get(pid, str(pid)), group, frozenset([0]), state="R")
        self.tasks[pid] = p
        self.k.fair.set_task_rq(p, 0)
        self.k.fair.task_fork(self.k, p)
        self.k.fair.post_init(self.k, p)
        if p.comm.startswith("kworker"):
            p.se.vlag = self.worker_lag_ns
        # under CFS, a thread that slept since before the recording is placed as one that has slept for long
        slept = not initial and not self.k.model.rules.eevdf
        if slept:
            p.se.vruntime = self.rq.cfs.min_vruntime - self.k.latency_ns
            p.se.avg.last_update = self.k.now_ns
        self.k.fair.enqueue_task(self.k, self.rq, p, wakeup=slept, initial=initial)
        self.k.check_preempt_curr(self.rq, p)

    # --- events -------------------------------------------------------------------------------------------------------

    def on_tick(self, event: Event) -> None:
        if self.rq.curr is not self.rq.idle_task and not self.rq.stopper:
            self.k.fair.task_tick(self.k, self.rq, self.rq.curr)

    def on_no_switch(self, event: Event) -> None:
        if self.rq.need_resched and not self.rq.stopper:
            self.choose(event.ts_us, self.rq.curr)

    def on_sched_wakeup_new(self, event: Event) -> None:
        if event.fields["target_cpu"] == "001":
            self.enqueue(event.number("pid"), in_group=True, initial=True)

    def on_sched_wakeup(self, event: Event) -> None:
        pid = event.number("pid")
        if event.fields["target_cpu"] != "001" or _is_stopper(event.fields["comm"]):
            return
        if pid not in self.tasks:
            self.enqueue(pid, in_group=False)
        elif self.tasks[pid].state == "S":
            schedule.try_to_wake_up(self.k, self.tasks[pid], 0, sync=False)

    def on_sched_migrate_task(self, event: Event) -> None:
        p = self.tasks.get(event.number("pid"))
        if p is not None and p.on_rq and event.fields["orig_cpu"] == "1":
            self.k.fair.dequeue_task(self.k, self.rq, p, sleep=False)
            p.state = "S"

    def on_sched_switch(self, event: Event) -> None:
        if event.cpu != 1:
            return
        if _is_stopper(event.fields["next_comm"]):
            self.k.fair.put_prev_task(self.k, self.rq.curr)
            self.rq.stopper = True
            return
        following = self.tasks[event.number("next_pid")]
        if event.fields["prev_state"][0] in "SID" and not self.rq.stopper:
            self.rq.curr.state = "S"
        self.choose(event.ts_us, following)

    # --- decisions ----------------------------------------------------------------------------------------------------

    def choose(self, ts_us: int, recorded: Task) -> None:
        """Ask the model for the next task, and let the recorded one run."""
        k, rq, prev = self.k, self.rq, self.rq.curr
        if prev.state == "S" and prev.on_rq and not rq.stopper:
            k.fair.dequeue_task(k, rq, prev, sleep=True)
        asked = rq.need_resched or rq.stopper or prev.state == "S"
        chosen = k.fair.pick_task(k, rq) or rq.idle_task
        if not asked:
            chosen = prev  # the model would not have called schedule()
        gap = None
        if chosen is not recorded and chosen.se.cfs_rq is recorded.se.cfs_rq:
            key = "deadline" if k.model.rules.eevdf else "vruntime"
            gap = getattr(recorded.se, key) - getattr(chosen.se, key)
        self.choices.append(Choice(ts_us, recorded.comm, chosen.comm, gap))
        rq.need_resched = False
        if rq.stopper:
            k.fair.set_next_task(k, recorded)
            rq.stopper = False
        elif recorded is not prev:
            schedule._switch_entities(k, prev.se, recorded.se)
        rq.curr = recorded
        if recorded.pid in self.nice and recorded.pid not in self.niced:
            self._set_nice(recorded)

    def _set_nice(self, p: Task) -> None:
        """Let a thread that runs for the first time set its nice value."""
        self.niced.add(p.pid)
        if _THREAD.match(p.comm) and self.nice[p.pid]:
            k = self.k
            k.now_ns += _NICE_NS
            tasks_v6_12.set_user_nice(k, p, self.nice[p.pid])
            self.rq.need_resched = False
