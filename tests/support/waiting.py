"""Waits for a condition of another process."""

from __future__ import annotations

import time


def wait_for(condition, seconds=60):
    """Return the first true answer of ``condition()``; fail after some seconds."""
    end = time.monotonic() + seconds
    while not (answer := condition()):
        assert time.monotonic() < end, "the condition never became true"
        time.sleep(0.05)
    return answer
