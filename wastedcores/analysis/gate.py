"""Rules that recordings made after a change must satisfy, compared with recordings made before the change."""

from __future__ import annotations

import itertools
import math
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from wastedcores.errors import UsageError
from wastedcores.invariant import CheckResult

#: the quantities that a rule may limit; for each of them, less is better
QUANTITIES: dict[str, Callable[[CheckResult], float]] = {
    "wasted_cpus": lambda r: r.mean(r.thread_ns),
    "wasted_share": lambda r: r.mean(r.wall_ns),
    "wasted_s": lambda r: r.thread_ns / 1e9,
    "longest_s": lambda r: r.longest_ns / 1e9,
    "persistent": lambda r: float(r.episodes["persistent"].sum()),
    "avoidable_s": lambda r: float(r.avoidable["avoidable_ns"].sum()) / 1e9,
    "violations": lambda r: float(r.verdict == "violations"),
}
#: quantities whose mean is compared, because they are 0 or 1 for each recording; for the others, the median is compared
_SHARES = ("violations",)
#: all ways to divide the runs into two sides are tried; if there are more ways than this, this many random ways are tried
_DIVISIONS = 20_000


class Rule(BaseModel):
    """One rule; at least one of its limits must be given."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    quantity: str  #: A name of :data:`QUANTITIES`.
    #: An upper limit for the median after the change. For ``violations``, the share of the recordings with violations takes the
    #: place of the median, here and below.
    at_most: float | None = None
    #: The median after the change may exceed the median before it by at most this share of the median before. A greater
    #: difference breaks the rule, unless it may be chance.
    worse_by: float | None = Field(None, ge=0)
    #: A difference is put down to chance if its probability (``p`` of :class:`Outcome`) is above this value.
    p: float = Field(0.05, gt=0, lt=1)

    @model_validator(mode="after")
    def _sensible(self) -> Rule:
        if self.quantity not in QUANTITIES:
            raise ValueError(f"{self.quantity!r} is none of {', '.join(QUANTITIES)}")
        if self.at_most is None and self.worse_by is None:
            raise ValueError("give at_most or worse_by")
        return self


class _Rules(BaseModel):
    model_config = ConfigDict(extra="forbid")

    rule: list[Rule] = Field(min_length=1)


@dataclass(frozen=True)
class Outcome:
    """The outcome of a rule."""

    rule: Rule
    state: str  #: ``pass``, ``fail`` or ``unknown``.
    why: str  #: A sentence.
    #: Medians of the quantity, or shares of violations.
    before: float
    after: float
    n: tuple[int, int]  #: Number of recordings before and after.
    #: Probability of a difference at least as large if both sides are alike (one-sided permutation test of the difference of
    #: means).
    p: float
    #: The change of the median as a share of ``before``; None if ``before`` is 0.
    effect: float | None


def read_rules(path: Path) -> list[Rule]:
    """Return the rules of a TOML file: ``[[rule]]`` tables with the attributes of :class:`Rule`."""
    try:
        return _Rules.model_validate(tomllib.loads(path.read_text("utf-8"))).rule
    except OSError as e:
        raise UsageError(f"--gate {path}: cannot be read ({e.strerror}).") from e
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as e:
        raise UsageError(f"--gate {path}: this is no TOML ({e}).") from e
    except ValidationError as e:
        first = e.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise UsageError(
            f"--gate {path}: {where}: {first['msg'].removeprefix('Value error, ').lower()}. Expected tables such as "
            '[[rule]] quantity = "wasted_cpus" worse_by = 0.1'
        ) from e


def judge(
    rules: Sequence[Rule], before: Sequence[CheckResult], after: Sequence[CheckResult]
) -> list[Outcome]:
    """Judge the rules."""
    return [_judge(rule, before, after) for rule in rules]


def _judge(rule: Rule, before: Sequence[CheckResult], after: Sequence[CheckResult]) -> Outcome:
    measure = QUANTITIES[rule.quantity]
    a, b = (np.array([measure(r) for r in side]) for side in (before, after))
    what, middle = ("share", np.mean) if rule.quantity in _SHARES else ("median", np.median)
    low, high = float(middle(a)), float(middle(b))
    p = chance(a, b)
    effect = (high - low) / low if low else None
    unknown = _unknown(rule, before, after)
    state, why = "pass", "within the limits"
    limit = math.inf if rule.worse_by is None else low * (1 + rule.worse_by)
    worse = high > limit
    # A recording that cannot tell (_tells()) may show too great a value, so after the change it counts as 0. Its value may also
    # be too small, so growth is certain only if all recordings before the change can tell.
    least = np.where([_tells(rule, r) for r in after], b, 0.0)
    sure = float(middle(least))
    grew = sure > limit and all(_tells(rule, r) for r in before)
    if rule.at_most is not None and sure > rule.at_most:
        state, why = "fail", f"the {what} {high:.4g} is above {rule.at_most:.4g}"
    elif grew and p <= rule.p and chance(a, least) <= rule.p:
        state, why = "fail", f"the {what} grew from {low:.4g} to {high:.4g} (p = {p:.2g})"
    elif unknown:
        state, why = "unknown", unknown
    elif worse and 1 / math.comb(len(a) + len(b), len(a)) > rule.p:
        state = "unknown"
        why = f"the {what} grew from {low:.4g} to {high:.4g}, but so few recordings cannot tell that from chance"
    elif worse:
        why = f"the {what} grew from {low:.4g} to {high:.4g}, which may be chance (p = {p:.2g})"
    return Outcome(rule, state, why, low, high, (len(a), len(b)), p, effect)


def _tells(rule: Rule, result: CheckResult) -> bool:
    """Whether a recording can tell what a rule asks about."""
    return result.verdict != "unknown" and (rule.quantity != "avoidable_s" or result.names_tasks)


def _unknown(rule: Rule, before: Sequence[CheckResult], after: Sequence[CheckResult]) -> str:
    """Return a sentence about recordings that cannot tell whether the rule is kept; empty if there are none."""
    needed = [*after, *(before if rule.worse_by is not None else ())]
    nameless = sum(not r.names_tasks for r in needed) if rule.quantity == "avoidable_s" else 0
    if nameless:
        return f"{nameless} of {len(needed)} recordings name no tasks, so nobody knows how long these waited"
    unknown = sum(r.verdict == "unknown" for r in needed)
    return f"the verdict on {unknown} of {len(needed)} recordings is unknown" if unknown else ""


def chance(before: np.ndarray, after: np.ndarray) -> float:
    """Return the share of random divisions of all runs whose second mean exceeds the first by at least as much as here."""
    both = np.concatenate([before, after])
    n = len(after)
    seen = after.mean() - before.mean()
    if math.comb(len(both), n) <= _DIVISIONS:
        chosen = np.array(list(itertools.combinations(range(len(both)), n)))
    else:
        random = np.random.default_rng(0)
        chosen = np.array([random.permutation(len(both))[:n] for _ in range(_DIVISIONS)])
        # the division that was observed counts, too
        chosen = np.concatenate([chosen, [np.arange(len(before), len(both))]])
    sums = both[chosen].sum(axis=1)
    differences = sums / n - (both.sum() - sums) / len(before)
    return float(np.mean(differences >= seen - 1e-12 * max(1.0, abs(seen))))
