"""Opens what a person means by a trace: a Trace, a file of any format, or a data set by its name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

from wastedcores.trace.trace import Trace
from wastedcores.trace.window import Moment

#: what functions accept wherever they need a trace
TraceLike: TypeAlias = Trace | str | Path


def open(
    trace: TraceLike, *, format: str | None = None, between: Sequence[Moment] | None = None
) -> Trace:
    """Open a trace file or a data set; a trace that is open already is returned as it is.

    Parameters
    ----------
    trace
        Path of a file or folder of any format, ``-`` for the standard input, or the name of a data set.
    format
        Name of the format; default: detected from the content.
    between
        Only this window: its start and its end, each a time in ns, the beginning of a mark's text, or a time in seconds as
        text. Of a long Parquet file only the part around the window is read (:func:`~wastedcores.trace.window.cut`).

    Returns
    -------
    Trace
        The trace.

    Raises
    ------
    DatasetError
        The name is neither a file nor a data set.
    TraceFormatError
        The file is not a trace of a known format.
    UsageError
        The window is unknown or lies outside of the trace.
    """
    if between is not None:
        from wastedcores.trace.window import cut

        return cut(open(trace, format=format), between)
    if isinstance(trace, Trace):
        return trace
    from wastedcores.trace.io import open_trace

    path = Path(trace)
    if path.exists() or len(path.parts) > 1 or "." in path.name or str(trace) == "-":
        return open_trace(path) if format is None else open_trace(path, format=format)
    from wastedcores.trace.datasets import fetch

    # fetch() has compared the file with its registered checksum
    return open_trace(fetch(str(trace))).with_header(unproven=None)
