"""The balancer's decisions: engine and reference log the same ones, and logging them changes nothing else."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from polars.testing import assert_frame_equal
from support.random_runs import by_engine, cases

from wastedcores.simulator import replay_scenario
from wastedcores.simulator.vocabulary import BALANCE_RESULTS, IDLE_TYPES

CALM = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
RANDOM = settings(
    max_examples=40, derandomize=True, deadline=None, database=None, suppress_health_check=CALM
)


@pytest.mark.slow
@RANDOM
@given(cases())
def test_decisions_are_all_balancing_calls_and_change_nothing_else(case):
    plain, calls, error = by_engine(case)
    rows, other_calls, other_error = by_engine(replace(case, decisions=True))
    assert [row for row in rows if row[1] != "decision"] == plain
    assert (calls, error) == (other_calls, other_error)
    logged = Counter()
    for _, kind, *_, result, text in (row for row in rows if row[1] == "decision"):
        counted = "failed" if result == "hot" else result
        logged[kind, IDLE_TYPES.index(text["idle"]), BALANCE_RESULTS.index(counted)] += 1
    counts = Counter()
    for (level, idle, result), n in calls.items():
        if isinstance(level, int):
            counts["decision", idle, result] += n
    assert logged == counts


@pytest.mark.parametrize("kernel", ["v4.1", "v4.1+group_imbalance"])
def test_a_scenario_is_the_same_with_and_without_decisions(kernel):
    settings = {"jobs": 60}
    plain = replay_scenario("group-imbalance", kernel, "bd-paper-16", given=settings)
    logged = replay_scenario(
        "group-imbalance", kernel, "bd-paper-16", given=settings, decisions=True
    )
    events = logged.trace.events.collect()
    assert_frame_equal(events.remove(kind="decision"), plain.trace.events.collect())
    assert plain.summary.result == logged.summary.result
    assert plain.raw.events == logged.raw.events
    decided = events.filter(kind="decision")
    assert decided.height == plain.balance_calls["calls"].sum()
    assert decided["value"].sum() == events.filter(kind="balance")["value"].sum()
