"""How the scorecard's rows are grouped, worded and judged for a reader; shared by its tables and its dot plot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

#: spaces that do not break: thin inside a number, plain before its unit
MINUS, TIMES, SPACE, FIRM = "\u2212", "\u00d7", "\u202f", "\u00a0"


@dataclass(frozen=True)
class Group:
    """Rows that belong together.

    Attributes
    ----------
    key, title, short
        For anchors, headings and axes.
    prefixes
        How the rows' ids begin.
    """

    key: str
    title: str
    short: str
    prefixes: tuple[str, ...]


GROUPS = (
    Group("table3", "Table 3: NAS, 64 threads, missing domains", "Table 3", ("table3.",)),
    Group("table2", "Table 2: database, wakeup and imbalance", "Table 2", ("table2.",)),
    Group("make", "3.1, figure 2: make beside R", "make + R", ("claims.make_r", "claims.fig2")),
    Group("lu", "3.1: lu beside R", "lu + R", ("claims.lu_r",)),
    Group("looks", "3.2, figure 5: groups, looks", "3.2, fig. 5", ("claims.groups", "claims.fig5")),
    Group("rates", "4.2: rates of events", "4.2", ("claims.event_rate", "claims.profiler_rate")),
    Group("desktop", "Walcher 2019: database on a desktop", "desktop", ("walcher.",)),
    Group("tools", "4.1, 4.2: cost of the tools", "tools", ("claims.",)),
    Group("table1", "Table 1: NAS on two nodes, group construction", "Table 1", ("table1.",)),
)
#: shorter words of ids
_WORDS = {
    "speedup": "",
    "change": "",
    "s": "",
    "bug": "with bug",
    "fixed": "fixed",
    "q18": "query 18",
    "full": "full run",
    "both": "both fixes",
    "none": "no fix",
    "4": "4 cores",
    "2": "2 cores",
    "make_r_gain": "make's time",
    "make_r_r_gain": "R's time",
    "fig2_idle_nodes": "idle nodes",
    "lu_r_speedup": "speedup",
    "groups_buggy": "groups",
    "fig5_balance_period": "period of looking",
    "event_rate_nr": "nr_running",
    "event_rate_load": "load",
    "event_rate_considered": "considered",
    "profiler_rate": "memory",
    "event_bytes": "bytes of an event",
    "checker_overhead": "checker",
    "profile_overhead": "profiling",
}


def group_of(row: dict[str, Any]) -> Group:
    """The first group that a row fits."""
    for group in GROUPS:
        if row["id"].startswith(group.prefixes):
            return group
    return Group("other", "Others", "others", ("",))


def grouped(rows: Sequence[dict[str, Any]]) -> list[tuple[Group, list[dict[str, Any]]]]:
    """Groups that have rows, in the order of :data:`GROUPS`."""
    found: dict[Group, list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(group_of(row), []).append(row)
    order = [g for g in GROUPS if g in found] + [g for g in found if g not in GROUPS]
    return [(g, found[g]) for g in order]


def short(row: dict[str, Any]) -> str:
    """``table2.q18.both.change`` as ``query 18, both fixes``: the name of a row inside its group."""
    parts = row["id"].split(".")[1:]
    words = [_WORDS.get(p, p.replace("_", " ")) for p in parts]
    return ", ".join(w for w in words if w) or row["id"]


def text(value: Any, unit: str) -> str:
    """A number with its unit, in as many digits as mean something."""
    if value is None:
        return "none"
    if isinstance(value, str):
        return value.replace(";", "; ")
    if unit == "percent":
        rounded = round(float(value), 1) + 0.0
        return f"{rounded:+.1f}{FIRM}%".replace("-", MINUS) if rounded else f"0{FIRM}%"
    number = f"{value:,.0f}".replace(",", SPACE) if abs(value) >= 1000 else f"{value:.3g}"
    return number + (TIMES if unit == "ratio" else f"{FIRM}{unit}")


def span(row: dict[str, Any]) -> str:
    """The 5-95 % range; nothing where all replays agree or there is only one."""
    if row["low"] is None:
        return ""
    low, high = text(row["low"], row["unit"]), text(row["high"], row["unit"])
    if low == high:
        return ""
    return f"{low.partition(FIRM)[0].removesuffix(TIMES)}{FIRM}to{FIRM}{high}"
