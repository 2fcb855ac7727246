"""A column of a row group as Parquet keeps it: a page of its different values, and a page of which is where.

polars writes Parquet, too, but stores numbers plainly and leaves it to zstd to make them small, at ten times the cost.
Here they are numbered, or written as differences, with as many bits as they need, before zstd sees them.
Format: https://github.com/apache/parquet-format (README.md, Encodings.md, parquet.thrift).
"""

from __future__ import annotations

import mmap
import struct
import threading
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import zstandard

from wastedcores.engine import pack_jit
from wastedcores.trace import _thrift
from wastedcores.trace._buffers import Buffers
from wastedcores.trace._thrift import I64, Struct

INT32, INT64, BYTE_ARRAY = 1, 2, 6
_PLAIN, _RLE, _DELTA, _RLE_DICTIONARY = 0, 3, 5, 8
_ZSTD = 6
#: what is left to pack is small already: level 3 takes twice as long for 2 % less
_LEVEL = 1
#: numbers from here on, and so many of them, are looked up in one step: pids (PID_MAX_LIMIT: 2**22), CPUs, kHz
_LOW, _LOOKUP = -(1 << 16), (1 << 22) + (1 << 17)
#: differences of what lies further apart could not be told from wrapped ones
_FAR = 1 << 61
#: more different values than one in so many: differences are smaller
_FEW = 4

_scratch = threading.local()


@dataclass
class Chunk:
    """A column of a row group: its bytes, and what the file's end says of it but for its place.

    Attributes
    ----------
    low, high
        The lowest and highest value; None: there is none, or it was not looked for.
    """

    name: str
    kind: int
    rows: int
    nulls: int
    data: bytes
    plain_size: int
    dictionary_size: int
    encodings: list[int]
    low: int | bytes | None
    high: int | bytes | None

    def meta(self, at: int) -> Struct:
        """ColumnChunk of parquet.thrift for a chunk that begins at byte ``at``."""
        stats = Struct({3: I64(self.nulls)})
        if self.low is not None and self.high is not None:
            stats[5], stats[6] = self._bound(self.high), self._bound(self.low)
        meta = Struct(
            {
                1: self.kind,
                2: self.encodings,
                3: [self.name],
                4: _ZSTD,
                5: I64(self.rows),
                6: I64(self.plain_size),
                7: I64(len(self.data)),
                9: I64(at + self.dictionary_size),
                11: I64(at) if self.dictionary_size else None,
                12: stats,
            }
        )
        return Struct({2: I64(0), 3: meta})

    def _bound(self, value: int | bytes) -> bytes:
        if isinstance(value, bytes):
            return value
        return value.to_bytes(4 if self.kind == INT32 else 8, "little", signed=True)


def physical(dtype: pl.DataType) -> int:
    """Parquet's type of a column."""
    if dtype == pl.Int64:
        return INT64
    return INT32 if dtype in (pl.Int32, pl.Int16) else BYTE_ARRAY


def chunk(series: pl.Series, dtype: pl.DataType) -> Chunk:
    """Encode and compress a column of the given type of the schema, or of polars' numbers of its categories."""
    out = _Writer(series, dtype)
    if series.null_count() == series.len():
        out.data_page(_PLAIN, b"")
    elif out.kind == BYTE_ARRAY:
        out.strings(series)
    else:
        out.numbers(series)
    return out.chunk


def _room(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Memory of the thread for codes and for where they come first, used again and again."""
    if not hasattr(_scratch, "lookup"):
        memory = mmap.mmap(-1, 4 * _LOOKUP)  # only what is touched becomes memory, unlike numpy's
        _scratch.lookup = np.frombuffer(memory, np.int32)
        _scratch.codes = _scratch.first = np.empty(0, np.int32)
    if _scratch.codes.size <= rows:
        _scratch.codes, _scratch.first = np.empty(rows + 1, np.int32), np.empty(rows, np.int32)
    return _scratch.codes, _scratch.first


class _Writer:
    def __init__(self, series: pl.Series, dtype: pl.DataType) -> None:
        self.kind, self.dtype = physical(dtype), dtype
        self.chunk = Chunk(
            series.name, self.kind, series.len(), series.null_count(), b"", 0, 0, [_RLE], None, None
        )
        self.buffers: Buffers | None = None

    def numbers(self, series: pl.Series) -> None:
        """Integers: few different ones are numbered, others written as differences."""
        if series.dtype == pl.Int64:
            low, high = series.min(), series.max()
            assert isinstance(low, int)
            assert isinstance(high, int)
            if low < _LOW or high >= _LOW + _LOOKUP:
                self.differences(series, low, high)
                return
        codes = self.encoded(series)
        if codes is None:
            wide = series.cast(pl.Int64)
            self.differences(wide, int(wide.min()), int(wide.max()))  # type: ignore[arg-type]
            return
        present, first = codes
        values = series.gather(first).to_numpy()
        self.chunk.low, self.chunk.high = int(values.min()), int(values.max())
        if first.size * _FEW > present.size and present.size > 64:
            self.differences(series.cast(pl.Int64), self.chunk.low, self.chunk.high)
            return
        self.dictionary_page(first.size, values.astype("<i4" if self.kind == INT32 else "<i8"))
        self.codes(present, first.size)

    def strings(self, series: pl.Series) -> None:
        """Texts, names and masks: numbered."""
        if series.dtype in (pl.String, pl.Binary):
            different = series.drop_nulls().unique(maintain_order=True).alias("value")
            by_value = different.to_frame().with_row_index("code")
            one = series.alias("value").to_frame()
            numbered = one.join(by_value, on="value", how="left", maintain_order="left")["code"]
        else:
            numbered = series.to_physical()
        if (highest := numbered.max()) is not None and highest >= _LOOKUP + _LOW:  # type: ignore[operator]
            numbered = numbered.rank("dense") - 1
        codes = self.encoded(numbered)
        assert codes is not None
        present, first = codes
        one_each = series.gather(first)
        if one_each.dtype != self.dtype:
            one_each = one_each.to_frame().select(pl.first().cat.to(self.dtype)).to_series()
        texts = one_each.to_list()
        raw = [t.encode() if isinstance(t, str) else t for t in texts]
        self.chunk.low, self.chunk.high = min(raw), max(raw)
        self.dictionary_page(len(raw), b"".join(struct.pack("<I", len(r)) + r for r in raw))
        self.codes(present, len(raw))

    def encoded(self, series: pl.Series) -> tuple[np.ndarray, np.ndarray] | None:
        """The number of each value that is there, and where each first is; None: values are too far apart."""
        b = self.buffers = Buffers(series)
        values = b.values.astype(np.int32, copy=False)
        codes, first = _room(series.len())
        lookup = _scratch.lookup
        present, distinct = pack_jit.encode(values, b.valid, b.skip, lookup, _LOW, codes, first)
        if distinct < 0:
            lookup[:] = 0
            return None
        lookup[values[first[:distinct]] - _LOW] = 0
        return codes[:present], first[:distinct].copy()

    def differences(self, series: pl.Series, low: int, high: int) -> None:
        self.chunk.low, self.chunk.high = low, high
        b = self.buffers = Buffers(series)
        values = b.values
        if b.nulls:
            values = np.empty(series.len() + 1, np.int64)
            values = values[: pack_jit.compact(b.values, b.valid, b.skip, values)]
        if max(-low, high) >= _FAR:
            self.data_page(_PLAIN, values.tobytes())
            return
        words = np.empty(pack_jit.PART, np.uint64)
        blocks = values.size // pack_jit.BLOCK + 1
        room = np.empty(40 + blocks * (8 * pack_jit.BLOCK + 16), np.uint8)
        size = pack_jit.differences(values, values.size, words, words.view(np.uint8), room)
        self.data_page(_DELTA, room[:size])

    def codes(self, codes: np.ndarray, distinct: int) -> None:
        """The data page after a dictionary."""
        width = (distinct - 1).bit_length()
        groups = (codes.size + 7) // 8
        if width == 0:  # the same value again and again
            self.data_page(_RLE_DICTIONARY, b"\0" + _thrift.number(2 * codes.size))
            return
        words = np.empty(groups * width // 8 + 4, np.uint64)
        size = pack_jit.pack(codes, codes.size, width, words)
        head = bytes([width]) + _thrift.number(2 * groups + 1)
        self.data_page(_RLE_DICTIONARY, head, words.view(np.uint8)[:size])

    def dictionary_page(self, count: int, values: Any) -> None:
        self._page(Struct({1: 2, 7: Struct({1: count, 2: _PLAIN})}), [values])
        self.chunk.dictionary_size = len(self.chunk.data)
        self.chunk.encodings.append(_PLAIN)

    def data_page(self, encoding: int, *content: Any) -> None:
        head = Struct({1: self.chunk.rows, 2: encoding, 3: _RLE, 4: _RLE})
        self._page(Struct({1: 0, 5: head}), [*self._levels(), *content])
        self.chunk.encodings.append(encoding)

    def _levels(self) -> list[Any]:
        """Which rows are there."""
        rows, nulls = self.chunk.rows, self.chunk.nulls
        if nulls in (0, rows):
            run = _thrift.number(2 * rows) + (b"\0" if nulls else b"\1")
            return [struct.pack("<I", len(run)), run]
        assert self.buffers is not None
        valid, skip, groups = self.buffers.valid, self.buffers.skip, (rows + 7) // 8
        if skip:
            after = np.append(valid[1:], np.uint8(0))
            valid = valid >> np.uint8(skip) | after << np.uint8(8 - skip)
        head = _thrift.number(2 * groups + 1)
        return [struct.pack("<I", len(head) + groups), head, valid[:groups]]

    def _page(self, header: Struct, content: list[Any]) -> None:
        if not hasattr(_scratch, "zstd"):
            _scratch.zstd = zstandard.ZstdCompressor(level=_LEVEL)
        raw = b"".join(content)
        packed = _scratch.zstd.compress(raw)
        sizes = Struct({1: header[1], 2: len(raw), 3: len(packed)})
        head = _thrift.struct(Struct({**sizes, **header}))
        self.chunk.data += head + packed
        self.chunk.plain_size += len(head) + len(raw)
