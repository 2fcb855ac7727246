"""Slow while busy: compared with a count of every millisecond, and what is said where the trace does not tell."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from wastedcores.analysis.examined import examine
from wastedcores.analysis.slow import NEAR_LOWEST, slow_while_busy
from wastedcores.errors import MissingEventsError, UsageError
from wastedcores.figures.frequencies import frequency
from wastedcores.trace.header import Header, Window
from wastedcores.trace.schema import conform
from wastedcores.trace.trace import Trace

MS, CPUS, LONG = 1_000_000, 2, 400
SPEEDS = (1_200_000, 1_400_000, 1_501_000, 2_100_000, 3_000_000)


def run_of(rows, **header):
    columns = {
        "ts_ns": pl.Int64,
        "kind": pl.String,
        "cpu": pl.Int32,
        "nr_running": pl.Int32,
        "value": pl.Int64,
        "pid": pl.Int32,
    }
    # a trace ends with its last change of a runqueue
    rows = sorted([*rows, nr(LONG, 0, 0), nr(LONG, 1, 0)], key=lambda r: r[0])
    frame = conform(pl.DataFrame(rows, schema=columns, orient="row"), "test")
    facts = {"source_format": "test", "cpus": CPUS, "start_ns": 0, "end_ns": LONG * MS} | header
    return examine(Trace(frame.lazy(), Header(**facts)), "t")


def nr(ms, cpu, length):
    return (ms * MS, "nr_running", cpu, length, None, None)


def tick(ms, cpu, khz):
    return (ms * MS, "tick", cpu, None, khz, 7)


def change(ms, cpu, khz):
    return (ms * MS, "frequency", cpu, None, khz, None)


def random_rows(rng, kind):
    """Runqueues that change every few ms; ticks every 4 ms while a CPU is busy, or changes of frequency at any time."""
    rows, busy = [], np.zeros((CPUS, LONG), bool)
    for cpu in range(CPUS):
        length, at = int(rng.integers(0, 3)), 0
        while at < LONG:
            rows.append(nr(at, cpu, length))
            until = min(LONG, at + int(rng.integers(1, 60)))
            busy[cpu, at:until] = length > 0
            length, at = int(rng.integers(0, 3)), until
    khz = np.zeros((CPUS, LONG), int)
    for cpu in range(CPUS):
        told = 0
        for ms in range(LONG):
            if kind == "tick" and ms % 4 == 0 and ms and busy[cpu, ms - 1]:
                value = int(rng.choice(SPEEDS))
                rows.append(tick(ms, cpu, value))
                khz[cpu, ms - 4 : ms] = value
            if kind == "frequency":
                if rng.random() < 0.1:
                    told = int(rng.choice(SPEEDS))
                    rows.append(change(ms, cpu, told))
                khz[cpu, ms] = told
    return rows, busy, khz


@pytest.mark.parametrize("kind", ["tick", "frequency"])
@pytest.mark.parametrize("seed", range(3))
def test_slow__agrees_with_a_count_of_every_millisecond(kind, seed):
    rows, busy, khz = random_rows(np.random.default_rng(seed), kind)
    got = slow_while_busy(run_of(rows), persist_ns=3 * MS)
    limit = NEAR_LOWEST * khz[khz > 0].min()
    slow = busy & (khz > 0) & (khz <= limit)
    assert got.lowest_khz == khz[khz > 0].min()
    assert got.busy_ns == (busy & (khz > 0)).sum() * MS
    assert got.unknown_ns == (busy & (khz == 0)).sum() * MS
    assert got.slow_ns == slow.sum() * MS
    assert 0 < got.share < 1
    expected = []
    for cpu in range(CPUS):
        edges = np.flatnonzero(np.diff(np.r_[0, slow[cpu].astype(int), 0]))
        expected += [(cpu, a * MS, b * MS) for a, b in edges.reshape(-1, 2) if b - a >= 3]
    assert expected
    assert got.spans.sort("cpu", "start_ns").rows() == sorted(expected)
    assert got.longest_ns == max(b - a for _, a, b in expected)
    # the figure shows the same frequencies
    means = got.frequency.bin(cols=LONG).mean
    assert np.array_equal(np.nan_to_num(means[:, :]), np.where(khz > 0, khz, 0))


def test_slow__a_tick_says_nothing_about_a_long_time_before_it():
    rows = [nr(0, 0, 1), nr(0, 1, 0), *(tick(ms, 0, 1_200_000) for ms in (4, 8, 12, 300, 304))]
    got = slow_while_busy(run_of(rows))
    assert got.spans.rows() == [(0, 0, 12 * MS), (0, 296 * MS, 304 * MS)]
    assert got.unknown_ns == (LONG - 20) * MS
    assert "known for 5% of the busy time" in got.sentence


def test_slow__the_lowest_frequency_can_be_told():
    rows = [nr(0, 0, 1), nr(0, 1, 0), change(0, 0, 2_000_000)]
    assert slow_while_busy(run_of(rows)).longest_ns == LONG * MS
    fast = slow_while_busy(run_of(rows), lowest_khz=1_000_000)
    assert fast.spans.is_empty()
    assert fast.sentence.startswith("No CPU was busy for 4 ms at 1.25 GHz or less")
    with pytest.raises(UsageError, match="above 0"):
        slow_while_busy(run_of(rows), lowest_khz=0)


def test_slow__the_sentence_names_the_length_that_was_asked_for():
    rows = [nr(0, 0, 1), nr(0, 1, 0), change(0, 0, 1_200_000), change(50, 0, 3_000_000)]
    got = slow_while_busy(run_of(rows), persist_ns=100 * MS)
    assert got.sentence.startswith("No CPU was busy for 100 ms")


def test_slow__only_the_window_counts():
    rows = [nr(0, 0, 1), nr(0, 1, 0), change(0, 0, 1_200_000), change(200, 0, 3_000_000)]
    window = Window(start_ns=100 * MS, end_ns=300 * MS)
    run = replace(run_of(rows), window=window)
    got = slow_while_busy(run)
    assert got.spans.rows() == [(0, 100 * MS, 200 * MS)]
    assert (got.busy_ns, got.slow_ns, got.unknown_ns) == (200 * MS, 100 * MS, 0)
    # a value stands at the beginning and at the end of its pixel
    slow = np.asarray(frequency(run, cols=100).data[1].y)[::2]
    assert np.array_equal(slow[30:40], np.ones(10))
    assert np.isnan(slow[:20]).all()


def test_slow__without_frequencies_nothing_is_said():
    with pytest.raises(MissingEventsError, match="not known how fast"):
        slow_while_busy(run_of([nr(0, 0, 1), nr(0, 1, 0)]))
    idle = slow_while_busy(run_of([nr(0, 0, 0), nr(0, 1, 0), change(0, 0, 1_000_000)]))
    assert "it is not known whether" in idle.sentence


def test_frequency_figure__shows_frequencies_and_slow_cpus():
    rows = [nr(0, 0, 1), nr(0, 1, 0), change(0, 0, 1_200_000), change(200, 0, 3_000_000)]
    fig = frequency(run_of(rows), cols=100)
    heat, slow = fig.data
    assert np.allclose(np.asarray(heat.z)[0], [1.2] * 50 + [3.0] * 50)
    assert np.isnan(np.asarray(heat.z)[1]).all()
    assert list(slow.y) == [1.0] * 50 + [0.0] * 51
    assert "slow while busy for 50% of their busy time" in fig.layout.title.text.replace(
        "<br>", " "
    )
