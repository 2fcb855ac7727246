"""``perf.data`` read directly, without perf."""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import zstandard

from wastedcores.engine import perfdata_jit as pj
from wastedcores.engine import text_jit as tj
from wastedcores.engine.bytes_jit import PADDING
from wastedcores.errors import TraceContentError, TraceFormatError, WastedCoresError
from wastedcores.trace.readers._facts import Facts
from wastedcores.trace.readers._perf_header import Format, PerfHeader, read_header
from wastedcores.trace.readers._scan import NameTable, event_frame
from wastedcores.trace.readers._wakings import settle_wakings

#: How a file written by perf record begins
MAGIC = b"PERFILE2"
#: Records looked at in one go; more are held only if perf's rounds are longer
CHUNK_RECORDS = 1 << 17

#: event -> (code, fields: (name, ...) -> column of the row)
_EVENTS: dict[str, tuple[int, dict[str, int]]] = {
    "sched_switch": (
        tj.SWITCH,
        {
            "prev_comm": tj.PREV_COMM,
            "prev_pid": tj.PREV_PID,
            "prev_prio": tj.PREV_PRIO,
            "prev_state": tj.PREV_STATE,
            "next_comm": tj.COMM,
            "next_pid": tj.PID,
            "next_prio": tj.PRIO,
        },
    ),
    "sched_migrate_task": (
        tj.MIGRATE,
        {
            "comm": tj.COMM,
            "pid": tj.PID,
            "prio": tj.PRIO,
            "orig_cpu": tj.SRC_CPU,
            "dest_cpu": tj.CPU,
        },
    ),
    "sched_process_fork": (
        tj.FORK,
        {
            "parent_comm": tj.BY_COMM,
            "parent_pid": tj.BY_PID,
            "child_comm": tj.COMM,
            "child_pid": tj.PID,
        },
    ),
    "sched_process_exit": (tj.EXIT, {"comm": tj.COMM, "pid": tj.PID, "prio": tj.PRIO}),
    "sched_process_exec": (
        pj.EXEC,
        {"filename": tj.VALUE, "pid": tj.PID, "old_pid": tj.BY_PID},
    ),
    "cpu_idle": (tj.CPU_IDLE, {"state": tj.VALUE, "cpu_id": tj.CPU}),
    "cpu_frequency": (pj.FREQUENCY, {"state": tj.VALUE, "cpu_id": tj.CPU}),
    "print": (pj.MARK, {"buf": tj.VALUE}),
}
_WAKE = {
    "comm": tj.COMM,
    "pid": tj.PID,
    "prio": tj.PRIO,
    "target_cpu": tj.CPU,
    "success": tj.VALUE,
}
_EVENTS |= {
    "sched_wakeup": (tj.WAKEUP, _WAKE),
    "sched_wakeup_new": (tj.WAKEUP_NEW, _WAKE),
    "sched_waking": (tj.WAKING, _WAKE),
}
#: fields that some kernels do not have
_OPTIONAL = {"success"}
_CODES = 12


class Source:
    """A perf.data file, mapped."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.sha256: str | None = None
        self.lines = 0
        self.cut_line: tuple[int, str] | None = None

    def map(self) -> np.ndarray:
        """Bytes of the file, and :data:`PADDING` more that may be looked at."""
        try:
            data: np.ndarray = np.memmap(self.path, np.uint8, "r")
        except (OSError, ValueError) as e:
            raise WastedCoresError(f"{self.path}: cannot be mapped ({e}).") from e
        return data

    def hash(self, data: np.ndarray) -> None:
        """Note the file's SHA-256."""
        digest = hashlib.sha256()
        for at in range(0, len(data), 1 << 24):
            digest.update(data[at : at + (1 << 24)])  # type: ignore[arg-type]
        self.sha256 = digest.hexdigest()


def read(source: Source, facts: Facts) -> Iterator[pl.DataFrame]:
    """Yield event tables in order of time, a few rounds of perf's buffers each."""
    data = source.map()
    header = read_header(data, source.path)
    facts.kernel_release, facts.cpus, facts.clock = header.release, header.cpus, header.clock
    facts.notes.update(header.notes)
    begin, end = header.data
    if end + PADDING > len(data):  # nearly always features follow
        data = np.concatenate([data, np.zeros(PADDING, np.uint8)])
    reader = _Reader(source.path, header, facts)
    with tempfile.TemporaryFile() as plain, ThreadPoolExecutor(1) as beside:
        hashing = beside.submit(source.hash, source.map())
        if reader.is_compressed(data, begin, end):
            data, begin, end = reader.decompress(data, begin, end, plain)
        yield from reader.tables(data, begin, end)
        hashing.result()


class _Reader:
    def __init__(self, path: Path, header: PerfHeader, facts: Facts) -> None:
        self.path, self.header, self.facts = path, header, facts
        self.names = NameTable()
        self.comm_of = np.full(pj.MAX_PID + 1, tj.NO_NAME, np.int32)
        self.codes = np.full(65536, pj.IGNORED, np.int8)
        self.fields = np.full((_CODES, pj.MAX_FIELDS, 4), -1, np.int64)
        self.counts = np.zeros(65536, np.int64)
        self.room = tj.new_events(0)
        self.states = pl.Series([], dtype=pl.Categorical())
        swapper = np.frombuffer(b"swapper".ljust(16 + PADDING, b"\0"), np.uint8)
        self.comm_of[0] = tj.intern(swapper, 0, 7, self.names.table)
        for name, format in header.formats.items():
            if name in _EVENTS:
                self._learn(format)
        if "sched_wakeup" not in self._recorded() and "sched_waking" in self._recorded():
            facts.waking = True

    def _recorded(self) -> set[str]:
        return set(self.header.formats)

    def _learn(self, format: Format) -> None:
        code, wanted = _EVENTS[format.name]
        rows = []
        for name, column in wanted.items():
            if name not in format.fields:
                if name in _OPTIONAL:
                    continue
                raise TraceFormatError(
                    f"{self.path}: its kernel's {format.name} has no field {name!r} (it has "
                    f"{', '.join(format.fields)}); this reader needs it."
                )
            kind, offset, size = format.fields[name]
            if size > 4 and column not in (tj.VALUE, tj.PREV_STATE) and kind.endswith("t"):
                raise TraceFormatError(
                    f"{self.path}: field {name!r} of {format.name} is a {kind} of {size} bytes; expected 4 at most."
                )
            text = column == tj.VALUE and code in (pj.EXEC, pj.MARK)
            if kind.startswith("__data_loc"):
                what = pj.T_TEXT if text else pj.T_DYNAMIC
            elif kind.endswith("]"):
                what = pj.T_TAIL if text else pj.T_COMM
            else:
                what = pj.T_INT
            rows.append((column, offset, size, what))
        self.fields[code, : len(rows)] = rows
        self.codes[format.number] = code
        if format.name == "sched_switch":
            self.states = _state_names(format.print_fmt)

    def is_compressed(self, data: np.ndarray, begin: int, end: int) -> bool:
        """True if there is a PERF_RECORD_COMPRESSED; perf puts them between few others, so the first will show."""
        at = begin
        while at + 8 <= end:
            kind = int.from_bytes(data[at : at + 4].tobytes(), "little")
            size = int.from_bytes(data[at + 6 : at + 8].tobytes(), "little")
            if kind in (pj.R_COMPRESSED, pj.R_COMPRESSED2):
                return True
            if kind == pj.R_SAMPLE or size < 8:
                return False
            at += size
        return False

    def decompress(
        self, data: np.ndarray, begin: int, end: int, plain: Any
    ) -> tuple[np.ndarray, int, int]:
        """Write all records plainly to a temporary file and map that; the stream of zstd runs through all of them."""
        stream = zstandard.ZstdDecompressor().decompressobj(write_size=1 << 20)
        at = begin
        try:
            while at + 8 <= end:
                head = data[at : at + 16].tobytes()
                kind, size = int.from_bytes(head[:4], "little"), int.from_bytes(head[6:8], "little")
                if size < 8:
                    raise TraceFormatError(
                        f"{self.path}: byte {at}: a record of {size} bytes; expected 8 or more."
                    )
                if kind == pj.R_COMPRESSED:
                    plain.write(stream.decompress(data[at + 8 : at + size].tobytes()))
                elif kind == pj.R_COMPRESSED2:
                    length = int.from_bytes(head[8:16], "little")
                    plain.write(stream.decompress(data[at + 16 : at + 16 + length].tobytes()))
                else:
                    plain.write(data[at : at + size].tobytes())
                at += size
        except OSError as e:
            raise WastedCoresError(
                f"{self.path}: unpacking its compressed records to {tempfile.gettempdir()} failed ({e.strerror or e}). "
                "Set TMPDIR to a folder with room."
            ) from e
        except zstandard.ZstdError as e:
            raise TraceFormatError(
                f"{self.path}: byte {at}: a compressed record is damaged ({e})."
            ) from e
        length = plain.tell()
        plain.write(bytes(PADDING))
        plain.flush()
        return np.memmap(plain, np.uint8, "r"), 0, length

    def tables(self, data: np.ndarray, begin: int, end: int) -> Iterator[pl.DataFrame]:
        """Records in order of time, as perf does: what is older than the round before last is safe."""
        at = begin
        held = _Records.empty(0)
        newest_of_round = -1
        while at < end:
            new = _Records.empty(CHUNK_RECORDS)
            n, at, in_rounds, problem = pj.index(
                data, at, end, self.header.layouts, self.header.ids, self.header.which, self.codes,
                new.place, new.ts, new.code, self.counts,
            )  # fmt: skip
            self._problem(problem, at, end)
            new = new.head(n)
            safe_until, newest_of_round = (
                newest_of_round,
                max(newest_of_round, int(new.ts[:in_rounds].max(initial=-1))),
            )
            held = held.plus(new)
            if at < end and problem != 3:
                now, held = held.split(safe_until)
            else:
                now, held, at = held, _Records.empty(0), end
            if now.ts.size:
                yield self._decode(data, now)
        self._finish()

    def _problem(self, problem: int, at: int, end: int) -> None:
        if problem == 1:
            raise TraceFormatError(
                f"{self.path}: byte {at}: a record shorter than its head. The file is damaged."
            )
        if problem == 2:
            raise TraceFormatError(
                f"{self.path}: byte {at}: a compressed record after plain ones, which perf does not write. Import the "
                "text: perf script --show-lost-events -F +cpu."
            )
        if problem == 3:
            self.facts.notes["truncated_last_line"] = (
                f"the last record, at byte {at} of {end}, is cut short"
            )

    def _decode(self, data: np.ndarray, records: _Records) -> pl.DataFrame:
        order = (
            np.arange(records.ts.size)
            if _ascending(records.ts)
            else np.argsort(records.ts, kind="stable")
        )
        if self.room.shape[1] < records.ts.size:  # touched memory is faster than fresh memory
            self.room = tj.new_events(records.ts.size)
        out = self.room
        rows, bad = pj.decode(
            data, order, records.place, records.ts, records.code, self.header.layouts, self.header.ids,
            self.header.which, self.fields, self.comm_of, self.names.table, out,
        )  # fmt: skip
        if bad >= 0:
            raise TraceContentError(
                f"{self.path}: byte {bad}: a damaged record: shorter than its tracepoint's fields, or of a CPU that "
                "cannot be. Record again, or import what perf script can still print of it."
            )
        out = out[:, :rows]
        code = out[tj.CODE]
        for i in np.flatnonzero(code == pj.C_LOST):
            self.facts.add_lost(int(out[tj.CPU, i]), int(out[tj.VALUE, i]))
        self.facts.every_switch |= bool((code == tj.SWITCH).any())
        frame = event_frame(out, rows, self.names, states=self.states)
        texts = np.flatnonzero((code == pj.EXEC) | (code == pj.MARK))
        if texts.size:
            column: list[str | None] = [None] * rows
            for i in texts:
                place, room = int(out[tj.VALUE, i]) >> 16, int(out[tj.VALUE, i]) & 0xFFFF
                raw = data[place : place + room].tobytes().split(b"\0")[0]
                column[i] = raw.decode("utf-8", "replace").rstrip("\n")
            frame = frame.with_columns(text=pl.Series(column, dtype=pl.String))
        return settle_wakings(frame, self.facts)

    def _finish(self) -> None:
        by_number = {f.number: f.name for f in self.header.formats.values()}
        for number in np.flatnonzero(self.counts):
            if self.codes[number] == pj.IGNORED:
                self.facts.skipped[by_number.get(int(number), f"tracepoint {number}")] += int(
                    self.counts[number]
                )


class _Records:
    """Where records are, when, and what."""

    def __init__(self, place: np.ndarray, ts: np.ndarray, code: np.ndarray) -> None:
        self.place, self.ts, self.code = place, ts, code

    @classmethod
    def empty(cls, n: int) -> _Records:
        return cls(np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int8))

    def head(self, n: int) -> _Records:
        return _Records(self.place[:n], self.ts[:n], self.code[:n])

    def plus(self, other: _Records) -> _Records:
        if not self.ts.size:
            return other
        return _Records(
            np.concatenate([self.place, other.place]),
            np.concatenate([self.ts, other.ts]),
            np.concatenate([self.code, other.code]),
        )

    def split(self, until: int) -> tuple[_Records, _Records]:
        """Those at or before ``until``, and the others."""
        early = self.ts <= until
        return (
            _Records(self.place[early], self.ts[early], self.code[early]),
            _Records(self.place[~early], self.ts[~early], self.code[~early]),
        )


def _ascending(ts: np.ndarray) -> bool:
    return bool((ts[1:] >= ts[:-1]).all())


def _state_names(print_fmt: str) -> pl.Series:
    """Every value of prev_state as sched_switch prints it, by number.

    The letters and their bits differ from kernel to kernel; the print format has them, and the bit above them is
    the "+" of a preempted task (include/trace/events/sched.h: TASK_STATE_MAX up to 4.13, TASK_REPORT_MAX since).
    """
    letters = {
        int(v, 0): t for v, t in re.findall(r"\{ *(0x[0-9a-f]+|\d+), *\"([^\"]*)\" *\}", print_fmt)
    }
    if not letters or max(letters) > 1 << 14:
        letters = {1: "S", 2: "D", 4: "T", 8: "t", 16: "X", 32: "Z", 64: "P", 128: "I"}
    plus = 2 * max(letters)
    names = []
    for value in range(2 * plus):
        bits = value & (plus - 1)
        parts = [t for bit, t in letters.items() if bits & bit == bit and bit]
        rest = bits & ~sum(letters)
        if rest:
            parts.append(hex(rest))
        names.append(("|".join(parts) or "R") + ("+" if value & plus else ""))
    return pl.Series(names, dtype=pl.Categorical())
