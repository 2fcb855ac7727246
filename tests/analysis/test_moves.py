"""How often threads move is counted, by cache and node where the machine is known."""

from __future__ import annotations

import numpy as np
import pytest

import wastedcores as wc
from wastedcores.analysis.moves import moves, moves_words, rates
from wastedcores.simulator import replay_scenario
from wastedcores.topology.machine import Machine


def test_rates_by_cache_and_node():
    machine = Machine.preset("bd-paper-16")
    source, target = np.array([0, 0, 2]), np.array([1, 2, 3])
    found = rates(source, target, 500_000_000, machine)
    llc, node = machine.llc_of_cpu, machine.node_of_cpu
    assert found["per_s"] == 6
    assert found["across_caches_per_s"] == 2 * sum(
        llc[a] != llc[b] for a, b in zip(source, target, strict=True)
    )
    assert found["across_nodes_per_s"] == 2 * sum(
        node[a] != node[b] for a, b in zip(source, target, strict=True)
    )


def test_what_was_not_recorded_is_unknown():
    nothing = np.array([], dtype=np.int64)
    found = rates(nothing, nothing, 1_000, Machine.preset("bd-paper-16"))
    assert set(found.values()) == {None}
    assert moves_words(found) == "no event of a migration"
    without = rates(np.array([0]), np.array([1]), 1_000_000_000, None)
    assert (without["per_s"], without["across_nodes_per_s"]) == (1, None)


def test_a_replay_and_its_comparison_agree():
    run = replay_scenario("recorded-db", "v6.12.107", "bd-paper-16", 1, {"iterations": 20})
    row = wc.compare({"a": run}).table.to_dicts()[0]
    found = moves(run.trace, run.summary.start_ns, run.summary.end_ns, run.machine)
    assert row["moves_per_s"] == pytest.approx(found["per_s"])
    assert row["moves_per_s"] * row["makespan_s"] == pytest.approx(row["migrations"])
    assert 0 < row["moves_across_nodes_per_s"] <= row["moves_per_s"]
