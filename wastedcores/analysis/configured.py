"""Why the configuration of a machine keeps two CPUs apart: isolated CPUs, and cpusets whose load balancing is off.

The rules are those of generate_sched_domains() (kernel/cgroup/cpuset.c, v6.12; kernel/cpuset.c, v4.1). With version 1, one
set of domains spans all CPUs while the root cpuset balances; otherwise cpusets that balance and overlap share one. With
version 2, every valid partition has domains of its own, and an isolated one has none.
"""

from __future__ import annotations

from functools import cache

from wastedcores.topology.cpulist import parse_cpulist
from wastedcores.trace.header import CpusetFacts, Header

#: what :func:`keeps_apart` answers
ISOLATED, BALANCING_OFF = "isolated", "balancing_off"


def keeps_apart(header: Header, idle_cpu: int, busy_cpu: int) -> str | None:
    """Say what in the recorded configuration forbids balancing between two CPUs.

    Parameters
    ----------
    header
        The facts about the trace; a cpuset that changed while it was recorded proves nothing.
    idle_cpu, busy_cpu
        Numbers of the two CPUs.

    Returns
    -------
    str or None
        ``isolated`` (``isolcpus`` or an isolated partition), ``balancing_off`` (the cpusets share no domains), or None if
        nothing recorded forbids it.
    """
    pair = (idle_cpu, busy_cpu)
    if "isolated_cpus" not in header.changed and not set(pair).isdisjoint(
        header.isolated_cpus or []
    ):
        return ISOLATED
    if not header.cpusets or "cpusets" in header.changed:
        return None
    if any(s.partition is not None for s in header.cpusets):
        homes = [_partition(header.cpusets, cpu) for cpu in pair]
        if any(h is not None and h.partition == "isolated" for h in homes):
            return ISOLATED
        return BALANCING_OFF if homes[0] is not homes[1] else None
    return None if _share_domains(header.cpusets, *pair) else BALANCING_OFF


def _partition(cpusets: list[CpusetFacts], cpu: int) -> CpusetFacts | None:
    """The innermost valid partition of a CPU; None is the root."""
    own = [
        s
        for s in cpusets
        if s.partition in ("root", "isolated") and s.path != "/" and cpu in _cpus(s.cpus)
    ]
    return max(own, key=lambda s: len(s.path), default=None)


def _share_domains(cpusets: list[CpusetFacts], a: int, b: int) -> bool:
    """Whether cpusets of version 1 that balance connect two CPUs, directly or through others that overlap."""
    balanced = [_cpus(s.cpus) for s in cpusets if s.load_balance]
    reached = {a}
    while True:
        more = reached.union(*(s for s in balanced if not reached.isdisjoint(s)))
        if more == reached:
            return b in reached
        reached = more


@cache
def _cpus(text: str) -> frozenset[int]:
    return frozenset(parse_cpulist(text)) if text else frozenset()
