"""Option values that several verbs share."""

from __future__ import annotations

import json
import re
import sys
from typing import Any

from wastedcores.errors import UsageError

_UNITS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000, "": 1_000_000}


def duration_ns(text: str, option: str) -> int:
    """``100ms``, ``0.1s``, ``250us``, ``5000ns`` or a plain number of milliseconds, in ns.

    Raises
    ------
    UsageError
        Anything else.
    """
    match = re.fullmatch(r"\s*(\d+)(?:\.(\d{1,9}))?\s*(ns|us|ms|s|)\s*", text)
    if not match:
        raise UsageError(f"{option} {text!r}: expected a time like 100ms, 0.1s or 250us.")
    whole, fraction, unit = match.groups()
    scale = _UNITS[unit]
    return int(whole) * scale + int((fraction or "0").ljust(9, "0")) * scale // 1_000_000_000


def print_json(value: Any) -> None:
    """One JSON object on stdout."""
    json.dump(value, sys.stdout, separators=(",", ":"), ensure_ascii=False)
    sys.stdout.write("\n")


def human_ns(ns: float) -> str:
    """A duration for people: three significant digits and a unit."""
    for scale, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "us")):
        if abs(ns) >= scale:
            return f"{ns / scale:.3g} {unit}"
    return f"{ns:.0f} ns"
