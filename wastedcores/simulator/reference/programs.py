"""The state of running programs: each task's place in its program, its random numbers, and the things tasks wait at."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wastedcores.workload.program import TaskSpec

if TYPE_CHECKING:
    from wastedcores.simulator.reference.state import Task

_MASK64 = (1 << 64) - 1
#: ``Progress.left`` of a task that spins without a limit
FOREVER = -1


class Random:
    """A splitmix64 generator. Stream -1 belongs to the machine, stream i to the i-th task."""

    def __init__(self, seed: int, stream: int) -> None:
        start = seed * 0x9E3779B97F4A7C15 + (stream + 1) * 0xD1342543DE82EF95
        self.state = self._mix(start & _MASK64)

    @staticmethod
    def _mix(z: int) -> int:
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK64
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK64
        return z ^ (z >> 31)

    def draw(self) -> int:
        """Return the next 64 random bits."""
        self.state = (self.state + 0x9E3779B97F4A7C15) & _MASK64
        return self._mix(self.state)

    def between(self, lo: int, hi: int) -> int:
        """Draw a whole number from ``lo`` to ``hi``, both included. Nothing is drawn if they are equal."""
        return lo if lo == hi else lo + self.draw() % (hi - lo + 1)

    def exponential(self, mean: int, cap: int, floor: int) -> int:
        """Draw from an exponential distribution with this mean and limit the number to ``floor`` to ``cap``."""
        u = ((self.draw() >> 11) + 0.5) * 2.0**-53
        return min(max(int(-mean * math.log(u)), floor), cap)


@dataclass(eq=False, repr=False)
class Progress:
    """A task's place in its program."""

    spec: TaskSpec
    rng: Random
    parent: Task | None = None
    daemon: bool = False
    pc: int = 0
    #: work that the present row still needs, in ns at the nominal speed; FOREVER while the task spins without a limit
    left: int = 0
    #: the time from which ``left`` is counted down; None while the task is not on a CPU
    since: int | None = None
    spinning: bool = False
    #: the last-level cache behind which it ran last, -1 if it has not run
    ran_llc: int = -1
    #: kind and number of the thing that the task waits for
    waits_for: tuple[str, int] | None = None
    #: tasks that this one still has to wake, one after the other
    wake_queue: list[Task] = field(default_factory=list)
    children: int = 0
    started: int | None = None
    #: rounds done of each nested loop, and rounds done in total (never reset)
    slots: list[int] = field(default_factory=lambda: [0] * 4)
    units: list[int] = field(default_factory=lambda: [0] * 4)
    #: number of signals that the condition had seen at the last CATCH
    seen: int = 0


@dataclass(eq=False, repr=False)
class Barrier:
    """A barrier that opens when ``parties`` tasks have arrived."""

    parties: int
    waiters: list[Task] = field(default_factory=list)
    stopped: bool = False


@dataclass(eq=False, repr=False)
class Lock:
    """A lock with one owner, or with several readers that share it."""

    owner: Task | None = None
    readers: int = 0
    waiters: list[Task] = field(default_factory=list)


@dataclass(eq=False, repr=False)
class Semaphore:
    """A counting semaphore. Conditions count their signals here, and timers store their next time."""

    value: int
    waiters: list[Task] = field(default_factory=list)
    signals: int = 0
    next_ns: int | None = None
