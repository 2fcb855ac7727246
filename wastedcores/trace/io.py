"""Opens any trace that this package knows, and imports it into Parquet."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from itertools import chain
from pathlib import Path
from typing import Any

import polars as pl

from wastedcores import __version__
from wastedcores.errors import TraceContentError, TraceFormatError, UsageError, WastedCoresError
from wastedcores.limits import MAX_CPUS
from wastedcores.trace.formats import FOREIGN, listed
from wastedcores.trace.header import Header
from wastedcores.trace.inspector import Inspector
from wastedcores.trace.parquet import MAGIC, check_name, read_parquet, stream_parquet, write_parquet
from wastedcores.trace.readers.support.perf_command import every_cpu, some_tasks_only
from wastedcores.trace.readers.support.reading import (
    SLACK_NS,
    USUAL_SLACK_NS,
    Facts,
    Reading,
    StepsBackError,
    in_order,
)
from wastedcores.trace.readers.support.shifted_states import ShiftedStates
from wastedcores.trace.recognisers import Candidate, is_systing, refuse_summary
from wastedcores.trace.schema import conform
from wastedcores.trace.spool import kept_until_exit, seekable
from wastedcores.trace.trace import Trace

#: for how many seconds a file is read before its progress is shown
SILENT_S = 1.0


def told(frames: Iterator[pl.DataFrame], name: str) -> Iterator[pl.DataFrame]:
    """Pass tables on; after a second, show the number of rows so far on standard error if this is a terminal."""
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
        if said:  # so that the answer begins on a new line
            print(f"\r{' ' * len(said)}\r", end="", file=sys.stderr, flush=True)


#: Number of lines at the beginning of a file that have a vote on its format.
SNIFF_LINES = 200

#: The most events that ``open_trace`` keeps in memory; a trace with more events goes through a temporary Parquet file.
MEMORY_EVENTS = 4_000_000


def sniff(path: Path) -> str:
    """Detect the format of a file from its content."""
    _check_readable(path)
    if path.is_dir():
        return _sniff_folder(path)
    from wastedcores.trace.readers.support.text_reading import head

    start = head(path)
    if not start:
        raise TraceFormatError(
            f"{path}: the file is empty; expected a trace. Was the recording stopped before it began?"
        )
    if start.startswith(MAGIC):
        check_name(path)
        return "systing" if is_systing(Candidate(path, start)) else "parquet"
    for row in FOREIGN.values():
        if row.magic and start.startswith(row.magic):
            return row.name
    kinds = list(FOREIGN.values())
    known = (
        row.name
        for row in kinds
        if row.known and not row.folder and row.known(Candidate(path, start))
    )
    if found := next(known, None):
        return found
    lines = pl.Series(start.decode("utf-8", "replace").splitlines()[:SNIFF_LINES], dtype=pl.String)
    votes = {row.name: int(lines.str.contains(row.line).sum()) for row in kinds if row.line}
    if any(votes.values()):
        return max(votes, key=votes.__getitem__)
    refuse_summary(path, lines.to_list())
    for row in kinds:
        if row.folder and row.known and row.known(Candidate(path, start)):
            return row.name
    shown = repr(start[:60])[2:-1]
    raise TraceFormatError(
        f"{path}: not a trace that this package reads; it begins with '{shown}'. Expected {listed()} (text, perf.data "
        "and trace.dat also as .gz, .xz or .zst)."
    )


def _sniff_folder(path: Path) -> str:
    for row in FOREIGN.values():
        if row.folder and row.known and row.known(Candidate(path)):
            return row.name
    folders = [row.title for row in FOREIGN.values() if row.folder]
    raise TraceFormatError(
        f"{path}: this is a folder, and it is none of {', '.join(folders[:-1])} or {folders[-1]}. Name a trace file; "
        "`wastedcores fleet DIR` checks every trace below a folder."
    )


def open_trace(path: str | Path, format: str | None = None) -> Trace:
    """Open a trace file of any known format.

    A Parquet file of wastedcores is opened lazily. Any other trace is read to the end; if it has more than
    :data:`MEMORY_EVENTS` events, it goes through a temporary Parquet file, and a message on stderr says so.

    Parameters
    ----------
    path
        The file, or the folder of a trace that has several files. ``-`` is the standard input. The standard input and named
        pipes are copied to a temporary file first.
    format
        ``parquet`` or a name in :data:`wastedcores.trace.formats.FOREIGN`. Default: detected from the content.

    Returns
    -------
    Trace
        The events and the header.

    Raises
    ------
    WastedCoresError
        One of its subclasses is raised. The message names the file and the line, and says what to do.
    """
    with seekable(path) as file, _reading_as(file, format) as kind:
        if native := _native(file, kind):
            return native
        with FOREIGN[kind].open(file, hashed=False) as reading:
            run = _Import(reading, kind, None)
            frames = run.frames()
            kept: list[pl.DataFrame] = []
            rows = 0
            for frame in frames:
                kept.append(frame)
                rows += frame.height
                if rows > MEMORY_EVENTS:
                    return _spill(run, chain(kept, frames))
            return Trace(pl.concat(kept).lazy(), run.header(), file)


def import_trace(
    src: str | Path,
    dst: str | Path,
    format: str | None = None,
    machine: dict[str, Any] | None = None,
    cpus: Collection[int] | None = None,
    source: str | None = None,
    facts: Mapping[str, Any] | None = None,
) -> Trace:
    """Read a trace of any known format and write it as Parquet, in one pass and bounded memory.

    Parameters
    ----------
    src, dst
        The trace to read (any that :func:`open_trace` opens), and the Parquet file to write, which appears only when complete.
    format
        The format as which ``src`` is read, named as for :func:`open_trace`. Default: detected from the content.
    machine
        Topology to store in the header (``Machine.to_dict()``).
    cpus
        CPU numbers of the machine with this topology; an event on any other CPU is an error.
    source
        Where the events came from, for the header; default: name and hash of ``src``.
    facts
        Values of header fields, by name, that the file does not tell. Entries of ``provenance`` are added to those of the file.

    Returns
    -------
    Trace
        The written file, opened.

    Raises
    ------
    WastedCoresError
        ``src`` cannot be read (as for :func:`open_trace`), or ``dst`` cannot be written.
    """
    dst = Path(dst)
    if dst.exists() and Path(src).exists() and dst.samefile(src):
        raise UsageError(f"{dst}: this is the trace to read itself. Choose another name with -o.")
    with seekable(src) as file, _reading_as(file, format) as kind:
        if trace := _native(file, kind):
            if machine is not None:
                trace = trace.with_header(machine=machine)
            write_parquet(trace, dst)
        else:
            for slack_ns in (USUAL_SLACK_NS, SLACK_NS):
                with (
                    suppress(
                        StepsBackError
                    ),  # then the file is read again, and events are held longer
                    FOREIGN[kind].open(file, hashed=source is None) as reading,
                ):
                    run = _Import(reading, kind, cpus, machine, source, facts)
                    stream_parquet(run.frames(slack_ns), run.header, dst)
                    break
    return read_parquet(dst)


def _native(file: Path, kind: str) -> Trace | None:
    """Open a Parquet file of wastedcores, which may be inside an export for Perfetto; None: the file is of another format."""
    if kind == "parquet":
        return read_parquet(file)
    if kind != "perfetto":
        return None
    from wastedcores.trace.carried import carried

    return carried(file)


class _Import:
    """One pass over one foreign trace: its events in order of time, then its header."""

    def __init__(
        self,
        reading: Reading,
        kind: str,
        cpus: Collection[int] | None,
        machine: dict[str, Any] | None = None,
        origin: str | None = None,
        told: Mapping[str, Any] | None = None,
    ) -> None:
        self.reading, self.kind, self.path = reading, kind, reading.path
        self.machine, self.origin, self.told = machine, origin, dict(told or {})
        self.seen = Inspector(str(reading.path), cpus)

    def frames(self, slack_ns: int = SLACK_NS) -> Iterator[pl.DataFrame]:
        """Yield event tables of the full schema, in order of time; see :func:`in_order` for ``slack_ns``."""
        ordered = in_order(self.seen.ranges(self.reading.frames()), self.path, slack_ns)
        if self.reading.kernel_states:
            ordered = ShiftedStates(self.seen.notes).mended(ordered)
        for frame in told(self.seen.order(ordered), self.path.name):
            yield conform(frame.drop("line", strict=False), str(self.path))
        if not self.seen.tells:
            raise self._nothing(self.reading.facts)

    def header(self) -> Header:
        """Return the header of the trace, which is complete once :meth:`frames` is exhausted."""
        facts, seen = self.reading.facts, self.seen
        if not 0 <= (facts.cpus or 0) <= MAX_CPUS:
            raise TraceContentError(
                f"{self.path}: it says that the machine had {facts.cpus} CPUs; a Linux kernel has {MAX_CPUS} at most. The "
                "file is damaged: copy or record it again."
            )
        notes = {"source": self.origin or self.path.name}
        if facts.sha256 and not self.origin:
            notes["source_sha256"] = facts.sha256
        notes |= {"imported_by": f"wastedcores {__version__}", **facts.notes, **seen.notes}
        if facts.skipped:
            notes["skipped"] = _counted(facts.skipped, 50)
        missing = seen.jumps > 0 or (facts.truncated is not None and seen.ends_early)
        told = {"provenance": notes} | self.told
        told["provenance"] = notes | told["provenance"]
        return Header(
            source_format=facts.source_format,
            kernel_release=facts.kernel_release,
            host=facts.host,
            clock=facts.clock,
            cpus=max(facts.cpus or 0, seen.highest_cpu + 1) or None,
            cpus_online=self._online(facts),
            machine=self.machine,
            start_ns=seen.start_ns,
            end_ns=seen.end_ns,
            events=seen.events,
            every_switch=facts.every_switch,
            wakings=facts.wakings,
            some_tasks=some_tasks_only(notes.get("source cmdline", "")),
            # not for texts of perf script, which may print a part only, for example the events of one CPU
            every_cpu=facts.source_format == "perf.data"
            and every_cpu(notes.get("source cmdline", "")),
            follows_affinity=facts.follows_affinity,
            lost=dict(facts.lost) | ({-1: -1} if missing else {}),
            overwritten=dict(facts.overwritten),
            truncated_last_line=facts.truncated,
        ).model_copy(update=told)

    def _online(self, facts: Facts) -> list[int] | None:
        """Return the online CPUs if the file lists them, or if it states their number and no higher CPU was seen."""
        if not facts.cpus or self.seen.highest_cpu >= facts.cpus:
            return None
        return list(range(facts.cpus) if facts.online is None else facts.online) or None

    def _nothing(self, facts: Facts) -> TraceFormatError:
        found = Counter(facts.skipped) + self.seen.silent
        names = f" (found: {_counted(found, 5)})" if found else ""
        said = (
            f" {other[0].upper()}{other[1:]}"
            if (other := facts.notes.get("lines of another form"))
            else ""
        )
        return TraceFormatError(
            f"{self.path}: read to the end as {self.kind}, but it has no event that states who ran or waited "
            f"where{names}.{said} Expected sched_switch and sched_wakeup, or runqueue sizes: record with `perf sched record` or "
            "`trace-cmd record -e sched`."
        )


def _counted(skipped: Mapping[str, int], most: int | None) -> str:
    """Return as text how many events of each name were skipped, the most frequent ones first."""
    return ", ".join(f"{n} {k}" for k, n in Counter(skipped).most_common(most))


def _spill(run: _Import, frames: Iterator[pl.DataFrame]) -> Trace:
    folder = kept_until_exit()
    print(
        f"{run.path.name}: it has more than {MEMORY_EVENTS} events, so it goes through a temporary file in {folder}; "
        "`wastedcores import` saves this the next time.",
        file=sys.stderr,
    )
    file = folder / f"{run.path.stem}.parquet"
    stream_parquet(frames, run.header, file)
    return read_parquet(file)


@contextmanager
def _reading_as(path: Path, format: str | None) -> Iterator[str]:
    """Provide the format of a file; if the caller named the format, an error also says what the content looks like."""
    if format is None:
        yield sniff(path)
        return
    if format not in (known := ("parquet", *FOREIGN)):
        raise UsageError(f"Format {format!r} is not one of {', '.join(known)}.")
    _check_readable(path)
    try:
        _check_possible(path, format)
        yield format
    except TraceFormatError as e:
        try:
            found = sniff(path)
        except WastedCoresError:
            raise e from None
        if found == format:
            raise
        raise TraceFormatError(
            f"{e} It was read as {format}, because that format was named; its content looks like {found}."
        ) from e


def _check_possible(path: Path, format: str) -> None:
    """Refuse a file that cannot be of a format: its first bytes differ, or it is a folder and the format needs a file."""
    foreign = FOREIGN.get(format)
    magic = foreign.magic if foreign else MAGIC
    if foreign and foreign.folder and foreign.known and (path.is_dir() or not magic):
        with path.open("rb") if path.is_file() else nullcontext() as file:
            start = file.read(8) if file else b""
        if not foreign.known(Candidate(path, start)):
            raise TraceFormatError(f"{path}: this is not a trace of {format}.")
    elif path.is_dir():
        raise TraceFormatError(f"{path}: this is a folder, and a trace of {format} is a file.")
    elif magic:
        with path.open("rb") as file:
            start = file.read(len(magic))
        if start != magic:
            raise TraceFormatError(
                f"{path}: a file of {format} begins with {magic!r}; this one begins with {start!r}."
            )


def _check_readable(path: Path) -> None:
    try:
        path.stat()
    except OSError as e:
        raise WastedCoresError(f"{path}: cannot be opened ({e.strerror}).") from e
