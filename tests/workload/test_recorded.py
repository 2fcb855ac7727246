"""The recorded workloads with parameters that no recording has."""

from __future__ import annotations

import pytest

from wastedcores.errors import WorkloadError
from wastedcores.simulator import replay_scenario
from wastedcores.topology.machine import Machine
from wastedcores.workload.scenarios import scenario

SMALL = {
    "recorded-gi": {"jobs": 32, "lo_us": 2_000, "hi_us": 4_000},
    "recorded-gc": {"limit_s": 0.05},
    "recorded-ms": {"limit_s": 0.05},
    "recorded-lu": {"iterations": 5, "hogs": 1},
    "recorded-db": {"iterations": 5},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("fixes", ["", "+missing_domains"])
def test_any_cpu_can_go_and_come_back_before(name, fixes):
    # the kernel threads of its page counters are due at times that depend on the seed, even while the CPU is offline
    machine = Machine.preset("bd-paper-16")
    for cpu in range(machine.cpus):
        r = replay_scenario(
            name, "v4.1" + fixes, machine, cpu + 1, SMALL[name] | {"hotplug": str(cpu)}
        )
        assert r.summary.result > 0, cpu
        assert r.summary.start_ns > 600_000_000


def test_a_cpu_that_went_costs_a_kernel_with_the_bug_its_numa_levels():
    given = SMALL["recorded-gi"] | {"jobs": 200, "hotplug": "5"}
    nodes = [
        replay_scenario("recorded-gi", kernel, "bd-paper-16", 1, given).busy_per_node
        for kernel in ("v4.1", "v4.1+missing_domains")
    ]
    used = [sum(busy > 0.5 for busy in each) for each in nodes]
    assert used[0] <= 3 < used[1]  # two hogs, and make on one node


def test_threads_that_are_not_pinned_use_all_nodes():
    busy = replay_scenario(
        "recorded-gc", machine="bd-paper-16", given={"limit_s": 0.5, "pinned": False}
    ).busy_per_node
    assert min(busy) > 1.5


@pytest.mark.parametrize("cpu", ["16", "-1", "two", "1.5"])
def test_a_cpu_that_is_not_there_is_named(cpu):
    with pytest.raises(WorkloadError, match=f"no CPU {cpu} to take offline, only 0-15"):
        scenario("recorded-gc").workload(Machine.preset("bd-paper-16"), 1, {"hotplug": cpu})
