"""What a recorder makes of the events: losses, CPUs left out, clocks that differ, wakeups that nobody saw."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from support.random_schedules.events import Event

#: printed forms: of kernels since 5.17, of older ones, and of perf
FORMS = ("ftrace", "old ftrace", "perf script")
_HEAD = """# tracer: nop
#
# entries-in-buffer/entries-written: {kept}/{written}   #P:{cpus}
#
"""
_COLUMNS = """\
#                                _-----=> irqs-off/BH-disabled
#                               / _----=> need-resched
#                              | / _---=> hardirq/softirq
#                              || / _--=> preempt-depth
#                              ||| / _-=> migrate-disable
#                              |||| /     delay
#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION
#              | |         |   |||||     |         |
"""
_OLD_COLUMNS = """\
#                              _-----=> irqs-off
#                             / _----=> need-resched
#                            | / _---=> hardirq/softirq
#                            || / _--=> preempt-depth
#                            ||| /     delay
#           TASK-PID   CPU#  ||||    TIMESTAMP  FUNCTION
#              | |       |   ||||       |         |
"""
_PERF_HEAD = """\
# ========
# captured on    : Tue Nov 14 22:13:20 2023
# hostname : {host}
# os release : {kernel}
# nrcpus online : {cpus}
# cmdline : /usr/bin/perf {command}
# ========
#
"""
#: what perf's header and the snapshot say about the machine
HOST, KERNEL = "random", "6.12.107"


@dataclass
class Recording:
    """The events that were kept, how many were lost just before one of them, and how many were written into the buffers."""

    kept: list[Event]
    lost: dict[Event, int]
    written: int

    def losses(self) -> list[tuple[int, int, int]]:
        """Return (CPU, from, to) of the events around every loss."""
        last: dict[int, int] = {}
        found = []
        for e in self.kept:
            if e in self.lost:
                found.append((e.cpu, last.get(e.cpu, self.kept[0].us), e.us))
            last[e.cpu] = e.us
        return found


@dataclass
class Recorder:
    """How the events were recorded."""

    #: CPUs that were recorded (tracing_cpumask)
    seen: int
    #: of the machine
    cpus: int
    #: which of the two events of a wakeup were switched on: "wakeup", "both", or "waking"
    wakeups: str = "wakeup"
    migrations: bool = True
    hotplug: bool = False
    #: microseconds by which the clock of a CPU is ahead
    clocks: list[int] = field(default_factory=list)
    #: (CPU, position in its events as a share, events): losses
    losses: list[tuple[int, float, int]] = field(default_factory=list)
    #: names of the recorder's own threads, whose wakeups are missing with this probability
    own: tuple[str, ...] = ()
    missing: float = 1.0
    #: per CPU, the share of its events that its ring buffer had overwritten before the end
    overwritten: list[float] = field(default_factory=list)
    form: str = FORMS[0]

    def keep(self, rng: random.Random, events: list[Event]) -> Recording:
        """Return what is left of the events, in the order of their times."""
        hidden = {"wakeup": ("sched_waking",), "both": (), "waking": ("sched_wakeup",)}[
            self.wakeups
        ]
        if not self.migrations:
            hidden += ("sched_migrate_task",)
        if not self.hotplug:
            hidden += ("cpuhp_enter",)
        kept = [
            e
            for e in events
            if self.seen >> e.cpu & 1 and e.kind not in hidden and not self._unseen(rng, e)
        ]
        written = len(kept)
        for cpu, share in enumerate(self.overwritten):
            own = [e for e in kept if e.cpu == cpu]
            gone = {id(e) for e in own[: int(share * len(own))]}
            kept = [e for e in kept if id(e) not in gone]
        lost: dict[Event, int] = {}
        for cpu, where, count in self.losses:
            own = [e for e in kept if e.cpu == cpu]
            first = int(where * len(own))
            dropped = own[first : first + count]
            if dropped and first + len(dropped) < len(own):
                after = own[first + len(dropped)]
                before = sum(lost.pop(e, 0) for e in dropped)
                lost[after] = lost.get(after, 0) + before + len(dropped)
                gone = {id(e) for e in dropped}
                kept = [e for e in kept if id(e) not in gone]
        if self.clocks:
            moved = [(e, e._replace(us=e.us + self.clocks[e.cpu])) for e in kept]
            lost = {new: lost[old] for old, new in moved if old in lost}
            kept = sorted((new for _, new in moved), key=lambda e: e.us)
        return Recording(kept, lost, written)

    def _unseen(self, rng: random.Random, event: Event) -> bool:
        if not self.own or event.kind not in ("sched_wakeup", "sched_waking"):
            return False
        comm = event.text[5:].partition(" pid=")[0]
        return comm in self.own and rng.random() < self.missing


def text(recorder: Recorder, recording: Recording, online: int) -> str:
    """Return the lines as the kernel's ``trace`` file or ``perf script`` has them."""
    if recorder.form == "perf script":
        return _perf_script(recorder, recording, online)
    kept, lost = recording.kept, recording.lost
    head = _HEAD.format(kept=len(kept), written=recording.written, cpus=online)
    old = recorder.form == "old ftrace"
    lines = [head, _OLD_COLUMNS if old else _COLUMNS]
    for e in kept:
        if e in lost:
            lines.append(f"CPU:{e.cpu} [LOST {lost[e]} EVENTS]\n")
        flags = e.flags[:4] if old else e.flags
        lines.append(
            f"{e.comm:>16}-{e.pid:<7} [{e.cpu:03d}] {flags} {e.us / 1e6:12.6f}: {e.kind}: {e.text}\n"
        )
    return "".join(lines)


def _perf_script(recorder: Recorder, recording: Recording, online: int) -> str:
    kept, lost = recording.kept, recording.lost
    events = sorted({e.kind for e in kept})
    command = "record -e " + ",".join(f"sched:{k}" for k in events)
    every = (1 << recorder.cpus) - 1
    seen = [str(c) for c in range(recorder.cpus) if recorder.seen >> c & 1]
    command += " -a" if recorder.seen == every else f" -C {','.join(seen)}"
    lines = [_PERF_HEAD.format(host=HOST, kernel=KERNEL, cpus=online, command=command)]
    for e in kept:
        comm = e.comm if e.pid else "swapper"
        start = f"{comm:>16} {e.pid:5d} [{e.cpu:03d}] {e.us / 1e6:12.6f}: "
        if e in lost:
            lines.append(f"{start}PERF_RECORD_LOST lost {lost[e]}\n")
        group = "cpuhp" if e.kind == "cpuhp_enter" else "sched"
        lines.append(f"{start}{f'{group}:{e.kind}':>30}: {e.text}\n")
    return "".join(lines)
