"""The compiled engine and the plain-Python reference agree event for event on random machines and programs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, seed, settings
from support.random_runs import cases, difference

CALM = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


@pytest.mark.slow
@settings(
    max_examples=250, derandomize=True, deadline=None, database=None, suppress_health_check=CALM
)
@given(cases())
def test_engine_equals_reference(case):
    assert not (text := difference(case)), text


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("part", range(10))
def test_engine_equals_reference__thousands(part):
    @seed(part)
    @settings(
        max_examples=500,
        derandomize=False,
        deadline=None,
        database=None,
        suppress_health_check=CALM,
    )
    @given(cases())
    def agree(case):
        """Every second part logs the balancer's decisions, too."""
        assert not (text := difference(replace(case, decisions=part % 2 == 1))), text

    agree()
