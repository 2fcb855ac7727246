"""Threads of different nice values on one CPU get what they got in the recordings, from both fair classes."""

from __future__ import annotations

import pytest

from wastedcores.errors import WorkloadError
from wastedcores.simulator import replay_scenario
from wastedcores.topology.machine import Machine

ONE = Machine.from_dict({"name": "one", "cpus": 1, "node_of_cpu": [0], "distance": [[10]]})


def test_the_first_thread_gets_its_recorded_share_under_eevdf():
    """In the recording of 6.12.107 it got 0.549171 s of the 3.0015 s that the five threads ran."""
    r = replay_scenario("recorded-nice", "v6.12.107", "guest-2", 1, {"nice": "0,0,5,10,-5"})
    assert r.summary.result == pytest.approx(0.549171 / 3.0015, rel=0.01)


@pytest.mark.parametrize("nice", ["0,0,x", "0,0,20", ""])
def test_nice_values_that_do_not_exist(nice):
    with pytest.raises(WorkloadError, match="-20 to 19"):
        replay_scenario("recorded-nice", "v6.12.107", "guest-2", 1, {"nice": nice})


def test_one_cpu_is_too_few():
    with pytest.raises(WorkloadError, match="two CPUs"):
        replay_scenario("recorded-nice", "v6.12.107", ONE, 1, {})
