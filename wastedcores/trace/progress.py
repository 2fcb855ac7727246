"""A line at a terminal while a long trace is read."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

import polars as pl

#: nothing is said before this many seconds
SILENT_S = 1.0


def told(frames: Iterator[pl.DataFrame], name: str) -> Iterator[pl.DataFrame]:
    """Pass tables on; from the first second on, a line on standard error counts their rows, if that is a terminal."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield from frames
        return
    began, rows, said = time.monotonic(), 0, ""
    try:
        for frame in frames:
            rows += frame.height
            if time.monotonic() - began >= SILENT_S:
                said = f"reading {name}: {rows:,} events"
                print(f"\r{said}", end="", file=sys.stderr, flush=True)
            yield frame
    finally:
        if said:  # the answer begins on an empty line
            print(f"\r{' ' * len(said)}\r", end="", file=sys.stderr, flush=True)
