"""The properties of the balancing passes of Linux 6.12: what one pass does, and what many do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Any

from wastedcores.proofs.choices import Choices, every
from wastedcores.proofs.still import Seen, Still, lengths
from wastedcores.proofs.tally import Tally
from wastedcores.simulator.reference import nohz_v6_12, schedule
from wastedcores.simulator.reference.state import Task
from wastedcores.simulator.reference.stats import IDLE, NOT_IDLE

#: a pass that fails this often from the same queues fails for ever: each failure halves the loads, ten times at most
MOST_PASSES = 16


class Passes:
    """The passes of one machine, with the reason why the last one moved nothing."""

    def __init__(self, s: Still) -> None:
        self.s, self.k = s, s.k
        self.reasons: list[str] = []
        self._find = self.k.policies.find_busiest_group
        self.k.policies.find_busiest_group = self._explained

    def _explained(self, k: Any, env: Any) -> Any:
        group = self._find(k, env)
        if group is None:
            self.reasons.append(env.asked.reason)
        return group

    def run(self, cpu: int) -> str:
        """Let a CPU balance all its levels as at a tick, and the migration threads do what it asked for; say what came of it."""
        self.begin(cpu)
        rq = self.k.rqs[cpu]
        for sd in rq.sd:
            sd.last_balance = 0  # every level is due
        self.k.log_op = "periodic"
        nohz_v6_12.rebalance_domains(self.k, rq, IDLE if self.k.idle_cpu(cpu) else NOT_IDLE)
        return self._outcome()

    def newly_idle(self, cpu: int) -> str:
        """Let the only thread of a CPU go to sleep; the CPU balances before it idles."""
        self.begin(cpu)
        rq = self.k.rqs[cpu]
        rq.curr.state = "S"
        schedule.schedule(self.k, rq)
        return self._outcome()

    def begin(self, cpu: int) -> None:
        """Let a CPU begin a pass in a fresh state."""
        self.k.cpu = cpu
        self.reasons.clear()
        self.k.balance_calls.clear()

    def _outcome(self) -> str:
        """Return the results of the levels, and why a level counted as balanced."""
        results = [r for _, _, r in self.k.balance_calls]
        words = [r for r in results if r != "balanced"] + self.reasons
        return ", ".join(dict.fromkeys(words)) or "not tried"

    def settle(self) -> None:
        """Let migration threads and rescheduling CPUs do what passes asked for."""
        while event := self.k.pop():
            _, kind, cpu = event
            rq = self.k.rqs[cpu]
            self.k.cpu = cpu
            if kind == "STOP":
                schedule.active_balance(self.k, rq)
            if rq.need_resched:
                schedule.schedule(self.k, rq)
        for rq in self.k.rqs:
            if rq.need_resched:
                self.k.cpu = rq.cpu
                schedule.schedule(self.k, rq)

    def failures(self) -> tuple[int, ...]:
        """Return how often the levels failed, as far as that matters."""
        return tuple(min(sd.nr_balance_failed, MOST_PASSES) for rq in self.k.rqs for sd in rq.sd)


def movable(waiting: list[Task], cpu: int) -> bool:
    """Tell whether one of these threads may run on a CPU; asks all of them, in order, until one may."""
    return any(cpu in p.allowed for p in waiting)


def light_sets(queues: tuple[int, ...]) -> Iterator[frozenset[int]]:
    """Return the sets of threads that may have just woken: all there are."""
    threads = range(sum(queues))
    for size in range(len(threads) + 1):
        yield from map(frozenset, combinations(threads, size))


def one_idle_pass(
    kind: str, queues: tuple[int, ...], light: frozenset[int], newly: bool, hot: bool, cpu: int = 0
) -> Callable[[Choices], tuple[str, int, Seen] | None]:
    """Return the run of one pass of a CPU which is idle or, if ``newly``, becomes idle in the pass."""

    def run(choose: Choices) -> tuple[str, int, Seen] | None:
        begin = tuple(n + (newly and c == cpu) for c, n in enumerate(queues))
        ahead = sum(queues[:cpu])
        numbers = frozenset(i + (newly and i >= ahead) for i in light)
        s = Still(choose, kind, begin, light=numbers, hot=hot)
        p = Passes(s)
        before, waiting = s.queues(), s.waiting()
        outcome = p.newly_idle(cpu) if newly else p.run(cpu)
        if s.k.rqs[cpu].cfs.nr_running:
            return "pulls", s.stands_for, s.seen(before)
        if not movable(waiting, cpu):
            return None
        if not newly:
            outcome = _again(p, cpu, outcome)
        return (
            outcome if outcome[:5] == "after" else f"never: {outcome}",
            s.stands_for,
            s.seen(before),
        )

    return run


def _again(p: Passes, cpu: int, first: str) -> str:
    """Let a CPU balance again until it gets a thread or fails for ever."""
    rq = p.k.rqs[cpu]
    last = first
    for passes in range(1, MOST_PASSES + 1):
        p.settle()
        if rq.cfs.nr_running:
            return f"after {passes}: {first}"
        last = p.run(cpu)
        if rq.cfs.nr_running:
            return f"after {passes + 1}: {first}"
    return last


def check_passes(
    kind: str, cpus: int, threads: int, *, newly: bool = False, hot: bool = False, mixed: bool = True, cpu: int = 0
) -> Tally:  # fmt: skip
    """Let a CPU that is idle balance in every state in which a thread waits that may run there.

    ``newly``: the CPU becomes idle, and balances before it idles. ``hot``: threads that wait ran a moment ago. ``mixed``: any of
    the threads may have just woken; otherwise all have been runnable for long. CPU 0 stands for all, which are alike.

    The outcomes are ``pulls``, ``after N: WHY`` with the number of passes and what the first one said, and ``never: WHY``.
    """
    tally = Tally()
    for rest in lengths(cpus - 1, threads):
        if max(rest) < 2:
            continue
        queues = (*rest[cpus - 1 - cpu :], 0, *rest[: cpus - 1 - cpu])
        for light in light_sets(queues) if mixed else [frozenset[int]()]:
            for found in every(one_idle_pass(kind, queues, light, newly, hot, cpu)):
                if found is not None:
                    tally.add(*found)
    return tally
