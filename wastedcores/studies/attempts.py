"""One published number, the replays that attempt it, and how well they reproduce it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import numpy as np

from wastedcores.studies.published import Tables
from wastedcores.sweep import Run

#: a published or replayed change below this counts as no effect
SMALL_PERCENT = 1.5
#: a number is reproduced if it is within this factor of the published one
GOOD = 1.5
#: the table of statements in the text of Lozi et al. 2016
CLAIMS = "lozi2016_claims"

#: run key -> row of the sweep
Results = Mapping[str, Mapping[str, Any]]
#: computes a number from one row per role
Value = Callable[[Mapping[str, Mapping[str, Any]]], Any]


@dataclass(frozen=True)
class Reading:
    """A number that is computed from replays.

    Attributes
    ----------
    roles
        Role, such as ``bug`` or ``fixed``, -> its replays, one per seed. All roles have the same seeds in the same order.
    value
        Computes the number from one row per role.
    """

    roles: Mapping[str, Sequence[Run]]
    value: Value

    def runs(self) -> list[Run]:
        """Return all replays that the number needs."""
        return [run for runs in self.roles.values() for run in runs]

    def per_seed(self, results: Results) -> tuple[list[Any], list[str]]:
        """Return the number of each seed, and the errors of replays that failed.

        Parameters
        ----------
        results
            Run key -> row of the sweep.

        Returns
        -------
        values, errors
            A seed with a failed replay has no value.
        """
        values, errors = [], []
        for same_seed in zip(*self.roles.values(), strict=True):
            rows = {role: results[run.key] for role, run in zip(self.roles, same_seed, strict=True)}
            failed = [str(r["error"]) for r in rows.values() if r["error"] is not None]
            if failed:
                errors += failed
            else:
                values.append(self.value(rows))
        return values, errors

    def of_medians(self, results: Results) -> float | None:
        """Return the number computed from each role's medians over the seeds; None if all replays of a role failed.

        Parameters
        ----------
        results
            Run key -> row of the sweep.
        """
        medians = {
            role: _medians([results[r.key] for r in runs]) for role, runs in self.roles.items()
        }
        return float(self.value(medians)) if all(medians.values()) else None


def _medians(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Median of each numeric column over the rows without an error."""
    good = [row for row in rows if row["error"] is None]
    columns = {name: [row[name] for row in good] for name in (good[0] if good else ())}
    return {
        name: float(median(values))
        for name, values in columns.items()
        if all(isinstance(v, int | float) for v in values)
    }


@dataclass(frozen=True)
class Attempt:
    """One published number and how it is attempted.

    Attributes
    ----------
    id
        Stable name of the row.
    group
        Key of the group of rows that it is shown in: ``table1``, ``table2``, ``table3``, ``make``, ``lu``, ``looks``,
        ``rates``, ``desktop`` or ``tools``.
    short
        Display name inside its group.
    source, place, quantity, unit
        The document, the place in it, what the number is, and its unit: ``s``, ``ratio``, ``percent`` or any other.
    published
        The number as it is printed.
    kind
        ``calibrated`` (the number was used to find a parameter), ``predicted`` or ``measured``.
    reading
        How this project's number is computed.
    others
        Alternative readings that are shown next to it, by label.
    reason
        Why the numbers differ, or what the replay assumes, in terms of the scheduler's mechanisms.
    """

    id: str
    group: str
    short: str
    source: str
    place: str
    quantity: str
    unit: str
    published: str
    kind: str
    reading: Reading
    others: Mapping[str, Reading] = field(default_factory=dict)
    reason: str = ""

    def runs(self) -> list[Run]:
        """Return all replays that the row needs."""
        return [run for r in (self.reading, *self.others.values()) for run in r.runs()]

    def row(self, results: Results) -> dict[str, Any]:
        """Return the scorecard's row.

        Parameters
        ----------
        results
            Run key -> row of the sweep.

        Returns
        -------
        dict
            The description of the number; ``ours``, the median over the seeds, with ``low`` and ``high``, the 5th and
            95th percentile; and what :func:`judged` says. A row with a failed replay has the verdict ``failed``.
        """
        values, errors = self.reading.per_seed(results)
        row = self.described() | {"seeds": len(values)}
        if errors or not values:
            return row | {"reason": errors[0] if errors else "no replay"}
        row |= _spread(values)
        row |= judged(row["ours"], row["published"], self.unit)
        for label, other in self.others.items():
            found, failed = other.per_seed(results)
            row["beside"][label] = None if failed or not found else _spread(found)["ours"]
        return row

    def described(self) -> dict[str, Any]:
        """Return the row as it is before any replay has run: the description, and the verdict ``failed``."""
        try:
            published: float | str = float(self.published)
        except ValueError:
            published = self.published
        return {
            "id": self.id,
            "group": self.group,
            "short": self.short,
            "source": self.source,
            "place": self.place,
            "quantity": self.quantity,
            "unit": self.unit,
            "published": published,
            "ours": None,
            "low": None,
            "high": None,
            "ratio": None,
            "effect": None,
            "kind": self.kind,
            "verdict": "failed",
            "reproduced": False,
            "seeds": 0,
            "reason": self.reason,
            "beside": {},
        }


def claim(tables: Tables, row: str, reading: Reading, **described: Any) -> Attempt:
    """Return an attempt of a statement in the text of Lozi et al. 2016.

    Parameters
    ----------
    tables
        The published tables.
    row
        Name of the statement in ``lozi2016_claims.csv``.
    reading
        How this project's number is computed.
    **described
        Further attributes of :class:`Attempt`; ``kind`` is ``predicted`` unless it is given.

    Raises
    ------
    DatasetError
        There is no such statement.
    """
    place, quantity, unit, value = (
        tables.text(CLAIMS, row, column) for column in ("place", "quantity", "unit", "value")
    )
    what = {"id": f"claims.{row}", "source": "lozi2016", "kind": "predicted"} | described
    return Attempt(
        place=place, quantity=quantity, unit=unit, published=value, reading=reading, **what
    )


def _spread(values: list[Any]) -> dict[str, Any]:
    """Median and 5-95 % range of numbers; the first of texts."""
    if isinstance(values[0], str):
        return {"ours": values[0], "low": None, "high": None}
    low, high = (float(np.quantile(values, q)) for q in (0.05, 0.95))
    return {"ours": float(median(values)), "low": low, "high": high}


def judged(ours: Any, published: Any, unit: str) -> dict[str, Any]:
    """Return ``ratio``, ``effect``, ``verdict`` and ``reproduced`` of a replayed and a published value.

    Parameters
    ----------
    ours, published
        Both numbers or both texts.
    unit
        Unit of both; ``percent`` is a change in time, ``ratio`` a speedup.

    Returns
    -------
    dict
        ``reproduced`` is true if the number follows in size, not only in direction: within a factor of :data:`GOOD`. A
        change in percent must itself be within that factor of the published change, which is harder than comparing the
        two times that it stands for; where no change was published, there must be none.
    """
    word, part = verdict(ours, published, unit), effect(ours, published, unit)
    close = word in ("same", "close", "within 1.5x")
    return {
        "ratio": ratio(ours, published, unit),
        "effect": part,
        "verdict": word,
        "reproduced": close and (part is None or 1 / GOOD <= part <= GOOD),
    }


def ratio(ours: Any, published: Any, unit: str) -> float | None:
    """Return the replayed value divided by the published one, or None if there is no quotient.

    Parameters
    ----------
    ours, published, unit
        As for :func:`judged`. Changes in percent are compared as the ratios of the two times that they stand for.
    """
    if isinstance(ours, str) or isinstance(published, str):
        return 1.0 if ours == published else None
    if unit == "percent":
        return (100 + float(ours)) / (100 + float(published))
    return float(ours) / float(published) if published else None


def effect(ours: Any, published: Any, unit: str) -> float | None:
    """Return the replayed change as a part of the published change; None if less than 1.5 % was published.

    Ratios of times flatter small changes: -2 % against -13 % is a ratio of 1.13, but a sixth of the effect.

    Parameters
    ----------
    ours, published, unit
        As for :func:`judged`.
    """
    if unit != "percent" or isinstance(published, str) or abs(published) < SMALL_PERCENT:
        return None
    return float(ours) / float(published)


def no_effect(ours: Any, published: Any, unit: str) -> bool:
    """Return whether a change was published and the replay shows none, so that it has no direction.

    Parameters
    ----------
    ours, published, unit
        As for :func:`judged`.
    """
    if unit != "percent" or isinstance(ours, str) or isinstance(published, str):
        return False
    return abs(ours) < SMALL_PERCENT <= abs(published)


def direction_right(ours: Any, published: Any, unit: str) -> bool:
    """Return whether the replayed change goes the published way: faster, slower, or (under 1.5 %) neither.

    A missing effect does not count as the wrong direction.

    Parameters
    ----------
    ours, published, unit
        As for :func:`judged`.
    """
    if isinstance(ours, str) or isinstance(published, str):
        return bool(ours == published)
    if unit == "percent":
        small = abs(published) < SMALL_PERCENT and abs(ours) < SMALL_PERCENT
        return small or no_effect(ours, published, unit) or ours * published > 0
    if unit == "ratio":
        return (ours > 1) == (published > 1)
    return True


def verdict(ours: Any, published: Any, unit: str) -> str:
    """Return the comparison in words: same (within 10 %), close (25 %), within 1.5x, direction only, no effect, opposite.

    Parameters
    ----------
    ours, published, unit
        As for :func:`judged`.
    """
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


def column_of(role: str, column: str) -> Value:
    """Return a value that is one column of one role's row.

    Parameters
    ----------
    role, column
        Names of both.
    """
    return lambda rows: rows[role][column]


def change(column: str) -> Value:
    """Return a value that is the change of a column from ``bug`` to ``fixed``, in percent."""
    return lambda rows: 100 * (rows["fixed"][column] / rows["bug"][column] - 1)


def quotient(above: str, below: str, column: str) -> Value:
    """Return a value that is one role's column divided by another role's.

    Parameters
    ----------
    above, below, column
        Names of both roles and of the column.
    """
    return lambda rows: rows[above][column] / rows[below][column]
