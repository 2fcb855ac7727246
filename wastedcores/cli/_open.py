"""Open what the user named: a file, or a data set by name."""

from __future__ import annotations

from pathlib import Path

from wastedcores.trace.trace import Trace


def open_input(name: Path, format: str | None = None) -> Trace:
    """The trace in file ``name``, or the data set of that name.

    Raises
    ------
    TraceFormatError, DatasetError
        Neither; the message says what exists.
    """
    from wastedcores.trace.io import open_trace

    if name.exists() or len(name.parts) > 1 or "." in name.name:
        return open_trace(name) if format is None else open_trace(name, format=format)
    from wastedcores.trace.datasets import fetch

    return open_trace(fetch(str(name)))
