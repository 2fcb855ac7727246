"""Statistics for noisy machines: the median of interleaved runs and its confidence interval."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Statistic = Callable[[NDArray[np.int64]], float]
DRAWS = 4000


def bootstrap(rounds: int, statistic: Statistic) -> tuple[float, float, float]:
    """Return the statistic of all rounds, and its 95 % interval over rounds that are drawn with replacement.

    ``statistic`` takes the indices of rounds, so that the measurements of one round stay together.
    """
    rng = np.random.default_rng(4)
    drawn = [statistic(rng.integers(0, rounds, rounds)) for _ in range(DRAWS)]
    low, high = np.percentile(drawn, [2.5, 97.5])
    return statistic(np.arange(rounds)), float(low), float(high)


def verdict(low: float, high: float, goal: float) -> bool | None:
    """Return whether the goal is met, or None if it lies inside the interval, so that this machine cannot decide now."""
    if high <= goal:
        return True
    return False if low > goal else None
