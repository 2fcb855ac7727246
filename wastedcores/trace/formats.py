"""The foreign formats of traces, with one row for each. Every list of formats in help and documents is made from these rows.

A row names its reader, and the reader is imported when a file of its format is opened.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import wastedcores.trace.recognisers as are
from wastedcores.trace.readers.support.reading import Reading


class Format(NamedTuple):
    """A foreign format."""

    name: str  #: its name, as ``--format`` takes it
    title: str  #: what it is, for lists in sentences
    reader: tuple[str, str]  #: module below ``wastedcores.trace.readers`` and class of its reader
    #: columns of the table in docs/trace-formats.md
    content: str
    needs: str
    tested: str
    answers: str  #: what it can tell besides who ran when: a column of that table
    extensions: tuple[str, ...] = ()  #: usual ends of file names. Nothing depends on them.
    magic: bytes | None = None  #: the first bytes of a file
    line: str | None = None  #: a regular expression that a line of such a text matches
    known: Callable[[are.Candidate], bool] | None = None  #: says whether a file is of this format
    folder: bool = False  #: it can be a folder; ``known`` is asked about folders, too
    late_moves: bool = False  #: a move of a task is recorded only when the task runs again

    def open(self, path: Path, *, hashed: bool) -> Reading:
        """Import the reader, and open a file with it."""
        module, name = self.reader
        reader = getattr(import_module(f"wastedcores.trace.readers.{module}"), name)
        opened: Reading = reader(path, hashed=hashed)
        return opened


_PLACED = "where threads wait, if sched_migrate_task was recorded"
_ROWS = (
    Format(
        "sched_profiler", "the text of sched_profiler", ("sched_profiler", "SchedProfilerReading"),
        "the text of the paper authors' profiler and of its fork", "", "published traces of the fork",
        "lengths of runqueues; the CPUs that were considered", (".txt",), line=are.SCHED_PROFILER_LINE,
    ),
    Format(
        "ftrace", "ftrace text", ("text.ftrace", "FtraceReading"),
        "the kernel's `trace` file, also in the latency format; `trace-cmd report`, also raw (`-R`); systrace's text", "",
        "recordings of 4.1 and 6.18 kernels; texts of Android, LISA and Trace Compass", _PLACED, (".txt", ".trace"),
        line=are.FTRACE,
    ),
    Format(
        "systrace", "systrace's page", ("text.ftrace", "SystraceReading"),
        "the page that systrace writes, which has ftrace text", "", "recordings of Android", _PLACED, (".html",),
        known=are.is_systrace,
    ),
    Format(
        "atrace", "what atrace writes", ("text.ftrace", "AtraceReading"),
        "what `atrace -z` writes: ftrace text, packed with zlib", "", "recordings of Android, packed for the tests", _PLACED,
        (".atrace",), known=are.is_atrace,
    ),
    Format(
        "perf-script", "perf script", ("text.perf_script", "PerfScriptReading"),
        "the text of `perf script`", "", "recordings", _PLACED, (".txt",), line=are.PERF_SCRIPT,
    ),
    Format(
        "kutrace", "KUtrace's JSON or page", ("kutrace", "KUtraceReading"),
        "KUtrace's JSON of time spans, or the HTML page with it", "", "the recording in KUtrace's repository",
        "who waits, not where; kernel and user mode", (".json", ".html"), line=are.KUTRACE, known=are.is_kutrace_page,
        late_moves=True,
    ),
    Format(
        "perfetto", "Perfetto's traces", ("perfetto.reader", "PerfettoReading"),
        "Perfetto's file with ftrace events, also as `compact_sched`, also compressed", "",
        "recordings of Android", "wakings, and where threads wait if sched_migrate_task was recorded",
        (".pftrace", ".perfetto-trace"), known=are.is_perfetto,
    ),
    Format(
        "perf.data", "perf.data", ("perf_data.reader", "PerfDataReading"),
        "perf's file, read directly, also compressed or from a pipe, or the folder of `perf record --threads`", "", "recordings",
        _PLACED, (".data",), are.PERF_DATA, known=are.is_perf_folder, folder=True,
    ),
    Format(
        "trace.dat", "trace.dat", ("trace_dat.reader", "TraceDatReading"),
        "trace-cmd's file of version 6 or 7, read directly, also compressed, and of big-endian machines", "",
        "recordings; files of 3.18, 4.13 and 4.14 kernels on Arm and i686", _PLACED, (".dat",), are.TRACE_DAT,
    ),
    Format(
        "schedviz", "SchedViz's archives", ("trace_dat.schedviz", "SchedVizReading"),
        "the archive of SchedViz's `trace.sh` (raw pages and format files), or the text of its bpftrace script", "",
        "the recording in SchedViz's repository; **constructed text of bpftrace only**", _PLACED, (".tar.gz",),
        known=are.is_schedviz,
    ),
    Format(
        "schedtrace", "a capture of wastedcores", ("schedtrace.reader", "SchedTraceReading"),
        "the collectors' file", "", "recordings", "lengths of runqueues, affinity, limits of CPU time", (".bin",), are.SCHEDTRACE,
    ),
    Format(
        "systing", "systing's Parquet tables", ("systing", "SystingReading"),
        "a folder of systing's Parquet tables", "", "**constructed tables only**", _PLACED, (".parquet",),
        known=are.is_systing, folder=True,
    ),
    Format(
        "ctf", "the Common Trace Format", ("ctf", "CtfReading"),
        "a folder of LTTng's kernel traces, or what `perf data convert --to-ctf` makes", "babeltrace2 (`apt-get install "
        "babeltrace2`)",
        "recordings of LTTng 2.1 and 2.5, and of perf", _PLACED, known=are.is_ctf, folder=True,
    ),
    # this recogniser is asked last, because it runs a part of its reader
    Format(
        "schedlog", "SchedLog's rings", ("schedlog", "SchedLogReading"),
        "a folder of SchedLog's rings (24-byte records, one file per CPU)", "", "**constructed rings only**",
        "lengths of runqueues", known=are.is_schedlog, folder=True,
    ),
)  # fmt: skip

#: Foreign formats by name.
FOREIGN: dict[str, Format] = {row.name: row for row in _ROWS}


def late_moves(source_format: str) -> bool:
    """Tell whether a format records moves of tasks late; formats that are not foreign, such as ``replay``, do not."""
    row = FOREIGN.get(source_format)
    return row is not None and row.late_moves


def listed() -> str:
    """Return the formats for a sentence: ``Parquet files of wastedcores, ftrace text, ... and SchedLog's rings``."""
    titles = ["Parquet files of wastedcores", *(f.title for f in FOREIGN.values())]
    return f"{', '.join(titles[:-1])} and {titles[-1]}"
