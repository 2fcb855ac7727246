"""Whether a thread that wakes under Linux 6.12 finds the idle CPU on which it may run."""

from __future__ import annotations

from collections.abc import Callable

from wastedcores.proofs.choices import Choices, every
from wastedcores.proofs.still import Seen, Still, lengths
from wastedcores.proofs.tally import Tally
from wastedcores.simulator.reference import schedule

Found = tuple[str, int, Seen] | None


def one_wakeup(kind: str, queues: tuple[int, ...], waker: int) -> Callable[[Choices], Found]:
    """Return the run of a wakeup by the thread that runs on ``waker``, or by a timer if that CPU is idle."""

    def run(choose: Choices) -> Found:
        s = Still(choose, kind, queues)
        k, cpus = s.k, len(queues)
        last = choose(cpus)
        p = s.sleeper(last)
        p.recent_used_cpu = choose(cpus)
        sync = bool(queues[waker] and choose(2))
        scanned = choose(2)
        if not scanned:
            # after a rebuild of the domains, and where the cache is fully used
            for rq in k.rqs:
                for sd in rq.sd:
                    if sd.shared is not None:
                        sd.shared.nr_idle_scan = 0
        before = s.queues()
        k.cpu = waker
        if not len(p.allowed):
            return None
        schedule.choose_cpu(k, p, waker, sync)
        free = [c for c in p.allowed if s.is_idle(c)]
        if not free:
            return None
        outcome = "an idle CPU"
        if not s.is_idle(p.cpu):
            outcome = _why(s, p.cpu, last, free, last in p.allowed, bool(scanned))
        text = s.seen(before)
        note = f"; wakes on {waker}{' (sync)' * sync}, ran on {last}, may run on {p.allowed.text()}"  # type: ignore[attr-defined]
        return outcome, s.stands_for, Seen(text.kind, text.queues, note)

    return run


def _why(
    s: Still, chosen: int, last: int, free: list[int], last_allowed: bool, scanned: bool
) -> str:
    """Say why a busy CPU was chosen although these were free."""
    if not last_allowed:
        return "busy: the last CPU is not allowed any more"
    if all(s.k.llc_id[c] != s.k.llc_id[chosen] for c in free):
        return "busy: idle CPUs have another cache"
    return "busy: other" if scanned else "busy: the scan is limited to 0 CPUs"


def check_wakeups(kind: str, cpus: int, threads: int) -> Tally:
    """Wake a thread in every state in which a CPU is idle on which it may run; ``threads`` counts the sleeper."""
    tally = Tally()
    for queues in lengths(cpus, threads - 1):
        for waker in range(cpus):
            for found in every(one_wakeup(kind, queues, waker)):
                if found is not None:
                    tally.add(*found)
    return tally
