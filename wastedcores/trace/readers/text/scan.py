"""Turns blocks of text into event tables with the compiled scanner, and returns the lines that the scanner left alone."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from wastedcores.trace.readers.support import tracepoints as tp
from wastedcores.trace.readers.support.event_columns import CategoryCodes, NameTable
from wastedcores.trace.readers.support.reading import FactsBuilder
from wastedcores.trace.readers.support.text_reading import Block, split_lines
from wastedcores.trace.readers.text import scan_jit as tj
from wastedcores.trace.schema import COLUMNS, KIND_DTYPE

#: Code of an event -> its kind.
_KINDS = pl.Series(
    [
        "switch",
        "wakeup",
        "wakeup_new",
        "migrate",
        "fork",
        "exit",
        "cpu_idle",
        "wakeup",
    ],
    dtype=KIND_DTYPE,
)
_NUMBERS = ("pid", "prev_pid", "src_cpu", "by_pid", "prio", "prev_prio")
#: The scanner is used from this size on. The patterns need a second for such a file, and loading or compiling the scanner takes
#: as long.
WORTHWHILE_BYTES = 12 << 20
_NO_NAME = 2**32 - 1
#: No event has fewer bytes: "-1 [0] 1.0: cpu_idle: state=0 cpu_id=0" and a line end have 40.
SHORTEST_EVENT = 32
_VALUED = (tp.CPU_IDLE,)
_NUMPY: dict[pl.DataType, Any] = {pl.Int32(): np.int32, pl.Int16(): np.int16}
_NAMES = ("comm", "prev_comm", "prev_state", "by_comm")


class Scanned(NamedTuple):
    """The events of a block, and its other lines.

    ``events`` has the columns of the schema that are filled, and ``line``, ``ctx_cpu`` and ``waking``. ``rest`` has the
    lines that the scanner left alone: ``line``, ``text``, ``next_ts`` (time of the next event; null if there is none) and
    ``before`` (line of the last event before; 0 if that event is not in this block). ``counts`` has the number of events by code.
    """

    events: pl.DataFrame
    rest: pl.DataFrame
    counts: np.ndarray


class Scanner:
    """Finds the events in blocks of text. Several threads can use it; each of them has its own table of names.

    ``scan`` is a compiled function with the parameters of ``scan`` in scan_jit.py, and ``dialect`` is its third argument.
    """

    def __init__(self, scan: Callable[..., tuple[int, int, int, int]], dialect: bool) -> None:
        self._scan, self._dialect = scan, dialect
        self.used = False
        self._local = threading.local()
        self._categories = CategoryCodes()

    def scan(self, block: Block) -> Scanned:
        """Return the events of a block, and the lines that are not in the common spelling."""
        counts = np.zeros(tp.N_CODES, np.int64)
        raw, size = block.memory, block.size
        self.used |= size >= WORTHWHILE_BYTES
        if not self.used:
            rest = split_lines(block).with_columns(
                next_ts=pl.lit(None, dtype=pl.Int64), before=pl.lit(0, dtype=pl.Int64)
            )
            return Scanned(pl.DataFrame(), rest, counts)
        names, out, slow = self._room(size, block.lines)
        rows, n_slow, n_bytes, _ = self._scan(
            raw, size, self._dialect, out, slow, names.table, counts
        )
        before = slow.before[:n_slow]
        rest = pl.DataFrame(
            {
                "line": slow.line[:n_slow] + block.first_line,
                "text": _lines(slow.text[:n_bytes]),
                "next_ts": slow.next_ts[:n_slow].copy(),
                "before": np.where(before < 0, 0, before + block.first_line),
            }
        ).with_columns(next_ts=pl.when(pl.col("next_ts") >= 0).then("next_ts"))
        events = event_frame(out, rows, names).with_columns(pl.col("line") + block.first_line)
        return Scanned(events, rest, counts)

    def _room(self, size: int, lines: int) -> tuple[NameTable, np.ndarray, tj.Slow]:
        """Return the names of this thread, and its memory for results, which is reused."""
        own = self._local
        if not hasattr(own, "names"):
            own.names, own.size, own.lines = NameTable(self._categories), 0, 0
        if size > own.size or lines > own.lines:
            own.size, own.lines = max(size, own.size), max(lines * 9 // 8, own.lines)
            # room for every event (each has at least SHORTEST_EVENT bytes), and for one line whose fields are written before it
            # turns out not to be an event
            events = min(own.lines, own.size // SHORTEST_EVENT) + 1
            own.out, own.slow = tj.new_events(events), tj.new_slow(own.size, own.lines)
        return own.names, own.out, own.slow


def count(scanned: Scanned, facts: FactsBuilder) -> None:
    """Count the events of a block that were left out, and note whether it has context switches."""
    counts = scanned.counts
    if counts[tp.STAT_RUNTIME]:
        facts.skipped["sched_stat_runtime"] += int(counts[tp.STAT_RUNTIME])
    facts.every_switch |= bool(counts[tp.SWITCH])


def event_frame(out: np.ndarray, rows: int, names: NameTable) -> pl.DataFrame:
    """Make a table of the scanner's rows, with the types of the schema and ``line``, ``ctx_cpu`` and ``waking``."""
    columns: dict[str, Any] = {}
    for i, name in enumerate(tj.FIELDS):
        dtype = COLUMNS[name].dtype if name in COLUMNS else pl.Int64()
        kind = np.uint32 if name in _NAMES else _NUMPY.get(dtype, np.int64)
        columns[name] = out[i, :rows].astype(kind)
    raw = pl.DataFrame(columns)
    frame = raw.select(
        "line",
        "ts_ns",
        pl.col("ctx_cpu").cast(pl.Int32),
        "cpu",
        *(
            pl.when(pl.col(c) != (tj.NO_PRIO if "prio" in c else tj.NONE)).then(c).alias(c)
            for c in _NUMBERS
        ),
        *(pl.when(pl.col(c) != _NO_NAME).then(c).alias(c) for c in _NAMES),
        kind=pl.lit(_KINDS).gather(pl.col("code").cast(pl.UInt32)),
        waking=pl.col("code") == tp.WAKING,
        in_irq=pl.when(pl.col("in_irq") >= 0).then(pl.col("in_irq") == 1),
        value=pl.when(pl.col("code").is_in(_VALUED)).then("value"),
    )
    strings = pl.Series(names.codes()).cat.to(pl.Categorical())
    return frame.with_columns([strings.gather(frame[c]).alias(c) for c in _NAMES])


def merge(fast: pl.DataFrame, slow: pl.DataFrame) -> pl.DataFrame:
    """Return the events of both tables in order of ``line``."""
    slow = slow.with_columns(
        [pl.col(c).cast(COLUMNS[c].dtype) for c in slow.columns if c in COLUMNS]
    )
    if not fast.height:
        return slow
    return pl.concat([fast, slow], how="diagonal_relaxed").sort("line", maintain_order=True)


def _lines(text: np.ndarray) -> pl.Series:
    """Return the lines of a buffer that ends with a newline or is empty."""
    lines = text.tobytes().decode("utf-8", "replace").replace("\r\n", "\n").split("\n")
    return pl.Series(lines[:-1], dtype=pl.String)
