"""Files that were damaged or changed after they were written are refused, whatever the change is.

An adversary's trial of version c2cd001 made 379 files with one flipped bit and 27 that another program wrote anew. Files had no
seal then, and two flipped bits and most changes of the rows turned a verdict into the opposite.
"""

from __future__ import annotations

import json
import random
from collections import Counter

import polars as pl
import pyarrow.parquet as pq
import pytest
from support.builders import nr, switch, trace_of, wakeup
from support.typed import typed

from wastedcores.errors import TraceFormatError
from wastedcores.invariant import check
from wastedcores.trace.parquet import HEADER_KEY, read_parquet, write_parquet

MS = 1_000_000


def a_trace(seed: int, rows: int):
    """Runqueues of four CPUs that change at random, with a violation in the middle."""
    r = random.Random(seed)
    events = [nr(0, c, 1) for c in range(4)]
    events += [nr(k * MS, r.randrange(1, 4), r.randrange(1, 3)) for k in range(1, rows)]
    events[rows // 2] = nr((rows // 2 - 4) * MS, 0, 0)
    return trace_of(sorted(events, key=lambda e: e["ts_ns"]), cpus=4)


def a_clean_trace():
    """Four threads on three CPUs, of which none is idle for long: two take turns on CPU 0, and one sleeps now and then."""
    events = [switch(0, c, 0, "R", 10 + c) for c in range(3)]
    events.append(wakeup(1, 0, 20))
    for k in range(1, 400):
        events.append(switch(k * MS, 0, *((10, "R", 20) if k % 2 else (20, "R", 10))))
        if k % 10 == 5:
            at = k * MS + MS // 2
            events += [switch(at, 2, 12, "S", 0), wakeup(at + 1000, 2, 12)]
            events.append(switch(at + 2000, 2, 0, "R", 12))
    return trace_of(events, cpus=3)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return write_parquet(a_trace(0, 400), tmp_path_factory.mktemp("seal") / "whole.parquet")


def flipped(before: bytes):
    """Yield 379 places and files with one flipped bit there: anywhere, in the footer, in the seal, and at both ends."""
    r = random.Random(379)
    places = [r.randrange(len(before)) for _ in range(300)]
    places += [len(before) - 1 - r.randrange(60) for _ in range(30)]
    seal = before.find(b"WCSEAL01")
    places += [seal + r.randrange(40) if seal > 0 else r.randrange(40) for _ in range(40)]
    places += range(9)
    assert len(places) == 379
    for place in places:
        after = bytearray(before)
        after[place] ^= 1 << r.randrange(8)
        yield place, bytes(after)


@pytest.mark.slow
@pytest.mark.parametrize("make", [lambda: a_trace(0, 400), a_clean_trace], ids=["sizes", "tasks"])
def test_every_flipped_bit_is_noticed(make, tmp_path):
    path = write_parquet(make(), tmp_path / "t.parquet")
    for place, after in flipped(path.read_bytes()):
        path.write_bytes(after)
        done = typed("check", path)
        assert done.code == 2, f"the flip in byte {place} of {len(after)} went unnoticed"
        assert done.err.strip().count("\n") < 4, done.err


@pytest.mark.slow
@pytest.mark.parametrize(
    "make", [lambda: a_trace(0, 400), pytest.param(a_clean_trace, marks=pytest.mark.long)]
)
def test_no_flipped_bit_turns_the_verdict_of_a_file_without_a_seal(make, tmp_path):
    """Every file is refused, or its verdict is unknown or unchanged."""
    path = write_parquet(make(), tmp_path / "t.parquet")
    rewritten(path, path, lambda t, h: (t, h), sealed=False)
    unchanged = typed("check", path).code
    assert unchanged in (0, 1)
    codes = Counter()
    for place, after in flipped(path.read_bytes()):
        path.write_bytes(after)
        code = typed("check", path).code
        assert code in (unchanged, 2, 3), f"the flip in byte {place} of {len(after)}: {code}"
        codes[code] += 1
    assert codes[2] > 100


def removed(table, header):
    keep = [i for i in range(table.num_rows) if i % 10 != 5]
    return table.take(keep), header


def shuffled(table, header):
    order = list(range(table.num_rows))
    random.Random(1).shuffle(order)
    return table.take(order), header


REWRITTEN = {
    "a tenth of the rows removed": removed,
    "shuffled": shuffled,
    "reversed": lambda t, h: (t.take(list(range(t.num_rows))[::-1]), h),
    "no row": lambda t, h: (t.slice(0, 0), h),
    "half of the rows": lambda t, h: (t.slice(0, t.num_rows // 2), h),
    "false start": lambda t, h: (t, h | {"start_ns": h["start_ns"] + 300 * MS}),
    "false end": lambda t, h: (t, h | {"end_ns": h["start_ns"] + 50 * MS}),
    "false number of events": lambda t, h: (t, h | {"events": h["events"] - 1}),
    "false kinds": lambda t, h: (t, h | {"kinds": {"switch": 400}}),
}


def rewritten(path, to, change, *, sealed: bool) -> None:
    """Write a file anew as another tool would, with all of its metadata or without the entry that tells of the seal."""
    table = pq.read_table(path)
    found = pq.read_metadata(path).metadata
    entries = {k.decode(): v.decode() for k, v in found.items() if k != b"ARROW:schema"}
    table, header = change(table, json.loads(entries[HEADER_KEY]))
    entries[HEADER_KEY] = json.dumps(header)
    if not sealed:
        entries = {k: v for k, v in entries.items() if "seal" not in k}
    pq.write_table(table.replace_schema_metadata(entries), to, compression="zstd")


@pytest.mark.slow
@pytest.mark.parametrize("change", REWRITTEN.values(), ids=REWRITTEN)
@pytest.mark.parametrize("seed", range(3))
def test_a_file_that_was_written_anew_is_refused(seed, change, tmp_path):
    path = write_parquet(a_trace(seed, 200 + 100 * seed), tmp_path / "t.parquet")
    for sealed in (True, False):
        rewritten(path, tmp_path / "changed.parquet", change, sealed=sealed)
        with pytest.raises(TraceFormatError, match=r"changed\.parquet: ") as e:
            read_parquet(tmp_path / "changed.parquet")
        assert "\n" not in str(e.value)
        assert "import it again" in str(e.value)
        assert typed("check", tmp_path / "changed.parquet").code == 2


def test_a_file_without_a_seal_is_read_with_a_note(whole, tmp_path):
    old = tmp_path / "old.parquet"
    rewritten(whole, old, lambda t, h: (t, h), sealed=False)
    now, before = check(read_parquet(whole)), check(read_parquet(old))
    assert now.to_json()["episodes"] == before.to_json()["episodes"]
    assert now.verdict == before.verdict
    assert [n for n in before.notes if n not in now.notes] == [read_parquet(old).header.unproven]
    assert "without a seal" in before.notes[0]
    again = read_parquet(write_parquet(read_parquet(old), tmp_path / "again.parquet"))
    assert "without a seal" in again.header.unproven, "writing it anew proves nothing of before"


def test_a_seal_does_not_keep_others_from_reading(whole):
    assert pl.read_parquet(whole).equals(read_parquet(whole).events.collect())
    assert pq.read_table(whole).num_rows == read_parquet(whole).header.events


@pytest.mark.parametrize("cpus", [0, -1, 8193, 10**9])
def test_an_absurd_number_of_cpus_is_refused(whole, tmp_path, cpus):
    rewritten(whole, tmp_path / "t.parquet", lambda t, h: (t, h | {"cpus": cpus}), sealed=False)
    with pytest.raises(TraceFormatError, match=r"claims .* CPUs; expected 1 to 8192"):
        read_parquet(tmp_path / "t.parquet")


def test_a_file_cut_short_is_refused(whole, tmp_path):
    content = whole.read_bytes()
    for size in (4, 8, 11, 12, 60, len(content) // 2, len(content) - 9, len(content) - 1):
        (tmp_path / "t.parquet").write_bytes(content[:size])
        with pytest.raises(TraceFormatError, match="cut short"):
            read_parquet(tmp_path / "t.parquet")
