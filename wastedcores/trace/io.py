"""Open any trace this package knows, chosen by content; import it into our Parquet."""

from __future__ import annotations

import atexit
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterator
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from wastedcores import __version__
from wastedcores.errors import TraceFormatError, UsageError, WastedCoresError
from wastedcores.trace.header import Header
from wastedcores.trace.inspector import Inspector
from wastedcores.trace.parquet import MAGIC, read_parquet, stream_parquet, write_parquet
from wastedcores.trace.readers import kutrace, sched_profiler, schedlog, systing
from wastedcores.trace.readers.perf_data import reader as perf_data
from wastedcores.trace.readers.schedtrace import reader as schedtrace
from wastedcores.trace.readers.support.blocks import TextSource, head
from wastedcores.trace.readers.support.facts import Facts
from wastedcores.trace.readers.support.held import Held
from wastedcores.trace.readers.support.order import in_order
from wastedcores.trace.readers.text import ftrace, perf_script, trace_dat
from wastedcores.trace.readers.text.lines import complete as lines_complete
from wastedcores.trace.schema import conform
from wastedcores.trace.trace import Trace


class TextFormat(NamedTuple):
    """A text format: does a line look like it, is a last line without newline whole, and its reader."""

    looks_like: Callable[[str], bool]
    complete: Callable[[str], bool]
    read: Callable[[TextSource, Facts], Generator[pl.DataFrame, None, None]]


class BinaryFormat(NamedTuple):
    """A binary format: how it begins, the open file (sha256, lines, cut_line as a TextSource has), its reader."""

    magic: bytes
    source: Callable[[Path], Any]
    read: Callable[[Any, Facts], Generator[pl.DataFrame, None, None]]


class FolderFormat(NamedTuple):
    """A format of several files in a folder: is this the folder, or a file of it; their source and reader."""

    looks_like: Callable[[Path], bool]
    source: Callable[[Path], Any]
    read: Callable[[Any, Facts], Generator[pl.DataFrame, None, None]]


#: format -> how to read its text
READERS = {
    "sched_profiler": TextFormat(
        sched_profiler.looks_like, sched_profiler.complete, sched_profiler.read
    ),
    "ftrace": TextFormat(ftrace.looks_like, lines_complete, ftrace.read),
    "perf-script": TextFormat(perf_script.looks_like, lines_complete, perf_script.read),
    "kutrace": TextFormat(kutrace.looks_like, kutrace.complete, kutrace.read),
}
#: format -> how to read its bytes: what it begins with, its source, its reader
BINARY: dict[str, BinaryFormat] = {
    "perf.data": BinaryFormat(perf_data.MAGIC, perf_data.Source, perf_data.read),
    "trace.dat": BinaryFormat(trace_dat.MAGIC, trace_dat.Source, trace_dat.read),
    "schedtrace": BinaryFormat(schedtrace.MAGIC, schedtrace.Source, schedtrace.read),
}
#: format -> how to read its files
FOLDERS: dict[str, FolderFormat] = {
    "systing": FolderFormat(systing.looks_like, systing.Source, systing.read),
    "schedlog": FolderFormat(schedlog.looks_like, schedlog.Source, schedlog.read),
}
FORMATS = ("parquet", *READERS, *BINARY, *FOLDERS)
#: Lines at the beginning of a file that have a vote on its format.
SNIFF_LINES = 200

#: Events that ``open_trace`` keeps in memory; a text file with more goes through a temporary Parquet file.
MEMORY_EVENTS = 4_000_000


def sniff(path: Path) -> str:
    """Name the format of a file by what is in it.

    Returns
    -------
    str
        One of :data:`FORMATS`.

    Raises
    ------
    TraceFormatError
        Empty, or nothing this package reads; a folder without files of one of :data:`FOLDERS`.
    WastedCoresError
        The file is absent, or may not be read.
    """
    _check_readable(path)
    if path.is_dir():
        return _sniff_folder(path)
    start = head(path)
    if not start:
        raise TraceFormatError(
            f"{path}: the file is empty; expected a trace. Was the recording stopped before it began?"
        )
    if start.startswith(MAGIC):
        return "systing" if systing.looks_like(path) else "parquet"
    for name, binary in BINARY.items():
        if start.startswith(binary.magic):
            return name
    lines = start.decode("utf-8", "replace").splitlines()[:SNIFF_LINES]
    votes = Counter(
        name for line in lines for name, text in READERS.items() if text.looks_like(line)
    )
    if votes:
        return votes.most_common(1)[0][0]
    if schedlog.looks_like(path):
        return "schedlog"
    shown = repr(start[:60])[2:-1]
    raise TraceFormatError(
        f"{path}: not a trace this package reads; it begins with {shown!r}. Expected perf.data, trace.dat, a "
        "capture of ours, Parquet of ours or systing's, rings of SchedLog, or text: ftrace's, trace-cmd report's, perf "
        "script's, sched_profiler's, KUtrace's JSON (plain or .gz, .xz, .zst)."
    )


def _sniff_folder(path: Path) -> str:
    for name, folder in FOLDERS.items():
        if folder.looks_like(path):
            return name
    raise TraceFormatError(
        f"{path}: is a folder, and holds neither rings of SchedLog (files 0, 1, 2, ...) nor Parquet tables of systing "
        "(sched_slice.parquet). Name a trace file."
    )


def open_trace(path: str | Path, format: str | None = None) -> Trace:
    """Open a trace file of any known format.

    Parameters
    ----------
    path
        Our Parquet (opened lazily), or any trace this package knows. Others than ours are read to the end; one of more
        than :data:`MEMORY_EVENTS` events goes through a temporary Parquet file, which is said on stderr.
    format
        One of :data:`FORMATS`; default: found out from the content.

    Raises
    ------
    WastedCoresError
        One of its classes, with file, line, and what to do.
    """
    path = Path(path)
    kind = _format(path, format)
    if kind == "parquet":
        return read_parquet(path)
    run = _Import(path, kind, None, hashed=False)
    kept: list[pl.DataFrame] = []
    rows = 0
    with closing(run.frames()) as frames:
        for frame in frames:
            kept.append(frame)
            rows += frame.height
            if rows > MEMORY_EVENTS:
                return _spill(run, chain(kept, frames))
    return Trace(pl.concat(kept).lazy(), run.header(), path)


def import_trace(
    src: str | Path,
    dst: str | Path,
    format: str | None = None,
    machine: dict[str, Any] | None = None,
    cpus: Collection[int] | None = None,
    source: str | None = None,
) -> Trace:
    """Read a trace of any known format and write it as our Parquet, in one pass and bounded memory.

    Parameters
    ----------
    src, dst
        Any trace; the Parquet file to write, which appears only when it is complete.
    format
        One of :data:`FORMATS`; default: found out from the content.
    machine
        Topology to store in the header (``Machine.to_dict()``).
    cpus
        CPU numbers of that machine; an event on any other is an error.
    source
        Where the events came from, for the header; default: name and hash of ``src``.

    Returns
    -------
    Trace
        The written file, opened.
    """
    src, dst = Path(src), Path(dst)
    if dst.exists() and src.exists() and dst.samefile(src):
        raise UsageError(f"{dst}: is the trace to read itself. Choose another name with -o.")
    kind = _format(src, format)
    if kind == "parquet":
        trace = read_parquet(src)
        if machine is not None:
            trace = trace.with_header(machine=machine)
        write_parquet(trace, dst)
    else:
        run = _Import(src, kind, cpus, machine, hashed=source is None, origin=source)
        with closing(run.frames()) as frames:
            stream_parquet(frames, run.header, dst)
    return read_parquet(dst)


class _Import:
    """One pass over one trace of another format."""

    def __init__(
        self,
        path: Path,
        kind: str,
        cpus: Collection[int] | None,
        machine: dict[str, Any] | None = None,
        *,
        hashed: bool = True,
        origin: str | None = None,
    ) -> None:
        self.path, self.kind, self.machine = path, kind, machine
        self.origin = origin
        files = BINARY.get(kind) or FOLDERS.get(kind)
        self.source = files.source(path) if files else TextSource(path, READERS[kind].complete)
        self.read = files.read if files else READERS[kind].read
        self.source.hashed = hashed
        self.facts = Facts(kind)
        self.seen = Inspector(str(path), cpus)

    def frames(self) -> Generator[pl.DataFrame, None, None]:
        """Event tables of the full schema, in order of time."""
        reading = self.read(self.source, self.facts)
        ordered = in_order(self.seen.ranges(reading), self.path)
        try:
            for frame in self.seen.order(ordered):
                yield conform(frame.drop("line", strict=False), str(self.path))
        finally:  # an error that is still held would keep it open (_held.py)
            reading.close()
            if isinstance(self.source, Held):
                self.source.close()
        if not self.seen.events:
            raise self._nothing()

    def header(self) -> Header:
        """What the file turned out to be; complete once :meth:`frames` is exhausted."""
        facts, seen = self.facts, self.seen
        notes = {
            "source": self.origin or self.path.name,
            **(
                {"source_sha256": self.source.sha256}
                if self.source.sha256 and not self.origin
                else {}
            ),
            "imported_by": f"wastedcores {__version__}",
            **facts.notes,
            **seen.notes,
        }
        if facts.skipped:
            notes["skipped"] = ", ".join(f"{n} {k}" for k, n in facts.skipped.most_common())
        if self.source.cut_line:
            number, text = self.source.cut_line
            notes["truncated_last_line"] = f"line {number} has no end and was left out: {text!r}"
        return Header(
            source_format=facts.source_format,
            kernel_release=facts.kernel_release,
            clock=facts.clock,
            cpus=max(facts.cpus or 0, seen.highest_cpu + 1) or None,
            cpus_online=self._online(),
            machine=self.machine,
            start_ns=seen.start_ns,
            end_ns=seen.end_ns,
            events=seen.events,
            every_switch=facts.every_switch,
            lost=dict(facts.lost),
            overwritten=dict(facts.overwritten),
            truncated_last_line=notes.pop("truncated_last_line", None),
            provenance=notes,
        )

    def _online(self) -> list[int] | None:
        """The online CPUs where that is certain: from the topology, or N stated and all seen below N."""
        if self.machine and self.machine.get("online") is not None:
            return [int(c) for c in self.machine["online"]]
        stated = self.facts.cpus
        return list(range(stated)) if stated and self.seen.highest_cpu < stated else None

    def _nothing(self) -> TraceFormatError:
        found = ", ".join(f"{n} {k}" for k, n in self.facts.skipped.most_common(5))
        return TraceFormatError(
            f"{self.path}: read to the end as {self.kind} ({self.source.lines} lines), but there is no event in it "
            f"that tells who ran or waited where{f' (found: {found})' if found else ''}. Expected sched_switch and "
            "sched_wakeup, or runqueue sizes: record with `perf sched record` or `trace-cmd record -e sched`."
        )


def _spill(run: _Import, frames: Iterator[pl.DataFrame]) -> Trace:
    folder = Path(tempfile.mkdtemp(prefix="wastedcores-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    print(
        f"{run.path.name}: more than {MEMORY_EVENTS} events, going through a temporary file in {folder}; "
        "`wastedcores import` once saves this next time",
        file=sys.stderr,
    )
    file = folder / f"{run.path.stem}.parquet"
    stream_parquet(frames, run.header, file)
    return read_parquet(file)


def _format(path: Path, format: str | None) -> str:
    if format is None:
        return sniff(path)
    if format not in FORMATS:
        raise UsageError(f"format {format!r} is not one of {', '.join(FORMATS)}.")
    found = sniff(path)
    if found != format:
        raise TraceFormatError(
            f"{path}: named as {format}, but its content is {found}. Leave --format out, or name {found}."
        )
    return format


def _check_readable(path: Path) -> None:
    try:
        path.stat()
    except OSError as e:
        raise WastedCoresError(f"{path}: cannot be opened ({e.strerror}).") from e
