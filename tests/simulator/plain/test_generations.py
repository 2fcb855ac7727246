"""A replay refuses kernels that are not modelled, and what a modern kernel does that is not modelled."""

from __future__ import annotations

import pytest

from wastedcores.errors import UnknownKernelError, WorkloadError
from wastedcores.kernels import KernelModel
from wastedcores.simulator.limits import check_generation
from wastedcores.simulator.parts import check_policies
from wastedcores.workload import Script, Workload


def program(script: Script):
    w = Workload("w")
    w.task("worker", script, cpu=0)
    return w.program()


@pytest.mark.parametrize("name", ["v5.15", "v6.1", "v6.6", "v6.12", "v6.18"])
def test_kernels_that_are_not_modelled(name):
    with pytest.raises(UnknownKernelError, match="does not model"):
        check_generation(KernelModel.named(name))


@pytest.mark.parametrize(
    ("name", "nearest", "advice"),
    [
        ("6.12.94+deb13-amd64", "v6.12.107", "Take v6.12.107, the nearest release that it models."),
        ("v6.8", "v6.6", "Take v6.12.107, the nearest release that it models."),
        ("v6.18", "v6.18", "Take v6.18.15, the nearest release that it models."),
        ("v7.2", "v7.2.13", "Take v7.2.13, the nearest release that it models."),
        ("v6.1", "v6.1", "Take v6.1.192, the nearest release that it models."),
        ("v5.10", "v6.1", "The nearest release whose balancer has been read is v6.1."),
    ],
)
def test_the_refusal_names_the_nearest_release(name, nearest, advice):
    assert KernelModel.named(name).nearest == nearest
    with pytest.raises(UnknownKernelError) as e:
        check_generation(KernelModel.named(name))
    assert advice in str(e.value)


def test_the_releases_that_are_modelled():
    check_generation(KernelModel.named("6.12.107+deb13-amd64"))
    check_generation(KernelModel.named("v4.1"))
    check_generation(KernelModel.named("7.2.13+deb14-amd64"))


def test_a_change_of_policy_is_refused_under_a_modern_kernel():
    changes = program(Script().policy("fifo", 1).compute(1_000))
    check_policies(changes, KernelModel.named("v4.1"))
    with pytest.raises(WorkloadError, match=r"only with the scheduler of v4\.1"):
        check_policies(changes, KernelModel.named("v6.12.107"))
