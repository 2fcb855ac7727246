"""The worked examples of the talk's slides, computed anew: loads, averages of groups, and where a woken thread goes.

The results follow from the definitions alone, for queues that do not change. So the rows of these examples in the scorecard are
of the kind ``computed`` and do not count as predictions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wastedcores.lecture import (
    EXAMPLES,
    TOPOLOGIES,
    pinned_to_two_nodes,
    threads_per_node_after_wakeup,
)
from wastedcores.simulator.plain.stepping import Thread, groups_seen, still_kernel
from wastedcores.sweep import Run
from wastedcores_studies.attempts import Attempt, Reading, column_of
from wastedcores_studies.published import Tables

TABLE = "slides_claims"
#: claim -> its name beside the numbers
SHORT = {
    "averages_before": "averages before",
    "averages_after": "averages after",
    "session_one": "session of one",
    "session_four": "session of four",
    "bug1_single": "bug 1: single thread",
    "bug1_eight": "bug 1: one of eight",
    "bug1_averages": "bug 1: averages",
    "bug2_groups": "bug 2: groups",
    "bug4_more": "bug 4: fuller node",
    "bug4_less": "bug 4: emptier node",
}
_NODES = ((0, 1), (2, 3))
_REASON = (
    "A worked example of the slides. It is computed on queues that stand still, from the definitions of the loads and of the "
    "groups, as notebook 00 shows step by step. Nothing is replayed, so it is no prediction."
)


def attempts(tables: Tables, seeds: Sequence[int]) -> list[Attempt]:
    """Return the rows of the worked examples."""
    run = Run.of(f"{__name__}:examples", kernel="v4.1", machine="slides", seed=seeds[0])
    made = []
    for name, short in SHORT.items():
        place, quantity, unit, value = tables.statement(TABLE, name)
        reading = Reading({"only": [run]}, column_of("only", name))
        made.append(
            Attempt(
                f"slides.{name}", "slides", short, "slides", place, quantity, unit, value, "computed", reading, reason=_REASON
            )
        )  # fmt: skip
    return made


def examples(kernel: str, machine: str, seed: int) -> dict[str, Any]:
    """Compute the worked examples."""
    del machine, seed
    averages = EXAMPLES["averages of groups"].decisions()
    compared = next(d for d in averages if d.level.startswith("NUMA"))
    imbalance = EXAMPLES["group imbalance"].decisions()[-1]
    both, threads = pinned_to_two_nodes()
    _, groups = groups_seen(both, kernel, threads, cpu=0)[-1]
    more, less = threads_per_node_after_wakeup(kernel)
    return {
        "averages_before": _of_both(*(compared.average(node) for node in _NODES)),
        "averages_after": _of_both(*(averages[-1].average(node) for node in _NODES)),
        "session_one": _load(kernel, 1),
        "session_four": _load(kernel, 4),
        "bug1_single": _load(kernel, 1),
        "bug1_eight": _load(kernel, 8),
        "bug1_averages": _of_both(*(imbalance.average(node) for node in _NODES)),
        "bug2_groups": _of_both(*(group.total / _load(kernel, 1) for group in groups)),
        "bug4_more": more,
        "bug4_less": less,
    }


def _load(kernel: str, session_threads: int) -> int:
    """Return the load of a thread that uses a whole CPU, in a session of this many threads."""
    thread = Thread(0, session_threads=session_threads)
    still = still_kernel(TOPOLOGIES["2 nodes x 2 cores"], kernel, [thread])
    return still.tasks[0].se.load_avg_contrib


def _of_both(one: float, other: float) -> float | str:
    return one if one == other else f"{one:g} and {other:g}"
