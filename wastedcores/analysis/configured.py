"""Which CPUs the configuration of a machine keeps apart: isolated CPUs, and cpusets whose load balancing is off.

The rules are those of generate_sched_domains() (kernel/cgroup/cpuset.c, v6.12; kernel/cpuset.c, v4.1). With version 1, one
set of domains spans all CPUs while the root cpuset balances; otherwise cpusets that balance and overlap share one. With
version 2, every valid partition has domains of its own, and an isolated one has none.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from wastedcores.cpulist import parse_cpulist
from wastedcores.trace.header import CpusetFacts, Header

#: what :func:`kept_apart` finds, by number
NOTHING, ISOLATED, BALANCING_OFF = "", "isolated", "balancing_off"
REASONS = (NOTHING, ISOLATED, BALANCING_OFF)


def kept_apart(
    header: Header, idle_cpus: NDArray[np.int64], busy_cpus: NDArray[np.int64]
) -> NDArray[np.int8]:
    """Find out which pairs of CPUs the recorded configuration does not balance."""
    cpus = 1 + max(idle_cpus.max(initial=0), busy_cpus.max(initial=0))
    isolated = np.zeros(cpus, np.bool_)
    if "isolated_cpus" not in header.changed:
        isolated[[c for c in header.isolated_cpus or [] if c < cpus]] = True
    home = np.zeros(cpus, np.int64)
    if header.cpusets and "cpusets" not in header.changed:
        if any(s.partition is not None for s in header.cpusets):
            _partitions(header.cpusets, home, isolated)
        else:
            home = _balanced_together(header.cpusets, cpus)
    apart = np.where(home[idle_cpus] != home[busy_cpus], REASONS.index(BALANCING_OFF), 0)
    alone = isolated[idle_cpus] | isolated[busy_cpus]
    return np.where(alone, REASONS.index(ISOLATED), apart).astype(np.int8)


def _partitions(
    cpusets: list[CpusetFacts], home: NDArray[np.int64], isolated: NDArray[np.bool_]
) -> None:
    """Write the number of the innermost valid partition of each CPU (0: the root), and which CPUs are in an isolated one."""
    own = [s for s in cpusets if s.partition in ("root", "isolated") and s.path != "/"]
    for number, s in enumerate(sorted(own, key=lambda s: len(s.path)), 1):
        inside = _cpus(s, len(home))
        isolated[inside] |= s.partition == "isolated"
        home[inside] = number


def _balanced_together(cpusets: list[CpusetFacts], cpus: int) -> NDArray[np.int64]:
    """Return a number per CPU: equal where cpusets of version 1 that balance connect them, directly or through others."""
    home = np.arange(cpus)
    for s in cpusets:
        if s.load_balance:
            homes = np.unique(home[_cpus(s, cpus)])
            home[np.isin(home, homes)] = homes[0] if len(homes) else 0
    return home


def _cpus(cpuset: CpusetFacts, cpus: int) -> list[int]:
    return [c for c in (parse_cpulist(cpuset.cpus) if cpuset.cpus else []) if c < cpus]
