"""The CPUs that 6.12's search for an idle CPU examined are a set of their own, which the log has in several records."""

from __future__ import annotations

import numpy as np
import pytest
from support.random_runs import Case, by_engine, difference

from wastedcores.kernels import KernelModel
from wastedcores.simulator.engine.codes import log_kind, log_op
from wastedcores.simulator.engine.world import log_column
from wastedcores.simulator.engine.world.cpuset import bits_of, cpus_of
from wastedcores.simulator.log import take_scans
from wastedcores.topology.machine import Machine
from wastedcores.workload import Script, Workload
from wastedcores.workload.program import Costs

_SEARCH = log_op.SELECT_IDLE_SIBLING


def records(cpus, words):
    head = [0, log_kind.CONSIDERED, 3, -1, -1, 1, 0, _SEARCH]
    bits = bits_of(cpus)[:words].tolist()
    bits += [0] * (-len(bits) % 6)
    parts = [[0, log_kind.CONSIDERED_PART, *bits[i : i + 6]] for i in range(0, len(bits), 6)]
    return [head, *parts]


def test_each_set_gets_one_row_behind_the_others():
    sets = [{1, 5, 250}, {0}, {1, 5, 250}]
    other = [0, log_kind.CONSIDERED, 3, 2, -1, 1, 0, log_op.FIND_BUSIEST_QUEUE]
    log = np.array([other] + [r for s in sets for r in records(s, 9)], dtype=np.int64)
    masks = np.zeros((4, 136), dtype=np.int64)
    log, masks = take_scans(log, masks)
    rows = log[:, log_column.PID].tolist()
    assert rows[0] == 2
    assert [set(cpus_of(masks[r], 288)) for r in rows[1:]] == sets
    assert len(masks) == 4 + 2
    assert (log[:, log_column.KIND] == log_kind.CONSIDERED).all()


def test_a_log_without_searches_stays_as_it_is():
    log = np.zeros((3, log_column.WIDTH), dtype=np.int64)
    masks = np.zeros((4, 136), dtype=np.int64)
    assert take_scans(log, masks) == (log, masks)


@pytest.mark.slow
def test_more_cpus_than_one_record_has_room_for():
    """200 CPUs that share one cache: a set has seven words, and a record has room for six."""
    cpus = 200
    machine = Machine.from_dict(
        {"name": "wide", "cpus": cpus, "node_of_cpu": [0] * cpus, "distance": [[10]]}
    )
    w = Workload("crowd", random_phase=False)
    nap = Script().loop().compute(100_000).sleep(300_000).end()
    for cpu in range(193, 197):
        w.task("hog", Script().compute(20_000_000), cpu=cpu, session=0, allowed=[cpu])
        w.task("nap", nap, cpu=cpu, session=0)
    kernel = KernelModel.named("v6.12.107")
    case = Case(machine, kernel, w.program(), Costs(), 1, 1_200_000, considered=True)
    rows, _, _ = by_engine(case)
    seen = [row[-1] for row in rows if row[1] == "considered" and row[5] == _SEARCH]
    assert any(max(cpus) >= 6 * 32 for cpus in seen)
    assert not (text := difference(case)), text
