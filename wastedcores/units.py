"""Units of time and how durations are read and written. Times are integer nanoseconds everywhere else."""

from __future__ import annotations

import re

from wastedcores.errors import UsageError

US = 1_000
MS = 1_000_000
S = 1_000_000_000

#: unit of time -> ns
UNITS = {"ns": 1, "us": US, "ms": MS, "s": S}


def duration_ns(text: str | float, name: str) -> int:
    """Read ``100ms``, ``0.1s``, ``250us``, ``5000ns`` or a plain number of milliseconds.

    Parameters
    ----------
    text
        What the user wrote. It may be a number, because papermill reads ``-p persist 50`` as a number.
    name
        The option or parameter for which the text was given; errors name it.

    Returns
    -------
    int
        The duration in ns.

    Raises
    ------
    UsageError
        The text is not a duration.
    """
    match = re.fullmatch(r"\s*(\d+)(?:\.(\d{1,9}))?\s*(ns|us|ms|s|)\s*", str(text))
    if not match:
        raise UsageError(f"{name} {text!r}: expected a time like 100ms, 0.1s or 250us.")
    whole, fraction, unit = match.groups()
    scale = UNITS.get(unit, MS)
    return int(whole) * scale + int((fraction or "0").ljust(9, "0")) * scale // S


def share(text: str, name: str) -> float | None:
    """Read a share like ``1%`` or ``0.01``; ``off`` is None."""
    if text.strip() == "off":
        return None
    match = re.fullmatch(r"\s*(\d{1,3}(?:\.\d{1,9})?)\s*(%?)\s*", text)
    value = float(match[1]) / (100 if match[2] else 1) if match else 0.0
    if not 0 < value <= 1:
        raise UsageError(f"{name} {text!r}: expected a share like 1% or 0.01, or off.")
    return value


def number(x: float) -> str:
    """Write a number with three significant digits, and a number of 1,000 or more as a whole number with separators."""
    return f"{x:,.0f}" if abs(x) >= 999.5 else f"{x:.3g}"


def result_words(name: str) -> str:
    """Write the name of what a workload measures for people: ``make (s)``, ``CPUs of work``, ``s per iteration``."""
    known = {"cpus_of_work": "CPUs of work", "s_per_iter": "s per iteration"}
    short = name if name.endswith("_per_s") else name.removesuffix("_s")
    return known.get(name) or short.replace("_", " ") + (" (s)" if short != name else "")


def human_ns(ns: float) -> str:
    """Write a duration with three significant digits in a unit that suits it: ``3.16 s``, ``5.4 ms``, ``12 us``."""
    for unit, size in (("s", S), ("ms", MS), ("us", US)):
        if abs(ns) >= size:
            return f"{number(ns / size)} {unit}"
    return f"{ns:.0f} ns"
