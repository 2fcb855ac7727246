"""The flags that a sched_group copies from the domain below it (``sg->flags``, from v5.13)."""

from __future__ import annotations

from wastedcores.topology.domains import Domain, Domains
from wastedcores.topology.groups import Group
from wastedcores.topology.levels import reclaim_distance
from wastedcores.topology.parameters import sd_init


def group_flags(domains: Domains, cpu: int, domain: Domain) -> list[int]:
    """Return the flags of each group of a domain, in the order of the ring.

    A group has the flags of the child domain from which it was built, even if that child was removed as degenerate. Only the
    group of the CPU itself takes the flags that remain after a removal. Groups that do not overlap are shared, so the flags of
    each group follow from the removals of its own CPUs.

    References
    ----------
    kernel/sched/topology.c: get_group(), build_group_from_child_sched_domain(), cpu_attach_domain(), v6.12.
    """
    others = domain.groups[1:]
    if domains.levels[domain.index].overlap:
        return [domain.local_flags, *(_flags_when_built(domains, g) for g in others)]
    return [domain.local_flags, *(_flags_of_member(domains, domain, g) for g in others)]


def _flags_when_built(domains: Domains, group: Group) -> int:
    """Return the flags of the level below the level for which the group was built."""
    level = group.sgc[0] - 1
    if level < 0:
        return 0
    reclaim = reclaim_distance(domains.machine, domains.kernel)
    return sd_init(domains.levels[level], 0, domains.kernel, reclaim)[0]


def _flags_of_member(domains: Domains, domain: Domain, group: Group) -> int:
    """Return the flags that the group has in the domain of one of its own CPUs."""
    last = group.cpus[-1]
    mine = next((d for d in domains.of(last) if d.index == domain.index), None)
    return _flags_when_built(domains, group) if mine is None else mine.local_flags
