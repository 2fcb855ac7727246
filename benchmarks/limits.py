"""What a machine can do at most in each stage of reading and keeping a recording, so that processors can be compared.

Reading is limited by copying the file from the page cache, noting its digest by SHA-256, and keeping the rows by packing the same
bytes with zstd, each by one thread and with nothing else to do.
"""

from __future__ import annotations

import hashlib
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

ROUNDS = 5


def median_s(work: Callable[[], object]) -> float:
    """Return the median of a few times."""
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


class Limits:
    """The limits for one recording, and for the Parquet file that keeps it."""

    def __init__(self, source: Path, kept: Path) -> None:
        self.bytes = source.stat().st_size
        room = bytearray(self.bytes)
        self.read_s = median_s(lambda: self._copy(source, room))
        self.hash_s = median_s(lambda: hashlib.sha256(room))
        # strings are numbers with a list of the texts in both
        table = pq.read_table(kept)
        rows = b"".join(
            bytes(buffer)
            for column in table.itercolumns()
            for chunk in column.chunks
            for buffer in (chunk.indices if pa.types.is_dictionary(chunk.type) else chunk).buffers()
            if buffer is not None
        )
        self.rows = len(rows)
        self.pack_s = median_s(lambda: zstandard.ZstdCompressor(1).compress(rows))

    @staticmethod
    def _copy(source: Path, room: bytearray) -> None:
        with source.open("rb", buffering=0) as file:
            file.readinto(room)

    def shares(self, open_s: float, kept_s: float) -> list[dict]:
        """Return rows: how near each stage is to its limit.

        * ``open_s``: seconds to read the recording.
        * ``kept_s``: seconds to read it, note its SHA-256, and keep it as Parquet.
        """
        rest_s = max(kept_s - open_s, 1e-9)
        also = (
            f"{self.bytes / 1e6:.1f} MB; SHA-256 alone {self.bytes / self.hash_s / 1e6:,.0f} MB/s"
        )
        listed = (
            ("read", "reading", self.bytes, open_s, self.read_s, "copying the file from the page cache"),
            (
                "keep", "writing the rows and noting the SHA-256, both beside the reading", self.rows, rest_s,
                max(self.pack_s, self.hash_s), "packing the same rows by zstd -1, or SHA-256 if that takes longer",
            ),
            (
                "all", "all stages", self.bytes, kept_s, max(self.read_s + self.pack_s, self.hash_s),
                "the limits of all stages, where SHA-256 has a thread of its own",
            ),
        )  # fmt: skip
        return [
            {
                "id": f"share_{key}",
                "name": f"share of the machine's limit: {name}",
                "value": 100 * limit_s / took_s,
                "unit": "%",
                "goal": ">= 33 %" if key == "read" else "-",
                "met": limit_s / took_s >= 1 / 3 if key == "read" else None,
                "peer": f"{what}, {size / limit_s / 1e6:,.0f} MB/s",
                "note": f"{size / took_s / 1e6:,.0f} MB/s; {also}",
            }
            for key, name, size, took_s, limit_s, what in listed
        ]
