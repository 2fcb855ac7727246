"""Scheduling policies: the compiled engine and the plain-Python reference agree event for event."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, seed, settings
from support.random_runs import difference
from support.rt_runs import contended

CALM = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


@settings(
    max_examples=80, derandomize=True, deadline=None, database=None, suppress_health_check=CALM
)
@given(contended())
def test_engine_equals_reference_with_policies(case):
    assert not (text := difference(case)), text


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("part", range(4))
def test_engine_equals_reference_with_policies__thousands(part):
    @seed(part)
    @settings(
        max_examples=1000,
        derandomize=False,
        deadline=None,
        database=None,
        suppress_health_check=CALM,
    )
    @given(contended())
    def agree(case):
        assert not (text := difference(case)), text

    agree()
