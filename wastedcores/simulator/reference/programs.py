"""Tasks as small programs: what to run, and what a task remembers while it does.

Operations and their fields are those of docs/replay-semantics.md, section 2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wastedcores.workload.program import Program, Row, TaskSpec

if TYPE_CHECKING:
    from wastedcores.simulator.reference.state import Task

__all__ = ["Program", "Row", "TaskSpec"]

_MASK64 = (1 << 64) - 1
#: nanoseconds left of a stretch without an end
FOREVER = -1


class Random:
    """splitmix64; stream -1 is the machine's, i the i-th task's."""

    def __init__(self, seed: int, stream: int) -> None:
        start = seed * 0x9E3779B97F4A7C15 + (stream + 1) * 0xD1342543DE82EF95
        self.state = self._mix(start & _MASK64)

    @staticmethod
    def _mix(z: int) -> int:
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK64
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK64
        return z ^ (z >> 31)

    def draw(self) -> int:
        """Next 64 bits."""
        self.state = (self.state + 0x9E3779B97F4A7C15) & _MASK64
        return self._mix(self.state)

    def between(self, lo: int, hi: int) -> int:
        """``lo`` to ``hi``; nothing is drawn if they are equal."""
        return lo if lo == hi else lo + self.draw() % (hi - lo + 1)

    def exponential(self, mean: int, cap: int, floor: int) -> int:
        """Exponential with the given mean, between ``floor`` and ``cap``."""
        u = ((self.draw() >> 11) + 0.5) * 2.0**-53
        return min(max(int(-mean * math.log(u)), floor), cap)


@dataclass(eq=False, repr=False)
class Run:
    """Where a task is in its program."""

    spec: TaskSpec
    rng: Random
    parent: Task | None = None
    daemon: bool = False
    pc: int = 0
    #: ns of computing still to do; FOREVER while spinning without limit
    left: int = 0
    #: when the present stretch counts from, None while not running
    since: int | None = None
    spinning: bool = False
    waits_for: tuple[str, int] | None = None
    wake_queue: list[Task] = field(default_factory=list)
    children: int = 0
    started: int | None = None
    slots: list[int] = field(default_factory=lambda: [0] * 4)
    units: list[int] = field(default_factory=lambda: [0] * 4)
    completed_ns: int | None = None
    #: signals of a condition at the last CATCH
    seen: int = 0


@dataclass(eq=False, repr=False)
class Barrier:
    """n tasks meet."""

    parties: int
    waiters: list[Task] = field(default_factory=list)
    generation: int = 0
    stopped: bool = False


@dataclass(eq=False, repr=False)
class Lock:
    """One owner, or some who share it."""

    owner: Task | None = None
    readers: int = 0
    waiters: list[Task] = field(default_factory=list)


@dataclass(eq=False, repr=False)
class Semaphore:
    """A counter to wait for; as a condition it counts signals, as a timer it has a next time."""

    value: int
    waiters: list[Task] = field(default_factory=list)
    signals: int = 0
    next_ns: int | None = None
