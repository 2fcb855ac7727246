"""Why the state of a CPU is in doubt, in words."""

from __future__ import annotations

import polars as pl

#: by reason of :mod:`wastedcores.runqueues.doubts`
MEANING = {
    "contradicted_often": "so many events contradict each other that nothing between them is believed",
    "wakeup_of_queued": "a thread was woken that was already awake (an event is missing)",
    "in_without_wakeup": "a thread that slept ran without a wakeup",
    "out_without_in": "a thread stopped on a CPU on which it had not begun to run",
    "ran_elsewhere": "a thread ran on a CPU to which it had not been moved",
    "left_unseen": "a CPU changed to another thread without a sched_switch event",
    "idle_beside_waiting": "a CPU went idle although a thread was queued on it (which was throttled, or had moved unseen)",
    "starved": "a thread waited for so long that a limit of its CPU time may be the reason",
    "count_differs": "the kernel counted other threads on a CPU than the events tell",
    "queue_differs": "the kernel counted more or fewer waiting threads on a busy CPU than the events tell",
    "bound_by_name": "a thread waited that has the name of a kernel thread bound to its CPU",
    "silence_before_contradiction": "there was no event at all for a while before two events contradicted each other",
    "events_lost": "events were lost while a thread waited",
    "offline_or_idle": "a CPU had no event until all CPUs were stopped, so it had been idle or offline",
    "core_scheduling": "core scheduling was in use",
    "some_tasks": "perf recorded the events of some tasks only, so nobody knows what the others did",
    "isolation_changed": "other CPUs were isolated when the trace ended",
}


def doubts_by_reason(doubts: pl.DataFrame, most: int = 3) -> list[str]:
    """Return the most frequent reasons for doubts, each with the number of spans that it caused."""
    counts = doubts.group_by("reason").len().sort(["len", "reason"], descending=[True, False])
    said = [
        MEANING[reason] if reason == "contradicted_often" else f"{_times(n)} {MEANING[reason]}"
        for reason, n in counts.iter_rows()
    ]
    left = counts["len"][most:].sum()
    return said[:most] + ([f"{_times(int(left))} for other reasons"] if left else [])


def _times(n: int) -> str:
    return "once" if n == 1 else f"{n:,} times"
