"""What is recovered from a replay's trace predicts what the original does under another kernel."""

from __future__ import annotations

import numpy as np
import pytest
from support.closed_loop import KINDS, TURNS, summary, turn


@pytest.mark.slow
def test_random_workloads_of_all_kinds_are_predicted():
    outcomes = [turn(seed) for seed in range(3 * len(KINDS))]
    errors = [o.error for o in outcomes]
    assert {o.kind for o in outcomes} == {k.__name__ for k in KINDS}
    assert np.median(errors) < 0.03, summary(outcomes)


@pytest.mark.parametrize("seed", [80, 314])
def test_a_master_waits_for_all_its_workers_whoever_was_late_in_the_recording(seed):
    outcome = turn(seed)
    assert outcome.kind == "master"
    assert outcome.classes["end of workers"] > 100
    assert outcome.error < 0.05, summary([outcome])


@pytest.mark.parametrize("seed", [239, 446, 482])
def test_servers_that_rarely_wait_for_their_client_are_predicted(seed):
    """Their wakeups name no waker, but only the client ran at all of them."""
    outcome = turn(seed)
    assert outcome.kind == "server"
    assert outcome.classes.get("device", 0) < 20
    assert outcome.error < 0.15, summary([outcome])


@pytest.mark.slow
def test_five_hundred_random_workloads():
    outcomes = [turn(seed) for seed in range(TURNS)]
    errors = [o.error for o in outcomes]
    assert np.median(errors) < 0.03, summary(outcomes)
    assert np.percentile(errors, 95) < 0.15, summary(outcomes)
