"""What the passes of several CPUs of Linux 6.12 do to each other: one after the other, and at the same time."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any

from wastedcores_studies.proofs.balancer import MOST_PASSES, movable, newly_idle, run, settle
from wastedcores_studies.proofs.choices import Choices
from wastedcores_studies.proofs.core import is_broken
from wastedcores_studies.proofs.still import V6_12, Found, Queues, Still, cpus_of, kernel, lengths
from wastedcores_studies.proofs.tally import Tally

#: in a round every CPU balances once; after this many rounds, a machine has come to rest or returned to an earlier state
MOST_ROUNDS = 60


def _emptied(before: Queues, s: Still) -> bool:
    """Tell whether a CPU that had threads has none any more."""
    return any(queue and s.is_idle(c) for c, queue in enumerate(before))


def safe(s: Still, cpu: int) -> Found | None:
    """Let one CPU, busy or idle, balance; no CPU may lose its last thread or its running thread."""
    before = s.queues()
    running = [rq.curr for rq in s.rqs]
    run(s, cpu)
    stolen = any(
        (rq.curr and rq.curr.cpu != rq.cpu) or (was and rq.curr != was)
        for rq, was in zip(s.rqs, running, strict=True)
    )
    outcome = "takes a running thread" if stolen else "safe"
    if _emptied(before, s):
        outcome = "takes the last thread"
    return s.found(outcome, before)


def flag(s: Still, cpu: int) -> Found | None:
    """Let one CPU balance, and then another one become idle: the second one tries to pull if a waiting thread may run there."""
    before = s.queues()
    single = [c for c, queue in enumerate(before) if len(queue) == 1 and c != cpu]
    if not single:
        return None
    run(s, cpu)
    settle(s)
    newly = single[s.choose(len(single))]
    if s.rqs[newly].nr_running != 1:
        return None
    waiting = s.waiting()
    outcome = newly_idle(s, newly)
    if not s.rqs[newly].nr_running and not movable(waiting, newly):
        return None
    skipped = outcome == "not tried"
    return s.found("skipped" if skipped else "tries", before)


def race(s: Still, cpu: int) -> Found | None:
    """Let an idle CPU find a queue; before it takes a thread, let CPU 0, which is also idle, make its whole pass."""
    before, waiting = s.queues(), s.waiting()

    def interrupt() -> None:
        run(s, 0)
        s.k.this_cpu = cpu

    s.interrupt = interrupt
    run(s, cpu)
    got = [c for c in (0, cpu) if s.rqs[c].nr_running]
    if _emptied(before, s):
        return s.found("takes the last thread", before)
    if not got:
        if not movable(waiting, 0) and not movable(waiting, cpu):
            return None
        outcome = "both fail, as each would alone"
        for alone in (0, cpu):
            s.again()
            run(s, alone)
            if not s.is_idle(alone):
                outcome = "both fail because of each other"
        return s.found(outcome, before)
    if any(c not in got and movable(s.waiting(), c) for c in (0, cpu)):
        return s.found("one fails, a thread is left for it", before)
    return s.found("no thread is left for a CPU that failed", before)


def late(s: Still, cpu: int) -> Found | None:
    """Let CPU 0 ask for an active balance, and let another idle CPU pull before the migration thread runs."""
    before = s.queues()
    for sd in s.domains[0]:
        sd.nr_balance_failed = sd.cache_nice_tries + 3
    run(s, 0)
    if not any(rq.active_balance for rq in s.rqs):
        return None
    run(s, cpu)
    settle(s)
    outcome = "takes the last thread" if _emptied(before, s) else "safe"
    return s.found(outcome, before)


def rounds(s: Still, cpu: int) -> Found | None:
    """Let all CPUs balance in turns, beginning with ``cpu``, until nothing changes or an earlier state comes again."""
    before, n = s.queues(), len(s.rqs)
    known: dict[Any, int] = {}
    moves: list[bool] = []
    last = _places(s)
    for number in range(MOST_ROUNDS):
        failed = (min(sd.nr_balance_failed, MOST_PASSES) for levels in s.domains for sd in levels)
        state = (s.queues(), tuple(failed))
        if state in known:
            break
        known[state] = number
        for offset in range(n):
            run(s, (cpu + offset) % n)
            settle(s)
        now = _places(s)
        moves.append(now != last)
        last = now
    else:
        return s.found("undecided", before)
    again = any(moves[known[state] :])
    idle = any(map(s.is_idle, range(n)))
    outcome = "comes to rest"
    if is_broken(s):
        outcome = "a thread waits beside an idle CPU"
    elif again:
        outcome = "moves for ever beside an idle CPU" if idle else "moves for ever, all CPUs busy"
    return s.found(outcome, before)


def idle_rounds(s: Still, cpu: int) -> Found | None:
    """Let the idle CPUs balance in turns, beginning with ``cpu``, until none is idle beside a thread that it could run."""
    before, n = s.queues(), len(s.rqs)
    if not is_broken(s):
        return None
    reasons: dict[str, None] = {}
    for number in range(1, MOST_PASSES + 1):
        reasons.clear()
        for offset in range(n):
            idle = (cpu + offset) % n
            if s.is_idle(idle):
                reasons[run(s, idle)] = None
                settle(s)
        if not is_broken(s):
            return s.found(f"after {number}", before)
    return s.found(f"never: {', '.join(reasons)}", before)


def check_two_levels(kind: str, threads: int) -> Tally:
    """Let the idle CPUs of a machine of two levels balance, in every state; on each CPU all threads just woke, or none."""
    tally = Tally()
    for queues in lengths(4, threads):
        if max(queues) < 2 or min(queues):
            continue
        busy = [c for c in range(4) if queues[c]]
        for woken in (set(c) for size in range(len(busy) + 1) for c in combinations(busy, size)):
            light = frozenset(i for i, c in enumerate(cpus_of(queues)) if c in woken)
            tally.count(_begun(idle_rounds, kind, queues, 0, light))
    return tally


def _begun(
    what: Callable[[Still, int], Found | None],
    kind: str,
    queues: tuple[int, ...],
    cpu: int,
    light: frozenset[int] = frozenset(),
) -> Callable[[Choices], Found | None]:
    """Return a run that begins in a state and lets something happen in this state."""
    s = kernel(kind, len(queues), V6_12)
    return lambda choose: what(s.begin(choose, queues, light), cpu)


def _places(s: Still) -> tuple[frozenset[int], ...]:
    return tuple(map(frozenset, s.queues()))


#: name -> what happens, and whether CPU 0 and another CPU have to be idle
CHECKS: dict[str, tuple[Callable[[Still, int], Found | None], bool]] = {
    "safe": (safe, False),
    "flag": (flag, False),
    "race": (race, True),
    "late": (late, True),
    "rounds": (rounds, False),
}


def check_several(name: str, kind: str, cpus: int, threads: int) -> Tally:
    """Run one of :data:`CHECKS` in every state; CPUs of a level are alike, so if only one CPU balances, it is CPU 0."""
    what, two_idle = CHECKS[name]
    tally = Tally()
    for queues in lengths(cpus, threads):
        for cpu in range(1, cpus) if two_idle else (0,):
            if max(queues) >= 2 and (not two_idle or queues[0] == queues[cpu] == 0):
                tally.count(_begun(what, kind, queues, cpu))
    return tally
