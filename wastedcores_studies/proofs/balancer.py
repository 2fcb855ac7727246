"""The properties of the balancing passes of Linux 6.12: what one pass does, and what many do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations

from wastedcores.simulator.engine.balance.rebalance_domains_v6_12_jit import rebalance_domains
from wastedcores.simulator.engine.codes import cpu_event, idle_type, log_op, task_state
from wastedcores.simulator.engine.core import schedule_jit
from wastedcores_studies.proofs.choices import Affinity, Choices
from wastedcores_studies.proofs.still import V6_12, Found, Still, kernel, lengths
from wastedcores_studies.proofs.tally import Tally

#: if passes fail this often on the same queues, they fail for ever: each failure halves the loads, but at most ten times
MOST_PASSES = 16


def run(s: Still, cpu: int) -> str:
    """Let a CPU balance all its levels, as at a tick when all are due, and return the outcome in words."""
    begin(s, cpu)
    for sd in s.domains[cpu]:
        sd.last_balance = 0  # every level is due
    idle = idle_type.IDLE if s.is_idle(cpu) else idle_type.NOT_IDLE
    s.call(rebalance_domains, cpu, idle, log_op.PERIODIC)
    return _outcome(s)


def newly_idle(s: Still, cpu: int) -> str:
    """Let the only thread of a CPU go to sleep; the CPU balances before it idles."""
    begin(s, cpu)
    s.rqs[cpu].curr.state = task_state.SLEEPING
    s.call(schedule_jit.schedule, cpu)
    return _outcome(s)


def begin(s: Still, cpu: int) -> None:
    """Let a CPU begin a pass."""
    s.k.this_cpu = cpu
    s.results.clear()
    s.reasons.clear()


def _outcome(s: Still) -> str:
    """Return the results of the levels in words, and for levels that counted as balanced the reason."""
    return ", ".join(dict.fromkeys(s.results + s.reasons)) or "not tried"


def settle(s: Still) -> None:
    """Run the migration threads and the rescheduling that balancing passes have asked for."""
    while event := s.take():
        kind, s.k.this_cpu = event
        if kind == cpu_event.STOP:
            s.call(schedule_jit.run_stopper, event[1])
        _reschedule(s, event[1])
    for rq in s.rqs:
        _reschedule(s, rq.cpu)


def _reschedule(s: Still, cpu: int) -> None:
    if s.rqs[cpu].need_resched:
        s.k.this_cpu = cpu
        s.call(schedule_jit.schedule, cpu)


def movable(waiting: list[Affinity], cpu: int) -> bool:
    """Tell whether one of these threads may run on a CPU; the threads are asked in order until one of them may."""
    return any(cpu in allowed for allowed in waiting)


def light_sets(queues: tuple[int, ...]) -> Iterator[frozenset[int]]:
    """Return all sets of threads that may have just woken."""
    threads = range(sum(queues))
    for size in range(len(threads) + 1):
        yield from map(frozenset, combinations(threads, size))


def one_idle_pass(
    kind: str, queues: tuple[int, ...], light: frozenset[int], newly: bool, hot: bool, cpu: int = 0
) -> Callable[[Choices], Found | None]:
    """Return a run of one pass: the CPU is idle before it or, if ``newly``, becomes idle in it."""

    def one(choose: Choices) -> Found | None:
        first = tuple(n + (newly and c == cpu) for c, n in enumerate(queues))
        ahead = sum(queues[:cpu])
        numbers = frozenset(i + (newly and i >= ahead) for i in light)
        s = kernel(kind, len(first), V6_12).begin(choose, first, numbers, hot)
        before, waiting = s.queues(), s.waiting()
        outcome = newly_idle(s, cpu) if newly else run(s, cpu)
        if not s.is_idle(cpu):
            return s.found("pulls", before)
        if not movable(waiting, cpu):
            return None
        if not newly:
            outcome = _again(s, cpu, outcome)
        return s.found(outcome if outcome[:5] == "after" else f"never: {outcome}", before)

    return one


def _again(s: Still, cpu: int, first: str) -> str:
    """Let a CPU balance again and again until it gets a thread or is sure never to get one."""
    last = first
    for passes in range(1, MOST_PASSES + 1):
        settle(s)
        if not s.is_idle(cpu):
            return f"after {passes}: {first}"
        last = run(s, cpu)
        if not s.is_idle(cpu):
            return f"after {passes + 1}: {first}"
    return last


def check_passes(
    kind: str, cpus: int, threads: int, *, newly: bool = False, hot: bool = False, mixed: bool = True, cpu: int = 0
) -> Tally:  # fmt: skip
    """Let an idle CPU balance in every state in which a thread waits that may run on this CPU.

    ``newly``: the CPU is about to become idle, and balances before it idles. ``hot``: the waiting threads ran a moment ago.
    ``mixed``: each thread may or may not have just woken; otherwise all have been runnable for long. The CPUs are alike, so only
    passes of CPU 0 are checked.

    The outcomes are ``pulls``; ``after N: WHY``, with the number of passes and the outcome of the first pass; and ``never: WHY``.
    """
    tally = Tally()
    for rest in lengths(cpus - 1, threads):
        if max(rest) < 2:
            continue
        queues = (*rest[cpus - 1 - cpu :], 0, *rest[: cpus - 1 - cpu])
        for light in light_sets(queues) if mixed else [frozenset[int]()]:
            tally.count(one_idle_pass(kind, queues, light, newly, hot, cpu))
    return tally
