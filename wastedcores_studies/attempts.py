"""One published number, the replays that attempt it, and how well they reproduce it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import numpy as np

from wastedcores.sweep import Run
from wastedcores_studies.published import Tables

#: a published or replayed change below this counts as no effect
SMALL_PERCENT = 1.5
#: a number is reproduced if it is within this factor of the published one
GOOD = 1.5
#: the table of statements in the text of Lozi et al. 2016
CLAIMS = "lozi2016_claims"

#: run key -> row of the sweep
Results = Mapping[str, Mapping[str, Any]]
#: computes a number for one seed from the results of its replays, one result per role
Value = Callable[[Mapping[str, Mapping[str, Any]]], Any]


@dataclass(frozen=True)
class Reading:
    """A number that is computed from replays."""

    #: role, such as ``bug`` or ``fixed``, -> its replays, one per seed. All roles have the same seeds in the same order.
    roles: Mapping[str, Sequence[Run]]
    value: Value  #: computes the number for one seed from the results of its replays, one result per role

    def runs(self) -> list[Run]:
        """Return all replays that the number needs."""
        return [run for runs in self.roles.values() for run in runs]

    def per_seed(self, results: Results) -> tuple[list[Any], list[str]]:
        """Return the number of each seed, and the errors of replays that failed; a seed with such a replay has no number."""
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
        """Return the number computed from the medians of each role over the seeds; None if all replays of a role failed."""
        medians = {
            role: _medians([results[r.key] for r in runs]) for role, runs in self.roles.items()
        }
        return float(self.value(medians)) if all(medians.values()) else None


def _medians(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the median of each numeric column over the rows without an error."""
    good = [row for row in rows if row["error"] is None]
    columns = {name: [row[name] for row in good] for name in (good[0] if good else ())}
    return {
        name: float(median(values))
        for name, values in columns.items()
        if all(isinstance(v, int | float) for v in values)
    }


@dataclass(frozen=True)
class Attempt:
    """One published number and how it is attempted."""

    id: str  #: stable name of the row
    #: key of the group of rows that it is shown in: ``table1``, ``table2``, ``table3``, ``make``, ``lu``, ``looks``, ``wakeup``,
    #: ``rates``, ``desktop``, ``tools``, ``forkwait``, ``sites`` or ``slides``
    group: str
    short: str  #: display name inside its group
    #: the document, the place in it, what the number is, and its unit: ``s``, ``ratio``, ``percent`` or any other
    source: str
    place: str
    quantity: str
    unit: str
    published: str  #: the number as it is printed
    #: ``calibrated`` (the published number was used to find a parameter), ``predicted``, ``measured``, ``computed`` (a worked
    #: example), or ``assumed`` (our number follows from a number that the document does not give)
    kind: str
    reading: Reading  #: how this project's number is computed
    #: by label, alternative readings, whose numbers are shown next to ours
    others: Mapping[str, Reading] = field(default_factory=dict)
    #: why the numbers differ, or what the replay assumes, in terms of the scheduler's mechanisms
    reason: str = ""
    #: the id of a row with the same prediction in another unit, such as seconds for a change in percent. A prediction counts
    #: once.
    restates: str = ""
    #: whether the reading, or the number that stands for published words, was chosen after a result had been seen
    afterwards: bool = False

    def runs(self) -> list[Run]:
        """Return all replays that the row needs."""
        return [run for r in (self.reading, *self.others.values()) for run in r.runs()]

    def row(self, results: Results) -> dict[str, Any]:
        """Return the scorecard's row.

        It has the description of the number; ``ours``, the median over the seeds, with ``low`` and ``high``, the 5th and
        95th percentile; and the fields of :class:`Comparison`. A row with a failed replay has the verdict ``failed``.
        """
        values, errors = self.reading.per_seed(results)
        row = self.described() | {"seeds": len(values)}
        if errors or not values:
            return row | {"reason": errors[0] if errors else "no replay"}
        row |= _spread(values)
        row |= Comparison(row["ours"], row["published"], self.unit).fields()
        for label, other in self.others.items():
            found, failed = other.per_seed(results)
            row["beside"][label] = None if failed or not found else _spread(found)["ours"]
        return row

    def described(self) -> dict[str, Any]:
        """Return the row before any replay has run: it has the description, and the verdict ``failed``."""
        try:
            published: float | str = float(self.published)
        except ValueError:
            published = self.published
        names = ("id", "group", "short", "source", "place", "quantity", "unit")
        return {
            **{name: getattr(self, name) for name in names},
            "published": published,
            **dict.fromkeys(("ours", "low", "high", "ratio", "effect")),
            "kind": self.kind,
            "verdict": "failed",
            "reproduced": False,
            "seeds": 0,
            **{name: getattr(self, name) for name in ("reason", "restates", "afterwards")},
            "beside": {},
        }


def claim(tables: Tables, row: str, reading: Reading, **described: Any) -> Attempt:
    """Return an attempt at a statement in the text of Lozi et al. 2016."""
    place, quantity, unit, value = tables.statement(CLAIMS, row)
    what = {"id": f"claims.{row}", "source": "lozi2016", "kind": "predicted"} | described
    return Attempt(
        place=place, quantity=quantity, unit=unit, published=value, reading=reading, **what
    )


def _spread(values: list[Any]) -> dict[str, Any]:
    """Return the median and the 5-95 % range of numbers; of texts, return the most common text."""
    if isinstance(values[0], str):
        return {"ours": max(values, key=values.count), "low": None, "high": None}
    low, high = (float(np.quantile(values, q)) for q in (0.05, 0.95))
    return {"ours": float(median(values)), "low": low, "high": high}


@dataclass(frozen=True)
class Comparison:
    """A replayed value compared with the published one."""

    #: the two values, both numbers or both texts
    ours: Any
    published: Any
    unit: str  #: unit of both: ``percent`` is a change in time, ``ratio`` a speedup

    @property
    def _is_text(self) -> bool:
        return isinstance(self.ours, str) or isinstance(self.published, str)

    @property
    def ratio(self) -> float | None:
        """The replayed value divided by the published one; a change in percent is first converted to a ratio of two times."""
        if self._is_text:
            return 1.0 if self.ours == self.published else None
        if self.unit == "percent":
            return (100 + float(self.ours)) / (100 + float(self.published))
        return float(self.ours) / float(self.published) if self.published else None

    @property
    def effect(self) -> float | None:
        """The replayed change as a part of the published change; None if less than 1.5 % was published.

        A ratio of times hides how small an effect is: if -13 % was published, -2 % is a ratio of 1.13, but a sixth of the effect.
        """
        if self.unit != "percent" or self._is_text or abs(self.published) < SMALL_PERCENT:
            return None
        return float(self.ours) / float(self.published)

    @property
    def no_effect(self) -> bool:
        """Whether a change was published and the replay shows none, so that the replay has no direction."""
        if self.unit != "percent" or self._is_text:
            return False
        return bool(abs(self.ours) < SMALL_PERCENT <= abs(self.published))

    @property
    def direction_right(self) -> bool:
        """Whether the replay's change has the published direction: faster, slower, or (below 1.5 %) neither.

        A missing effect does not count as the wrong direction.
        """
        if self._is_text:
            return bool(self.ours == self.published)
        if self.unit == "percent":
            small = abs(self.published) < SMALL_PERCENT and abs(self.ours) < SMALL_PERCENT
            return bool(small or self.no_effect or self.ours * self.published > 0)
        if self.unit == "ratio":
            return bool((self.ours > 1) == (self.published > 1))
        return True

    @property
    def verdict(self) -> str:
        """The verdict in words: same (within 10 %), close (within 25 %), within 1.5x, direction only, no effect, or opposite.

        A change in percent is compared with the published change; the underlying times are not compared.
        """
        if self.no_effect:
            return "no effect"
        compared = self.ratio if self.effect is None else self.effect
        if not self.direction_right or not compared or compared < 0:
            return "opposite"
        change = self.unit == "percent" and not self._is_text
        if change and self.effect is None and abs(self.ours) >= SMALL_PERCENT:
            return "direction only"  # almost no change was published, but the replay shows a change
        away = math.exp(abs(math.log(compared)))
        for limit, word in ((1.1, "same"), (1.25, "close"), (1.5, "within 1.5x")):
            if away <= limit:
                return word
        return "direction only"

    @property
    def reproduced(self) -> bool:
        """Whether the replayed number is within a factor of :data:`GOOD` of the published one.

        Where no change was published, the replay must show none.
        """
        return self.verdict in ("same", "close", "within 1.5x")

    def fields(self) -> dict[str, Any]:
        """Return the fields of the scorecard's row that are about the comparison."""
        return {k: getattr(self, k) for k in ("ratio", "effect", "verdict", "reproduced")}


def column_of(role: str, column: str) -> Value:
    """Compute one column of one role's row."""
    return lambda rows: rows[role][column]


def change(column: str) -> Value:
    """Compute the change of a column from ``bug`` to ``fixed``, in percent."""
    return lambda rows: 100 * (rows["fixed"][column] / rows["bug"][column] - 1)


def quotient(above: str, below: str, column: str) -> Value:
    """Compute a column of one role divided by the same column of another role."""
    return lambda rows: rows[above][column] / rows[below][column]
