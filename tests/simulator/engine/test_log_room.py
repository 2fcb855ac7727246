"""The result of a replay does not depend on how often its log had to be emptied."""

from __future__ import annotations

import numpy as np
import pytest

from wastedcores.kernels import KernelModel
from wastedcores.simulator import simulate
from wastedcores.topology.machine import Machine
from wastedcores.workload.scenarios import scenario


@pytest.mark.parametrize("kernel", ["v4.1", "core+cache_affinity+load_balance"])
def test_a_small_log_changes_nothing(kernel):
    machine = Machine.preset("bd-paper-16")
    program = scenario("recorded-gi").workload(machine, 3, {"jobs": 120, "J": 24}).program()
    whole, parts = (
        simulate(program, machine, KernelModel.named(kernel), seed=3, log_records=records)
        for records in (None, 8)
    )
    assert len(whole.log) > 200 * 8
    assert np.array_equal(whole.log, parts.log)
