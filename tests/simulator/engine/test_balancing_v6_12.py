"""Placement and balancing of v6.12: the compiled engine and the plain-Python reference agree event for event."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, seed, settings
from support.balancing_runs import balancing_cases
from support.eevdf_runs import state_difference
from support.random_runs import difference

from wastedcores.kernels import KernelModel

CALM = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


@settings(
    max_examples=60, derandomize=True, deadline=None, database=None, suppress_health_check=CALM
)
@given(balancing_cases())
def test_engine_equals_reference(case):
    assert not (text := difference(case)), text


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("part", range(10))
@pytest.mark.parametrize("kernel", ["v6.12.107", "v6.1.192", "any"])
def test_engine_equals_reference__thousands(kernel, part):
    """Five thousand random cases of each release; of each fourth one, all averages of load at its end agree, too.

    Five thousand more have any of these kernels, with features switched off or the wakeup fix.
    """
    model = None if kernel == "any" else KernelModel.named(kernel)

    @seed(part)
    @settings(
        max_examples=500,
        derandomize=False,
        deadline=None,
        database=None,
        suppress_health_check=CALM,
    )
    @given(balancing_cases(model))
    def agree(case):
        text = difference(case)
        if not text and case.seed % 4 == 0:
            text = state_difference(case)
        assert not text, text

    agree()
