"""The search for an idle CPU in the LLC of a woken task (kernel/sched/fair.c, v6.12.107).

SIS_UTIL limits how many CPUs a search examines. No task is SCHED_IDLE here, so a CPU is idle or busy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wastedcores.simulator.reference.state import Rq, Task

if TYPE_CHECKING:
    from wastedcores.simulator.reference.domains import DomainShared, SchedDomain
    from wastedcores.simulator.reference.kernel import Kernel


class CacheSharing:
    """Which CPUs share a core or an L2 cache, as of the last rebuild of the domains (update_top_cache_domain(), v6.12.107).

    Attributes
    ----------
    siblings
        For each CPU the online CPUs of its core (cpu_smt_mask()).
    smt_active
        Some core has two of them (sched_smt_active()).
    share_id
        For each CPU the first CPU of its cluster, or else of its LLC (sd_share_id).
    clusters
        Some CPU has a domain of a cluster (sched_cluster_active), and the kernel scans it first.
    """

    def __init__(self, k: Kernel) -> None:
        core = k.machine.core_of_cpu
        members: dict[int, list[int]] = {}
        for cpu in sorted(k.active):
            members.setdefault(int(core[cpu]), []).append(cpu)
        self.siblings = [members.get(int(c), []) for c in core]
        self.smt_active = any(len(cpus) > 1 for cpus in members.values())
        cluster = [next((sd for sd in rq.sd if sd.has("CLUSTER")), None) for rq in k.rqs]
        self.clusters = any(cluster) and k.model.is_modern and k.model.rules.clusters_scanned
        self.share_id = [
            min(sd.span) if sd else k.llc_id[c] for c, sd in enumerate(cluster)
        ]  # fmt: skip


def sd_llc(k: Kernel, cpu: int) -> SchedDomain | None:
    """Return the highest domain of a CPU that shares its last-level cache (sd_llc, v6.12.107)."""
    depth = k.llc_depth[cpu]
    return k.rqs[cpu].sd[depth - 1] if depth else None


def sd_llc_shared(k: Kernel, cpu: int) -> DomainShared | None:
    """Return what the CPUs of an LLC have in common (sd_llc_shared, v6.12.107)."""
    sd = sd_llc(k, cpu)
    return sd.shared if sd is not None else None


def update_idle_core(k: Kernel, rq: Rq) -> None:
    """Note that a core became idle when its last CPU does (__update_idle_core(), v6.12.107)."""
    shared = sd_llc_shared(k, rq.cpu)
    if not k.caches.smt_active or shared is None or shared.has_idle_cores:
        return
    shared.has_idle_cores = all(k.idle_cpu(c) for c in k.caches.siblings[rq.cpu] if c != rq.cpu)


def select_idle_sibling(k: Kernel, p: Task, prev: int, target: int, by_kthread: bool) -> int:
    """Find an idle CPU in the LLC of ``target``, which is ``prev`` or the waker's CPU (select_idle_sibling(), v6.12.107).

    ``by_kthread`` tells that a kernel thread that is bound to its CPU wakes the task. It often completes work that the task
    asked for, and leaves the CPU to it.
    """
    if k.idle_cpu(target):
        return target
    llc, caches = k.llc_id, k.caches
    near = -1
    if prev != target and llc[prev] == llc[target] and k.idle_cpu(prev):
        if _share_resources(k, prev, target):
            return prev
        near = prev
    if by_kthread and not k.in_interrupt and prev == k.cpu and k.rqs[prev].nr_running <= 1:
        return prev
    recent, p.recent_used_cpu = p.recent_used_cpu, prev
    if (
        recent not in (prev, target)
        and llc[recent] == llc[target]
        and k.idle_cpu(recent)
        and recent in p.allowed
    ):
        if _share_resources(k, recent, target):
            return recent
    else:
        recent = -1
    sd = sd_llc(k, target)
    if sd is None:
        return _beyond_cache(k, p, target)
    has_idle_core = False
    if caches.smt_active:
        has_idle_core = sd.shared is not None and sd.shared.has_idle_cores
        if not has_idle_core and llc[prev] == llc[target]:
            found = select_idle_smt(k, p, sd, prev)
            if found >= 0:
                return found
    found = select_idle_cpu(k, p, sd, has_idle_core, target)
    found = next((cpu for cpu in (found, near, recent) if cpu >= 0), -1)
    return found if found >= 0 else _beyond_cache(k, p, target)


def _beyond_cache(k: Kernel, p: Task, target: int) -> int:
    """Return where a task goes for which no idle CPU was found in the LLC: to ``target``, unless the kernel has the paper's fix.

    The fix is that of the paper's section 3.3 for kernels that search one LLC, and no release has it: the CPU that has been idle
    longest in the smallest domain beyond the LLC that has an idle CPU on which the task may run.
    """
    if k.model.overload_on_wakeup is None:
        return target
    for sd in k.rqs[target].sd[k.llc_depth[target] :]:
        idle = [c for c in sorted(sd.span & p.allowed) if k.idle_cpu(c)]
        k.log_considered(p.cpu, sorted(sd.span & p.allowed), "select_idle_sibling", sd.level, p.pid)
        if idle:
            return min(idle, key=lambda c: k.rqs[c].idle_stamp)
    return target


def _share_resources(k: Kernel, cpu: int, other: int) -> bool:
    """Tell whether no cluster separates two CPUs of an LLC (cpus_share_resources(), v6.12.107)."""
    caches = k.caches
    return not caches.clusters or caches.share_id[cpu] == caches.share_id[other]


def select_idle_smt(k: Kernel, p: Task, sd: SchedDomain, cpu: int) -> int:
    """Return the first other idle CPU of a core, or -1 (select_idle_smt(), v6.12.107)."""
    for c in k.caches.siblings[cpu]:
        if c != cpu and c in p.allowed and c in sd.span and k.idle_cpu(c):
            return c
    return -1


def select_idle_cpu(k: Kernel, p: Task, sd: SchedDomain, has_idle_core: bool, target: int) -> int:
    """Search the LLC from behind ``target`` and return an idle CPU, or -1 (select_idle_cpu(), v6.12.107).

    With an idle core in the LLC, the search is for the whole core and has no limit. Otherwise it examines at most
    ``nr_idle_scan`` CPUs.
    """
    assert sd.shared is not None
    limit = sd.shared.nr_idle_scan if k.sis_util else len(sd.span)
    if limit == 0:
        return -1
    scan = _Scan(k, p, has_idle_core, sd.span & p.allowed, limit)
    if k.caches.clusters and sd.groups[0].has("CLUSTER"):
        cluster = set(sd.groups[0].cpus)
        for cpu in _wrapping(cluster, target):
            if cpu in scan.cpus and scan.examine(cpu):
                break
        scan.cpus -= cluster
    if not scan.over:
        for cpu in _wrapping(scan.cpus, target):
            # an examined core that was not idle is left out, with all its CPUs
            if cpu in scan.cpus and scan.examine(cpu):
                break
    k.log_considered(p.cpu, sorted(scan.seen), "select_idle_sibling", sd.level, p.pid)
    if has_idle_core and not scan.found_core:
        sd.shared.has_idle_cores = False
    return scan.idle_cpu


def _wrapping(cpus: set[int], target: int) -> list[int]:
    """Return CPUs in the order of for_each_cpu_wrap(cpu, cpus, target + 1)."""
    return sorted(cpus, key=lambda c: (c <= target, c))


class _Scan:
    """A search for an idle CPU: the CPUs left to examine, those examined, and the result."""

    def __init__(
        self, k: Kernel, p: Task, for_core: bool, cpus: frozenset[int], limit: int
    ) -> None:
        self.k, self.for_core, self.cpus, self.left = k, for_core, set(cpus), limit
        self.allowed = p.allowed
        self.seen: set[int] = set()
        self.idle_cpu = -1
        #: nothing more is examined; a whole idle core was found
        self.over = self.found_core = False

    def examine(self, cpu: int) -> bool:
        """Examine a CPU or its core, and return whether the search is over."""
        if self.for_core:
            self._examine_core(cpu)
            self.over = self.found_core
        elif self.left == 0:
            self.over = True
        else:
            self.left -= 1
            self.seen.add(cpu)
            if self.k.idle_cpu(cpu):
                self.idle_cpu, self.over = cpu, True
        return self.over

    def _examine_core(self, core: int) -> None:
        """Find out whether all CPUs of a core are idle, and remember the first idle CPU met (select_idle_core(), v6.12.107)."""
        idle = True
        siblings = self.k.caches.siblings[core]
        for cpu in siblings:
            self.seen.add(cpu)
            if not self.k.idle_cpu(cpu):
                idle = False
                if self.idle_cpu >= 0:
                    break
            elif self.idle_cpu < 0 and cpu in self.cpus:
                self.idle_cpu = cpu
        if idle:
            self.idle_cpu, self.found_core = core, True
        self.cpus -= set(siblings)
