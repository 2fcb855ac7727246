"""Reads the archives of SchedViz's collectors (google/schedviz @6422d286): raw pages with format files, or text of bpftrace.

``util/trace.sh`` packs per_cpu/cpuN/trace_pipe_raw of the kernel, the files ``format`` of its events, and a copy of the topology.
``ebpf/collect.sh`` writes lines of hexadecimal numbers. The first letters name the kind of line: ``ST`` is the start, ``P`` a
thread's priority and name, ``S`` a switch, ``M`` a migration and ``W`` a wakeup.
"""

from __future__ import annotations

import re
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np
import polars as pl

from wastedcores.errors import TraceFormatError
from wastedcores.limits import MAX_CPUS
from wastedcores.trace.readers.perf_data.header import parse_formats
from wastedcores.trace.readers.support.bytes_jit import PADDING
from wastedcores.trace.readers.support.event_columns import with_letters
from wastedcores.trace.readers.support.text_reading import unpacked
from wastedcores.trace.readers.trace_dat.cursor import Cursor
from wastedcores.trace.readers.trace_dat.header import Buffer, DatHeader, page_format
from wastedcores.trace.readers.trace_dat.reader import TraceDatReading
from wastedcores.trace.recognisers import BPFTRACE_START, Candidate, is_tar

#: A longer text is refused, because text is held in memory. collect.sh stops after a million lines unless it is told otherwise.
_MOST_TEXT = 1 << 30
_MOST_MEMBERS, _MOST_FORMAT = 1 << 17, 1 << 20
_LINE = r"^(?P<what>ST|P|S|M|W):(?P<at>[0-9a-f]{1,16}):(?P<a>[0-9a-f]+)(?::(?P<b>[0-9a-f]+))?(?::(?P<rest>.*))?$"


class SchedVizReading(TraceDatReading):
    """One pass over an archive of SchedViz, or over the text of its bpftrace script."""

    def __init__(self, path: Path, *, hashed: bool = False) -> None:
        super().__init__(path, hashed=hashed)
        self.found.source_format = "schedviz"
        self._archive: IO[bytes] = self.resources.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
        self._members: dict[str, tarfile.TarInfo] = {}

    def frames(self) -> Iterator[pl.DataFrame]:
        """Yield event tables in order of time."""
        with unpacked(self.path) as stream:
            while chunk := stream.read(1 << 20):
                self._archive.write(chunk)
        size = self._archive.tell()
        self._archive.write(bytes(PADDING))
        self._archive.flush()
        self._archive.seek(0)
        start = self._archive.read(1 << 12)
        if not is_tar(Candidate(self.path, start)):
            yield _events(self._text(0, size), self)
            return
        self._archive.seek(0)
        try:
            with tarfile.open(fileobj=self._archive, mode="r:") as archive:
                for member in archive:
                    if member.isfile():
                        self._members[member.name.removeprefix("./")] = member
                    if len(self._members) > _MOST_MEMBERS:
                        break
        except (tarfile.TarError, OverflowError, ValueError) as e:
            raise self._unknown(f"the archive is damaged ({e})") from e
        for name, member in self._members.items():
            if name.startswith("traces/") or "/" not in name:
                self._archive.seek(member.offset_data)
                if BPFTRACE_START.search(self._archive.read(1 << 10)):
                    yield _events(self._text(member.offset_data, member.size), self)
                    return
        yield from super().frames()

    def _text(self, at: int, size: int) -> str:
        if size > _MOST_TEXT:
            raise TraceFormatError(
                f"{self.path}: a text of {size} bytes; {_MOST_TEXT} at most are read. Record fewer lines: collect.sh -l 10000000."
            )
        self._archive.seek(at)
        return self._archive.read(size).decode("utf-8", "replace")

    def _unknown(self, why: str) -> TraceFormatError:
        return TraceFormatError(
            f"{self.path}: {why}. Expected an archive of SchedViz's trace.sh (metadata.textproto, formats/header_page, "
            "formats/sched/*/format and traces/cpuN) or the text of its bpftrace script. If a trace is in this archive, "
            "unpack it and "
            "name the trace."
        )

    def _map(self) -> np.ndarray:
        return np.asarray(np.memmap(self._archive, np.uint8, "r"))  # type: ignore[call-overload]

    def _read_header(self, mapped: np.ndarray) -> DatHeader:
        header = DatHeader()
        page = self._members.get("formats/header_page")
        formats = [
            m for n, m in self._members.items() if re.fullmatch(r"formats/\w+/\w+/format", n)
        ]
        cpus = {
            int(n.removeprefix("traces/cpu")): m
            for n, m in self._members.items()
            if re.fullmatch(r"traces/cpu\d{1,4}", n)
        }
        if page is None or not formats or not cpus:
            raise self._unknown("this archive has no trace that this package knows")
        for member in (page, *formats):
            if member.size > _MOST_FORMAT:
                raise self._unknown(f"{member.name} has {member.size} bytes")
        page_format(self._content(page), header, Cursor(mapped, self.path))
        for member in formats:
            for name, format in parse_formats(self._content(member)).items():
                header.formats.setdefault(name, format)
                header.names.setdefault(format.number, name)
        buffer = header.buffers[""] = Buffer()
        for cpu, member in sorted(cpus.items()):
            whole = member.size - member.size % header.page_bytes
            if cpu >= MAX_CPUS or member.offset_data + member.size > len(mapped):
                raise self._unknown(
                    f"{member.name} lies outside of the archive, or no kernel has such a CPU"
                )
            buffer.pages.append((cpu, member.offset_data, whole))
            if whole != member.size:
                header.truncated = f"the last page of CPU {cpu} is cut short"
        known = {n.split("/")[2] for n in self._members if re.match(r"topology/node\d+/cpu\d+/", n)}
        header.cpus = len(known) or None
        return header

    def _content(self, member: tarfile.TarInfo) -> str:
        self._archive.seek(member.offset_data)
        return self._archive.read(member.size).decode("utf-8", "replace")


def _events(text: str, reading: SchedVizReading) -> pl.DataFrame:
    """Return the events of the bpftrace script's text."""
    table = pl.DataFrame({"text": pl.Series(text.split("\n"), dtype=pl.String)}).with_row_index(
        "line", 1
    )
    table = table.with_columns(pl.col("line").cast(pl.Int64))
    table = table.filter(pl.col("text").str.strip_chars() != "")
    reading.found.lines = table.height
    fields = table.with_columns(pl.col("text").str.extract_groups(_LINE).struct.unnest())
    bad = fields.filter(pl.col("what").is_null() & ~pl.col("text").str.starts_with("Attaching"))
    if bad.height:
        raise TraceFormatError(
            f"{reading.path}, line {bad['line'][0]}: not a line of SchedViz's bpftrace script: {bad['text'][0][:120]!r}. "
            f"Expected "
            "ST, P, S, M or W and hexadecimal numbers. bpftrace may have lost lines: record fewer events."
        )
    start = fields.filter(pl.col("what") == "ST")["a"]
    begin = int(start[0], 16) if start.len() else 0
    if begin >= 1 << 62:
        raise TraceFormatError(
            f"{reading.path}: its start, {start[0]}, is not a time. The file is damaged."
        )
    parts = pl.col("rest").str.split(":")
    words = [parts.list.get(i, null_on_oob=True) for i in range(3)]
    fields = fields.with_columns(
        *(_hex(w).alias(n) for n, w in zip(("c", "d", "e"), words, strict=True)),
        a=_hex(pl.col("a")), b=_hex(pl.col("b")), ts_ns=_hex(pl.col("at")) + begin,
    )  # fmt: skip
    named = fields.filter(pl.col("what") == "P")
    # -1, the priority of a deadline task, is printed without a sign
    deadline = pl.col("b") == 0xFFFFFFFF
    named = named.with_columns(b=pl.when(deadline).then(-1).otherwise("b"))
    odd = named.filter(
        pl.col("a").is_null() | ~pl.col("b").is_between(-1, 1 << 14).fill_null(False)
    )
    if odd.height:
        raise TraceFormatError(
            f"{reading.path}, line {odd['line'][0]}: {odd['text'][0][:120]!r} has no thread or no priority. The file is damaged: "
            "copy or record it again."
        )
    comms = named.select(pid="a", prio="b", comm="rest").unique("pid", keep="last")

    def rows(what: str, kind: str, **columns: str) -> pl.DataFrame:
        chosen = fields.filter(pl.col("what") == what)
        short = chosen.filter(
            pl.any_horizontal(pl.col(c).is_null() for c in (*columns.values(), "ts_ns"))
        )
        if short.height:
            raise TraceFormatError(
                f"{reading.path}, line {short['line'][0]}: {short['text'][0]!r} has fewer numbers than bpftrace wrote. The "
                f"file is "
                "damaged: copy or record it again."
            )
        out = chosen.select("line", "ts_ns", **{n: pl.col(c) for n, c in columns.items()})
        out = out.with_columns(
            pl.col(c).cast(pl.Int32, wrap_numerical=True) for c in out.columns if c.endswith("pid")
        )
        return out.with_columns(kind=pl.lit(kind))

    switches = rows("S", "switch", cpu="a", prev_pid="b", state="c", pid="d")
    switches = with_letters(switches.with_columns(prev_comm=pl.lit(None, pl.String)), "state")
    reading.found.every_switch = switches.height > 0
    known = comms.with_columns(pl.col("pid").cast(pl.Int32, wrap_numerical=True))
    frames = [
        switches,
        rows("M", "migrate", src_cpu="b", cpu="c", pid="d"),
        rows("W", "wakeup", src_cpu="a", cpu="b", pid="c"),
    ]
    events = pl.concat(frames, how="diagonal_relaxed").sort("ts_ns", "line", maintain_order=True)
    return events.join(known, on="pid", how="left", maintain_order="left")


def _hex(column: pl.Expr) -> pl.Expr:
    return column.str.to_integer(base=16, strict=False)
