"""Checks of the numbers in a workload."""

from __future__ import annotations

from typing import Any

from wastedcores.errors import WorkloadError
from wastedcores.limits import LONGEST_NS

#: the largest number of rounds, units or shares; sums of them still fit into 64 bits
MOST = 1_000_000_000_000


def whole_ns(value: Any, what: str) -> int:
    """Check a time in ns."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= LONGEST_NS:
        raise WorkloadError(
            f"{what} is {value!r}; expected a whole number of nanoseconds from 0 to 10^15 (11 days)."
        )
    return value


def whole(value: Any, what: str, least: int = 1) -> int:
    """Check a number."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= MOST:
        raise WorkloadError(f"{what} is {value!r}; expected a whole number from {least} to 10^12.")
    return value
