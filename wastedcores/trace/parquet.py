"""Our own file: Parquet (zstd) with the header in its metadata."""

from __future__ import annotations

import secrets
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import polars as pl
from polars.io.plugins import register_io_source
from pydantic import ValidationError

from wastedcores.errors import TraceFormatError, WastedCoresError
from wastedcores.trace.header import Header
from wastedcores.trace.schema import COLUMNS, SCHEMA, SCHEMA_VERSION
from wastedcores.trace.trace import BATCH_ROWS, Trace
from wastedcores.trace.upgrade import upgraded

MAGIC = b"PAR1"
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
    return upgraded(Trace(frame.select(list(COLUMNS)), header, path))


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
        Tables with the columns of the schema, in order of time.
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
    failure: list[BaseException] = []
    stopped = threading.Event()
    reading = threading.Lock()
    coming = iter(frames)
    facts = _Facts()

    def following() -> pl.DataFrame | None:
        with reading:
            frame = None if stopped.is_set() else next(coming, None)
            if frame is not None:
                facts.add(frame)
            return frame

    def source(
        with_columns: list[str] | None,
        predicate: pl.Expr | None,
        n_rows: int | None,
        batch_size: int | None,
    ) -> Iterator[pl.DataFrame]:
        try:
            while (frame := following()) is not None:
                yield frame.select(with_columns) if with_columns else frame
        except BaseException as e:  # polars would wrap it: keep the real one
            failure.append(e)
            raise

    def write() -> None:
        register_io_source(source, schema=SCHEMA).sink_parquet(
            part,
            compression="zstd",
            compression_level=1,
            row_group_size=BATCH_ROWS,
            maintain_order=True,
            metadata=lambda _: {
                HEADER_KEY: header().model_copy(update=facts.update()).model_dump_json()
            },
            mkdir=False,
        )

    # Named before it is there, so that an interrupt at any moment finds what to take away. Written in a thread: an
    # interrupt inside of polars comes out as any other error. In a folder of its own: polars hears of the interrupt, too,
    # and its threads may create the file after they were told to stop, but not in a folder that is gone.
    folder = path.parent / f".{path.name}.{secrets.token_hex(4)}.part"
    part = folder / path.name
    try:
        _create(folder, path)
        with ThreadPoolExecutor(1) as pool:
            try:
                pool.submit(write).result()
            finally:
                stopped.set()
                with reading:  # polars may return while one of its threads is still at it
                    pass
        part.replace(path)
        folder.rmdir()
    except BaseException as e:
        _remove(folder)
        if failure:
            raise failure[0] from None
        if isinstance(e, (pl.exceptions.PolarsError, OSError)):
            raise WastedCoresError(
                f"{path}: writing failed ({_first_line(e)}). Nothing was left behind; is the disk full?"
            ) from e
        raise
    return path


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
    """Counted on the way: what every later reader would otherwise scan the whole file for."""

    def __init__(self) -> None:
        self.kinds: Counter[str] = Counter()
        self.start_ns: int | None = None
        self.end_ns: int | None = None
        self.cpu = -1
        self.pid = -1

    def add(self, frame: pl.DataFrame) -> None:
        if not frame.height:
            return
        for kind, n in frame["kind"].value_counts().iter_rows():
            self.kinds[str(kind)] += n
        start, end, cpu, pid = frame.select(
            start=pl.col("ts_ns").min(),
            end=pl.col("ts_ns").max(),
            cpu=pl.max_horizontal(pl.col("cpu").max(), pl.col("src_cpu").max()),
            pid=pl.max_horizontal(*(pl.col(p).max() for p in ("pid", "prev_pid", "by_pid"))),
        ).row(0)
        self.start_ns = start if self.start_ns is None else min(self.start_ns, start)
        self.end_ns = end if self.end_ns is None else max(self.end_ns, end)
        self.cpu = max(self.cpu, -1 if cpu is None else cpu)
        self.pid = max(self.pid, -1 if pid is None else pid)

    def update(self) -> dict[str, object]:
        """Fields of the header."""
        return {
            "kinds": dict(sorted(self.kinds.items())),
            "events": self.kinds.total(),
            "start_ns": self.start_ns,
            "end_ns": self.end_ns,
            "highest_cpu": self.cpu,
            "highest_pid": self.pid,
        }


def _first_line(e: BaseException) -> str:
    return str(e).strip().splitlines()[0] if str(e).strip() else type(e).__name__
