"""A window of a long trace: only its part of the file is read, and a CPU that is silent in it does not become idle."""

from __future__ import annotations

import polars as pl
import pyarrow.parquet as pq
import pytest
from support.builders import migrate, switch, trace_of, wakeup

import wastedcores as wc
from wastedcores.errors import UsageError
from wastedcores.trace import parquet
from wastedcores.trace.parquet import read_parquet, write_parquet
from wastedcores.trace.trace import Trace

S = 1_000_000_000
ROWS = 1000


def overloaded_beside_busy(seconds=10):
    """CPU 0 runs one task from the first second on; CPU 1 has two that take turns every 10 ms."""
    rows = [switch(0, 0, 0, "R", 9), switch(1, 1, 0, "R", 1), wakeup(2, 1, 2)]
    turns = seconds * 100
    for i in range(1, turns):
        rows.append(switch(i * S // 100, 1, 2 - i % 2, "R", 1 + i % 2))
    return trace_of(rows, cpus=2, every_switch=True)


@pytest.fixture
def long_file(tmp_path, monkeypatch):
    """Its row groups are small."""
    monkeypatch.setattr(parquet, "BATCH_ROWS", ROWS)
    turns = [switch(i * S // 100, 0, 2 - i % 2, "R", 1 + i % 2) for i in range(10_000)]
    return write_parquet(trace_of(turns, cpus=1), tmp_path / "long.parquet")


def test_a_cpu_that_runs_one_task_all_the_time_is_not_idle_in_the_window(tmp_path):
    for trace in (
        overloaded_beside_busy(),
        read_parquet(write_parquet(overloaded_beside_busy(), tmp_path / "a.parquet")),
    ):
        part = wc.open(trace, between=(5 * S, 8 * S))
        result = wc.check(part)
        assert (part.header.start_ns, part.header.end_ns) == (5 * S, 8 * S)
        assert result.verdict != "violations"
        assert not result.silent_cpus
        assert result.thread_ns == wc.check(trace, between=(5 * S, 8 * S)).thread_ns == 0
        assert part.header.events == part.events.collect().height == 301
        # without its last switch it is idle
        header = part.header.model_copy(update={"kinds": None})
        bare = Trace(part.events.filter(pl.col("cpu") == 1), header)
        assert wc.check(bare, silent="idle").thread_ns > 2 * S


def test_a_cpu_that_went_offline_before_the_window_stays_offline():
    rows = [switch(0, 0, 0, "R", 9), switch(1, 1, 0, "R", 1), wakeup(2, 1, 2)]
    rows += [{"ts_ns": S, "kind": "cpu_online", "cpu": 2, "value": 0}]
    rows += [switch(i * S // 100, 1, 2 - i % 2, "R", 1 + i % 2) for i in range(101, 900)]
    trace = trace_of(rows, cpus=3, every_switch=True)
    part = wc.open(trace, between=(5 * S, 8 * S))
    assert wc.check(part).thread_ns == wc.check(trace, between=(5 * S, 8 * S)).thread_ns == 0


def damage(path, groups):
    """Overwrite the pages of some row groups."""
    told = pq.ParquetFile(path).metadata
    with path.open("r+b") as file:
        for g in groups:
            for c in range(told.num_columns):
                column = told.row_group(g).column(c)
                begin = column.dictionary_page_offset or column.data_page_offset
                file.seek(min(begin, column.data_page_offset))
                file.write(b"\xff" * column.total_compressed_size)


def test_only_the_row_groups_of_the_window_are_read(long_file):
    groups = pq.ParquetFile(long_file).metadata.num_row_groups
    assert groups == 10
    trace = read_parquet(long_file)
    damage(long_file, [g for g in range(groups) if g != 5])
    part = wc.open(trace, between=("52", "53"))
    assert part.kinds() == {"switch": 100}
    assert part.events.collect()["ts_ns"].to_list() == [i * S // 100 for i in range(5200, 5300)]
    with pytest.raises((pl.exceptions.PolarsError, pl.exceptions.PanicException)):
        wc.open(trace, between=("52", "63"))


@pytest.mark.parametrize("between", [("200", "300"), (-2 * S, -S)])
def test_a_window_outside_of_the_trace_is_refused_and_never_clean(between):
    trace = overloaded_beside_busy()
    for ask in (wc.open, wc.check, wc.examine):
        with pytest.raises(UsageError, match=r"outside of the trace.* from 0 to 9\.99 s"):
            ask(trace, between=between)


def test_a_moment_is_a_time_in_seconds_with_a_fraction_or_as_text():
    as_text, as_number = (
        wc.open("kernel-build", between=b) for b in (("51600", "51601"), (51600.0, 51601.0))
    )
    assert as_number.header == as_text.header
    with pytest.raises(UsageError, match="not a time in seconds"):
        wc.open("kernel-build", between=(51600.0, float("nan")))


@pytest.mark.parametrize("seen", [False, True])
def test_a_thread_that_was_preempted_before_the_window_waits_in_it_unless_it_was_seen_since(seen):
    """Thread 1 is preempted on CPU 0 and, if it is seen, runs and sleeps on CPU 1 before the window."""
    rows = [
        switch(0, 0, 0, "R", 1),
        switch(0, 1, 0, "R", 0),
        wakeup(1, 0, 9),
        switch(S, 0, 1, "R", 9),
    ]
    if seen:
        rows += [migrate(2 * S, 0, 1, 1), switch(2 * S, 1, 0, "R", 1), switch(3 * S, 1, 1, "S", 0)]
    rows += [switch(t * S, 1, t % 2 * 8, "S", 8 - t % 2 * 8) for t in range(4, 10)]
    part = wc.open(trace_of(rows, cpus=2), between=(5 * S, 8 * S))
    on_0 = part.events.filter(cpu=0).select("ts_ns", "prev_pid", "prev_state", "pid").collect()
    assert on_0.rows() == [(5 * S, 9 if seen else 1, "R", 9)]
    assert (wc.check(part).waiting_ns > 0) == (not seen)
