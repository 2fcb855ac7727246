"""Machines as options of the emulator, and those that it cannot have."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from wastedcores.errors import TopologyError
from wastedcores.guest.machines import guest_machine
from wastedcores.topology.machine import Machine
from wastedcores.topology.presets import PRESETS, grid


def smp(machine: Machine) -> str:
    words = guest_machine(machine).options()
    return words[words.index("-smp") + 1]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("guest-4", "4,sockets=1,cores=2,threads=2"),
        ("bd-paper-64", "64,sockets=4,cores=8,threads=2"),
        ("bd-paper-16", "16,sockets=4,cores=2,threads=2"),
        ("caches-2x4", "8,sockets=1,dies=2,cores=4,threads=1"),
        ("xeon-8380-snc2", "160,sockets=2,cores=40,threads=2"),
        ("ring8", "16,sockets=8,cores=2,threads=1"),
    ],
)
def test_presets(name, expected):
    assert smp(Machine.preset(name)) == expected


def test_every_preset_is_translated():
    for name in PRESETS:
        machine = Machine.preset(name)
        found = guest_machine(machine)
        count = np.prod([found.packages, found.dies, found.cores, found.threads])
        assert count == machine.cpus
        # the guest's machine is the one that was asked for, under other numbers
        old = list(found.numbers)
        assert (machine.node_of_cpu[old] == found.machine.node_of_cpu).all()
        for key in ("core_of_cpu", "llc_of_cpu", "package_of_cpu"):
            a, b = getattr(machine, key)[old], getattr(found.machine, key)
            assert len(set(zip(a.tolist(), b.tolist(), strict=True))) == len(set(a.tolist()))


def test_threads_of_a_core_are_numbered_one_after_the_other():
    machine = replace(Machine.preset("i3-7100"), boot_online=(0, 1, 2))
    found = guest_machine(machine)
    assert found.numbers == (0, 2, 1, 3)
    assert found.machine.boot_online == (0, 1, 2)
    assert "CPU 1 of the guest is CPU 2 there" in found.notes[0]
    offline = guest_machine(replace(machine, boot_online=(0, 1, 3)))
    assert offline.machine.boot_online == (0, 2, 3)  # CPU 2 of the description is CPU 1 here


def test_nodes_and_distances():
    words = guest_machine(Machine.preset("ring4")).options()
    assert "node,nodeid=1,memdev=m1,cpus=2,cpus=3" in words
    assert "dist,src=0,dst=2,val=30" in words
    assert not [w for w in words if w.startswith("dist,src=1,dst=1")]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"llc_of_cpu": np.array([0, 0, 1])}, "the last-level cache of CPU 2 has 1 CPUs, and that of CPUs 0-1 has 2"),
        ({"core_of_cpu": np.array([0, 0, 1])}, "the core of CPU 2 has 1 CPUs, and that of CPUs 0-1 has 2"),
        ({"package_of_cpu": np.array([0, 0, 1])}, "the package of CPU 2 has 1 CPUs, and that of CPUs 0-1 has 2"),
        ({"l2_of_cpu": np.array([0, 0, 0])}, "cores share an L2 cache"),
        ({"boot_online": (1, 2)}, "CPU 0 of the guest is the one that boots"),
    ],
)  # fmt: skip
def test_impossible_machines(changed, words):
    with pytest.raises(TopologyError, match=re.escape(words)):
        guest_machine(replace(grid("three", cores_per_llc=3), **changed))


def test_too_many_cpus():
    guest_machine(grid("largest", packages=64, cores_per_llc=32, threads=2))
    with pytest.raises(TopologyError, match="APIC numbers up to 8191"):
        guest_machine(grid("large", packages=128, cores_per_llc=32, threads=2))


@pytest.mark.parametrize(
    ("shape", "highest", "wide"),
    [
        ({"packages": 4, "cores_per_llc": 63}, 254, False),
        ({"packages": 4, "cores_per_llc": 64}, 255, True),
        # the number of a CPU has bits of its own for each part, so that it can be larger than the number of CPUs
        ({"packages": 17, "cores_per_llc": 9}, 264, True),
    ],
)
def test_numbers_above_254_need_wider_interrupt_controllers(shape, highest, wide):
    found = guest_machine(grid("wide", **shape))
    assert found.highest_apic_id == highest
    assert (",+x2apic" in found.options()[1]) == wide


def test_what_is_not_emulated_is_told():
    assert "frequencies" in " ".join(guest_machine(Machine.preset("i3-7100-c6")).notes)
