"""Memory for the columns of many events, and the table that is made from these columns."""

from __future__ import annotations

import threading

import numpy as np
import polars as pl

from wastedcores.trace.readers.support import names_jit as nj
from wastedcores.trace.readers.support.bytes_jit import PADDING
from wastedcores.trace.readers.support.event_columns_jit import NULLABLE, Columns
from wastedcores.trace.schema import COLUMNS, KIND_DTYPE

#: bits of prev_state (include/linux/sched.h and TASK_STATE_TO_CHAR_STR of 3.0 to 6.18). 64 means a dead task up to 4.13, and a
#: parked task later; 512 means a preempted task up to 3.8, and a parked task from 3.9 to 4.13. The bit of a preempted task is
#: higher than the bits of all letters.
_BITS = {1: "S", 2: "D", 4: "T", 8: "t", 16: "X", 32: "Z", 64: "X", 128: "I"}
_PARKED = (64, 512)
#: The name of a thread that is parked when its CPU goes offline ends with the CPU's number.
_PARKS = r"/\d+$"


def with_letters(events: pl.DataFrame, column: str) -> pl.DataFrame:
    """Write the letters for the numbers in ``column``, which a kernel wrote, into ``prev_state``, and drop that column."""
    raw = events[column]
    values = raw.drop_nulls().unique()
    number = [int(v, 0) if isinstance(v, str) else int(v) for v in values]
    letters = {
        v: next((t for bit, t in _BITS.items() if n & bit), "R+" if n else "R")
        for v, n in zip(values, number, strict=True)
    }
    state = raw.replace_strict(letters, default=None, return_dtype=pl.String)
    parked = [v for v, n in zip(values, number, strict=True) if n in _PARKED]
    name = pl.col("prev_comm").cast(pl.String)
    is_parked = pl.col(column).is_in(parked) & name.str.contains(_PARKS).fill_null(False)
    stated = pl.when(is_parked).then(pl.lit("P")).otherwise(pl.lit(state))
    known = [pl.col("prev_state")] if "prev_state" in events.columns else []
    return events.with_columns(prev_state=pl.coalesce(*known, stated)).drop(column)


class CategoryCodes:
    """polars' codes of strings in categorical columns; several threads may share one object.

    polars forgets the code of a string when no column has it any more, so the strings are kept here.
    """

    def __init__(self) -> None:
        self._of: dict[str, int] = {}
        self._kept: list[pl.Series] = []
        self._lock = threading.Lock()

    def of(self, strings: list[str]) -> np.ndarray:
        """Return the codes of ``strings``: (strings,) uint32."""
        with self._lock:
            new = [s for s in dict.fromkeys(strings) if s not in self._of]
            if new:
                series = pl.Series(new, dtype=pl.Categorical())
                self._kept.append(series)
                self._of.update(zip(new, series.to_physical().to_list(), strict=True))
            return np.array([self._of[s] for s in strings], np.uint32)


class NameTable:
    """The strings of up to 16 bytes that one thread has met, numbered in the order in which it met them.

    ``table`` is the hash table of :mod:`~wastedcores.trace.readers.support.names_jit`.
    """

    def __init__(self, categories: CategoryCodes, known: np.ndarray | None = None) -> None:
        self.table = nj.new_names()
        self._categories = categories
        self._codes = np.zeros(0, np.uint32)
        if known is not None:
            while 2 * len(known) >= self.table.shape[0]:
                self.grow()
            nj.intern_all(known, self.table)

    def halves(self) -> np.ndarray:
        """Return the first and the last 8 bytes of every name: (names, 2) uint64, a copy."""
        return self.table[: nj.names_count(self.table), 3:5].copy()

    def number(self, name: bytes) -> int:
        """Return the number of a name in this table; a new name is added."""
        padded = np.frombuffer(name.ljust(16 + PADDING, b"\0"), np.uint8)
        return int(nj.intern(padded, 0, len(name), self.table))

    def codes(self) -> np.ndarray:
        """Return polars' code of every name in this table: (names,) uint32."""
        known, count = self._codes.size, nj.names_count(self.table)
        if count > known:
            raw = self.table[known:count, 3:5].tobytes()
            new = [
                raw[at : at + 16].rstrip(b"\0").decode("utf-8", "replace")
                for at in range(0, len(raw), 16)
            ]
            self._codes = np.concatenate([self._codes, self._categories.of(new)])
        return self._codes

    def grow(self) -> None:
        """Make room for four times as many names."""
        larger = nj.new_names(4 * self.table.shape[0])
        nj.intern_all(self.halves(), larger)
        self.table = larger


_TYPES = {
    "ts_ns": "i8", "kind": "u1", "cpu": "i4", "pid": "i4", "comm": "u4", "prio": "i2", "prev_pid": "i4",
    "prev_comm": "u4", "prev_prio": "i2", "prev_state": "u4", "src_cpu": "i4", "by_pid": "i4", "by_comm": "u4",
    "value": "i8", "in_irq": "?", "low": "u1", "high": "u1", "text": "i8",
}  # fmt: skip


def columns_for(rows: int) -> Columns:
    """Return columns with room for ``rows`` events, filled with zeros.

    The columns share one block of memory: numpy asks the kernel for pages of 2 MiB if a block is large, and the page faults of
    small pages would take longer than the decoding.
    """
    room = -(-rows // 8) * 8  # so that every column is aligned
    ends = np.cumsum([np.dtype(t).itemsize * room for t in _TYPES.values()])
    parts = np.split(np.zeros(ends[-1], np.uint8), ends[:-1])
    return Columns(*(part.view(t)[:rows] for part, t in zip(parts, _TYPES.values(), strict=True)))


def table_of(columns: Columns, rows: int) -> pl.DataFrame:
    """Make a table of the first ``rows`` events; a column that is null throughout is left out."""
    kind = pl.Series(columns.kind[:rows]).cat.to(KIND_DTYPE)
    table = {"ts_ns": pl.Series(columns.ts_ns[:rows]), "kind": kind}
    for bit, name in enumerate(NULLABLE):
        flags = (columns.low if bit < 8 else columns.high)[:rows]
        present = (flags & np.uint8(1 << bit % 8)).astype(bool)
        if not present.any():
            continue
        values = pl.Series(getattr(columns, name)[:rows])
        if COLUMNS[name].dtype == pl.Categorical():
            values = values.cat.to(pl.Categorical())
        if not present.all():
            values = values.zip_with(pl.Series(present), pl.Series([None], dtype=values.dtype))
        table[name] = values
    return pl.DataFrame(table)
