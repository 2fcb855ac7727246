"""Tables are read back from the native Parquet file as they were written, whatever their columns hold."""

from __future__ import annotations

import itertools
import random

import polars as pl
import pytest

from wastedcores.errors import TraceFormatError
from wastedcores.trace import parquet
from wastedcores.trace.header import Header
from wastedcores.trace.parquet import read_parquet, stream_parquet
from wastedcores.trace.schema import KINDS, SCHEMA, UNCOUNTED, conform, empty

HEADER = Header(source_format="test")
#: column -> how a random value is drawn: a few that are near each other, or any that its type allows
VALUES = {
    "nr_running": lambda r: r.randrange(4),
    "pid": lambda r: r.choice([r.randrange(-1, 300), r.randrange(1 << 22)]),
    "prev_pid": lambda r: r.randrange(-(2**31), 2**31),
    "prio": lambda r: r.randrange(-(2**15), 2**15),
    "value": lambda r: r.randrange(-(2**63), 2**63) >> r.choice([0, 1, 3, 40, 60]),
    "comm": lambda r: r.choice(["", "a", "sh", "kworker/0:1", "täsk", "x" * 15]),
    "text": lambda r: "ä" * r.randrange(4),
    "cpu_mask": lambda r: r.randbytes(r.randrange(3)),
}


def full(columns: dict[str, object]) -> pl.DataFrame:
    """Return a table of all columns, without the check of the columns that its kinds need."""
    some = pl.DataFrame(columns, schema={n: SCHEMA[n] for n in columns})
    return pl.concat([empty(), some], how="diagonal")


def written(frames: list[pl.DataFrame], path) -> pl.DataFrame:
    stream_parquet(frames, lambda: HEADER, path)
    return read_parquet(path).events.collect()


def a_table(seed: int) -> pl.DataFrame:
    """Return random times, kinds and values in columns with no, some or only nulls, sliced so that bitmaps begin anywhere."""
    r = random.Random(seed)
    rows, shift = r.choice([1, 7, 8, 9, 129, 700]), r.choice([0, 1, 2, 20, 50])
    out: dict[str, object] = {
        "ts_ns": [r.randrange(-(2**63), 2**63) >> shift for _ in range(rows)],
        "kind": [r.choice(KINDS) for _ in range(rows)],
    }
    for name, value in VALUES.items():
        nulls, few = r.choice([0.0, 0.3, 1.0]), [value(r) for _ in range(r.choice([1, 5, 1000]))]
        out[name] = [None if r.random() < nulls else r.choice(few) for _ in range(rows)]
    whole = full(out)
    return whole.slice(r.randrange(min(rows, 30)), r.choice([1, 100, 700]))


@pytest.mark.parametrize("seed", range(60))
def test_what_is_written_is_read(tmp_path, seed):
    frame = a_table(seed)
    assert written([frame], tmp_path / "t.parquet").equals(frame)
    header = read_parquet(tmp_path / "t.parquet").header
    ts = frame.filter(~pl.col("kind").is_in(UNCOUNTED))["ts_ns"]  # a range is that of the others
    assert (header.start_ns, header.end_ns) == (ts.min(), ts.max())
    counted = {str(k): n for k, n in frame["kind"].value_counts().iter_rows()}
    assert header.kinds == {k: counted[k] for k in KINDS if k in counted}


def test_tables_of_any_size_keep_their_order(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "BATCH_ROWS", 100)
    whole = full({"ts_ns": range(1234), "kind": ["mark"] * 1234})
    cuts = [0, 3, 3, 60, 61, 161, 700, 750, 1234]
    frames = [whole.slice(a, b - a) for a, b in itertools.pairwise(cuts)]
    assert written(frames, tmp_path / "t.parquet").equals(whole)


def test_no_rows(tmp_path):
    table = empty()
    assert written([table], tmp_path / "t.parquet").equals(table)


@pytest.mark.parametrize("lazy", [True, False])
def test_what_statistics_may_skip_is_found(tmp_path, lazy):
    table = full({"ts_ns": range(1000), "kind": ["mark"] * 1000})
    path = tmp_path / "t.parquet"
    written([table], path)
    frame = pl.scan_parquet(path) if lazy else pl.read_parquet(path).lazy()
    assert frame.filter(pl.col("ts_ns").is_between(5, 9)).collect().height == 5
    assert frame.filter(pl.col("ts_ns") > 5000).collect().height == 0
    assert frame.filter(pl.col("cpu").is_not_null()).collect().height == 0


def test_an_error_of_reading_is_not_called_one_of_writing(tmp_path):
    def frames():
        yield full({"ts_ns": [1], "kind": ["mark"]})
        raise OSError("the source is gone")

    with pytest.raises(OSError, match="the source is gone"):
        stream_parquet(frames(), lambda: HEADER, tmp_path / "t.parquet")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("missing", ["cpu", "pid", "prev_state"])
def test_a_kind_without_a_column_that_it_needs_is_refused(missing):
    row = {"ts_ns": 5, "kind": "switch", "cpu": 0, "pid": 1, "prev_pid": 2, "prev_state": "S"}
    assert conform(pl.DataFrame([row]), "t.txt").height == 1
    rows = [row, {"ts_ns": 6, "kind": "mark", "text": "x"}, row | {missing: None}]
    with pytest.raises(
        TraceFormatError, match=f"t.txt, row 2: a 'switch' event without '{missing}'"
    ):
        conform(pl.DataFrame(rows, infer_schema_length=None), "t.txt")
