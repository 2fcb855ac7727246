"""The rule of section 5's core, checked as an invariant of every event.

The rule: no CPU is idle while a thread that may run there waits on another CPU. The states are all those in which it holds. In
each, every kind of event happens once, with every answer that an optimisation module could give, and the rule must hold
afterwards. So it holds after any number of events, from the empty machine on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace

from wastedcores.proofs.choices import Choices, every
from wastedcores.proofs.still import CORE, Seen, Still, lengths
from wastedcores.proofs.tally import Tally
from wastedcores.simulator.reference import Kernel, schedule
from wastedcores.simulator.reference.core import REST, Module
from wastedcores.simulator.reference.state import Task

#: what can happen: a thread wakes, is made, sleeps, is preempted; a CPU ticks; a CPU comes online
EVENTS = ("wakeup", "fork", "sleep", "preempt", "tick", "online")


class AnyModule(Module):
    """A module that gives every answer: silence, each CPU, and to stay idle where that is an answer."""

    name = "any"

    def __init__(self, choose: Choices) -> None:
        self.choose = choose

    def _any(self, k: Kernel, *more: int) -> int | None:
        options = [None, *more, *sorted(k.active)]
        return options[self.choose(len(options))]

    def suggest_cpu(self, k: Kernel, p: Task, waker_cpu: int, why: str) -> int | None:
        """Suggest any CPU."""
        return self._any(k)

    def suggest_source(self, k: Kernel, cpu: int) -> int | None:
        """Suggest any CPU, or to stay idle."""
        return self._any(k, REST)

    def suggest_pull(self, k: Kernel, cpu: int) -> int | None:
        """Suggest any CPU."""
        return self._any(k)


def obey(s: Still) -> None:
    """Let the state be one in which the rule holds: no waiting thread may run on an idle CPU."""
    idle = [c for c in sorted(s.k.active) if s.is_idle(c)]
    for p in s.waiting():
        p.allowed.known.update(dict.fromkeys(idle, False))  # type: ignore[attr-defined]


def is_broken(s: Still) -> bool:
    """Tell whether a CPU is idle while a thread waits that may run there."""
    idle = [c for c in sorted(s.k.active) if s.is_idle(c)]
    return any(c in p.allowed for p in s.waiting() for c in idle)


def happen(s: Still, event: str, cpu: int) -> None:
    """Let an event happen on a CPU, as the loop of ``Simulation.run`` does."""
    k, rq = s.k, s.k.rqs[cpu]
    k.cpu = cpu
    if event == "wakeup":
        p = s.sleeper(s.choose(len(k.rqs)))
        if len(p.allowed):
            schedule.try_to_wake_up(k, p, cpu, sync=False)
    elif event == "fork":
        p = s.sleeper(cpu)
        p.progress = SimpleNamespace(parent=SimpleNamespace(allowed=p.allowed))
        if len(p.allowed):
            schedule.wake_up_new_task(k, p, cpu, 0)
    elif event == "sleep":
        rq.curr.state = "S"
        schedule.schedule(k, rq)
    elif event == "preempt":
        rq.curr.se.vruntime += 1 << 40
        rq.need_resched = True
    elif event == "tick":
        k.design.tick(k, rq)
    else:
        k.active.add(cpu)
        rq.online = True


def applies(event: str, cpu: int, queues: tuple[int, ...]) -> bool:
    """Tell whether an event can happen on a CPU with so many threads."""
    least = {"sleep": 1, "tick": 1, "preempt": 2}.get(event, 0)
    return queues[cpu] >= least and (event != "online" or queues[cpu] == 0)


def one_event(
    kind: str, queues: tuple[int, ...], event: str, cpu: int
) -> Callable[[Choices], tuple[str, int, Seen]]:
    """Return the run of one event."""

    def run(choose: Choices) -> tuple[str, int, Seen]:
        s = Still(choose, kind, queues, CORE, modules=[AnyModule(choose)])
        if event == "online":
            s.k.active.discard(cpu)
            s.k.rqs[cpu].online = False
        obey(s)
        before = s.queues()
        happen(s, event, cpu)
        _reschedule(s, cpu)
        broken = is_broken(s)
        while not broken and (due := s.k.pop()):
            # interrupts that ask other CPUs to reschedule
            s.k.cpu = due[2]
            _reschedule(s, due[2])
            broken = is_broken(s)
        return "broken" if broken else "holds", s.stands_for, s.seen(before)

    return run


def _reschedule(s: Still, cpu: int) -> None:
    """Do what the loop does after each event."""
    rq = s.k.rqs[cpu]
    for _ in range(2):
        if rq.need_resched:
            schedule.schedule(s.k, rq)
        s.k.design.settle(s.k)


def check_event(event: str, kind: str, cpus: int, threads: int) -> Tally:
    """Check the rule after an event of one kind, in every state."""
    tally = Tally()
    new = event in ("wakeup", "fork")
    for queues, cpu in _places(cpus, threads - new):
        if applies(event, cpu, queues):
            for found in every(one_event(kind, queues, event, cpu)):
                tally.add(*found)
    return tally


def _places(cpus: int, threads: int) -> Iterator[tuple[tuple[int, ...], int]]:
    for queues in lengths(cpus, threads):
        for cpu in range(cpus):
            yield queues, cpu
