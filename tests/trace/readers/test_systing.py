"""systing's tables, constructed from its schema. The figures computed by hand are those of its own tests.

The six runs are those of josefbacik/systing, src/analyze/sched_aggregate.rs @6265c978 (mod tests), which give
``work_conservation_violation_ns`` computed by hand.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from support import recorders

from wastedcores.errors import TraceContentError, TraceFormatError, WastedCoresError
from wastedcores.invariant import check
from wastedcores.trace.io import open_trace, sniff

IDLE, A, B = 0, 1, 2
SLEEPS, PREEMPTED = 1, None
THREADS = [(IDLE, 0, "swapper/0", None), (A, 101, "worker-a", None), (B, 102, "worker-b", None)]


def tables(
    slices: list[tuple],
    woken: list[tuple[int, int, int]],
    moved: list[tuple] | None = None,
    new: list[tuple] | None = None,
) -> dict[str, list[tuple]]:
    """Write tables of slices (ts, dur, cpu, thread, end state), wakeups (ts, thread, cpu) and moves (ts, thread, from, to)."""
    out = {
        "sched_slice": [(*s, 120) for s in slices],
        "thread_state": [(ts, 0, thread, 0, cpu) for ts, thread, cpu in woken],
        "thread": THREADS,
    }
    if moved is not None:
        out["sched_migrate"] = moved
    if new is not None:
        out["wakeup_new"] = new
    return out


ALONE_ON_1 = (0, 3000, 1, IDLE, PREEMPTED)
RUNS = {
    # A preempted for B on CPU 0, CPU 1 idle; without sched_migrate B's own wait is not placed by systing
    "preempted": (
        [
            (0, 1000, 0, IDLE, PREEMPTED),
            (1000, 500, 0, A, PREEMPTED),
            (1500, 500, 0, B, SLEEPS),
            (2000, 500, 0, A, SLEEPS),
            (2500, 500, 0, IDLE, PREEMPTED),
            ALONE_ON_1,
        ],
        [(500, A, 0), (1000, B, 0)],
        [],
        500 + 500,  # with sched_migrate B waits behind A from 1000 on
    ),
    "placed at wakeup": (
        [
            (0, 1500, 0, B, SLEEPS),
            (1500, 500, 0, A, SLEEPS),
            (2000, 1000, 0, IDLE, PREEMPTED),
            ALONE_ON_1,
        ],
        [(1000, A, 1)],
        [(1100, A, 1, 0)],
        400,
    ),
    "moved while it waits": (
        [
            (0, 1000, 0, IDLE, PREEMPTED),
            (1000, 500, 0, A, PREEMPTED),
            (1500, 500, 0, B, SLEEPS),
            (2000, 1000, 0, IDLE, PREEMPTED),
            (0, 2200, 1, IDLE, PREEMPTED),
            (2200, 500, 1, A, SLEEPS),
            (2700, 300, 1, IDLE, PREEMPTED),
        ],
        [(500, A, 0), (1400, B, 0)],
        [(1700, A, 0, 1)],
        300,
    ),
    "stayed where it was": (
        [
            (0, 1500, 0, B, SLEEPS),
            (1500, 500, 0, A, SLEEPS),
            (2000, 1000, 0, IDLE, PREEMPTED),
            ALONE_ON_1,
        ],
        [(1000, A, 0)],
        [],
        500,
    ),
    "one on each CPU": (
        [
            (0, 600, 0, IDLE, PREEMPTED),
            (600, 1000, 0, B, PREEMPTED),
            (1600, 2000, 0, IDLE, PREEMPTED),
            (0, 2600, 1, IDLE, PREEMPTED),
            (2600, 400, 1, B, 2),
            (3000, 600, 1, IDLE, PREEMPTED),
        ],
        [(100, B, 1)],
        [],
        0,
    ),
}


@pytest.mark.parametrize("name", RUNS)
def test_violation_is_systings(tmp_path, name):
    slices, woken, moved, expected = RUNS[name]
    folder = recorders.write_systing(tmp_path / "trace", tables(slices, woken, moved))
    result = check(open_trace(folder))
    assert result.wall_ns == expected
    assert (result.start_ns, result.end_ns) == (0, max(s[0] + s[1] for s in slices))


def test_new_task_waits_where_it_was_put(tmp_path):
    slices = [
        (0, 2000, 0, B, SLEEPS),
        (2000, 500, 0, A, SLEEPS),
        (2500, 500, 0, IDLE, PREEMPTED),
        ALONE_ON_1,
    ]
    folder = recorders.write_systing(
        tmp_path / "t", tables(slices, [], [(1500, A, 1, 0)], [(1000, 0, A, 1)])
    )
    trace = open_trace(folder)
    assert trace.kinds()["wakeup_new"] == 1
    assert check(trace).wall_ns == 500  # on idle CPU 1 until 1500, then behind B until 2000


def test_without_migrations_it_waits_where_it_ran_next(tmp_path):
    slices, woken, _, _ = RUNS["placed at wakeup"]
    trace = open_trace(recorders.write_systing(tmp_path / "t", tables(slices, woken)))
    assert (
        check(trace).wall_ns == 500
    )  # on CPU 0 from the wakeup on; systing itself leaves it out until it runs
    assert "no sched_migrate table" in trace.header.provenance["placement"]


def test_a_cpu_is_unknown_before_its_first_slice(tmp_path):
    slices = [
        (0, 1000, 0, A, PREEMPTED),
        (1000, 4000, 0, B, PREEMPTED),
        (3000, 2000, 1, IDLE, PREEMPTED),
    ]
    result = check(open_trace(recorders.write_systing(tmp_path / "t", tables(slices, [], []))))
    assert result.wall_ns == 2000
    assert result.episodes.select("start_ns", "end_ns").rows() == [(3000, 5000)]


def test_events_and_header(tmp_path):
    slices, woken, moved, _ = RUNS["moved while it waits"]
    parts = tables(slices, woken, moved) | {"process_exit": [(2700, 1, A)]}
    folder = recorders.write_systing(tmp_path / "t", parts)
    pl.DataFrame({"release": ["6.18.2"], "machine": ["x86_64"]}).write_parquet(
        folder / "sysinfo.parquet"
    )
    pl.DataFrame({"systing_version": ["1.22.0"], "schema_version": [25]}).write_parquet(
        folder / "systing_manifest.parquet"
    )
    assert sniff(folder) == sniff(folder / "sched_slice.parquet") == "systing"
    trace = open_trace(folder / "sched_slice.parquet")
    assert trace.header.kernel_release == "6.18.2"
    assert trace.header.provenance["recorded_by"] == "systing 1.22.0 (schema 25)"
    assert trace.header.clock == "boot"
    switches = (
        trace.only("switch")
        .select("ts_ns", "cpu", "prev_pid", "prev_state", "pid", "comm")
        .collect()
    )
    assert switches.rows()[:4] == [
        (0, 0, -1, "R", 0, "swapper/0"),
        (0, 1, -1, "R", 0, "swapper/0"),
        (1000, 0, 0, "R", 101, "worker-a"),
        (1500, 0, 101, "R", 102, "worker-b"),
    ]
    assert trace.only("migrate").select("pid", "src_cpu", "cpu").collect().rows() == [(101, 0, 1)]
    assert trace.only("exit").select("pid", "cpu").collect().rows() == [(101, 1)]


def test_prefixed_files_and_old_types(tmp_path):
    slices, woken, moved, expected = RUNS["placed at wakeup"]
    folder = recorders.write_systing(tmp_path / "t", tables(slices, woken, moved), prefix="abc_")
    letters = pl.col("end_state").cast(pl.String).replace({"1": "S"})
    pl.read_parquet(folder / "abc_sched_slice.parquet").with_columns(letters).write_parquet(
        folder / "abc_sched_slice.parquet"
    )
    state = pl.col("state").cast(pl.String).replace({"0": "R"})
    pl.read_parquet(folder / "abc_thread_state.parquet").with_columns(state).write_parquet(
        folder / "abc_thread_state.parquet"
    )
    assert check(open_trace(folder)).wall_ns == expected
    recorders.write_systing(folder, tables(slices, woken, moved), prefix="def_")
    assert check(open_trace(folder / "abc_sched_slice.parquet")).wall_ns == expected
    with pytest.raises(TraceFormatError, match="has 2 recordings"):
        open_trace(folder)


def test_drops_are_losses(tmp_path):
    slices, woken, moved, _ = RUNS["preempted"]
    parts = tables(slices, woken, moved) | {
        "counter_track": [(3, "Missed sched/IRQ events", "count"), (4, "other", None)],
        "counter": [(0, 3, 0.0), (1200, 3, 5.0), (1300, 4, 9.0), (1400, 3, 7.0), (1500, 3, 7.0)],
    }
    trace = open_trace(recorders.write_systing(tmp_path / "t", parts))
    assert trace.header.lost == {-1: 7}
    assert trace.only("lost").select("ts_ns", "value").collect().rows() == [(1200, 5), (1400, 2)]
    assert check(trace).verdict == "unknown"


def test_gaps_between_slices_are_noted(tmp_path):
    slices = [(0, 1000, 0, A, SLEEPS), (1500, 500, 0, B, SLEEPS), (2000, 10, 0, IDLE, PREEMPTED)]
    trace = open_trace(recorders.write_systing(tmp_path / "t", tables(slices, [], [])))
    assert trace.header.provenance["gaps"].startswith("1 slices")


def test_bad_input(tmp_path):
    def refused(path: Path, *words: str, error: type = WastedCoresError) -> None:
        with pytest.raises(error) as caught:
            open_trace(path)
        text = str(caught.value)
        assert "\n" not in text
        assert all(w in text for w in words), text

    slices, woken, moved, _ = RUNS["preempted"]
    good = tables(slices, woken, moved)

    folder = recorders.write_systing(
        tmp_path / "no_threads", {k: v for k, v in good.items() if k != "thread"}
    )
    refused(folder, "thread.parquet: the file is absent", error=TraceFormatError)
    folder = recorders.write_systing(tmp_path / "strange", good | {"thread": THREADS[:2]})
    refused(folder, "thread 2 of sched_slice.parquet has no row", error=TraceContentError)
    folder = recorders.write_systing(tmp_path / "column", good)
    pl.DataFrame({"ts": [1]}).write_parquet(folder / "sched_migrate.parquet")
    refused(folder, "sched_migrate.parquet", "no column 'utid'", error=TraceFormatError)
    folder = recorders.write_systing(tmp_path / "cut", good)
    file = folder / "sched_slice.parquet"
    file.write_bytes(file.read_bytes()[:-30])
    refused(folder, "sched_slice.parquet", "cut short", error=TraceFormatError)
    folder = recorders.write_systing(tmp_path / "nothing", good | {"sched_slice": []})
    refused(folder, "no event")
    refused(folder / "thread.parquet", "wastedcores did not write")
