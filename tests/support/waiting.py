"""Waiting for what another process does."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def until(
    condition: Callable[[], Any], seconds: float, what: str = "did not happen in time"
) -> Any:
    """Return the first true answer of a condition, and fail if there is none in time."""
    end = time.monotonic() + seconds
    while not (result := condition()):
        assert time.monotonic() < end, what
        time.sleep(0.2)
    return result
