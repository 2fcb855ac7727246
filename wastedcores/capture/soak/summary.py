"""The result of a soak as Markdown."""

from __future__ import annotations

from statistics import median
from typing import Any


def markdown(found: dict[str, Any]) -> str:
    """Return the summary of a soak.

    Parameters
    ----------
    found
        The object of ``soak.json``.

    Returns
    -------
    str
        Markdown.
    """
    alarms, provoked, cost = found["alarms"], found["provocations"], found["cost"]
    minutes = found["seconds"] / 60
    state = "complete" if found["complete"] else "not complete"
    rows = [
        ("Length", f"{minutes:.0f} minutes of {found['planned_seconds'] / 60:.0f} ({state})"),
        ("Machine", f"{found['cpus']} x {found['machine']}, Linux {found['kernel']}"),
        ("Alarms", f"{alarms['all']}, of which {alarms['unprovoked']} were not provoked"),
        ("True alarms", f"{alarms['true']}"),
        ("False alarms", f"{alarms['false']}"),
        ("Unexplained alarms", f"{alarms['unexplained'] + alarms['pending']}"),
        (
            "Provoked violations",
            f"{provoked['all']}, of which {provoked['established']} were established",
        ),
        ("Found", f"{provoked['found']}"),
        ("Established and missed", f"{provoked['missed']}"),
        *_cost(cost),
    ]
    lines = ["# Soak of the online checker", "", "| | |", "|---|---|"]
    lines += [f"| {name} | {value} |" for name, value in rows]
    lines += ["", "| load | seconds |", "|---|---|"]
    lines += [f"| {name} | {seconds:.0f} |" for name, seconds in found["load_seconds"].items()]
    odd = [a for a in found["each_alarm"] if a.get("answer") != "true"]
    if odd:
        lines += ["", "| alarm | idle CPU | answer | why |", "|---|---|---|---|"]
        lines += [
            f"| {a['number']} | {a['idle_cpu']} | {a.get('answer', 'pending')} | {a.get('why', '')} |"
            for a in odd
        ]
    return "\n".join(lines) + "\n"


def _cost(cost: list[dict[str, Any]]) -> list[tuple[str, str]]:
    if not cost:
        return []
    shares = [c["collector_cpu"] for c in cost]
    first, last = cost[0], cost[-1]
    return [
        (
            "CPU time of the collector",
            f"{median(shares):.2%} of one CPU (median), {max(shares):.2%} at most",
        ),
        *[
            (
                f"Memory of the {name}",
                f"{first[key] / 1024:.1f} MiB at first, {last[key] / 1024:.1f} MiB at last, "
                f"{max(c[key] for c in cost) / 1024:.1f} MiB at most",
            )
            for name, key in (("collector", "collector_rss_kib"), ("soak", "soak_rss_kib"))
        ],
    ]
