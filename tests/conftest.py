"""Fixtures every test folder uses."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parents[1]

# same examples everywhere; no deadline, because the machines are small and noisy
settings.register_profile(
    "repeatable", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("repeatable")


#: what these tests look at is a whole running machine, which others use too; a real defect fails every time
REAL_MACHINE = ("live", "root", "browser", "cluster")


@pytest.hookimpl(trylast=True)  # tests/live marks its own first
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave tests of many minutes out unless they are asked for; give those of a real machine two more tries."""
    for item in items:
        if any(item.get_closest_marker(m) for m in REAL_MACHINE):
            item.add_marker(pytest.mark.flaky(reruns=2))
    if os.environ.get("WASTEDCORES_SLOW") == "1":
        return
    skip = pytest.mark.skip(reason="takes many minutes; set WASTEDCORES_SLOW=1")
    for item in items:
        if item.get_closest_marker("long"):
            item.add_marker(skip)
