"""Scores with which schedulers are compared: :func:`score` makes one object of the checks of one or more traces."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from wastedcores.invariant.result import CheckResult

SCORE_SCHEMA = "wastedcores.score/1"
#: the worst first; the verdict of several traces is the worst of their verdicts
_VERDICTS = ("violations", "unknown", "clean")
_CONFIDENCES = ("unknown", "bounded", "exact")


def score(results: Sequence[CheckResult]) -> dict[str, Any]:
    """Return what `wastedcores score` prints: how many core-seconds the schedules of some traces lost, and how sure that is.

    Parameters
    ----------
    results
        The check of each trace, at least one.

    Returns
    -------
    dict
        ``lost_core_s`` is the CPU time, in seconds, in which a CPU was idle while a thread that it could have run waited. It lies
        between ``at_least_core_s`` and ``at_most_core_s`` (None: the trace sets no limit). ``lost_share`` is this time as a share
        of the CPU time used. ``confidence`` is ``exact`` if both limits are equal, ``bounded`` if there is an upper limit, and
        ``unknown`` if there is none. Numbers are sums over all traces, ``verdict`` and ``confidence`` are the worst of all
        traces, ``spread`` tells the median and the range of the traces' lost core-seconds, and ``traces`` has the same numbers of
        each trace.
    """
    rows = [_row(result) for result in results]
    most = [row["at_most_core_s"] for row in rows]
    total = {
        name: round(sum(row[name] for row in rows), 9)  # whole ns
        for name in ("window_s", "busy_core_s", "lost_core_s", "at_least_core_s")
    }
    lost = [row["lost_core_s"] for row in rows]
    return {
        "schema": SCORE_SCHEMA,
        "verdict": min((row["verdict"] for row in rows), key=_VERDICTS.index),
        "confidence": min((row["confidence"] for row in rows), key=_CONFIDENCES.index),
        **total,
        "at_most_core_s": None if None in most else round(sum(most), 9),
        "lost_share": _share(total["lost_core_s"], total["busy_core_s"]),
        "longest_episode_s": max(row["longest_episode_s"] for row in rows),
        "spread": {"median": statistics.median(lost), "low": min(lost), "high": max(lost)},
        "traces": rows,
    }


def _row(found: CheckResult) -> dict[str, Any]:
    least, most = found.bound.waste_at_least_ns, found.bound.waste_at_most_ns
    confidence = "unknown" if not found.bounded else "exact" if least == most else "bounded"
    return {
        "trace": found.trace.name,
        "verdict": found.verdict,
        "kind": found.kind,
        "confidence": confidence,
        "cpus": len(found.counted_cpus),
        "window_s": found.duration_ns / 1e9,
        "busy_core_s": found.busy_ns / 1e9,
        "lost_core_s": found.thread_ns / 1e9,
        "at_least_core_s": least / 1e9,
        "at_most_core_s": None if confidence == "unknown" else most / 1e9,
        "lost_share": _share(found.thread_ns, found.busy_ns),
        "longest_episode_s": found.longest_ns / 1e9,
        "notes": found.notes,
    }


def _share(lost: float, busy: float) -> float | None:
    return round(lost / busy, 6) if busy else None
