"""A window that is outside of the trace is refused, whatever is drawn."""

from __future__ import annotations

import pytest

from wastedcores.cli.figure import _within
from wastedcores.errors import UsageError


@pytest.mark.parametrize(("start", "end"), [(5.0, None), (None, 0.5), (3.0, 2.0), (9.0, 10.0)])
def test_a_window_outside_of_the_trace_is_refused(start, end):
    with pytest.raises(UsageError, match=r"from 1\.000000 to 4\.000000 s"):
        _within((10**9, 4 * 10**9), start, end)


def test_a_window_that_overlaps_is_cut():
    assert _within((10**9, 4 * 10**9), 0.0, 2.0) == (10**9, 2 * 10**9)
