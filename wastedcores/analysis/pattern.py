"""What a trace and its snapshot tell about wasted CPUs if there is no model of the kernel's balancer.

It also tells which CPUs the configuration of a machine keeps apart: isolated CPUs, and cpusets whose load balancing is off.

The rules are those of generate_sched_domains() (kernel/cgroup/cpuset.c, v6.12; kernel/cpuset.c, v4.1). With cgroups of
version 1, one set of domains spans all CPUs if load balancing is on in the root cpuset; otherwise, overlapping cpusets with
load balancing share a set. With version 2, every valid partition has domains of its own, but an isolated partition has none.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from wastedcores.cpulist import parse_cpulist
from wastedcores.invariant import CheckResult
from wastedcores.topology.machine import Machine
from wastedcores.trace.header import CpusetFacts, Header

#: what :func:`kept_apart` finds, by number
NOTHING, ISOLATED, BALANCING_OFF = "", "isolated", "balancing_off"
REASONS = (NOTHING, ISOLATED, BALANCING_OFF)


def kept_apart(
    header: Header, idle_cpus: NDArray[np.int64], busy_cpus: NDArray[np.int64]
) -> NDArray[np.int8]:
    """Return for each pair of CPUs why the recorded configuration does not balance between them (a number of ``REASONS``)."""
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
    """Write for each CPU the number of its innermost valid partition (0: the root), and whether an isolated one contains it."""
    own = [s for s in cpusets if s.partition in ("root", "isolated") and s.path != "/"]
    for number, s in enumerate(sorted(own, key=lambda s: len(s.path)), 1):
        inside = _cpus(s, len(home))
        isolated[inside] |= s.partition == "isolated"
        home[inside] = number


def _balanced_together(cpusets: list[CpusetFacts], cpus: int) -> NDArray[np.int64]:
    """Return a number per CPU, equal for CPUs that cpusets (version 1) with load balancing connect, even through others."""
    home = np.arange(cpus)
    for s in cpusets:
        if s.load_balance:
            homes = np.unique(home[_cpus(s, cpus)])
            home[np.isin(home, homes)] = homes[0] if len(homes) else 0
    return home


def _cpus(cpuset: CpusetFacts, cpus: int) -> list[int]:
    return [c for c in (parse_cpulist(cpuset.cpus) if cpuset.cpus else []) if c < cpus]


#: the words for each distance between two CPUs, the nearest first
_NEAR = (
    ("core_of_cpu", "on the same core"),
    ("llc_of_cpu", "behind the same last-level cache"),
    ("node_of_cpu", "on the same node"),
)
_FAR = "on different nodes"


def pattern(result: CheckResult, machine: Machine, pairs: pl.DataFrame) -> list[str]:
    """Describe where CPUs were idle beside overloaded ones, and which recorded limits were in force."""
    return [*_distance(machine, pairs), _pinned(result), _cpusets(result), _quotas(result)]


def _distance(machine: Machine, pairs: pl.DataFrame) -> list[str]:
    """Say how near to each other idle and overloaded CPUs were, with shares of the sum of ``met_ns``."""
    total = int(pairs["met_ns"].sum())
    if not total:
        return []
    idle, busy = pairs["idle_cpu"].to_numpy(), pairs["overloaded_cpu"].to_numpy()
    met, left, shares = pairs["met_ns"].to_numpy(), total, []
    for name, words in _NEAR:
        own = getattr(machine, name)
        near = met[own[idle] == own[busy]].sum()
        shares.append((int(near) - (total - left), words))
        left = total - int(near)
    shares.append((left, _FAR))
    said = [f"{100 * ns / total:.0f} % {words}" for ns, words in shares if ns]
    return [f"The idle and the overloaded CPU were, by their time together: {', '.join(said)}."]


def _pinned(result: CheckResult) -> str:
    """Say how many of the threads that waited while another CPU was idle are pinned to some of the CPUs."""
    header = result.trace.header
    told = {
        t.pid: t
        for t in (*(header.later_tasks or ()), *(header.tasks or ()))
        if t.allowed and "allowed" not in t.changed
    }
    waited = result.avoidable["pid"].to_list()
    known = [told[p] for p in waited if p in told]
    if not known:
        return "The trace does not tell whether the threads that waited were pinned: no snapshot of their affinity was recorded."
    online = result.cpus
    bound = sum(len(parse_cpulist(t.allowed or "")) < online for t in known)
    return (
        f"{bound} of the {len(known)} threads that waited beside an idle CPU, and whose affinity is known, were pinned to some "
        "of the CPUs. Only idle CPUs that they may use count."
    )


def _cpusets(result: CheckResult) -> str:
    header = result.trace.header
    if "cpusets" in header.changed:
        return "The cpusets changed while the trace was recorded, and it does not tell when."
    if header.cpusets is None:
        return "The trace does not tell which cpusets there were."
    parts = [
        s.path for s in header.cpusets if s.partition in ("root", "isolated") and s.path != "/"
    ]
    off = [s.path for s in header.cpusets if s.load_balance is False and s.partition is None]
    if not parts and not off:
        return "No recorded cpuset kept CPUs apart."
    named = ", ".join((parts or off)[:6])
    kind = "partitions" if parts else "without load balancing"
    return f"There were cpusets that keep CPUs apart ({kind}: {named}), but they do not explain most of the time."


def _quotas(result: CheckResult) -> str:
    header = result.trace.header
    quotas = header.quotas
    if "quotas" in header.changed:
        return "The quotas of control groups changed while the trace was recorded, and it does not tell when."
    if quotas is None:
        return "The trace does not tell whether a control group had a quota of CPU time."
    if not quotas:
        return "No control group had a quota of CPU time."
    named = ", ".join(path or "/" for path in sorted(quotas)[:6])
    return f"These control groups had a quota of CPU time: {named}. A throttled thread does not count as waiting."
