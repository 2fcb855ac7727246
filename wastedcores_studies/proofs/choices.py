"""Runs a function once for each outcome of the choices that it makes; affinities are chosen when they are first asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

T = TypeVar("T")


class Choices:
    """The choices of one run. A call with a number of options returns the number of the option that this run takes."""

    def __init__(self) -> None:
        self.path: list[list[int]] = []
        self.made = 0

    def __call__(self, options: int) -> int:
        """Return the option that this run takes."""
        if self.made == len(self.path):
            self.path.append([0, options])
        taken, known = self.path[self.made]
        assert known == options, "a run is not determined by its choices"
        self.made += 1
        return taken


def every(run: Callable[[Choices], T]) -> Iterator[T]:
    """Run a function once for each combination of its choices, depth first, and yield each result."""
    choices = Choices()
    while True:
        choices.made = 0
        yield run(choices)
        path = choices.path
        while path and path[-1][0] + 1 == path[-1][1]:
            path.pop()
        if not path:
            return
        path[-1][0] += 1


class Affinity:
    """The CPUs on which a thread may run, as the scheduler sees ``p->cpus_ptr``.

    Whether the thread may run on a CPU is chosen when the scheduler asks for the first time. CPUs about which the scheduler never
    asks do not change what it does, so one run stands for ``2 ** undecided`` affinities.
    """

    def __init__(self, choose: Choices, cpus: int, known: dict[int, bool]) -> None:
        self.choose, self.cpus, self.known = choose, cpus, known

    def __contains__(self, cpu: int) -> bool:
        if cpu not in self.known:
            self.known[cpu] = bool(self.choose(2))
        return self.known[cpu]

    def __iter__(self) -> Iterator[int]:
        return (cpu for cpu in range(self.cpus) if cpu in self)

    @property
    def undecided(self) -> int:
        """The number of CPUs about which the code did not ask."""
        return self.cpus - len(self.known)

    def text(self) -> str:
        """Return the affinity in words; a CPU about which the code did not ask is left out."""
        return "+".join(str(cpu) for cpu in range(self.cpus) if self.known.get(cpu))
