"""What a noisy machine still tells: a median of interleaved runs and the interval it may lie in."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Statistic = Callable[[NDArray[np.int64]], float]
DRAWS = 4000


def bootstrap(rounds: int, statistic: Statistic) -> tuple[float, float, float]:
    """The statistic of all rounds, and the 95 % interval of it over rounds drawn with replacement.

    ``statistic`` takes the indices of rounds: what was measured in one round stays together.
    """
    rng = np.random.default_rng(4)
    drawn = [statistic(rng.integers(0, rounds, rounds)) for _ in range(DRAWS)]
    low, high = np.percentile(drawn, [2.5, 97.5])
    return statistic(np.arange(rounds)), float(low), float(high)


def verdict(low: float, high: float, goal: float) -> bool | None:
    """Below the goal, above it, or (None) the interval has it inside: not to be told on this machine now."""
    if high <= goal:
        return True
    return False if low > goal else None
