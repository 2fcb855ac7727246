"""A linter that finds CPUs between which load can never move, by reading the domains as a graph of possible pulls.

At each of its domains a CPU pulls from the CPUs of those groups that do not contain the CPU itself (kernel/sched/fair.c:
update_sd_lb_stats() calls a group *local* if it contains ``dst_cpu``, and never takes tasks from it). Load can move from A
to B if there is a chain of such pulls whose CPUs are all allowed. Idleness, loads and averages play no role here: a movement
that this module calls impossible is impossible for every workload.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from wastedcores.cpulist import format_cpulist
from wastedcores.errors import TopologyError
from wastedcores.topology import levels as lv
from wastedcores.topology.cpumask import cpumask_first, cpumask_of, cpus_in
from wastedcores.topology.domains import Domain, Domains, build_domains

MISSING = "level missing after hotplug"
NO_DOMAIN = "no domain spans both"
EVERY_GROUP = "contained in every group of the level"


@dataclass(frozen=True)
class Blocked:
    """Load on ``source`` never reaches ``target``."""

    #: CPUs, ascending
    source: tuple[int, ...]
    target: tuple[int, ...]
    reason: str  #: ``MISSING``, ``NO_DOMAIN`` or ``EVERY_GROUP``
    level: str  #: name of the level, with the greatest distance of a NUMA level
    detail: str  #: one sentence for people
    #: True if a CPU that is not allowed could redirect a task to ``target`` (LBF_DST_PINNED). For this, that CPU must first find
    #: its own group less loaded, which never happened on a real 4.1.3 (tests/simulator/golden, gc-n2n1).
    by_third_party: bool = False


@dataclass(frozen=True)
class Designated:
    """The CPUs that may balance periodically for a group with an allowed CPU (should_we_balance())."""

    level: str  #: as in :class:`Blocked`
    #: CPUs of the group, and CPUs of its balance mask
    group: tuple[int, ...]
    mask: tuple[int, ...]
    #: CPUs of the mask that may run the pinned tasks. If there is none, only newly idle CPUs pull at this level.
    allowed: tuple[int, ...]


@dataclass
class LintResult:
    """The findings of the linter."""

    when: str  #: state of the machine, such as ``boot`` or ``after cpu5 online``
    pin: tuple[int, ...]  #: the allowed CPUs that are online
    #: pairs of CPU sets between which load never moves
    blocked: list[Blocked] = field(default_factory=list)
    designated: list[Designated] = field(default_factory=list)  #: the balancing CPUs of each group

    def to_dict(self) -> dict[str, Any]:
        """Return the findings as plain values for JSON."""

        def plain(b: Blocked) -> dict[str, Any]:
            return {
                "from": list(b.source),
                "to": list(b.target),
                "reason": b.reason,
                "level": b.level,
                "detail": b.detail,
                "by_third_party": b.by_third_party,
            }

        return {
            "when": self.when,
            "pin": list(self.pin),
            "pairs": [plain(b) for b in self.blocked],
            "designated": [
                {
                    "level": d.level,
                    "group": list(d.group),
                    "mask": list(d.mask),
                    "allowed": list(d.allowed),
                }
                for d in self.designated
            ],
        }


def level_name(d: Domain) -> str:
    """Return the name of a domain's level, such as ``MC`` or ``NUMA<=16``."""
    return f"{d.level}<={d.distance}" if d.flags & lv.SD_NUMA else d.level


def pulls(domains: Domains, cpu: int) -> int:
    """Find the CPUs from which a CPU can pull at some level: the CPUs of its non-local groups."""
    out = 0
    for d in domains.of(cpu):
        for group in d.groups:
            if not group.span >> cpu & 1:
                out |= group.span
    return out


def lint(domains: Domains, pin: list[int] | None = None) -> LintResult:
    """Find CPUs between which load can never move."""
    allowed = _allowed(domains, pin)
    everyone = cpus_in(allowed)
    direct = {cpu: pulls(domains, cpu) & allowed for cpu in everyone}
    helped = _third_party(domains, allowed, direct)
    booted = None
    result = LintResult(domains.when, tuple(everyone))
    for target, out in _unreached(direct, allowed).items():
        if booted is None:
            booted = build_domains(domains.machine.rebooted(), domains.kernel)
        for source, third in _split(out, helped, target):
            result.blocked.append(_explain(domains, booted, source, target, third))
    result.blocked.sort(key=lambda b: (b.by_third_party, b.target))
    result.designated = _designated(domains, allowed)
    return result


def _allowed(domains: Domains, pin: list[int] | None) -> int:
    """Return the set of CPUs that are online and allowed."""
    online = cpumask_of(domains.cpus)
    if pin is None:
        return online
    beyond = [c for c in pin if not 0 <= c < domains.machine.cpus]
    if beyond:
        raise TopologyError(
            f"machine {domains.machine.name!r} has no CPU {format_cpulist(beyond)} to pin to; its CPUs are "
            f"0-{domains.machine.cpus - 1}."
        )
    allowed = cpumask_of(pin) & online
    if not allowed:
        raise TopologyError(
            f"machine {domains.machine.name!r}: none of the CPUs {format_cpulist(pin)} is online; pin to online CPUs."
        )
    return allowed


def _closure(direct: dict[int, int], cpu: int, allowed: int) -> int:
    """Return the set of CPUs whose load can reach ``cpu``."""
    reached, fresh = 1 << cpu, 1 << cpu
    while fresh and reached != allowed:
        found = 0
        for c in cpus_in(fresh):
            found |= direct[c]
            if found | reached == allowed:
                break
        fresh = found & ~reached
        reached |= found
    return reached


def _unreached(direct: dict[int, int], allowed: int) -> dict[tuple[int, ...], int]:
    """Group CPUs by the set of sources whose load never reaches them."""
    by_set: dict[int, list[int]] = {}
    for cpu in direct:
        missing = allowed & ~_closure(direct, cpu, allowed)
        if missing:
            by_set.setdefault(missing, []).append(cpu)
    return {tuple(cpus): missing for missing, cpus in by_set.items()}


def _third_party(domains: Domains, allowed: int, direct: dict[int, int]) -> dict[int, int]:
    """Add to the direct pulls of allowed CPUs the pulls that other CPUs can make for them.

    kernel/sched/fair.c: can_migrate_task() and load_balance(), v4.1: a periodic balancer that may not take a pinned task
    redirects it to the first allowed CPU of its own group (LBF_DST_PINNED).
    """
    out = dict(direct)
    for cpu in domains.cpus:
        if allowed >> cpu & 1:
            continue
        for d in domains.of(cpu):
            mine = d.groups[0]
            to = cpumask_first(mine.span & allowed)
            acts = mine.mask >> cpu & 1 or domains.kernel.every_cpu_balances
            if to < 0 or not acts:
                continue
            for group in d.groups:
                if not group.span >> cpu & 1:
                    out[to] |= group.span & allowed & ~(1 << to)
    return out


def _split(missing: int, helped: dict[int, int], target: tuple[int, ...]) -> list[tuple[int, bool]]:
    """Split sources into those whose load no CPU can move to the target, and those whose load a third party can move there."""
    allowed = cpumask_of(list(helped))
    by_help = missing
    for cpu in target:
        by_help &= _closure(helped, cpu, allowed)
    return [(part, third) for part, third in ((missing & ~by_help, False), (by_help, True)) if part]


def _explain(
    domains: Domains, booted: Domains, source: int, target: tuple[int, ...], third: bool
) -> Blocked:
    """Name the reason for which load of the first source never reaches CPU ``target[0]``."""
    cpu, other = target[0], cpumask_first(source)
    both = [d for d in domains.of(cpu) if d.span >> other & 1]
    if both:
        level = level_name(both[-1])
        groups = " and ".join(
            "{" + format_cpulist(g.cpus) + "}" for g in both[-1].groups if g.span >> other & 1
        )
        reason, detail = (
            EVERY_GROUP,
            f"at {level} every group that has CPU {other} ({groups}) also has CPU {cpu}, so for CPU {cpu} it is local",
        )
    elif lost := [d for d in booted.of(cpu) if d.span >> other & 1]:
        level = level_name(lost[0])
        was_there = {cpu, other} <= set(domains.machine.boot_online)
        spans, then = ("spanned", "at boot") if was_there else ("would span", "after a reboot")
        reason, detail = (
            MISSING,
            f"{level} {spans} CPUs {cpu} and {other} {then} and is not rebuilt {domains.when}",
        )
    else:
        top = domains.of(cpu)[-1] if domains.of(cpu) else None
        level = level_name(top) if top else "none"
        reason = NO_DOMAIN
        reach = f"ends at {level} {{{format_cpulist(top.cpus)}}}" if top else "has no domain"
        detail = f"CPU {cpu} {reach}"
    if third:
        detail += (
            "; at most a CPU outside the pinned ones could redirect a task there (LBF_DST_PINNED)"
        )
    return Blocked(tuple(cpus_in(source)), target, reason, level, detail, third)


def _designated(domains: Domains, allowed: int) -> list[Designated]:
    """Find the designated CPUs of the local groups of all allowed CPUs; there are none if every CPU balances."""
    if domains.kernel.every_cpu_balances:
        return []
    out: dict[tuple[str, int, int], Designated] = {}
    for cpu in cpus_in(allowed):
        for d in domains.of(cpu):
            group = d.groups[0]
            mask = group.span & group.mask
            key = (level_name(d), group.span, mask)
            if group.weight > 1 and key not in out:
                can = cpumask_of(domains.cpus) & mask
                out[key] = Designated(
                    key[0],
                    tuple(group.cpus),
                    tuple(cpus_in(mask)),
                    tuple(cpus_in(can & allowed)),
                )
    return list(out.values())
