"""A row of the scorecard before it is run: which replays, and how a number comes out of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import numpy as np

from wastedcores.sweep import Run

#: changes below this are no effect
SMALL_PERCENT = 1.5
#: within this factor a number is reproduced (what the issue of this scorecard calls success of a prediction)
GOOD = 1.5
#: role -> row of the replay with that role, all of one seed
Rows = Mapping[str, Mapping[str, Any]]
Value = Callable[[Rows], Any]
Roles = Mapping[str, list[Run]]


@dataclass(frozen=True)
class Entry:
    """One published number and how ours is made.

    Attributes
    ----------
    id, source, place, quantity, unit
        What it is and where it is printed; units ``s``, ``ratio``, ``percent`` or any other.
    published
        As printed.
    kind
        ``calibrated`` (the number was used to find a parameter), ``predicted`` or ``measured``.
    roles
        Replays by role, one a seed.
    value
        Our number from the replays of one seed.
    beside
        Other readings, shown beside ours: label -> (roles, value).
    reason
        In mechanism terms: why ours differs, or what it rests on.
    """

    id: str
    source: str
    place: str
    quantity: str
    unit: str
    published: str
    kind: str
    roles: Roles
    value: Value
    beside: Mapping[str, tuple[Roles, Value]] = field(default_factory=dict)
    reason: str = ""

    def runs(self) -> list[Run]:
        """Every replay that it needs."""
        sets = [self.roles, *(roles for roles, _ in self.beside.values())]
        return [run for roles in sets for runs in roles.values() for run in runs]

    def row(self, results: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        """The scorecard's row.

        Parameters
        ----------
        results
            Run key -> row of the sweep.
        """
        values, errors = _values(self.roles, self.value, results)
        row: dict[str, Any] = {
            "id": self.id,
            "source": self.source,
            "place": self.place,
            "quantity": self.quantity,
            "unit": self.unit,
            "published": _number(self.published),
            "ours": None,
            "low": None,
            "high": None,
            "ratio": None,
            "effect": None,
            "kind": self.kind,
            "verdict": "failed",
            "reproduced": False,
            "seeds": len(values),
            "reason": self.reason,
            "beside": {},
        }
        if errors or not values:
            row["reason"] = errors[0] if errors else "no replay"
            return row
        row.update(_spread(values))
        row["ratio"] = ratio(row["ours"], row["published"], self.unit)
        row["effect"] = effect(row["ours"], row["published"], self.unit)
        row["verdict"] = verdict(row["ours"], row["published"], self.unit)
        row["reproduced"] = reproduced(row)
        for label, (roles, value) in self.beside.items():
            others, failed = _values(roles, value, results)
            row["beside"][label] = None if failed or not others else _spread(others)["ours"]
        return row


def _values(
    roles: Roles, value: Value, results: Mapping[str, Mapping[str, Any]]
) -> tuple[list[Any], list[str]]:
    values, errors = [], []
    for same_seed in zip(*roles.values(), strict=True):
        rows = {role: results[run.key] for role, run in zip(roles, same_seed, strict=True)}
        failed = [str(r["error"]) for r in rows.values() if r["error"] is not None]
        if failed:
            errors += failed
        else:
            values.append(value(rows))
    return values, errors


def _spread(values: list[Any]) -> dict[str, Any]:
    if isinstance(values[0], str):
        return {"ours": values[0], "low": None, "high": None}
    low, high = (float(np.quantile(values, q)) for q in (0.05, 0.95))
    return {"ours": float(median(values)), "low": low, "high": high}


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def ratio(ours: Any, published: Any, unit: str) -> float | None:
    """Ours by the published one; changes in percent as the ratios of the two times that they stand for."""
    if isinstance(ours, str) or isinstance(published, str):
        return 1.0 if ours == published else None
    if unit == "percent":
        return (100 + float(ours)) / (100 + float(published))
    return float(ours) / float(published) if published else None


def effect(ours: Any, published: Any, unit: str) -> float | None:
    """Ours as a part of the published change; None where none of 1.5 percent or more was published.

    Ratios of times flatter small changes: -2 % against -13 % is a ratio of 1.13, but a sixth of the effect.
    """
    if unit != "percent" or isinstance(published, str) or abs(published) < SMALL_PERCENT:
        return None
    return float(ours) / float(published)


def no_effect(ours: Any, published: Any, unit: str) -> bool:
    """Whether a change was published and ours is none: it has no direction, whatever its sign."""
    if unit != "percent" or isinstance(ours, str) or isinstance(published, str):
        return False
    return abs(ours) < SMALL_PERCENT <= abs(published)


def direction_right(ours: Any, published: Any, unit: str) -> bool:
    """Whether ours goes the published way: faster, slower, or (under 1.5 percent) neither; none is not the wrong one."""
    if isinstance(ours, str) or isinstance(published, str):
        return bool(ours == published)
    if unit == "percent":
        small = abs(published) < SMALL_PERCENT and abs(ours) < SMALL_PERCENT
        return small or no_effect(ours, published, unit) or ours * published > 0
    if unit == "ratio":
        return (ours > 1) == (published > 1)
    return True


def verdict(ours: Any, published: Any, unit: str) -> str:
    """In words: same (within 10 %), close (25 %), within 1.5x, direction only, no effect, opposite."""
    if no_effect(ours, published, unit):
        return "no effect"
    if not direction_right(ours, published, unit):
        return "opposite"
    r = ratio(ours, published, unit)
    if r is None or r <= 0:
        return "opposite"
    away = math.exp(abs(math.log(r)))
    for limit, word in ((1.1, "same"), (1.25, "close"), (1.5, "within 1.5x")):
        if away <= limit:
            return word
    return "direction only"


def reproduced(row: Mapping[str, Any]) -> bool:
    """Whether the number follows in size, not only in direction: within a factor of :data:`GOOD`.

    A change in percent must itself be within that factor of the published change, which is harder than comparing the
    two times that it stands for; where none was published, there must be none.
    """
    if row["verdict"] not in ("same", "close", "within 1.5x"):
        return False
    return row["effect"] is None or 1 / GOOD <= row["effect"] <= GOOD


def plain(role: str, column: str) -> Value:
    """The column itself."""
    return lambda rows: rows[role][column]


def gain(column: str) -> Value:
    """Change from bug to fixed in percent."""
    return lambda rows: 100 * (rows["fixed"][column] / rows["bug"][column] - 1)
