"""The compiled EEVDF and the plain-Python one agree event for event, and in every average of load at the end."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, seed, settings
from support.eevdf_runs import eevdf_cases, state_difference
from support.random_runs import difference

CALM = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


@pytest.mark.slow
@settings(
    max_examples=60, derandomize=True, deadline=None, database=None, suppress_health_check=CALM
)
@given(eevdf_cases())
def test_engine_equals_reference(case):
    assert not (text := difference(case) or state_difference(case)), text


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("part", range(10))
def test_engine_equals_reference__thousands(part):
    """Five thousand random programs under v6.12 in all."""

    @seed(part)
    @settings(
        max_examples=500,
        derandomize=False,
        deadline=None,
        database=None,
        suppress_health_check=CALM,
    )
    @given(eevdf_cases())
    def agree(case):
        assert not (text := difference(case) or state_difference(case)), text

    agree()
