"""The longest episodes are looked at during the sweep, whatever the batches are; the events are decoded once."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from support.builders import trace_of

from wastedcores.invariant import check, details
from wastedcores.runqueues import stream
from wastedcores.runqueues.batch import Batch
from wastedcores.runqueues.events import ahead
from wastedcores.runqueues.stream import Runqueues

CPUS = 5


def random_trace(seed, quiet=()):
    """Return nr_running events of five CPUs, with equal times and repeated values among them."""
    random = np.random.default_rng(seed)
    n = 400
    ts = np.cumsum(random.integers(0, 4, n) * random.integers(1, 200, n)) + 1000
    rows = []
    for i in range(n):
        cpu = int(random.integers(0, CPUS))
        cpu = 0 if cpu in quiet and i > 10 else cpu
        rows.append(
            {
                "ts_ns": int(ts[i]),
                "kind": "nr_running",
                "cpu": cpu,
                "nr_running": int(random.choice([-1, 0, 0, 1, 1, 2, 3])),
            }
        )
    return trace_of(rows, cpus=CPUS)


def slowly(trace, result):
    """Return idle and overloaded time by episode and CPU, from the changes one after the other."""
    events = trace.events.collect().select("ts_ns", "cpu", "nr_running").rows()
    found = {}
    for k, (start, end) in enumerate(result.episodes.select("start_ns", "end_ns").iter_rows()):
        now, since = dict.fromkeys(range(CPUS), -1), dict.fromkeys(range(CPUS), 0)
        for ts, cpu, nr in [*events, *((end, c, None) for c in range(CPUS))]:
            length = min(ts, end) - max(since[cpu], start)
            if length > 0 and (now[cpu] == 0 or now[cpu] > 1):
                cell = found.setdefault((k, cpu), [0, 0])
                cell[now[cpu] > 1] += length
            now[cpu], since[cpu] = nr, max(since[cpu], min(ts, end))
            if ts > end:
                since[cpu] = end
    return found


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("most", [3, 256])
@pytest.mark.parametrize("rows", [1, 7, 50, 1 << 20])
def test_times_do_not_depend_on_batches(seed, most, rows, monkeypatch):
    monkeypatch.setattr(details, "DETAILED", most)
    whole = Runqueues.batches

    def cut(self, **options):
        for b in whole(self, **options):
            for i in range(0, b.ts_ns.size, rows):
                part = slice(i, i + rows)
                yield Batch(
                    b.ts_ns[part], b.cpu[part], b.nr[part], b.free[part], b.mask[part], b.code[part]
                )

    monkeypatch.setattr(Runqueues, "batches", cut)
    trace = random_trace(seed, quiet=(3, 4) if seed % 2 else ())
    result = check(trace, persist_ns=500)
    episodes = result.episodes.with_row_index("k").with_columns(
        length=pl.col("end_ns") - pl.col("start_ns")
    )
    assert episodes.height > 5
    chosen = set(episodes.sort("length", "start_ns", descending=[True, False]).head(most)["k"])
    expected = {key: times for key, times in slowly(trace, result).items() if key[0] in chosen}
    got = {(e, c): [idle, over] for e, c, idle, over in result.details.iter_rows()}
    assert got == expected
    totals = dict.fromkeys(chosen, 0)
    for (e, _), (_, over) in expected.items():
        totals[e] += over
    assert {e: ns for e, cause, ns in result.causes.iter_rows() if cause == "before"} == totals


def test_cpus_that_do_not_count_have_no_times():
    trace = random_trace(2)
    result = check(trace, persist_ns=500, cpus=[0, 1, 2])
    assert result.details.height
    assert set(result.details["cpu"]) <= {0, 1, 2}
    all_cpus = check(trace, persist_ns=500)
    assert set(all_cpus.details["cpu"]) == set(range(CPUS))


def test_the_events_are_decoded_once(monkeypatch):
    calls = []
    nr = stream.Runqueues._nr_batches
    monkeypatch.setattr(
        stream.Runqueues, "_nr_batches", lambda self, rows: calls.append(rows) or nr(self, rows)
    )
    trace = random_trace(1)
    big = trace.with_header(events=1 << 40)  # too many to be kept in memory
    assert check(big).episodes.height
    assert len(calls) == 1


def test_ahead_gives_the_same_parts_and_errors():
    assert list(ahead(range(5))) == [0, 1, 2, 3, 4]
    assert list(ahead([])) == []

    def failing():
        yield 1
        raise ValueError("in the thread")

    parts = ahead(failing())
    assert next(parts) == 1
    with pytest.raises(ValueError, match="in the thread"):
        next(parts)


@pytest.mark.parametrize("seed", range(4))
def test_what_is_dropped_is_never_among_the_longest(seed, monkeypatch):
    """Of many episodes of the same length, the list that is kept and the times must choose the same."""
    monkeypatch.setattr(details, "DETAILED", 4)
    trace = random_trace(seed)
    whole = check(trace, persist_ns=500)
    monkeypatch.setattr("wastedcores.invariant.sweep.KEEP", 4)
    monkeypatch.setattr("wastedcores.invariant.sweep.ROOM", 3)
    few = check(trace, persist_ns=500)
    assert few.episodes.height == 4
    assert few.episodes_dropped == whole.episodes.height - 4
    columns = ["cpu", "idle_ns", "overloaded_ns"]
    assert few.details.select(columns).equals(whole.details.select(columns))
