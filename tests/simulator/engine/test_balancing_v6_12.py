"""Placement and balancing of v6.12: the compiled engine and the plain-Python reference agree event for event."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import HealthCheck

from wastedcores.kernels import KernelModel
from wastedcores.simulator import simulate
from wastedcores.simulator.vocabulary import KINDS
from wastedcores.topology.machine import Machine
from wastedcores.workload import Script, Workload

MS, SECOND = 1_000_000, 1_000_000_000

CALM = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


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
