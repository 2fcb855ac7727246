"""What a replay says does not depend on how often its log had to be emptied."""

from __future__ import annotations

import numpy as np
import pytest

from wastedcores.simulator import replay_scenario, simulate
from wastedcores.simulator.engine.world import state as s


@pytest.mark.parametrize("kernel", ["v4.1", "core+cache_affinity+load_balance"])
def test_a_small_log_changes_nothing(kernel, monkeypatch):
    given = {"jobs": 120, "J": 24}
    whole = replay_scenario("recorded-gi", kernel, "bd-paper-16", 3, given).raw.log
    prepare, drain = simulate._prepare, simulate._drain
    times = []

    def small(*args):
        m = prepare(*args)
        m[0, s.G_MARGIN] = 800
        m[0, s.G_LOG_ROOM] = 808
        return m

    def counted(m):
        times.append(1)
        return drain(m)

    monkeypatch.setattr(simulate, "_prepare", small)
    monkeypatch.setattr(simulate, "_drain", counted)
    parts = replay_scenario("recorded-gi", kernel, "bd-paper-16", 3, given).raw.log
    assert len(times) > 200
    assert np.array_equal(whole, parts)
