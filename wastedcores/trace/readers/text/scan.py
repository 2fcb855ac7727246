"""Between the compiled scanner and tables: blocks of text in, events and the lines it left alone out."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from wastedcores.trace.readers.support import names_jit as nj
from wastedcores.trace.readers.support import tracepoints as tp
from wastedcores.trace.readers.support.blocks import Block, split_lines
from wastedcores.trace.readers.support.facts import Facts
from wastedcores.trace.readers.text import scan_jit as tj
from wastedcores.trace.schema import COLUMNS, KIND_DTYPE

#: scanner's code -> kind
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
#: The patterns alone take a second for this much; loading or compiling the scanner takes as long
WORTHWHILE_BYTES = 12 << 20
_NO_NAME = 2**32 - 1
_VALUED = (tp.CPU_IDLE,)
_NUMPY: dict[pl.DataType, Any] = {pl.Int32(): np.int32, pl.Int16(): np.int16}
_NAMES = ("comm", "prev_comm", "prev_state", "by_comm")


class Scanned(NamedTuple):
    """A block taken apart.

    ``events`` have the schema columns they fill, ``line``, ``ctx_cpu`` and ``waking``. ``rest`` are the lines left
    alone: ``line``, ``text``, ``next_ts`` (stamp of the next event, null if none), ``before`` (line of the last event
    before, 0 if not in this block). ``counts`` are by the scanner's codes.
    """

    events: pl.DataFrame
    rest: pl.DataFrame
    counts: np.ndarray
    waking: bool


class Scanner:
    """Takes blocks apart; may be called from several threads, each of which keeps a table of names."""

    def __init__(self, *, perf: bool, waking: Callable[[], bool]) -> None:
        self.perf, self.waking = perf, waking
        self.used = False
        self._local = threading.local()

    def scan(self, block: Block) -> Scanned:
        """Take a block apart."""
        want_waking = self.waking()
        counts = np.zeros(tp.N_CODES, np.int64)
        raw, size = block.memory, block.size
        self.used |= size >= WORTHWHILE_BYTES
        if not self.used:
            rest = split_lines(block).with_columns(
                next_ts=pl.lit(None, dtype=pl.Int64), before=pl.lit(0, dtype=pl.Int64)
            )
            return Scanned(pl.DataFrame(), rest, counts, want_waking)
        names, out, slow = self._room(size, block.lines)
        rows, n_slow, n_bytes, _ = tj.scan(
            raw, size, self.perf, out, slow, names.table, counts, want_waking
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
        return Scanned(events, rest, counts, want_waking)

    def _room(self, size: int, lines: int) -> tuple[NameTable, np.ndarray, tj.Slow]:
        """Names of the thread, and its memory for what is found, used again and again."""
        own = self._local
        if not hasattr(own, "names"):
            own.names, own.size, own.lines = NameTable(), 0, 0
        if size > own.size or lines > own.lines:
            own.size, own.lines = max(size, own.size), max(lines * 9 // 8, own.lines)
            own.out, own.slow = tj.new_events(own.lines), tj.new_slow(own.size, own.lines)
        return own.names, own.out, own.slow


def count(scanned: Scanned, facts: Facts) -> None:
    """Note what was seen and not written out."""
    counts = scanned.counts
    if counts[tp.STAT_RUNTIME]:
        facts.skipped["sched_stat_runtime"] += int(counts[tp.STAT_RUNTIME])
    if not scanned.waking and counts[tp.WAKING]:
        facts.skipped["sched_waking"] += int(counts[tp.WAKING])
    facts.every_switch |= bool(counts[tp.SWITCH])


class NameTable:
    """Strings that the scanner numbered, as a categorical column to gather from."""

    def __init__(self) -> None:
        self.table = nj.new_names()
        self._series = pl.Series([], dtype=pl.Categorical())

    def series(self) -> pl.Series:
        """All names, in order of their numbers."""
        known, count = len(self._series), nj.names_count(self.table)
        if count > known:
            new = [
                (int(low) | int(high) << 64)
                .to_bytes(16, "little")
                .rstrip(b"\0")
                .decode("utf-8", "replace")
                for low, high in self.table[known:count, 3:5]
            ]
            self._series = self._series.extend(pl.Series(new, dtype=pl.Categorical()))
        return self._series


def event_frame(
    out: np.ndarray, rows: int, names: NameTable, states: pl.Series | None = None
) -> pl.DataFrame:
    """The scanner's rows as a table with the schema's types, ``line``, ``ctx_cpu`` and ``waking``.

    ``states`` are the strings of ``prev_state`` where that is not a name but the kernel's number.
    """
    if states is not None and len(states):
        number = out[tj.PREV_STATE, :rows]
        number[number != tj.NO_NAME] &= len(states) - 1
    strings = names.series()
    if not len(strings):
        strings = pl.Series([""], dtype=pl.Categorical())
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
        value=pl.when(pl.col("code").is_in(_VALUED)).then("value"),
    )
    tables = dict.fromkeys(_NAMES, strings) | ({} if states is None else {"prev_state": states})
    return frame.with_columns([tables[c].gather(frame[c]).alias(c) for c in _NAMES])


def merge(fast: pl.DataFrame, slow: pl.DataFrame) -> pl.DataFrame:
    """Both tables in order of ``line``."""
    slow = slow.with_columns(
        [pl.col(c).cast(COLUMNS[c].dtype) for c in slow.columns if c in COLUMNS]
    )
    if not fast.height:
        return slow
    return pl.concat([fast, slow], how="diagonal_relaxed").sort("line", maintain_order=True)


def _lines(text: np.ndarray) -> pl.Series:
    """Lines of a buffer that ends with a newline; none for an empty one."""
    lines = text.tobytes().decode("utf-8", "replace").replace("\r\n", "\n").split("\n")
    return pl.Series(lines[:-1], dtype=pl.String)
