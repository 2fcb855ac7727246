"""Placement and balancing of v6.12: the compiled engine and the plain-Python reference agree event for event."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, seed, settings
from support.balancing_runs import balancing_cases
from support.eevdf_runs import state_difference
from support.random_runs import difference

from wastedcores.kernels import KernelModel
from wastedcores.simulator import simulate
from wastedcores.simulator.vocabulary import KINDS
from wastedcores.topology.machine import Machine
from wastedcores.workload import Script, Workload

MS, SECOND = 1_000_000, 1_000_000_000

CALM = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


@pytest.mark.slow
@settings(
    max_examples=60, derandomize=True, deadline=None, database=None, suppress_health_check=CALM
)
@given(balancing_cases())
def test_engine_equals_reference(case):
    assert not (text := difference(case)), text


@pytest.mark.parametrize(("name", "quantum_ms"), [("", 4), ("+base_slice_ns:10000000", 12)])
def test_slices_have_the_length_that_was_set(name, quantum_ms):
    """Two threads on one of two CPUs switch at the first tick after their slice: 1.4 ms on two CPUs, or what was set."""
    w = Workload("two", random_phase=False)
    for i in range(2):
        w.task(f"t{i}", Script().compute(100 * MS), cpu=0, allowed={0})
    machine = Machine.from_dict(
        {"name": "two", "cpus": 2, "node_of_cpu": [0, 0], "distance": [[10]]}
    )
    raw = simulate(w.program(), machine, KernelModel.named("v6.12.107" + name), until_ns=SECOND)
    switches = [row[0] for row in raw.log.tolist() if KINDS[row[1]] == "switch" and row[2] == 0]
    lengths = [round((b - a) / MS) for a, b in pairwise(switches[2:-2])]
    assert len(lengths) > 10
    assert set(lengths) == {quantum_ms}


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("part", range(10))
@pytest.mark.parametrize("kernel", ["v6.12.107", "v6.1.192", "v6.18.15", "v7.2.13", "any"])
def test_engine_equals_reference__thousands(kernel, part):
    """Five thousand random cases of each release; of each fourth one, all averages of load at its end agree, too.

    Five thousand more have any of these kernels, with features switched off, the wakeup fix or other slices.
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
