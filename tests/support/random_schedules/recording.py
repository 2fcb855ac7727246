"""What a recorder makes of the events: losses, CPUs left out, clocks that differ, wakeups that nobody saw."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from support.random_schedules.events import Event

_HEAD = """# tracer: nop
#
# entries-in-buffer/entries-written: {kept}/{written}   #P:{cpus}
#
#                                _-----=> irqs-off/BH-disabled
#                               / _----=> need-resched
#                              | / _---=> hardirq/softirq
#                              || / _--=> preempt-depth
#                              ||| / _-=> migrate-disable
#                              |||| /     delay
#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION
#              | |         |   |||||     |         |
"""


@dataclass
class Recorder:
    """How the events were recorded."""

    #: CPUs that were recorded (tracing_cpumask)
    seen: int
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

    def keep(self, rng: random.Random, events: list[Event]) -> tuple[list[Event], dict[Event, int]]:
        """Return the events that were recorded in the order of their times, and how many were lost just before an event."""
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
        lost: dict[Event, int] = {}
        for cpu, where, count in self.losses:
            own = [e for e in kept if e.cpu == cpu]
            first = int(where * len(own))
            gone = {id(e) for e in own[first : first + count]}
            if gone and first + len(gone) < len(own):
                after = own[first + len(gone)]
                lost[after] = (
                    lost.get(after, 0)
                    + len(gone)
                    + sum(lost.pop(e, 0) for e in own[first : first + count])
                )
                kept = [e for e in kept if id(e) not in gone]
        if self.clocks:
            moved = [(e, e._replace(us=e.us + self.clocks[e.cpu])) for e in kept]
            lost = {new: lost[old] for old, new in moved if old in lost}
            kept = sorted((new for _, new in moved), key=lambda e: e.us)
        return kept, lost

    def _unseen(self, rng: random.Random, event: Event) -> bool:
        if not self.own or event.kind not in ("sched_wakeup", "sched_waking"):
            return False
        comm = event.text[5:].partition(" pid=")[0]
        return comm in self.own and rng.random() < self.missing


def text(kept: list[Event], lost: dict[Event, int], cpus: int) -> str:
    """Return the lines as the kernel's ``trace`` file has them."""
    lines = [_HEAD.format(kept=len(kept), written=len(kept) + sum(lost.values()), cpus=cpus)]
    for e in kept:
        if e in lost:
            lines.append(f"CPU:{e.cpu} [LOST {lost[e]} EVENTS]\n")
        lines.append(
            f"{e.comm:>16}-{e.pid:<7} [{e.cpu:03d}] {e.flags} {e.us / 1e6:12.6f}: {e.kind}: {e.text}\n"
        )
    return "".join(lines)
