"""Binary files with changed bytes give events that fit their columns, or a WastedCoresError of one paragraph."""

from __future__ import annotations

import random
import struct
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
from support import perf_file

from wastedcores.errors import TraceContentError, TraceFormatError, WastedCoresError
from wastedcores.trace.io import import_trace, open_trace
from wastedcores.trace.readers.perf_data import decoding
from wastedcores.trace.readers.perf_data import reader as perf_data
from wastedcores.trace.readers.support import names_jit
from wastedcores.trace.schema import check_required

EXTREMES = [
    0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 2**31 - 1, 2**31, 2**32 - 1, 2**62, 2**63 - 1, 2**63, 2**64 - 1,
]  # fmt: skip


def damaged(whole: bytes, rng: random.Random, head: int) -> bytes:
    """Change a few places; every third time the first of them is among the first ``head`` bytes."""
    data = bytearray(whole)
    for i in range(rng.choice((1, 1, 2, 5, 20))):
        at = rng.randrange(head) if i == 0 and rng.random() < 0.3 else rng.randrange(len(data))
        match rng.randrange(5):
            case 0:
                data[at] = rng.randrange(256)
            case 1:
                data[at] ^= 1 << rng.randrange(8)
            case 2:
                size = rng.choice((1, 2, 4, 8))
                value = rng.choice(EXTREMES) & (1 << 8 * size) - 1
                data[at : at + size] = value.to_bytes(size, "little")
            case 3 if rng.random() < 0.3:
                del data[at : at + rng.randrange(1, 40)]
            case _:
                other = rng.randrange(len(data))
                size = rng.randrange(1, 16)
                data[at : at + size] = data[other : other + size]
        if not data:
            break
    return bytes(data)


def survive(data: bytes, path: Path) -> bool:
    """Read the file; return whether that was possible."""
    path.write_bytes(data)
    message = ""
    try:
        trace = open_trace(path)
        events = trace.events.collect()
    except WastedCoresError as e:
        message = str(e)
    if message:
        assert "\n" not in message
        assert str(path) in message
        return False
    assert events.height == trace.header.events
    assert events["ts_ns"].is_sorted()
    assert events["cpu"].drop_nulls().is_between(0, (trace.header.cpus or 1) - 1).all()
    check_required(events, str(path))
    events.write_parquet(path.with_suffix(".parquet"))
    assert pl.read_parquet(path.with_suffix(".parquet")).equals(events)
    return True


def variants(whole: bytes, n: int, head: int, seed: int) -> Iterator[bytes]:
    rng = random.Random(seed)
    for _ in range(n):
        yield damaged(whole, rng, head)


@pytest.mark.slow
def test_damaged_perf_data(tmp_path):
    whole = perf_file.build()
    path = tmp_path / "perf.data"
    assert survive(whole, path)
    read = [survive(data, path) for data in variants(whole, 150, 500, 7)]
    assert 10 < sum(read) < 140


def _patched(old: bytes, new: bytes, at: int = 0) -> bytes:
    """Return the file with the bytes at a distance ``at`` from ``old`` replaced by ``new``."""
    whole = bytearray(perf_file.build())
    where = whole.index(old) + at
    whole[where : where + len(new)] = new
    return bytes(whole)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (_patched(b"task-1", struct.pack("<I", 40_000), 20), "priority of more than 16 bits"),
        (
            _patched(b"prev_pid;\toffset:24;\tsize:4", b"prev_pid;\toffset:24;\tsize:8"),
            "'prev_pid' of sched_switch",
        ),
        (_patched(b"char prev_comm[16];", b"char prev_comm(16);"), "prev_comm"),
    ],
)
def test_values_that_do_not_fit_are_refused(tmp_path, data, message):
    path = tmp_path / "perf.data"
    path.write_bytes(data)
    with pytest.raises((TraceFormatError, TraceContentError), match=message):
        open_trace(path)


def test_more_names_than_the_table_holds(tmp_path, monkeypatch):
    path = tmp_path / "perf.data"
    path.write_bytes(perf_file.build())
    whole = open_trace(path).events.collect()
    small = names_jit.new_names
    monkeypatch.setattr(names_jit, "new_names", lambda slots=4: small(slots))
    assert open_trace(path).events.collect().equals(whole)


def test_chunks_of_any_size_change_nothing(tmp_path, monkeypatch):
    path = tmp_path / "perf.data"
    path.write_bytes(perf_file.build(rounds=20))
    whole = open_trace(path).events.collect()
    assert whole["text"].drop_nulls().unique().sort().to_list() == ["/bin/true", "a mark"]
    for records, rows, table in ((1, 1, 1), (7, 5, 11), (64, 8, 100)):
        monkeypatch.setattr(decoding, "CHUNK_RECORDS", records)
        monkeypatch.setattr(decoding, "CHUNK_ROWS", rows)
        monkeypatch.setattr(decoding, "TABLE_ROWS", table)
        assert open_trace(path).events.collect().equals(whole)


@pytest.mark.slow
def test_memory_does_not_grow_with_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr(decoding, "CHUNK_RECORDS", 256)
    monkeypatch.setattr(decoding, "TABLE_ROWS", 256)

    def peak(rounds: int) -> tuple[int, int]:
        """Return the number of events and the peak memory of reading them."""
        path = tmp_path / f"{rounds}.data"
        path.write_bytes(perf_file.build(rounds))
        tracemalloc.start()
        try:
            with perf_data.PerfDataReading(path) as reading:
                return sum(f.height for f in reading.frames()), tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(5)  # loads the compiled code
    few, short = peak(50)
    many, long = peak(500)
    assert long - short < 15 * (many - few)  # the columns of an event alone have more than 50 bytes


def test_sha256_is_noted_where_a_file_is_written(tmp_path):
    path = tmp_path / "perf.data"
    path.write_bytes(perf_file.build())
    assert "source_sha256" not in open_trace(path).header.provenance
    written = import_trace(path, tmp_path / "out.parquet")
    assert len(written.header.provenance["source_sha256"]) == 64
