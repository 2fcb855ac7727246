"""The compiled engine and the same text as plain Python agree in every event, and leave the same tasks and runqueues.

Compiled code checks neither rows nor NULL pointers, and plain Python does.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, seed, settings
from support.frozen import KINDS
from support.random_runs import difference

CALM = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


def agree(kind: str, number: int, first: int) -> None:
    @seed(first)
    @settings(max_examples=number, deadline=None, database=None, suppress_health_check=CALM)
    @given(KINDS[kind])
    def compare(case):
        assert not (text := difference(case)), text

    compare()


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_some_cases(kind):
    agree(kind, 12, 1_000_000)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", range(10))
@pytest.mark.parametrize("kind", KINDS)
def test_five_thousand_cases(kind, part):
    agree(kind, 500, 1_000_001 + part)
