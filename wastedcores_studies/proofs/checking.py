"""All checks with their claims, and the table of the results."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from wastedcores_studies.proofs.balancer import check_passes
from wastedcores_studies.proofs.core import EVENTS, check_event
from wastedcores_studies.proofs.placement import check_wakeups
from wastedcores_studies.proofs.several import check_several, check_two_levels
from wastedcores_studies.proofs.still import ONE_LEVEL, TWO_LEVELS
from wastedcores_studies.proofs.tally import Tally

SCHEMA = "wastedcores.proofs/1"
#: the sizes of the machines: checks of the small ones take fifteen seconds, checks of the full ones three minutes
SMALL, FULL = "small", "full"


@dataclass(frozen=True)
class Check:
    """An event that is tried in every state, with the claims about its outcomes."""

    name: str  #: a short name
    scheduler: str  #: ``core`` or ``v6.12``
    #: called with a kind of machine, a number of CPUs and a number of threads
    run: Callable[[str, int, int], Tally]
    kinds: tuple[str, ...]  #: the kinds of machines
    sizes: dict[str, tuple[int, int]]  #: CPUs and threads by :data:`SMALL` and :data:`FULL`
    claims: dict[str, tuple[str, ...]]  #: sentence -> beginnings of outcomes that contradict it


_ONE = tuple(ONE_LEVEL)
_ALL_SIZES = {SMALL: (3, 4), FULL: (4, 6)}
#: these sizes are smaller, because there are many more states if threads have two kinds of averages
_WITH_WOKEN = {SMALL: (3, 4), FULL: (4, 5)}
_RULE = "after the event no CPU is idle beside a thread that it could run"
_IN_ONE = "an idle CPU gets a waiting thread that it may run in one pass"
_LATER = "it gets one in some pass, if nothing else happens"
_LAST = ("takes the last",)
_LATE = (*(f"after {n}" for n in range(2, 17)), "never")

_GETS: dict[str, tuple[str, ...]] = {_IN_ONE: ("after", "never"), _LATER: ("never",)}
_GETS_NEWLY: dict[str, tuple[str, ...]] = {
    "a CPU that becomes idle gets a waiting thread that it may run": ("never",)
}

CHECKS = (
    *(
        Check(f"core: {event}", "core", partial(check_event, event), ("one cache",), _ALL_SIZES, {_RULE: ("broken",)})
        for event in EVENTS
    ),
    Check("periodic pass", "v6.12", partial(check_passes, mixed=False), _ONE, _ALL_SIZES, _GETS),
    Check("periodic pass, some have just woken", "v6.12", check_passes, _ONE, _WITH_WOKEN, _GETS),
    Check(
        "periodic pass, cache-hot threads", "v6.12", partial(check_passes, hot=True, mixed=False), _ONE, _ALL_SIZES, _GETS
    ),
    Check("newly idle", "v6.12", partial(check_passes, newly=True, mixed=False), _ONE, _ALL_SIZES, _GETS_NEWLY),
    Check(
        "newly idle, some have just woken", "v6.12", partial(check_passes, newly=True), _ONE, _WITH_WOKEN, _GETS_NEWLY
    ),
    Check(
        "any pass", "v6.12", partial(check_several, "safe"), _ONE, _ALL_SIZES,
        {"no pass takes the last or the running thread of a CPU": ("takes",)},
    ),
    Check(
        "a pass, then newly idle", "v6.12", partial(check_several, "flag"), _ONE, _ALL_SIZES,
        {"a CPU that becomes idle tries to pull if there is something to pull": ("skipped",)},
    ),
    Check(
        "two passes at once", "v6.12", partial(check_several, "race"), _ONE, _ALL_SIZES,
        {
            "one of the CPUs gets a thread if one would alone": ("both fail because",),
            "both get one if there are two": ("both", "one fails"),
            "no CPU loses its last thread": _LAST,
        },
    ),
    Check(
        "active balance, overtaken by a pass", "v6.12", partial(check_several, "late"), ("one cache", "one core"), _ALL_SIZES,
        {"no CPU loses its last thread": _LAST},
    ),
    Check(
        "all CPUs in turns", "v6.12", partial(check_several, "rounds"), _ONE, {SMALL: (3, 3), FULL: (3, 4)},
        {
            "in the end no CPU is idle beside a thread that it could run": ("a thread waits",),
            "no thread moves for ever beside an idle CPU": ("moves for ever beside",),
            "no thread moves for ever": ("moves for ever", "undecided"),
        },
    ),
    Check(
        "idle CPUs in turns, two levels", "v6.12", lambda kind, cpus, threads: check_two_levels(kind, threads),
        tuple(TWO_LEVELS), {SMALL: (4, 3), FULL: (4, 4)},
        {
            "after one pass of each, none is idle beside a thread that it could run": _LATE,
            "after some passes of each, none is idle beside a thread that it could run": ("never",),
        },
    ),
    Check(
        "wakeup", "v6.12", check_wakeups, _ONE, {SMALL: (3, 3), FULL: (3, 4)},
        {"the thread goes to an idle CPU if it may run on one": ("busy",)},
    ),
)  # fmt: skip


def check_all(size: str = SMALL, names: tuple[str, ...] = ()) -> Iterator[dict[str, Any]]:
    """Run all checks, or those with these names, and yield a row for each kind of machine.

    A row has ``check``, ``scheduler``, ``machine``, ``cpus``, ``threads``, ``runs``, ``states``, ``seconds``; ``outcomes``: for
    each outcome, the number of its states and the smallest one; and ``claims``: for each claim, how many states contradict it.
    """
    for check in CHECKS:
        if names and check.name not in names:
            continue
        cpus, threads = check.sizes[size]
        for kind in check.kinds:
            begun = time.process_time()
            tally = check.run(kind, cpus, threads)
            yield _row(check, kind, cpus, threads, tally, time.process_time() - begun)


def _row(
    check: Check, kind: str, cpus: int, threads: int, tally: Tally, seconds: float
) -> dict[str, Any]:
    return {
        "check": check.name,
        "scheduler": check.scheduler,
        "machine": kind,
        "cpus": cpus,
        "threads": threads,
        "runs": tally.runs,
        "states": tally.states,
        "seconds": round(seconds, 1),
        "outcomes": {
            outcome: {"states": n, "smallest": tally.smallest[outcome][1]}
            for outcome, n in tally.outcomes.most_common()
        },
        "claims": {
            claim: sum(n for o, n in tally.outcomes.items() if o.startswith(bad))
            for claim, bad in check.claims.items()
        },
    }


def told(row: dict[str, Any]) -> list[str]:
    """Return the lines that say whether a row's claims hold, each with the smallest counterexample if there is one."""
    bad = next(c.claims for c in CHECKS if c.name == row["check"])
    lines = [
        f"{row['scheduler']}, {row['check']}, {row['machine']}, {row['cpus']} CPUs, up to {row['threads']} threads: "
        f"{row['states']} states, {row['seconds']:.1f} s"
    ]
    for claim, n in row["claims"].items():
        if not n:
            lines.append(f"  holds: {claim}")
            continue
        lines.append(f"  fails in {100 * n / row['states']:.1f} % of the states: {claim}")
        lines += [
            f"      {outcome}: {found['smallest']}"
            for outcome, found in row["outcomes"].items()
            if outcome.startswith(bad[claim])
        ]
    return lines
