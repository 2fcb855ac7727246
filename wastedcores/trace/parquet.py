"""The native trace file: Parquet (zstd) with the header in its metadata and a seal (:mod:`wastedcores.trace.seal`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
from pydantic import ValidationError

from wastedcores.cpulist import parse_cpulist
from wastedcores.errors import TraceFormatError, UsageError, WastedCoresError
from wastedcores.files import written_whole
from wastedcores.limits import MAX_CPUS, PID_MAX_LIMIT
from wastedcores.trace import schema as sa
from wastedcores.trace.header import SCHEMA_VERSION, Header
from wastedcores.trace.inspector import scheduling
from wastedcores.trace.schema import empty
from wastedcores.trace.seal import KEY, VALUE, Sealing, check_seal
from wastedcores.trace.trace import BATCH_ROWS, Trace
from wastedcores.trace.window import find_window

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

#: the entries of version 1's ``provenance`` that became fields of their own with the same text
_SAME = ("kernel_model", "recording", "truncated_last_line")


def upgraded(trace: Trace) -> Trace:
    """Bring the header of a trace to the present schema version.

    Version 1 kept the measured window ("first mark | last mark"), the counted CPUs in list format, the kernel model, the
    recording's name and the truncated last line as text in ``provenance``. An entry that cannot be converted (for example, it
    names a mark that the trace does not have) stays in ``provenance``.
    """
    header = trace.header
    if header.schema_version >= SCHEMA_VERSION:
        return trace
    text = dict(header.provenance)
    fields: dict[str, object] = {name: text.pop(name) for name in _SAME if name in text}
    try:
        if "window" in text:
            fields["window"] = find_window(trace, text["window"].split(" | "))
            del text["window"]
        if "counted_cpus" in text:
            fields["counted_cpus"] = parse_cpulist(text["counted_cpus"])
            del text["counted_cpus"]
    except UsageError:
        pass
    return trace.with_header(schema_version=SCHEMA_VERSION, provenance=text, **fields)


MAGIC = b"PAR1"
HEADER_KEY = "wastedcores"
#: The number of rows in each of the first row groups, and the number of these groups. Each further group has twice as many rows
#: as the group before it, up to BATCH_ROWS. While the last group is written, nothing is left to read, so no time is saved by
#: doing both at once. Therefore the groups of a short trace are small.
FIRST_ROWS, FIRST_GROUPS = 1 << 16, 16
#: What polars raises when it reads a damaged file: an error or, if its Rust code did not expect the damage, a panic.
UNREADABLE = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError)
_FACT_COLUMNS = ("ts_ns", "kind", "cpu", "src_cpu", "pid", "prev_pid", "by_pid")


def read_parquet(path: Path) -> Trace:
    """Open a trace file that wastedcores wrote, lazily."""
    check_name(path)
    try:
        sealed = check_seal(path)
        if not sealed:
            check_decodes(path)
        metadata = pl.read_parquet_metadata(path)
        # if there is no seal, statistics are not used: damaged statistics would hide rows, and a later filter must decode all
        # pages that the comparison below decodes
        frame = pl.scan_parquet(
            path, use_statistics=sealed, parallel="auto" if sealed else "row_groups"
        )
        have = frame.collect_schema()
    except UNREADABLE as e:
        raise TraceFormatError(
            f"{path}: begins like a Parquet file but cannot be opened ({_first_line(e)}). It is probably cut "
            "short: copy or record it again."
        ) from e
    if HEADER_KEY not in metadata:
        raise TraceFormatError(
            f"{path}: is a Parquet file that wastedcores did not write (its metadata has no {HEADER_KEY!r} entry). Expected "
            "a file written by `wastedcores import` or `wastedcores capture`."
        )
    try:
        header = Header.model_validate_json(metadata[HEADER_KEY])
    except ValidationError as e:
        raise TraceFormatError(f"{path}: its header cannot be read: {_first_line(e)}.") from e
    if header.schema_version > SCHEMA_VERSION:
        raise TraceFormatError(
            f"{path}: was written with trace schema {header.schema_version}, but this wastedcores reads up to "
            f"{SCHEMA_VERSION}. Upgrade it: pip install -U wastedcores."
        )
    if header.cpus is not None and not 0 < header.cpus <= MAX_CPUS:
        raise TraceFormatError(
            f"{path}: its header claims {header.cpus:,} CPUs; expected 1 to {MAX_CPUS}. The file was damaged or changed after "
            "it was written: copy it again, or import it again from its source."
        )
    if KEY in metadata and not sealed:
        raise TraceFormatError(
            f"{path}: wastedcores wrote this file with a seal, and the seal is missing. Another program wrote it anew, or it "
            "was damaged. Copy it again, or import it again from its source."
        )
    kinds = have.get("kind")
    if isinstance(kinds, pl.Enum) and tuple(kinds.categories) == sa.KINDS[: len(kinds.categories)]:
        if len(kinds.categories) < len(sa.KINDS):
            # the file was written before the newer kinds existed
            frame = frame.with_columns(pl.col("kind").cast(sa.KIND_DTYPE))
        have = have | {"kind": sa.KIND_DTYPE}
    absent = [c for c in sa.ADDED if c not in have]
    frame = frame.with_columns(pl.lit(None, sa.SCHEMA[c]).alias(c) for c in absent)
    have = have | {c: sa.SCHEMA[c] for c in absent}
    missing = [c for c in sa.COLUMNS if c not in have]
    wrong = [c for c in sa.COLUMNS if c in have and have[c] != sa.SCHEMA[c]]
    if missing or wrong:
        name = (missing + wrong)[0]
        got = (
            f"has type {have[name]}, expected {sa.SCHEMA[name]}"
            if wrong and not missing
            else "is missing"
        )
        raise TraceFormatError(
            f"{path}: column {name!r} {got}. The file was changed after it was written."
        )
    trace = Trace(frame.select(list(sa.COLUMNS)), header, path)
    return upgraded(trace if sealed else _compared(trace))


def check_decodes(path: Path, rows: bool = True) -> set[str]:
    """Decode with pyarrow a file of which nothing proves that it is whole, and return the names of its columns.

    polars trusts every number in a file. A damaged number made polars request 2 EB of memory, which ends the process.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq  # imported here, because only reading a file without a seal needs it

    try:
        with pq.ParquetFile(path) as file:
            for _ in file.iter_batches() if rows else ():
                pass
            return set(file.schema_arrow.names)
    except (pa.ArrowException, UnicodeDecodeError) as e:
        raise OSError(str(e)) from e


def _compared(trace: Trace) -> Trace:
    """Compare the header of a file without a seal with its rows, and note in the header what this comparison cannot prove."""
    header, facts = trace.header, _Facts()
    try:
        for table in trace.batches(tuple(sa.COLUMNS)):  # of all columns, since damage may be in any
            facts.add(table)
    except UNREADABLE as e:
        raise TraceFormatError(
            f"{trace.path}: a table in it cannot be read ({_first_line(e)}). The file was damaged: copy it again, or import it "
            "again from its source."
        ) from e
    found = facts.update()
    differing = [
        f"its header says {name} {told}, but its rows have {found[name]}"
        for name in found
        if (told := getattr(header, name)) is not None and told != found[name]
    ]
    if not facts.ordered:
        differing.append("its rows are not in order of time")
    if max(facts.any_cpu + 1, header.cpus or 0) > MAX_CPUS:
        differing.append(
            f"it has an event of CPU {facts.any_cpu}, but CPUs are 0 to {MAX_CPUS - 1}"
        )
    if facts.pid > PID_MAX_LIMIT:
        differing.append(f"it has a task {facts.pid}, but pids are at most {PID_MAX_LIMIT}")
    if facts.lowest < -1:
        differing.append(
            f"it has a CPU or a task {facts.lowest}, but their numbers are not negative"
        )
    if differing:
        raise TraceFormatError(
            f"{trace.path}: {differing[0]}. The file was damaged or changed after it was written: copy it again, or import it "
            "again from its source."
        )
    if header.unproven is not None:
        return trace
    return trace.with_header(
        unproven="the file was written without a seal, so damage that fits its header is not noticed"
    )


def check_name(path: Path) -> None:
    """Refuse a name that polars cannot open."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise TraceFormatError(
            f"{str(path)!a}: the name is not UTF-8, or not in this locale, and polars opens no such file; rename it."
        ) from None


def write_parquet(trace: Trace, path: Path) -> Path:
    """Write a trace in one pass; an interrupted write leaves nothing behind."""
    return stream_parquet(
        trace.events.collect_batches(chunk_size=BATCH_ROWS, maintain_order=True),
        lambda: trace.header,
        path,
    )


def stream_parquet(
    frames: Iterable[pl.DataFrame], header: Callable[[], Header], path: Path
) -> Path:
    """Write event tables as they come, in constant memory. The file appears under its name when it is complete.

    One thread writes a group of rows while the next rows are read. Measured on 2.8 million events of guest recordings
    (2026-11-22), this takes as much CPU time as polars' own sink, and the files are 9 % smaller because times are stored
    as differences.
    """
    path = Path(path)
    facts = _Facts()
    failed: list[OSError] = []
    try:
        with written_whole(path) as part, part.open("wb") as file:
            sink = Sealing(file)
            with _writer(sink) as writer, ThreadPoolExecutor(1) as pool:
                writing = None
                for table in _row_groups(_watched(frames, failed)):
                    if writing:
                        writing.result()
                    writing = pool.submit(_write, writer, table)
                    facts.add(table)
                if writing:
                    writing.result()
                told = header().model_copy(update=facts.update())
                writer.add_key_value_metadata({HEADER_KEY: told.model_dump_json(), KEY: VALUE})
                sink.hold()
            sink.seal()
    except OSError as e:
        if e in failed:
            raise
        raise WastedCoresError(
            f"{path}: cannot write there ({e.strerror or e}). Nothing was left behind. Is the disk full? -o chooses "
            "another place."
        ) from e
    return path


def _writer(sink: Sealing) -> pq.ParquetWriter:
    import pyarrow.parquet as pq  # imported here, because only writing needs it

    return pq.ParquetWriter(
        sink,
        _arrow(empty()).schema,
        compression="zstd",
        compression_level=1,
        use_dictionary=[c for c in sa.COLUMNS if c not in ("ts_ns", "in_irq")],
        column_encoding={"ts_ns": "DELTA_BINARY_PACKED"},
        max_rows_per_page=BATCH_ROWS,
        # statistics of texts would cost a quarter of the writing time, and no reader uses them
        write_statistics=[c.name for c in sa.COLUMNS.values() if c.dtype.is_numeric()],
        write_page_checksum=True,
    )


def _write(writer: pq.ParquetWriter, table: pl.DataFrame) -> None:
    import pyarrow as pa

    # columns without any value would take polars a third of the time of this conversion
    absent = {c for c in table.columns if table[c].null_count() == table.height}
    present = _arrow(table.drop(absent))
    columns = [
        pa.nulls(table.height, f.type) if f.name in absent else present[f.name]
        for f in writer.schema
    ]
    writer.write_table(pa.table(columns, schema=writer.schema), BATCH_ROWS)


def _arrow(table: pl.DataFrame) -> pa.Table:
    # newer forms of strings cannot be written within dictionaries
    return table.to_arrow(compat_level=pl.CompatLevel.oldest())


def _row_groups(frames: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """Gather tables until they have enough rows for a row group.

    Each group is made one chunk, because every chunk has its own dictionaries, and several dictionaries take longer to write.
    """
    gathered: list[pl.DataFrame] = []
    enough, groups = FIRST_ROWS, 0
    for frame in frames:
        gathered.append(frame.select(list(sa.COLUMNS)))
        if sum(f.height for f in gathered) >= enough:
            yield pl.concat(gathered, rechunk=True)
            gathered, groups = [], groups + 1
            if groups >= FIRST_GROUPS:
                enough = min(2 * enough, BATCH_ROWS)
    if gathered:
        yield pl.concat(gathered, rechunk=True)


def _watched(frames: Iterable[pl.DataFrame], failed: list[OSError]) -> Iterator[pl.DataFrame]:
    """Pass the tables on, and note an error that comes from reading them, so that it is not taken for an error of writing."""
    try:
        yield from frames
    except OSError as e:
        failed.append(e)
        raise


class _Facts:
    """Facts that are counted while a file is written, so that no later reader has to scan the whole file for them."""

    def __init__(self) -> None:
        self.kinds: Counter[str] = Counter()
        self.start_ns: int | None = None
        self.end_ns: int | None = None
        self.cpu = self.any_cpu = -1
        self.last_ns: int | None = None
        self.pid = -1
        self.lowest = 0
        self.ordered = True

    def add(self, frame: pl.DataFrame) -> None:
        if not frame.height:
            return
        for kind, n in frame["kind"].value_counts().iter_rows():
            self.kinds[str(kind)] += n
        times = (pl.col("ts_ns").min(), pl.col("ts_ns").max())
        highest = pl.max_horizontal(pl.col("cpu").max(), pl.col("src_cpu").max())
        first, last, any_cpu, pid, lowest, ordered = frame.select(
            first=times[0],
            last=times[1],
            cpu=highest,
            pid=pl.max_horizontal(*(pl.col(p).max() for p in ("pid", "prev_pid", "by_pid"))),
            lowest=pl.min_horizontal(*(pl.col(n).min() for n in _FACT_COLUMNS[2:])),
            ordered=(pl.col("ts_ns").diff().min() >= 0),
        ).row(0)
        self.lowest = min(self.lowest, lowest or 0)
        if ordered is False or (self.last_ns is not None and first < self.last_ns):
            self.ordered = False
        self.last_ns = last if self.last_ns is None else max(self.last_ns, last)
        self.any_cpu = max(self.any_cpu, -1 if any_cpu is None else any_cpu)
        self.pid = max(self.pid, -1 if pid is None else pid)
        start, end, cpu = scheduling(frame).select(start=times[0], end=times[1], cpu=highest).row(0)
        if start is None:
            return
        self.start_ns = start if self.start_ns is None else min(self.start_ns, start)
        self.end_ns = end if self.end_ns is None else max(self.end_ns, end)
        self.cpu = max(self.cpu, -1 if cpu is None else cpu)

    def update(self) -> dict[str, object]:
        """Return the fields of the header."""
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
