"""Whether a thread that wakes under Linux 6.12 finds the idle CPU on which it may run."""

from __future__ import annotations

from collections.abc import Callable

from wastedcores.simulator.engine.core import wakeup_jit
from wastedcores_studies.proofs.choices import Choices
from wastedcores_studies.proofs.still import V6_12, Found, Still, kernel, lengths
from wastedcores_studies.proofs.tally import Tally


def one_wakeup(kind: str, queues: tuple[int, ...], waker: int) -> Callable[[Choices], Found | None]:
    """Return the run of a wakeup by the thread that runs on ``waker``, or by a timer if that CPU is idle."""

    def run(choose: Choices) -> Found | None:
        cpus = len(queues)
        s = kernel(kind, cpus, V6_12).begin(choose, queues)
        last = choose(cpus)
        p = s.sleeper(last)
        p.recent_used_cpu = choose(cpus)
        sync = bool(queues[waker] and choose(2))
        scanned = choose(2)
        if not scanned:
            # the limit of the scan is 0 after a rebuild of the domains, and if all CPUs of the cache are fully used
            for sd in (sd for levels in s.domains for sd in levels if sd.shared):
                sd.shared.nr_idle_scan = 0
        before = s.queues()
        s.k.this_cpu = waker
        allowed = s.decide(p)
        if allowed:
            s.call(wakeup_jit.choose_cpu, p, sync)
        free = [c for c in allowed if s.is_idle(c)]
        if not free:
            return None
        outcome = "an idle CPU"
        if not s.is_idle(p.cpu):
            outcome = _why(s, p.cpu, free, last in allowed, bool(scanned))
        may = "+".join(map(str, allowed))
        note = f"; wakes on {waker}{' (sync)' * sync}, ran on {last}, may run on {may}"
        return s.found(outcome, before, note)

    return run


def _why(s: Still, chosen: int, free: list[int], last_allowed: bool, scanned: bool) -> str:
    """Say why a busy CPU was chosen although the CPUs in ``free`` were idle."""
    if not last_allowed:
        return "busy: the last CPU is not allowed any more"
    if all(s.rqs[c].sd_llc_id != s.rqs[chosen].sd_llc_id for c in free):
        return "busy: idle CPUs have another cache"
    return "busy: other" if scanned else "busy: the scan is limited to 0 CPUs"


def check_wakeups(kind: str, cpus: int, threads: int) -> Tally:
    """Wake a thread in every state in which it may run on an idle CPU; ``threads`` includes the woken thread."""
    tally = Tally()
    for queues in lengths(cpus, threads - 1):
        for waker in range(cpus):
            tally.count(one_wakeup(kind, queues, waker))
    return tally
