"""Groups of the scorecard's rows, and how its numbers are written; the tables and the dot plot share them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

#: a minus, a sign of multiplication, and two spaces that do not break: a thin one inside a number, a plain one before its unit
MINUS, TIMES, SPACE, FIRM = "\u2212", "\u00d7", "\u202f", "\u00a0"


@dataclass(frozen=True)
class Group:
    """Rows that belong together."""

    key: str  #: the ``group`` of its rows; part of anchors
    title: str  #: the heading in tables
    short: str  #: the name on axes


GROUPS = (
    Group("table3", "Table 3: NAS, 64 threads, missing domains", "Table 3"),
    Group("table2", "Table 2: database, wakeup and imbalance", "Table 2"),
    Group("make", "3.1, figure 2: make beside R", "make + R"),
    Group("lu", "3.1: lu beside R", "lu + R"),
    Group("looks", "3.2, figure 5: groups, looks", "3.2, fig. 5"),
    Group("wakeup", "1, 3.3: episodes of an idle core", "1, 3.3"),
    Group("rates", "4.2: rates of events", "4.2"),
    Group("desktop", "Walcher 2019: database on a desktop", "desktop"),
    Group("tools", "4.1, 4.2: cost of the tools", "tools"),
    Group("forkwait", "Carver 2019: fork, wait and frequency", "fork/wait"),
    Group("sites", "Sites: anomalies in processor use", "anomalies"),
    Group("newidle", "Newidle balancing, Linux 5.16 to 7.0", "newidle"),
    Group("slides", "The slides: worked examples", "slides"),
    Group("table1", "Table 1: NAS on two nodes, group construction", "Table 1"),
)


def grouped(rows: Sequence[dict[str, Any]]) -> list[tuple[Group, list[dict[str, Any]]]]:
    """Return the groups that have rows, each with its rows: those of :data:`GROUPS`, then those without a title."""
    known = [g.key for g in GROUPS]
    others = dict.fromkeys(row["group"] for row in rows if row["group"] not in known)
    found = (
        (group, [row for row in rows if row["group"] == group.key])
        for group in (*GROUPS, *(Group(key, key, key) for key in others))
    )
    return [(group, mine) for group, mine in found if mine]


def predictions(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows that are predictions; one that is there twice, as seconds and as their change, counts once."""
    return [r for r in rows if r["kind"] == "predicted" and not r["restates"]]


def text(value: Any, unit: str) -> str:
    """Write a number with its unit, in three significant digits."""
    if value is None:
        return "none"
    if isinstance(value, str):
        return value.replace(";", "; ")
    if unit == "percent":
        rounded = round(float(value), 1) + 0.0
        return f"{rounded:+.1f}{FIRM}%".replace("-", MINUS) if rounded else f"0{FIRM}%"
    number = f"{value:,.0f}".replace(",", SPACE) if abs(value) >= 1000 else f"{value:.3g}"
    if unit == "text":  # a number beside a statement in words, whose label has the unit
        return number
    return number + (TIMES if unit == "ratio" else f"{FIRM}{unit}")


def span(row: dict[str, Any]) -> str:
    """Write the 5-95 % range of a row; it is empty where all replays agree or there is only one."""
    if row["low"] is None:
        return ""
    low, high = text(row["low"], row["unit"]), text(row["high"], row["unit"])
    if low == high:
        return ""
    return f"{low.partition(FIRM)[0].removesuffix(TIMES)}{FIRM}to{FIRM}{high}"
