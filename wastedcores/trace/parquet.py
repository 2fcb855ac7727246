"""Our own file: Parquet (zstd) with the header in its metadata."""

from __future__ import annotations

import secrets
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import polars as pl
from pydantic import ValidationError

from wastedcores.errors import TraceFormatError, WastedCoresError
from wastedcores.trace._chunks import Chunk
from wastedcores.trace._parquet_file import MAGIC as MAGIC  # noqa: PLC0414 - asked for from here
from wastedcores.trace._parquet_file import ParquetFile
from wastedcores.trace.header import Header
from wastedcores.trace.schema import COLUMNS, KINDS, SCHEMA, SCHEMA_VERSION
from wastedcores.trace.trace import BATCH_ROWS, Trace

HEADER_KEY = "wastedcores"


def read_parquet(path: Path) -> Trace:
    """Open one of our Parquet files lazily.

    Raises
    ------
    TraceFormatError
        Not Parquet, not ours, cut short, or written by a newer schema.
    """
    try:
        metadata = pl.read_parquet_metadata(path)
        frame = pl.scan_parquet(path)
        have = frame.collect_schema()
    except (pl.exceptions.PolarsError, OSError) as e:
        raise TraceFormatError(
            f"{path}: begins like Parquet but cannot be opened ({_first_line(e)}). It is probably cut short: "
            "copy or record it again."
        ) from e
    if HEADER_KEY not in metadata:
        raise TraceFormatError(
            f"{path}: a Parquet file, but not one of ours (no {HEADER_KEY!r} entry in its metadata). Expected a file "
            "written by `wastedcores import` or `wastedcores capture`."
        )
    try:
        header = Header.model_validate_json(metadata[HEADER_KEY])
    except ValidationError as e:
        raise TraceFormatError(f"{path}: its header cannot be read: {_first_line(e)}.") from e
    if header.schema_version > SCHEMA_VERSION:
        raise TraceFormatError(
            f"{path}: written with trace schema {header.schema_version}, this wastedcores reads up to "
            f"{SCHEMA_VERSION}. Upgrade: pip install -U wastedcores."
        )
    missing = [c for c in COLUMNS if c not in have]
    wrong = [c for c in COLUMNS if c in have and have[c] != SCHEMA[c]]
    if missing or wrong:
        name = (missing + wrong)[0]
        got = (
            f"has type {have[name]}, expected {SCHEMA[name]}"
            if wrong and not missing
            else "is missing"
        )
        raise TraceFormatError(
            f"{path}: column {name!r} {got}. The file was changed after it was written."
        )
    return Trace(frame.select(list(COLUMNS)), header, path)


def write_parquet(trace: Trace, path: Path) -> Path:
    """Write a trace in one pass; an interrupted write leaves nothing behind."""
    return stream_parquet(
        trace.events.collect_batches(chunk_size=BATCH_ROWS), lambda: trace.header, path
    )


def stream_parquet(
    frames: Iterable[pl.DataFrame], header: Callable[[], Header], path: Path
) -> Path:
    """Write event tables as they come, constant memory; ``header()`` is asked for after the last one.

    The file appears under its name only when it is complete.

    Parameters
    ----------
    frames
        Tables with the columns of the schema, all or none of them numbered, in order of time.
    header
        Called once all frames are consumed.
    path
        Where to write; its folder must exist.

    Raises
    ------
    WastedCoresError
        The folder is absent or not writable, or the disk is full.
    """
    path = Path(path)
    facts = _Facts()
    # Named before it is there, so that an interrupt at any moment finds what to take away.
    folder = path.parent / f".{path.name}.{secrets.token_hex(4)}.part"
    part = folder / path.name
    try:
        _create(folder, path)
        with _writing(path):
            out = part.open(
                "wb", buffering=0
            )  # with a buffer, closing it would write, and fail, again
        with out, ParquetFile(out) as file:
            for frame in _row_groups(frames):
                facts.add(frame)
                with _writing(path):
                    facts.know(file.add(frame))
            with _writing(path):
                while chunks := file.rest():
                    facts.know(chunks)
            kept = header().model_copy(update=facts.update()).model_dump_json()
            with _writing(path):
                file.finish({HEADER_KEY: kept})
        part.replace(path)
        folder.rmdir()
    except BaseException:
        _remove(folder)
        raise
    return path


def _row_groups(frames: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """Put small tables together and take large ones apart: half to one :data:`BATCH_ROWS` rows, but for the last."""
    held: list[pl.DataFrame] = []
    rows = 0
    for frame in frames:
        at = 0
        while at < frame.height:
            if 2 * rows >= BATCH_ROWS and rows + frame.height - at > BATCH_ROWS:
                yield pl.concat(held)
                held, rows = [], 0
            taken = frame.slice(at, BATCH_ROWS - rows)
            held.append(taken)
            rows += taken.height
            at += taken.height
    if held:
        yield pl.concat(held)


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Say what went wrong with the file."""
    try:
        yield
    except (pl.exceptions.PolarsError, OSError) as e:
        raise WastedCoresError(
            f"{path}: writing failed ({_first_line(e)}). Nothing was left behind; is the disk full?"
        ) from e


def _create(folder: Path, path: Path) -> None:
    try:
        folder.mkdir()
    except OSError as e:
        raise WastedCoresError(
            f"{path}: cannot write there ({e.strerror}). Choose another place with -o."
        ) from e


def _remove(folder: Path) -> None:
    for _ in range(100):  # a thread may create a file between the look into the folder and its end
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(0.01)


class _Facts:
    """Learnt on the way: what every later reader would otherwise scan the whole file for."""

    def __init__(self) -> None:
        self.kinds = np.zeros(len(KINDS), np.int64)
        self.start_ns: int | None = None
        self.end_ns: int | None = None
        self.cpu = -1
        self.pid = -1

    def add(self, frame: pl.DataFrame) -> None:
        """Count a table's events."""
        self.kinds += np.bincount(frame["kind"].to_physical().to_numpy(), minlength=len(KINDS))

    def know(self, chunks: list[Chunk]) -> None:
        """Take what encoding a row group's columns told."""
        for c in chunks:
            if not isinstance(c.low, int) or not isinstance(c.high, int):
                continue
            if c.name == "ts_ns":
                self.start_ns = c.low if self.start_ns is None else min(self.start_ns, c.low)
                self.end_ns = c.high if self.end_ns is None else max(self.end_ns, c.high)
            elif c.name in ("cpu", "src_cpu"):
                self.cpu = max(self.cpu, c.high)
            elif c.name in ("pid", "prev_pid", "by_pid"):
                self.pid = max(self.pid, c.high)

    def update(self) -> dict[str, object]:
        """Fields of the header."""
        return {
            "kinds": {k: int(n) for k, n in zip(KINDS, self.kinds, strict=True) if n},
            "events": int(self.kinds.sum()),
            "start_ns": self.start_ns,
            "end_ns": self.end_ns,
            "highest_cpu": self.cpu,
            "highest_pid": self.pid,
        }


def _first_line(e: BaseException) -> str:
    return str(e).strip().splitlines()[0] if str(e).strip() else type(e).__name__
