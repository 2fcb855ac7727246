"""The sched_domains of every CPU, as the kernel builds them at boot and after each hotplug step.

Interface::

    doms = build_domains(machine, KernelModel.named("v4.1"))     after all of machine.hotplug
    doms = build_domains(machine, "v4.1+missing_domains")        a name is enough
    doms.of(17)                tuple of Domain, innermost first; () for an offline CPU or one without domains
    d.span, d.cpus             CPU set as an integer (topology/cpumask.py), as a list
    d.groups                   tuple of Group in ring order, sd->groups first
    doms.to_dict()             {"17": [{"level", "span", "groups": [{"span", "mask"}]}]}, the form of the oracle
    domain_events(machine, kernel)   [Domains]: at boot and after each step; ``.when`` names the step

Equal domains and groups are one object even if they belong to different CPUs, so machines of 8192 CPUs fit into memory.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from wastedcores.errors import TopologyError, UnknownKernelError
from wastedcores.kernels import KernelModel
from wastedcores.shown import Shown
from wastedcores.topology import levels as lv
from wastedcores.topology.cpumask import cpumask_of, cpus_in
from wastedcores.topology.groups import Group, GroupBuilder, Ring
from wastedcores.topology.levels import Level, reclaim_distance
from wastedcores.topology.machine import Machine
from wastedcores.topology.parameters import Parameters, degenerate, parent_degenerate, sd_init

if TYPE_CHECKING:
    from wastedcores.topology.arrays import DomainArrays


@dataclass(eq=False, frozen=True)
class Domain:
    """A ``sched_domain`` that remains after degenerate domains are removed; CPUs with equal domains share it.

    The numbers of :class:`wastedcores.topology.parameters.Parameters` are attributes too, as in the kernel's struct.
    """

    level: str
    index: int
    span: int
    flags: int
    groups: Ring
    parameters: Parameters
    weight: int
    #: how many tasks a node may have before an imbalance of two tasks between nodes counts (from v5.18)
    imb_numa_nr: int = 0
    #: the flags of ``sd->groups``; :func:`wastedcores.topology.group_flags.group_flags` returns the flags of all groups
    local_flags: int = 0

    @property
    def cpus(self) -> list[int]:
        """CPUs of the span, ascending."""
        return cpus_in(self.span)

    def has(self, flag: int) -> bool:
        """Tell whether the domain has an ``SD_*`` flag."""
        return bool(self.flags & flag)

    def __getattr__(self, name: str) -> int:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(object.__getattribute__(self, "parameters"), name)


@dataclass(eq=False, repr=False)
class Domains(Shown):
    """The domains of one rebuild."""

    #: The machine and the kernel that were modelled.
    machine: Machine
    kernel: KernelModel
    when: str  #: ``boot``, ``after cpu5 offline``, ...
    levels: list[Level]  #: The level table at that time.
    #: For each CPU number its domains, innermost first.
    by_cpu: list[tuple[Domain, ...]] = field(repr=False)

    def _facts(self) -> dict[str, str]:
        first = self.by_cpu[self.cpus[0]] if self.cpus else ()
        levels = ", ".join(f"{d.level} of {d.weight} CPUs" for d in first)
        return {
            "machine": self.machine.name,
            "kernel": self.kernel.name,
            "when": self.when,
            "domains of the first CPU": levels or "none",
        }

    @property
    def cpus(self) -> tuple[int, ...]:
        """Online CPUs."""
        return self.machine.online_cpus

    def of(self, cpu: int) -> tuple[Domain, ...]:
        """Domains of a CPU, innermost first."""
        if not 0 <= cpu < self.machine.cpus:
            raise TopologyError(
                f"machine {self.machine.name!r}: there is no CPU {cpu}; CPUs are 0-{self.machine.cpus - 1}."
            )
        return self.by_cpu[cpu]

    def sd_llc(self, cpu: int) -> Domain | None:
        """Highest domain that shares the last-level cache; wakeups stay inside it."""
        found = None
        for d in self.by_cpu[cpu]:
            if not d.flags & lv.SD_SHARE_PKG_RESOURCES:
                break
            found = d
        return found

    def sd_busy(self, cpu: int) -> Domain | None:
        """Parent of sd_llc, by which v4.x decides whether to kick the NOHZ balancer."""
        mine = self.by_cpu[cpu]
        llc = self.sd_llc(cpu)
        if llc is None:
            return None
        above = mine.index(llc) + 1
        return mine[above] if above < len(mine) else None

    def sd_numa(self, cpu: int) -> Domain | None:
        """Lowest domain across nodes."""
        return next((d for d in self.by_cpu[cpu] if d.flags & lv.SD_NUMA), None)

    @cached_property
    def prints_every_mask(self) -> bool:
        """True if the kernel prints every group's balance mask. From v4.13, it prints only NUMA masks that are not the span."""
        return not self.kernel.at_least(4, 13)

    def to_dict(self) -> dict[str, list[dict[str, Any]]]:
        """Return the domains by CPU in the form of the oracle: level, span, and groups with span and mask."""
        return {
            str(cpu): [self._domain_dict(d) for d in own] for cpu, own in enumerate(self.by_cpu)
        }

    def _domain_dict(self, d: Domain) -> dict[str, Any]:
        groups = [{"span": g.cpus, "mask": self._mask(d, g)} for g in d.groups]
        return {"level": d.level, "span": d.cpus, "groups": groups}

    def _mask(self, d: Domain, group: Group) -> list[int] | None:
        """Return the balance mask of a group, or None if the kernel does not print it."""
        if self.prints_every_mask:
            return group.mask_cpus
        if not d.flags & lv.SD_NUMA or group.mask == group.span:
            return None
        return group.mask_cpus

    def to_arrays(self) -> DomainArrays:
        """Return the domains as arrays; see :mod:`wastedcores.topology.arrays`."""
        from wastedcores.topology.arrays import to_arrays

        return to_arrays(self)


def build_domains(machine: Machine, kernel: KernelModel | str) -> Domains:
    """Build the domains of a machine after all its hotplug steps.

    Parameters
    ----------
    machine
        The machine, with its hotplug history.
    kernel
        The kernel model, or its name.

    Returns
    -------
    Domains
        The domains of every CPU.

    Raises
    ------
    UnknownKernelError
        The kernel is unknown, or a design, which has no domains.

    References
    ----------
    kernel/sched/core.c: build_sched_domains(), cpu_attach_domain(), v4.1; kernel/sched/topology.c, v6.1.
    """
    return _replay(machine, _model(kernel), last_only=True)[0]


def domain_events(machine: Machine, kernel: KernelModel | str) -> list[Domains]:
    """Build the domains at boot and after each hotplug step."""
    return _replay(machine, _model(kernel), last_only=False)


def _model(kernel: KernelModel | str) -> KernelModel:
    model = kernel if isinstance(kernel, KernelModel) else KernelModel.named(kernel)
    if model.is_design:
        raise UnknownKernelError(
            f"kernel {model.name!r} is a design: its core looks at all CPUs and has no sched_domains; give the Linux "
            "whose domains you want, such as v4.1 or v6.1."
        )
    return model


class _Topology:
    """The level table ``sched_domain_topology`` through boot and hotplug."""

    def __init__(self, machine: Machine, kernel: KernelModel) -> None:
        self.machine, self.kernel = machine, kernel
        self.up = set(machine.boot_online)
        self.without_die = machine.numa_in_package(self.up)
        self.numa_lost = False
        self._scan(self.up)

    def _scan(self, up: set[int]) -> None:
        nodes = sorted({int(self.machine.node_of_cpu[c]) for c in up})
        self.distances = lv.numa_distances(self.machine, self.kernel, nodes)

    def _alone_on_node(self, cpu: int) -> bool:
        """Tell whether no other CPU of the node is online."""
        node = self.machine.node_of_cpu
        return not any(node[c] == node[cpu] for c in self.up if c != cpu)

    def step(self, what: str, cpu: int) -> list[Level]:
        """Hotplug one CPU and return the level table that the rebuild of the domains uses."""
        rescans = self.kernel.at_least(5, 18) and self._alone_on_node(cpu)
        if what == "offline":
            # the rebuild runs before the CPU leaves the masks: at CPU_DOWN_PREPARE, and from v4.14 in sched_cpu_deactivate()
            # (kernel/sched/core.c, v6.12), which is earlier than remove_siblinginfo()
            masks = set(self.up)
            self.up.discard(cpu)
        else:
            self.up.add(cpu)
            masks = self.up
            if self.kernel.loses_numa_levels and self._sees_numa_in_package(cpu):
                self.without_die, self.numa_lost = True, True
        if rescans:
            # kernel/sched/topology.c: sched_update_numa(), v5.18. If the last CPU of a node goes offline, this function removes
            # the node from the masks across nodes
            self._scan(self.up)
        return self.levels(masks, self.up if rescans else masks)

    def _sees_numa_in_package(self, cpu: int) -> bool:
        """Tell whether the CPU that comes up sees a CPU of its package on another node.

        arch/x86/kernel/smpboot.c: set_cpu_sibling_map(), v4.1.
        """
        m = self.machine
        return any(
            m.package_of_cpu[c] == m.package_of_cpu[cpu] and m.node_of_cpu[c] != m.node_of_cpu[cpu]
            for c in self.up
        )

    def levels(self, masks: set[int], numa_masks: set[int]) -> list[Level]:
        """Return the level table. ``masks`` has the CPUs in sibling masks, ``numa_masks`` the CPUs in masks across nodes."""
        table = lv.base_levels(self.machine, self.kernel, sorted(masks), self.without_die)
        if not self.numa_lost:
            table += lv.numa_levels(self.machine, self.kernel, sorted(numa_masks), self.distances)
        return table


def _replay(machine: Machine, kernel: KernelModel, last_only: bool) -> list[Domains]:
    topology = _Topology(machine, kernel)
    out = []
    table = topology.levels(topology.up, topology.up)
    if not (last_only and machine.hotplug):
        boot = machine if not machine.hotplug else _until(machine, 0)
        out.append(_build(boot, kernel, "boot", table))
    for n, (what, cpu) in enumerate(machine.hotplug, 1):
        table = topology.step(what, cpu)
        if not last_only or n == len(machine.hotplug):
            out.append(_build(_until(machine, n), kernel, f"after cpu{cpu} {what}", table))
    return out


def _until(machine: Machine, steps: int) -> Machine:
    """Return the machine after its first ``steps`` hotplug steps."""
    return replace(machine, hotplug=machine.hotplug[:steps])


def _raw_spans(machine: Machine, levels: list[Level], cpu_map: int) -> list[list[int]]:
    """Compute the span of each CPU's domain at each level. A CPU's tree ends at the level that covers all CPUs.

    kernel/sched/core.c: build_sched_domains() and build_sched_domain(), v4.1.
    """
    spans = [[0] * machine.cpus for _ in levels]
    for cpu in cpus_in(cpu_map):
        child = 0
        for row, level in zip(spans, levels, strict=True):
            # "BUG: arch topology borken": the kernel enlarges a domain that does not contain its child
            child |= level.mask_of_cpu[cpu] & cpu_map
            row[cpu] = child
            if child == cpu_map:
                break
    return spans


def _cpu_map(machine: Machine) -> int:
    """Return the CPUs that are in domains."""
    return cpumask_of(machine.online_cpus) & ~cpumask_of(machine.isolated)


def _build(machine: Machine, kernel: KernelModel, when: str, levels: list[Level]) -> Domains:
    cpu_map = _cpu_map(machine)
    spans = _raw_spans(machine, levels, cpu_map)
    builder = GroupBuilder(levels, spans, (1 << machine.cpus) - 1, kernel.group_builder)
    rings: list[list[Ring]] = []
    for cpu in cpus_in(cpu_map):
        own = []
        for level in range(len(levels)):
            if not spans[level][cpu]:
                break
            own.append(builder.ring(level, cpu))
        rings.append(own)
    by_cpu: list[tuple[Domain, ...]] = [()] * machine.cpus
    attach = _Attacher(machine, kernel, levels, spans)
    for cpu, own in zip(cpus_in(cpu_map), rings, strict=True):
        by_cpu[cpu] = attach(cpu, own)
    return Domains(machine, kernel, when, levels, by_cpu)


class _Attacher:
    """Drops the domains that have no effect (kernel/sched/core.c: cpu_attach_domain(), v4.1)."""

    def __init__(
        self, machine: Machine, kernel: KernelModel, levels: list[Level], spans: list[list[int]]
    ) -> None:
        self.kernel, self.levels, self.spans = kernel, levels, spans
        self.one_node = machine.nodes == 1
        self.reclaim = reclaim_distance(machine, kernel)
        # sd_weight counts all CPUs of the level's mask, from v7.1 only the CPUs that are in domains (8e8e23dea43e)
        cut = kernel.at_least(7, 1)
        self.within = _cpu_map(machine) if cut else (1 << machine.cpus) - 1
        self._shared: dict[tuple[int, ...], Domain] = {}
        self._init: dict[tuple[int, int], tuple[int, Parameters]] = {}

    def _sd_init(self, level: int, weight: int) -> tuple[int, Parameters]:
        if (level, weight) not in self._init:
            self._init[level, weight] = sd_init(
                self.levels[level], weight, self.kernel, self.reclaim
            )
        return self._init[level, weight]

    def __call__(self, cpu: int, rings: list[Ring]) -> tuple[Domain, ...]:
        kept: list[list[int]] = []  # [level, flags, weight of the unrestricted mask]
        # the flags of the CPU's own group at each level whose child was removed
        local: dict[int, int] = {}
        for level, ring in enumerate(rings):
            weight = (self.levels[level].mask_of_cpu[cpu] & self.within).bit_count()
            flags = self._sd_init(level, weight)[0]
            span = self.spans[level][cpu]
            if kept:
                below = kept[-1]
                same = self.spans[below[0]][cpu] == span
                if parent_degenerate(
                    below[1], flags, span, same, len(ring), self.kernel, self.one_node
                ):
                    local[level + 1] = below[1]
                    # the spans are equal (or the parent is empty), so the flag moves to the child
                    below[1] |= flags & lv.SD_PREFER_SIBLING
                    continue
            kept.append([level, flags, weight])
        if kept and degenerate(
            kept[0][1], self.spans[kept[0][0]][cpu], len(rings[kept[0][0]]), self.kernel
        ):
            kept.pop(0)
            if kept:
                local[kept[0][0]] = 0
        allowed = self._numa_allowance(cpu, len(rings))
        out = []
        for level, flags, weight in kept:
            own = local.get(level, self._sd_init(level - 1, 0)[0] if level else 0)
            out.append(self._domain(cpu, level, flags, weight, rings[level], allowed[level], own))
        return tuple(out)

    def _numa_allowance(self, cpu: int, levels: int) -> list[int]:
        """Return ``sd->imb_numa_nr`` of every raw level of a CPU (kernel/sched/topology.c: build_sched_domains(), v6.12)."""
        if not self.kernel.at_least(5, 18):
            return [0] * levels
        weights = [self.spans[level][cpu].bit_count() for level in range(levels)]
        flags = [self._sd_init(level, 0)[0] for level in range(levels)]
        allowance, span, out = 0, 1, []
        for level, weight in enumerate(weights):
            above_llc = not flags[level] & lv.SD_SHARE_PKG_RESOURCES
            if level and above_llc and flags[level - 1] & lv.SD_SHARE_PKG_RESOURCES:
                llcs = weight // weights[level - 1]
                allowance = max(1, weight >> 3 if llcs == 1 else llcs)
                numa = (weights[i] for i in range(level + 1, levels) if flags[i] & lv.SD_NUMA)
                span = next(numa, weight)
                out.append(allowance)
            else:
                out.append(allowance * max(1, weight // span))
        return out

    def _domain(
        self, cpu: int, level: int, flags: int, weight: int, ring: Ring, allowed: int, own: int
    ) -> Domain:
        span = self.spans[level][cpu]
        # a ring belongs to one span only, so the key need not contain the span
        key = (level, flags, weight, id(ring), allowed, own)
        found = self._shared.get(key)
        if found is None:
            parameters = self._sd_init(level, weight)[1]
            found = self._shared[key] = Domain(
                self.levels[level].name, level, span, flags, ring, parameters, span.bit_count(),
                allowed, own,
            )  # fmt: skip
        return found
