"""Kernels compared by their recordings: the table is made from them, and figure and sentences say what the table says."""

from __future__ import annotations

import polars as pl
import pytest
from compare_kernels import compare_kernels
from polars.testing import assert_frame_equal
from support import MODERN, RECORDINGS, ROOT

from wastedcores import figures as fg
from wastedcores import words
from wastedcores.errors import DatasetError, UsageError
from wastedcores.words.aligned import compared
from wastedcores_studies.recordings.kernels import read_kernels, two_kernels
from wastedcores_studies.recordings.recording import Recording

TABLE = read_kernels()


def test_the_table_is_what_the_recordings_give():
    """The rows of the two pinned workloads of 64 CPUs; tools/compare_kernels.py makes all."""
    names = ("gc-*-64cpu", "lu10ms-*-64cpu")
    found = [
        Recording.read(f)
        for place in (RECORDINGS, MODERN)
        for name in names
        for f in place.glob(name)
    ]
    made = compare_kernels(found)
    assert made.height == 10
    kept = TABLE.filter(pl.col("run").is_in(made["run"].to_list()))
    assert_frame_equal(made, kept, abs_tol=1e-6)


def test_every_row_is_what_the_guest_and_the_recorder_measured():
    for row in TABLE.iter_rows(named=True):
        folder = next(p / row["run"] for p in (RECORDINGS, MODERN) if (p / row["run"]).is_dir())
        recording = Recording.read(folder)
        assert recording.machine.cpus == row["cpus"]
        # the file has 6 decimals
        assert recording.result == (pytest.approx(row["result"], abs=5e-7), row["unit"])
        assert row["wasted_cpus"] == pytest.approx(
            recording.meta["sanity"]["mean_wasted_cpus"], abs=0.005, rel=0.01
        )
        assert row["longest_ms"] == pytest.approx(
            1000 * recording.meta["sanity"]["longest_episode_s"], abs=1, rel=0.01
        )


def test_the_page_has_the_table():
    assert words.kernels_markdown(TABLE) in (ROOT / "docs" / "ten-years-later.md").read_text()


def test_the_figure_has_a_mark_per_kernel_and_workload():
    of = TABLE.filter(pl.col("cpus") == 64)
    fig = fg.kernels_compared(of)
    time, waste = (t for t in fig.data if t.name == "recorded")
    assert list(time.x) == of["slowdown"].to_list()
    assert list(waste.x) == [max(v, 0.01) for v in of["wasted_cpus"]]
    labels = dict(zip(fig.layout.yaxis.tickvals, fig.layout.yaxis.ticktext, strict=True))
    assert [labels[y] for y in time.y] == of["kernel"].to_list()
    bars = next(t for t in fig.data if t.name == "replayed")
    assert len(bars.x) == 3 * of["replayed"].count()
    # every kernel was replayed, and not only the oldest
    assert of.drop_nulls("replayed")["kernel"].n_unique() == of["kernel"].n_unique()
    assert "bar: 5 to 95 % of replays of its kernel" in fig.layout.title.text
    for low, high in zip(bars.x[::3], bars.x[1::3], strict=True):
        assert 0.5 < min(low, high) <= max(low, high) < 20


def test_a_mark_at_the_left_edge_says_how_little_was_wasted():
    few = TABLE.filter(pl.col("cpus") == 64).with_columns(wasted_cpus=pl.lit(0.003))
    _, waste = (t for t in fg.kernels_compared(few).data if t.name == "recorded")
    assert set(waste.x) == {0.01}
    assert {row[4] for row in waste.customdata} == {0.003}


def test_rows_of_two_sizes_cannot_be_drawn():
    with pytest.raises(UsageError, match="one size of machine, got 2"):
        fg.kernels_compared(TABLE)


def test_the_sentences_name_what_was_lost():
    said = words.kernels_verdict(TABLE.filter(pl.col("cpus") == 64)).text.splitlines()
    assert len(said) == 5
    assert "6.12" in said[3]
    assert "4 of 6 workloads (database workers, 34 %;" in said[3]
    one = TABLE.filter((pl.col("cpus") == 16) & (pl.col("workload") == "pinned threads"))
    assert words.kernels_verdict(one).text.splitlines()[2].endswith("in none of 1 workloads.")
    with pytest.raises(UsageError, match="Choose a size of machine and workloads"):
        words.kernels_verdict(TABLE.clear())


def test_two_recordings_begin_where_the_workload_begins():
    pair = two_kernels("lu10ms-6.1-64cpu", "lu10ms-6.12-64cpu")
    assert pair.zeros == tuple(r.window.start_ns for r in pair.runs)
    assert [round(r.result.longest_ns / 1e6) for r in pair.runs] == [0, 194]
    assert "Both ran the same work on such a machine" in compared(pair).text
    other = two_kernels("lu10ms-6.1-64cpu", "gi-6.12-16cpu")
    assert 'Better or worse cannot be said: the work begins at "lu k=60' in compared(other).text
    with pytest.raises(DatasetError, match="no recording 'x'; there are db16"):
        two_kernels("x", "gi-6.12-64cpu")
