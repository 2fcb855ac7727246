"""Translates a machine into options of the emulator. If the emulator cannot have a machine, an error says why.

QEMU's x86 machines are regular: all packages have the same number of dies, all dies the same number of cores, and all cores
the same number of threads. CPUs are numbered in this order, and each die has one last-level cache. The kernel splits a cache
that spans two nodes, so a die may lie on several nodes.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

from wastedcores.cpulist import format_cpulist
from wastedcores.errors import TopologyError
from wastedcores.topology.machine import IntArray, Machine

#: the highest number that an xAPIC gives to a CPU: numbers have 8 bits, and the last number stands for a broadcast
MOST_XAPIC_ID = 254
#: the highest number of the patched emulator's x2APIC
MOST_APIC_ID = 4095
#: memory of a node in MB, for machines of 1, 2 and more nodes
_MEMORY_MB = {1: 1024, 2: 640}
_MANY_NODES_MB = 384


@dataclass(frozen=True)
class GuestMachine:
    """A machine that the emulator can have."""

    machine: Machine  #: The machine with the guest's CPU numbers.
    #: For each CPU of the guest, its number in the machine that was asked for.
    numbers: tuple[int, ...]
    #: The numbers of packages, of dies in each package, of cores in each die, and of threads in each core.
    packages: int
    dies: int
    cores: int
    threads: int

    @property
    def highest_apic_id(self) -> int:
        """The APIC number of the last CPU. It joins the numbers of package, die, core and thread, each in its fewest bits."""
        return _highest_apic_id(self.machine.cpus, self.dies, self.cores, self.threads)

    @property
    def notes(self) -> list[str]:
        """How this machine differs from the machine that was asked for."""
        m, found = self.machine, []
        if self.numbers != tuple(range(m.cpus)):
            moved = next(c for c, old in enumerate(self.numbers) if c != old)
            found.append(
                "the guest numbers the threads of a core one after the other, so its CPUs have other numbers than in the "
                f"description: CPU {moved} of the guest is CPU {self.numbers[moved]} there"
            )
        if m.has_clocks:
            found.append(
                "frequencies, shared cores and idle states are not emulated: every CPU has one speed"
            )
        if m.microarchitecture:
            found.append(
                f"the guest's processor is not known to the kernel as {m.microarchitecture}"
            )
        return found

    def options(self) -> list[str]:
        """Return the emulator's options for processors, memory and nodes."""
        m = self.machine
        each = _MEMORY_MB.get(m.nodes, _MANY_NODES_MB)
        dies = f"dies={self.dies}," if self.dies > 1 else ""
        processor = "Nehalem,-monitor"  # MWAIT is left out: with it, an idle CPU would never halt
        if self.highest_apic_id > MOST_XAPIC_ID:
            processor += ",+x2apic"
        out = [
            "-cpu", processor + (",min-level=0x20" if self.dies > 1 else ""),
            "-smp", f"{m.cpus},sockets={self.packages},{dies}cores={self.cores},threads={self.threads}",
            "-m", f"{each * m.nodes}M",
        ]  # fmt: skip
        if m.nodes == 1:
            return out
        for node in range(m.nodes):
            cpus = "".join(f",cpus={c}" for c in m.cpus_of_node(node))
            out += ["-object", f"memory-backend-ram,id=m{node},size={each}M"]
            out += ["-numa", f"node,nodeid={node},memdev=m{node}{cpus}"]
        for i, j in np.argwhere(~np.eye(m.nodes, dtype=bool)):
            out += ["-numa", f"dist,src={i},dst={j},val={m.distance[i, j]}"]
        return out


def guest_machine(asked: Machine) -> GuestMachine:
    """Translate a machine."""
    m, numbers = _renumbered(asked)
    _need_one_size(m, "core", m.core_of_cpu, "CPUs")
    _need_one_size(m, "package", m.package_of_cpu, "CPUs")
    packages = len(set(m.package_of_cpu.tolist()))
    threads = m.cpus // len(set(m.core_of_cpu.tolist()))
    cores = m.cpus // packages // threads
    where = m.package_of_cpu.astype(np.int64) * m.nodes + m.node_of_cpu
    dies = 1
    if not _same_sets(m.llc_of_cpu, where):
        _need_one_size(m, "last-level cache", m.llc_of_cpu, "CPUs")
        dies = len(set(m.llc_of_cpu[m.package_of_cpu == m.package_of_cpu[0]].tolist()))
        if cores % dies or not _same_sets(
            m.llc_of_cpu, (np.arange(m.cpus) // (cores // dies * threads)).astype(np.int32)
        ):
            raise _impossible(
                m,
                f"its last-level caches do not divide the {cores} cores of a package into equal dies",
            )
    if not _same_sets(m.l2_of_cpu, m.core_of_cpu):
        raise _impossible(
            m,
            "cores share an L2 cache (a cluster), and this emulator gives each core one of its own",
        )
    _check_numbers(m, dies, cores // dies, threads)
    return GuestMachine(m, numbers, packages, dies, cores // dies, threads)


def _impossible(m: Machine, why: str) -> TopologyError:
    return TopologyError(
        f"machine {m.name!r}: the emulator cannot have it: {why}. It can have as many dies in each package, cores in each die "
        "and threads in each core as you like, if they are equally many everywhere, with one last-level cache per die; nodes and "
        "distances are free."
    )


def _renumbered(asked: Machine) -> tuple[Machine, tuple[int, ...]]:
    """Number the CPUs by package, cache and core, as the emulator does."""
    first = {}
    for key in ("package_of_cpu", "llc_of_cpu", "core_of_cpu"):
        ids = getattr(asked, key)
        lowest = {int(i): int(np.flatnonzero(ids == i)[0]) for i in np.unique(ids)}
        first[key] = [lowest[int(i)] for i in ids]
    order = sorted(range(asked.cpus), key=lambda c: (*(first[k][c] for k in first), c))
    at: IntArray = np.array(order, dtype=np.int32)
    new = {old: number for number, old in enumerate(order)}
    packages = {p: n for n, p in enumerate(dict.fromkeys(asked.package_of_cpu[at].tolist()))}
    machine = replace(
        asked,
        node_of_cpu=asked.node_of_cpu[at],
        package_of_cpu=np.array([packages[int(p)] for p in asked.package_of_cpu[at]], np.int32),
        core_of_cpu=asked.core_of_cpu[at],
        llc_of_cpu=asked.llc_of_cpu[at],
        l2_of_cpu=asked.l2_of_cpu[at],
        boot_online=tuple(sorted(new[c] for c in asked.boot_online)),
        hotplug=tuple((what, new[c]) for what, c in asked.hotplug),
        isolated=tuple(sorted(new[c] for c in asked.isolated)),
    )
    return machine, tuple(order)


def _same_sets(a: IntArray, b: IntArray) -> bool:
    """Tell whether two numberings divide the CPUs into the same sets."""
    pairs = set(zip(a.tolist(), b.tolist(), strict=True))
    return len(pairs) == len(set(a.tolist())) == len(set(b.tolist()))


def _need_one_size(m: Machine, what: str, ids: IntArray, of: str) -> None:
    sizes = Counter(ids.tolist())
    if len(set(sizes.values())) > 1:
        small, large = min(sizes, key=sizes.__getitem__), max(sizes, key=sizes.__getitem__)
        cpus = [format_cpulist(np.flatnonzero(ids == i).tolist()) for i in (small, large)]
        raise _impossible(
            m,
            f"the {what} of CPU {cpus[0]} has {sizes[small]} {of}, and that of CPUs {cpus[1]} has {sizes[large]}",
        )


def _highest_apic_id(cpus: int, dies: int, cores: int, threads: int) -> int:
    highest = 0
    for count in (cpus // (dies * cores * threads), dies, cores, threads):
        highest = highest << (count - 1).bit_length() | (count - 1)
    return highest


def _check_numbers(m: Machine, dies: int, cores: int, threads: int) -> None:
    highest = _highest_apic_id(m.cpus, dies, cores, threads)
    if highest > MOST_APIC_ID:
        raise _impossible(
            m,
            f"its CPUs get APIC numbers up to {highest}, and the emulated interrupt controllers know 0 to {MOST_APIC_ID}",
        )
    if 0 not in m.boot_online or ("offline", 0) in m.hotplug:
        raise _impossible(
            m, "CPU 0 of the guest is the one that boots, and x86 kernels do not take it offline"
        )
