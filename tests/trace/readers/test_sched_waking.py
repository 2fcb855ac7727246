"""sched_waking events become wakeups on the CPU of the migration that follows, wherever a reader cuts the file into tables."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from wastedcores.trace.readers.support.reading import FactsBuilder
from wastedcores.trace.readers.support.sched_waking import WakingEvents

#: gaps around the time within which a migration belongs to a waking
STEP = st.sampled_from([20_000, 0, 49_000, 50_000, 50_001, 10**6])
EVENT = st.tuples(
    STEP, st.integers(0, 1), st.integers(1, 2), st.sampled_from(["waking", "migrate", "switch"])
)


def table(events: list[tuple[int, int, int, str]]) -> pl.DataFrame:
    rows, ts = [], 0
    for step, cpu, pid, kind in events:
        ts += step
        target = 5 + cpu if kind == "migrate" else cpu
        rows.append(
            (ts, "wakeup" if kind == "waking" else kind, cpu, target, pid, kind == "waking")
        )
    types = {
        "ts_ns": pl.Int64,
        "kind": pl.String,
        "ctx_cpu": pl.Int32,
        "cpu": pl.Int32,
        "pid": pl.Int32,
        "waking": pl.Boolean,
    }
    return pl.DataFrame(rows, schema=types, orient="row")


def placed(events: list[tuple[int, int, int, str]]) -> list[int]:
    """Compute the CPUs of the events by the definition: the next event of the waker's CPU, if it comes soon enough."""
    cpus, ts = [], [sum(e[0] for e in events[: i + 1]) for i in range(len(events))]
    for i, (_, cpu, pid, kind) in enumerate(events):
        after = next((k for k in range(i + 1, len(events)) if events[k][1] == cpu), None)
        cpus.append(5 + cpu if kind == "migrate" else cpu)
        if (
            kind == "waking"
            and after is not None
            and events[after][2:] == (pid, "migrate")
            and ts[after] - ts[i] <= 50_000
        ):
            cpus[-1] = 5 + cpu
    return cpus


#: a waking, its migration 20 us later, and two events that are in the same table
FOUR = [
    (0, 0, 1, "waking"),
    (20_000, 0, 1, "migrate"),
    (20_000, 1, 2, "switch"),
    (20_000, 1, 2, "switch"),
]


@pytest.mark.slow
@example(FOUR, [4])
@example(FOUR, [1])
@settings(max_examples=300)
@given(st.lists(EVENT, min_size=1, max_size=12), st.lists(st.integers(0, 12), max_size=3))
def test_tables_may_be_cut_anywhere(events, cuts):
    whole = table([*events, (10**9, 1, 9, "waking")])
    ends = [*sorted(cuts), whole.height]
    parts = [whole[a:b] for a, b in zip([0, *ends], ends, strict=False)]
    found = FactsBuilder("perf-script")
    wakings = WakingEvents(found)
    wakings.wanted = True  # else the first table without a waking leaves it open
    out = pl.concat([t for t in wakings.settled(parts) if t.height])
    assert out["cpu"].to_list()[:-1] == placed(events)
    assert out["ts_ns"].to_list() == whole["ts_ns"].to_list()
