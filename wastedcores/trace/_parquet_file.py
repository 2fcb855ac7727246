"""Writing a Parquet file of the trace schema, row group by row group; its columns are encoded in threads."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import Self

import polars as pl

from wastedcores import __version__
from wastedcores.trace import _thrift
from wastedcores.trace._chunks import BYTE_ARRAY, INT32, Chunk, chunk, physical
from wastedcores.trace._thrift import I8, I16, I64, Struct
from wastedcores.trace.schema import SCHEMA

#: how a Parquet file begins and ends
MAGIC = b"PAR1"
_OPTIONAL = 1
_UTF8, _INT_16 = 0, 16
#: a row group is encoded while the next one is made
_IN_FLIGHT = 1


class ParquetFile:
    """A file being written; its threads end with the ``with`` block."""

    def __init__(self, out: io.FileIO) -> None:
        self._out = out
        self._at = 0
        self._rows = 0
        self._groups: list[Struct] = []
        self._running: list[list[Future[Chunk]]] = []
        self._pool = ThreadPoolExecutor(min(8, len(os.sched_getaffinity(0))))
        self._write(MAGIC)

    def add(self, frame: pl.DataFrame) -> list[Chunk]:
        """Write a row group; what it makes of an earlier one comes back, in order of the schema, or nothing."""
        self._running.append([self._pool.submit(chunk, frame[n], t) for n, t in SCHEMA.items()])
        return self._settle() if len(self._running) > _IN_FLIGHT else []

    def rest(self) -> list[Chunk]:
        """Write the last row group; to be called until nothing comes back."""
        return self._settle() if self._running else []

    def finish(self, metadata: Mapping[str, str]) -> None:
        """Write the end of the file."""
        kept = {"ARROW:schema": _arrow_schema(), **metadata}
        footer = _thrift.struct(
            Struct(
                {
                    1: 1,
                    2: _schema(),
                    3: I64(self._rows),
                    4: self._groups,
                    5: [Struct({1: k, 2: v}) for k, v in kept.items()],
                    6: f"wastedcores {__version__}",
                    7: [Struct({1: Struct()})] * len(SCHEMA),
                }
            )
        )
        self._write(footer + len(footer).to_bytes(4, "little") + MAGIC)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def _write(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            left = left[self._out.write(left) :]
        self._at += len(data)

    def _settle(self) -> list[Chunk]:
        chunks = [future.result() for future in self._running.pop(0)]
        columns = []
        begin = self._at
        for c in chunks:
            columns.append(c.meta(self._at))
            self._write(c.data)
            c.data = b""
        rows = chunks[0].rows
        self._groups.append(
            Struct(
                {
                    1: columns,
                    2: I64(sum(c.plain_size for c in chunks)),
                    3: I64(rows),
                    5: I64(begin),
                    6: I64(self._at - begin),
                    7: I16(len(self._groups)) if len(self._groups) < 1 << 15 else None,
                }
            )
        )
        self._rows += rows
        return chunks


def _schema() -> list[Struct]:
    """SchemaElements of parquet.thrift: the root, and a leaf for each column."""
    out = [Struct({4: "root", 5: len(SCHEMA)})]
    for name, dtype in SCHEMA.items():
        kind = physical(dtype)
        leaf = Struct({1: kind, 3: _OPTIONAL, 4: name})
        if kind == BYTE_ARRAY and dtype != pl.Binary:
            leaf.update({6: _UTF8, 10: Struct({1: Struct()})})
        elif kind == INT32 and dtype == pl.Int16:
            leaf.update({6: _INT_16, 10: Struct({10: Struct({1: I8(16), 2: True})})})
        out.append(leaf)
    return out


@cache
def _arrow_schema() -> str:
    """How polars notes the types that Parquet does not have; it is asked to write a file without rows."""
    file = io.BytesIO()
    pl.DataFrame(schema=SCHEMA).write_parquet(file)
    file.seek(0)
    return pl.read_parquet_metadata(file)["ARROW:schema"]
