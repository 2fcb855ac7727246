"""The arrays of domains have the same contents as the objects."""

from __future__ import annotations

import numpy as np
import pytest

from wastedcores.topology.domains import build_domains
from wastedcores.topology.machine import Machine
from wastedcores.topology.presets import preset


@pytest.mark.parametrize("kernel", ["v4.1", "v4.1+group_construction", "v6.1"])
@pytest.mark.parametrize(
    "machine", [preset("bulldozer8x8").offline(9), preset("ring8")], ids=["bulldozer", "ring"]
)
def test_arrays_hold_everything(machine, kernel):
    doms = build_domains(machine, kernel)
    a = doms.to_arrays()

    def cpus(s):
        return a.set_cpus[a.set_ptr[s] : a.set_ptr[s + 1]].tolist()

    sgc = {}
    for cpu in range(machine.cpus):
        rows = range(a.cpu_ptr[cpu], a.cpu_ptr[cpu + 1])
        assert len(rows) == len(doms.of(cpu))
        for row, d in zip(rows, doms.of(cpu), strict=True):
            assert a.domain_cpu[row] == cpu
            assert cpus(a.domain_span[row]) == d.cpus
            assert (a.domain_index[row], a.domain_flags[row], a.domain_weight[row]) == (
                d.index,
                d.flags,
                d.weight,
            )
            for name in d.parameters._fields:
                assert getattr(a, name)[row] == getattr(d, name)
            ring = a.ring_group[a.ring_ptr[a.domain_ring[row]] : a.ring_ptr[a.domain_ring[row] + 1]]
            assert len(ring) == len(d.groups)
            for g, group in zip(ring, d.groups, strict=True):
                assert cpus(a.group_span[g]) == group.cpus
                assert cpus(a.group_mask[g]) == sorted(set(group.mask_cpus) & set(group.cpus))
                assert a.group_balance_cpu[g] == group.balance_cpu
                assert a.group_weight[g] == group.weight
                assert sgc.setdefault(a.group_sgc[g], group.sgc) == group.sgc
        for field in ("sd_llc", "sd_busy", "sd_numa"):
            row, d = getattr(a, field)[cpu], getattr(doms, field)(cpu)
            assert (row < 0) == (d is None)
            assert row < 0 or doms.of(cpu)[row - a.cpu_ptr[cpu]] is d
    assert len(set(sgc.values())) == len(sgc)


def test_machine_without_domains():
    a = build_domains(Machine.from_dict({"cpus": 1}), "v6.1").to_arrays()
    assert a.cpu_ptr.tolist() == [0, 0]
    assert a.sd_llc.tolist() == [-1]
    assert all(isinstance(f, np.ndarray) for f in a)
