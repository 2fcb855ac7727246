"""The foreign formats of traces: how each is recognised, and its reader.

Importing the readers takes longer than opening a Parquet file, so :mod:`wastedcores.trace.io` imports this module only for
other files.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from wastedcores.trace.readers import kutrace, sched_profiler, schedlog, systing
from wastedcores.trace.readers.perf_data import reader as perf_data
from wastedcores.trace.readers.schedtrace import reader as schedtrace
from wastedcores.trace.readers.support.reading import Reading
from wastedcores.trace.readers.text import ftrace, perf_script
from wastedcores.trace.readers.trace_dat import header as trace_dat_header
from wastedcores.trace.readers.trace_dat import reader as trace_dat


class Format(NamedTuple):
    """A foreign format: the function that opens it, and how it is recognised. One of ``line``, ``magic``, ``path`` is given."""

    #: takes the path and ``hashed``, whether the file's SHA-256 is wanted
    open: Callable[..., Reading]
    #: a regular expression of polars, which needs time in proportion to the text, that a line of such a text matches
    line: str | None = None
    #: the first bytes of a file
    magic: bytes | None = None
    #: says whether this is such a folder, or a file of it
    path: Callable[[Path], bool] | None = None


#: Foreign formats by name.
FOREIGN: dict[str, Format] = {
    "sched_profiler": Format(sched_profiler.SchedProfilerReading, line=sched_profiler.LINE),
    "ftrace": Format(ftrace.FtraceReading, line=ftrace.LOOKS_LIKE),
    "perf-script": Format(perf_script.PerfScriptReading, line=perf_script.LOOKS_LIKE),
    "kutrace": Format(kutrace.KUtraceReading, line=kutrace.LOOKS_LIKE),
    "perf.data": Format(perf_data.PerfDataReading, magic=perf_data.MAGIC),
    "trace.dat": Format(trace_dat.TraceDatReading, magic=trace_dat_header.MAGIC),
    "schedtrace": Format(schedtrace.SchedTraceReading, magic=schedtrace.MAGIC),
    "systing": Format(systing.SystingReading, path=systing.looks_like),
    "schedlog": Format(schedlog.SchedLogReading, path=schedlog.looks_like),
}
