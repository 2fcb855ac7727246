"""What threads do. A program is a generator of requests, which ``execution`` carries out while the thread runs."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from support.random_schedules.tasks import Task

Program = Iterator[Any]


@dataclass(frozen=True)
class Run:
    """Compute for so many microseconds."""

    us: int


@dataclass(frozen=True)
class Sleep:
    """Sleep until a timer fires after so many microseconds; None: until another thread wakes it."""

    us: int | None
    letter: str = "S"


@dataclass(frozen=True)
class Wake:
    """Wake a thread; ``sync`` promises that the waker sleeps soon (WF_SYNC)."""

    task: Task
    sync: bool = False


@dataclass(frozen=True)
class Fork:
    """Make a child, or a thread of the same process, with the program that ``program`` makes."""

    program: Callable[[], Program]
    thread: bool = False


@dataclass(frozen=True)
class Exec:
    """Become another program of this name."""

    comm: str


@dataclass(frozen=True)
class SetAffinity:
    """Bind threads; ``chosen`` names them, or None for the caller, at the moment of the call."""

    chosen: Callable[[], list[Task]] | None
    mask: int


@dataclass(frozen=True)
class Bind:
    """Change the mask of one thread: what the two other requests are made of."""

    task: Task
    mask: int


@dataclass(frozen=True)
class Act:
    """Do something inside the kernel in this thread's name; it may have to wait until that is done."""

    action: Callable[[Task], None]


@dataclass(frozen=True)
class SetCpuset:
    """Give all threads of a cpuset other CPUs."""

    path: str
    mask: int


@dataclass(frozen=True)
class Plug:
    """Take a CPU offline, or bring it online."""

    cpu: int
    online: bool


def about(rng: random.Random, mean: float) -> int:
    """Return a random time with this mean, and at least 5 us."""
    return max(5, int(rng.expovariate(1 / mean)))


def hog(rng: random.Random, life: int | None = None) -> Program:
    """Compute for ever, or for a life of so many microseconds, with rare short sleeps if it is mortal."""
    if life is None:
        while True:
            yield Run(10**12)
    yield Run(about(rng, life))


def worker(rng: random.Random, burst: float, sleep: float, rounds: int | None = None) -> Program:
    """Run and sleep in turn."""
    done = 0
    while rounds is None or done < rounds:
        yield Run(about(rng, burst))
        yield Sleep(about(rng, sleep), rng.choice("SSSD"))
        done += 1
    yield Run(about(rng, burst / 4))


def periodic(rng: random.Random, burst: int, period: int, letter: str = "S") -> Program:
    """Run a little once in a period, as a kernel thread or a periodic real-time thread does."""
    while True:
        yield Run(max(3, int(burst * rng.uniform(0.5, 1.3))))
        yield Sleep(int(period * rng.uniform(0.9, 1.1)), letter)


def client(rng: random.Random, server: Task, pause: float, sync: bool) -> Program:
    """Ask a server, finish what is to do, and sleep: the server's answer arrives meanwhile."""
    while True:
        yield Run(rng.randrange(20, 120))
        yield Wake(server, sync)
        yield Run(rng.randrange(20, 150))
        yield Sleep(about(rng, pause))


def server(rng: random.Random) -> Program:
    """Answer when asked."""
    while True:
        yield Run(rng.randrange(20, 100))
        yield Sleep(None)


def shell(rng: random.Random, children: int, pause: float, child: Callable[[], Program]) -> Program:
    """Fork commands, one after the other or several at once, as ``make`` does."""
    for _ in range(children):
        yield Run(rng.randrange(50, 400))
        yield Fork(child)
        yield Sleep(about(rng, pause))
    while True:
        yield Run(rng.randrange(50, 400))
        yield Sleep(about(rng, 5 * pause))


def command(
    rng: random.Random, comm: str, burst: float, rounds: int, mask: int | None = None
) -> Program:
    """Exec a program that runs and sleeps a few times, and exits; with a mask, bind it before, as taskset does."""
    yield Run(rng.randrange(50, 300))
    if mask is not None:
        yield SetAffinity(None, mask)
    yield Exec(comm)
    yield from worker(rng, burst, burst, rounds)


def administrator(rng: random.Random, pauses: list[int], requests: list[Any]) -> Program:
    """Make requests after pauses: the thread that pins others, changes cpusets, or plugs CPUs."""
    yield Sleep(max(5, pauses[0]) if pauses else 10**9)
    for request, pause in zip(requests, [*pauses[1:], 10**9], strict=True):
        yield Run(rng.randrange(30, 200))
        yield request
        yield Run(rng.randrange(10, 50))
        yield Sleep(max(5, pause))
    while True:
        yield Sleep(10**9)
