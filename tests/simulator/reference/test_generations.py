"""A replay under a kernel that is modelled in part refuses what it could only guess."""

from __future__ import annotations

import pytest

from wastedcores.errors import UnknownKernelError, WorkloadError
from wastedcores.kernels import KernelModel
from wastedcores.simulator.generations import check_modelled
from wastedcores.topology.machine import Machine
from wastedcores.workload import Script, Workload

TWO = Machine.from_dict({"name": "two", "cpus": 2, "node_of_cpu": [0, 0], "distance": [[10]]})
ONE = Machine.from_dict({"name": "one", "cpus": 1, "node_of_cpu": [0], "distance": [[10]]})
WORK = Script().compute(1_000_000)


def program(**task):
    w = Workload("w")
    w.task("worker", WORK, cpu=0, **task)
    return w.program()


@pytest.mark.parametrize("name", ["v5.15", "v6.1", "v6.6", "v6.12", "v6.18"])
def test_kernels_that_are_not_modelled(name):
    with pytest.raises(UnknownKernelError, match="does not model"):
        check_modelled(KernelModel.named(name), program(), ONE)


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("6.12.94+deb13-amd64", "v6.12.107"), ("v6.1.150", "v6.1.166"), ("v5.15", "v6.1")],
)
def test_the_refusal_names_the_nearest_release(name, nearest):
    with pytest.raises(UnknownKernelError, match=rf"has been read is {nearest}\. Take"):
        check_modelled(KernelModel.named(name), program(), ONE)


def test_one_cpu_takes_everything():
    check_modelled(KernelModel.named("v6.12.107"), program(), ONE)
    check_modelled(KernelModel.named("v4.1"), program(), TWO)


def test_several_cpus_take_pinned_threads_only():
    v6_12 = KernelModel.named("v6.12.107")
    check_modelled(v6_12, program(allowed=[0]), TWO)
    with pytest.raises(WorkloadError, match="'worker' may run on 2 CPUs"):
        check_modelled(v6_12, program(), TWO)
    with pytest.raises(WorkloadError, match="'worker' may run on 2 CPUs"):
        check_modelled(v6_12, program(allowed=[0, 1]), TWO)


def test_groups_on_several_cpus_are_refused():
    w = Workload("w")
    group = w.session()
    w.task("a", WORK, cpu=0, allowed=[0], session=group)
    check_modelled(KernelModel.named("v6.12.107"), w.program(), TWO)
    w.task("b", WORK, cpu=1, allowed=[1], session=group)
    with pytest.raises(WorkloadError, match="task groups"):
        check_modelled(KernelModel.named("v6.12.107"), w.program(), TWO)


def test_hotplug_and_wide_affinities_are_refused():
    w = Workload("w")
    w.task("a", Script().affinity([0, 1]).compute(1_000), cpu=0, allowed=[0])
    with pytest.raises(WorkloadError, match="affinity of several CPUs"):
        check_modelled(KernelModel.named("v6.12.107"), w.program(), TWO)
