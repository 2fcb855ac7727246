"""An independent test of a schedule: the machine's states, the truth, and the text.

A wrong truth would be worse than none. The auditor copies the whole state whenever time passes, so it notices a change that the
machine forgot to log, and it counts waste in the plainest way.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import pairwise

from support.random_schedules.drawing import Schedule
from support.random_schedules.machine import Machine
from support.random_schedules.tasks import Group, Task

#: the longest time from need_resched to the switch, in microseconds; other actions may come between
SOON_US = 400


@dataclass
class Auditor:
    """Copies states, and collects what a kernel would never do."""

    faults: list[str] = field(default_factory=list)
    #: of every state: its moment, the CPUs that idle, and the threads that wait with the CPUs that they may use
    states: list[tuple[int, frozenset[int], tuple[tuple[int, frozenset[int]], ...]]] = field(
        default_factory=list
    )
    _since: dict[tuple[str, int], int] = field(default_factory=dict)
    _used: dict[Group, int] = field(default_factory=dict)
    _last: int = 0
    _machine: Machine = None  # type: ignore[assignment]
    _running: list[tuple[int, Group | None]] = field(default_factory=list)
    first: int = 0

    def __call__(self, m: Machine) -> None:
        """Look at the machine before time passes."""
        self.first = self.first or m.now
        self._machine = m
        for _, group in self._running:
            if group is not None:
                self._used[group] = self._used.get(group, 0) + m.now - self._last
        self._last = m.now
        self._running = [(t.uid, t.group) for t in m.current if t is not None]
        places: dict[int, list[int]] = {}
        idle, waiting = set(), []
        for c in range(m.cpus):
            current = m.current[c]
            runnable = []
            for task in m.queue[c]:
                places.setdefault(task.uid, []).append(c)
                throttled = task.group is not None and task.group.throttled >> c & 1
                if not throttled and not task.dl_throttled:
                    runnable.append(task)
                if task.cpu != c or task.state != "queued":
                    self._fault(m, f"{task.comm} is {task.state} on {task.cpu}, found on {c}")
            if current is not None:
                places.setdefault(current.uid, []).append(c)
                if current.cpu != c or current.state != "running":
                    self._fault(
                        m, f"{current.comm} is {current.state} on {current.cpu}, runs on {c}"
                    )
            if not m.online >> c & 1:
                if current is not None or runnable:
                    self._fault(m, f"CPU {c} is offline and has work")
                continue
            self._soon(m, "idle beside its own queue", c, current is None and bool(runnable))
            misplaced = current is not None and not current.mask >> c & 1
            self._soon(m, "runs where it may not", c, misplaced)
            first = min((t.rank for t in runnable), default=1000)
            urgent = current is not None and first < min(current.rank, 100)
            self._soon(m, "a higher class waits", c, urgent)
            spent = current is not None and current.group is not None
            spent = spent and bool(current.group.throttled >> c & 1)  # type: ignore[union-attr]
            self._soon(m, "a throttled thread runs", c, spent)
            if current is None and not runnable:
                idle.add(c)
            for task in runnable if current is not None else _all_but_next(runnable):
                stopped = task.group.throttled if task.group else 0
                usable = [k for k in range(m.cpus) if task.mask >> k & 1 and not stopped >> k & 1]
                waiting.append((task.uid, frozenset(usable)))
        for uid, where in places.items():
            if len(where) > 1:
                self._fault(m, f"thread {uid} is on CPUs {where}")
        self.states.append((m.now, frozenset(idle), tuple(waiting)))

    def _fault(self, m: Machine, words: str) -> None:
        self.faults.append(f"{m.now}: {words}")

    def _soon(self, m: Machine, words: str, cpu: int, now: bool) -> None:
        """Note a state that has to end soon."""
        if not now:
            self._since.pop((words, cpu), None)
        elif m.now - self._since.setdefault((words, cpu), m.now) > SOON_US:
            self._fault(m, f"CPU {cpu}: {words}")

    def overspent(self) -> list[str]:
        """Return the groups that used more than their quota allows; a tick and a slice per CPU may be owed."""
        found, m = [], self._machine
        for group, used in self._used.items():
            periods = (self._last - self.first) // group.period + 2
            if used > periods * group.quota + m.cpus * (m.tick_us + 6_000):
                found.append(
                    f"{group.path} used {used} us in {periods} periods of {group.quota} us"
                )
        return found

    def episodes(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return the intervals with avoidable waiting, found by asking every idle CPU about every thread."""
        found: list[tuple[int, int]] = []
        for (time, idle, waiting), (until, _, _) in pairwise(
            [*self.states, (end, frozenset(), ())]
        ):
            a, b = max(time, start), min(until, end)
            if a < b and any(c in usable for c in idle for _, usable in waiting):
                if found and found[-1][1] == a:
                    found[-1] = (found[-1][0], b)
                else:
                    found.append((a, b))
        return found


def _all_but_next(runnable: list[Task]) -> list[Task]:
    """Leave out the thread that an idle CPU is about to run: the first of its class, or with the least virtual time."""
    if not runnable:
        return []
    best = min(t.rank for t in runnable)
    same = [t for t in runnable if t.rank == best]
    key = "dl_end" if best == -1 else "vruntime"
    first = same[0] if best in range(100) else min(same, key=lambda t: getattr(t, key))
    return [t for t in runnable if t is not first]


_SWITCH = re.compile(r"prev_pid=(\d+) .*prev_state=(\S+) ==> .*next_pid=(\d+) ")
_LINE = re.compile(r"^ *(\S.*)-(\d+) +\[(\d+)\] (\S{4,5}) +(\d+\.\d{6}): (\w+): (.*)$")


def text_faults(schedule: Schedule) -> list[str]:
    """Return contradictions in the ftrace text of a recording without losses and with equal clocks."""
    faults = []
    running: dict[int, int] = {}
    last = 0.0
    for number, line in enumerate(schedule.text.splitlines(), 1):
        if line.startswith(("#", "CPU:")):
            continue
        read = _LINE.match(line)
        if read is None:
            faults.append(f"{number}: not a line of ftrace: {line}")
            continue
        pid, cpu, time, kind, rest = int(read[2]), int(read[3]), float(read[5]), read[6], read[7]
        if time < last:
            faults.append(f"{number}: {time} after {last}")
        last = time
        if running.get(cpu, pid) != pid:
            faults.append(f"{number}: {pid} acts on CPU {cpu}, where {running[cpu]} runs")
        if kind == "sched_switch":
            found = _SWITCH.search(rest)
            assert found is not None, line
            prev, to = int(found[1]), int(found[3])
            if running.get(cpu, prev) != prev or prev != pid:
                faults.append(f"{number}: {prev} stops on CPU {cpu}, where {running.get(cpu)} runs")
            if to and to in [p for c, p in running.items() if c != cpu]:
                faults.append(f"{number}: {to} runs on two CPUs")
            running[cpu] = to
        else:
            running[cpu] = pid
    return faults
