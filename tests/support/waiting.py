"""Waits for a condition of another process."""

from __future__ import annotations

import time


def wait_for(condition, seconds=60):
    """Wait until ``condition()`` is true; fail after some seconds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "the condition never became true"
        time.sleep(0.05)
