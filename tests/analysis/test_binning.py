"""Compiled binning is compared with the plainest possible reference, which looks at every nanosecond."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wastedcores.analysis import states as states_module
from wastedcores.analysis.binning_jit import bin_cover, bin_owner
from wastedcores.analysis.states import States, pixel_edges

CPUS = 3


@st.composite
def changes(draw):
    n = draw(st.integers(0, 25))
    ts = sorted(draw(st.lists(st.integers(0, 60), min_size=n, max_size=n)))
    cpu = draw(st.lists(st.integers(0, CPUS - 1), min_size=n, max_size=n))
    nr = draw(st.lists(st.integers(-1, 8), min_size=n, max_size=n))
    start = draw(st.integers(0, 40))
    end = draw(st.integers(start + 1, 70))
    cols = draw(st.integers(1, 12))
    return np.array(ts, np.int64), np.array(cpu, np.int32), np.array(nr, np.int32), start, end, cols


def state_at(ts, cpu, nr, c, t):
    """Return the length of CPU ``c`` in [t, t + 1), which its last change at or before ``t`` set."""
    seen = [v for when, who, v in zip(ts, cpu, nr, strict=True) if who == c and when <= t]
    return seen[-1] if seen else -1


@given(changes())
def test_bins__agree_with_every_nanosecond(case):
    ts, cpu, nr, start, end, cols = case
    states = States.collect([(ts, cpu, nr)], CPUS, 0, 70)
    bins = states.bin(start, end, cols)
    edges = pixel_edges(start, end, cols)
    for k in range(edges.size - 1):
        span = range(edges[k], edges[k + 1])
        idle = waiting = known = 0
        for c in range(CPUS):
            values = [state_at(ts, cpu, nr, c, t) for t in span]
            sure = [v for v in values if v >= 0]
            assert bins.last[c, k] == values[-1]
            assert bins.peak[c, k] == max(sure, default=-1)
            if sure:
                assert np.isclose(bins.mean[c, k], np.mean(sure))
                times = [sum(min(v, 5) == s for v in sure) for s in range(6)]
                assert bins.longest[c, k] == int(np.argmax(times))
            else:
                assert np.isnan(bins.mean[c, k])
                assert bins.longest[c, k] == -1
            idle += sum(v == 0 for v in sure)
            waiting += sum(max(v - 1, 0) for v in sure)
            known += len(sure)
        assert np.isclose(bins.idle[k] * len(span), idle)
        assert np.isclose(bins.waiting[k] * len(span), waiting)
        assert np.isclose(bins.known[k] * len(span), known)


@given(changes())
def test_bins__zoom_holds_the_same_time_as_the_whole(case):
    ts, cpu, nr, start, end, cols = case
    states = States.collect([(ts, cpu, nr)], CPUS, 0, 70)
    whole = states.bin(start, end, 1)
    parts = states.bin(start, end, cols)
    width = np.diff(parts.edges)
    assert np.isclose((parts.idle * width).sum(), whole.idle[0] * (end - start))
    assert np.isclose((parts.waiting * width).sum(), whole.waiting[0] * (end - start))


@pytest.mark.parametrize("at_once", [states_module.AT_ONCE, 3])
@given(case=changes())
def test_wasted__is_the_smaller_number_of_every_nanosecond(at_once, case):
    """Also where a window with many changes is counted in parts."""
    ts, cpu, nr, start, end, cols = case
    states = States.collect([(ts, cpu, nr)], CPUS, 0, 70)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(states_module, "AT_ONCE", at_once)
        bins = states.bin(start, end, cols, wasted=True)
    want = []
    for first, last in pairwise(bins.edges.tolist()):
        lengths = [[state_at(ts, cpu, nr, c, t) for c in range(CPUS)] for t in range(first, last)]
        want.append(sum(min(now.count(0), sum(max(n - 1, 0) for n in now)) for now in lengths))
    assert np.allclose(bins.wasted * np.diff(bins.edges), want)
    assert states.bin(start, end, cols, cpus=[], wasted=True).wasted.tolist() == [0] * len(want)


def test_pixel_edges__cover_exactly_and_never_repeat():
    edges = pixel_edges(10**18, 10**18 + 12345, 1000)
    assert edges[0] == 10**18
    assert edges[-1] == 10**18 + 12345
    assert (np.diff(edges) > 0).all()
    assert pixel_edges(0, 5, 1000).size == 6


def test_owner__longest_stay_wins():
    # row 0: task 7 covers [0, 6) and task 8 covers [6, 10); row 1 is empty
    intervals = np.array([[0, 6], [6, 10], [7, 8], [0, 0]], np.int64)
    out = bin_owner(intervals, np.array([0, 5, 10], np.int64), 2)
    assert out.tolist() == [[0, 1], [-1, -1]]


def test_cover__counts_nanoseconds():
    out = bin_cover(np.array([1, 8]), np.array([3, 12]), np.array([0, 5, 10], np.int64))
    assert out.tolist() == [2, 2]
