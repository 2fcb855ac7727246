"""Threads, control groups with a quota, and the order of the scheduling classes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

#: the order in which the classes are asked for a task (kernel/sched/core.c: __pick_next_task(), v6.12); lower runs first
STOP, DEADLINE, FAIR = -2, -1, 100

#: CFS hands a group's runtime out in slices (kernel/sched/fair.c: sysctl_sched_cfs_bandwidth_slice, v6.12)
SLICE_US = 5_000


@dataclass(eq=False)
class Group:
    """A control group with a CPU quota (struct cfs_bandwidth, kernel/sched/sched.h, v6.12)."""

    path: str
    quota: int
    period: int
    pool: int = 0
    #: per CPU: what is left of the slices that its cfs_rq took
    remaining: dict[int, int] = field(default_factory=dict)
    #: CPUs on which the group's cfs_rq is throttled, as bits
    throttled: int = 0
    slack_timer: bool = False


@dataclass(eq=False)
class Task:
    """A thread. ``rank`` is its class, or for a real-time thread its priority in the kernel's numbers (0 to 98)."""

    pid: int
    comm: str
    mask: int
    cpu: int
    tgid: int = 0
    rank: int = FAIR
    prio: int = 120
    policy: str = "other"
    kthread: bool = False
    group: Group | None = None
    cpuset: str = "/"
    #: what sched_setaffinity() asked for; the mask in force is its common part with the cpuset
    wanted: int | None = None
    program: Iterator[Any] | None = None
    #: running, queued, sleeping or dead
    state: str = "sleeping"
    #: microseconds that it still wants to run before its program goes on
    left: int = 0
    vruntime: int = 0
    picked_at: int = 0
    queued_at: int = 0
    #: increases with every sleep, so that a timer of an earlier sleep does not wake it
    sleeps: int = 0
    #: of a deadline thread: its budget per period, what is left of it, and whether it waits for the next period
    dl_runtime: int = 0
    dl_period: int = 0
    dl_budget: int = 0
    dl_end: int = 0
    dl_throttled: bool = False
    #: messages that it has not read yet, and stoppers or other threads for which it waits
    owed: int = 0
    waits_for: int = 0
    #: tells threads apart that had the same pid one after the other
    uid: int = 0

    @property
    def fair(self) -> bool:
        """Whether the thread is in the fair class."""
        return self.rank >= FAIR


def cpus_of(mask: int) -> list[int]:
    """Return the numbers of the CPUs in a mask."""
    return [c for c in range(mask.bit_length()) if mask >> c & 1]
