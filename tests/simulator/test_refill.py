"""What a thread pays when it moves behind another last-level cache: nothing by default, and otherwise once for each move."""

from __future__ import annotations

import pytest

from wastedcores.simulator import replay
from wastedcores.topology.machine import Machine
from wastedcores.workload import Script, Workload
from wastedcores.workload.program import Costs

MS = 1_000_000
MACHINE = Machine.from_dict(
    {"name": "two", "cpus": 2, "node_of_cpu": [0, 1], "distance": [[10, 20], [20, 10]]}
)


def test_a_thread_that_stays_pays_nothing():
    """A thread bound to one CPU takes as long as without the cost."""
    ends = []
    for refill_ns in (0, 5 * MS):
        w = Workload("one", random_phase=False)
        w.task("t", Script().compute(50 * MS), cpu=0, allowed={0})
        ends.append(replay(w, MACHINE, "v6.12.107", costs=Costs(refill_ns=refill_ns)).makespan_ns)
    assert ends[0] == ends[1]


@pytest.mark.parametrize("kernel", ["v4.1", "v6.12.107", "v7.2.13"])
def test_moves_between_nodes_are_paid_for(kernel):
    """A thread is bound to one node after the other, and pays once for the second one."""
    ends = []
    for refill_ns in (0, 5 * MS):
        w = Workload("moves", random_phase=False)
        w.task(
            "t",
            Script().compute(20 * MS).affinity({1}).compute(20 * MS),
            cpu=0,
            allowed={0},
        )
        ends.append(replay(w, MACHINE, kernel, costs=Costs(refill_ns=refill_ns)).makespan_ns)
    assert ends[1] - ends[0] == 5 * MS
