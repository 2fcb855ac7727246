"""Tasks that the sweep's tests run in other processes."""

from __future__ import annotations

import os
import time
from pathlib import Path

from wastedcores.errors import WorkloadError


def double(x, seed=0, log=None, sleep_s=0.0):
    """Write to the log that the task ran, then return a row."""
    if log:
        with Path(log).open("a") as file:
            file.write(f"{x},{seed},{os.getpid()}\n")
    time.sleep(sleep_s)
    return {"twice": 2 * x + seed, "pid": os.getpid()}


def picky(x):
    """Fail for odd numbers."""
    if x % 2:
        raise WorkloadError(f"task 'a' at 0.5 s: {x} is odd")
    return {"half": x // 2}


def crash_once(x, flag):
    """Kill the own process at the first call."""
    if x == 3 and not Path(flag).exists():
        Path(flag).touch()
        os._exit(1)
    return {"twice": 2 * x}


def always_crash(x):
    """Kill the own process."""
    os._exit(1)


def total(numbers):
    """Return the sum of a list."""
    return {"total": sum(numbers)}
