"""How long cores have no worker of the database: by hand, and in the recordings that the scorecard's reason names."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from wastedcores.errors import WorkloadError
from wastedcores.files import find
from wastedcores.trace.io import open_trace
from wastedcores_studies.idle_cores import episodes, lengths, without_worker


def test_without_worker__by_hand():
    # worker 1 goes from CPU 0 to CPU 1 at 10 and returns at 40; worker 2 stays on CPU 1; CPU 2 gets worker 3 at 25
    ts, cpu, pid = np.array(
        [(0, 0, 1), (0, 1, 2), (5, 0, 1), (10, 1, 1), (20, 1, 2), (25, 2, 3), (40, 0, 1)]
    ).T
    assert without_worker(ts, cpu, pid, 3, 0, 100).tolist() == [30, 25]
    assert without_worker(ts, cpu, pid, 3, 15, 30).tolist() == [15, 10]  # cut to the window
    found = lengths(ts, cpu, pid, 3, 0, 100)
    assert (found["episodes"], found["longest_ms"]) == (2, 30e-6)
    with pytest.raises(WorkloadError, match="no CPU was without a worker"):
        lengths(ts, cpu, pid, 2, 41, 100)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "typical_ms", "longest_ms"), [("db64-buggy", 56, 151), ("db64-oow", 2.2, 7.6)]
)
def test_the_recordings_have_the_lengths_that_the_scorecard_names(name, typical_ms, longest_ms):
    trace = open_trace(find("datasets", "recordings", f"{name}-64cpu") / "trace.txt.xz")
    columns = ("ts_ns", "cpu", "pid", pl.col("prev_comm").cast(pl.String), "prev_pid")
    rows = trace.only("switch").select(*columns).collect()
    workers = rows.filter(pl.col("prev_comm").str.contains(r"^db-\d+$"))["prev_pid"].unique()
    mine = rows.filter(pl.col("pid").is_in(workers.implode()))
    ts_ns, cpu, pid = (mine[c].to_numpy() for c in ("ts_ns", "cpu", "pid"))
    # the workers are created in the first twentieth
    begin, end = int(np.quantile(ts_ns, 0.05)), int(ts_ns.max())
    found = lengths(ts_ns, cpu, pid, 64, begin, end)
    assert len(workers) == 64
    assert found["typical_ms"] == pytest.approx(typical_ms, rel=0.02)
    assert found["longest_ms"] == pytest.approx(longest_ms, rel=0.02)


def test_episodes__need_one_worker_per_cpu():
    with pytest.raises(WorkloadError, match="63 workers on 64 CPUs"):
        episodes("v4.1", "bulldozer8x8", 1, pools=[63], together=True, stages=10)
