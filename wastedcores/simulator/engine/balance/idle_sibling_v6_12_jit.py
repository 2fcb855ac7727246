"""The search for an idle CPU in the LLC of a woken task (kernel/sched/fair.c, v6.12.107).

SIS_UTIL limits how many CPUs a search examines. No task is SCHED_IDLE here, so a CPU is idle or busy. The CPUs that are left to
examine are the set ``cpuset.LB``, which no wakeup shares with load_balance().
"""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.codes import log_kind, log_op, sd_flag
from wastedcores.simulator.engine.fair.load_jit import idle_cpu
from wastedcores.simulator.engine.world import (
    cpuset,
    domain,
    domain_shared,
    domain_v6_12,
    eevdf,
    rq,
    rq_v6_12,
    sched_group,
    sim,
    task,
    v6_12,
)
from wastedcores.simulator.engine.world.cpusets_jit import exclude, include, item, row_of, test
from wastedcores.simulator.engine.world.log_jit import record


@inner
def globals_row(m):
    """Return the row of v6.12's globals."""
    return m[0, sim.SCRATCH] + v6_12.ROW


@inner
def sibling_of(m, cpu):
    """Return the next CPU in the ring of a core's CPUs."""
    return m[m[0, sim.CPUS] + cpu, rq_v6_12.SIBLING]


@inner
def first_of_core(m, cpu):
    """Return the first CPU of a core, online or not."""
    first = cpu
    sibling = sibling_of(m, cpu)
    while sibling != cpu:
        first = min(first, sibling)
        sibling = sibling_of(m, sibling)
    return first


@inner
def sd_llc_shared(m, cpu):
    """sd_llc_shared: return the row of what the CPUs of an LLC have in common, -1 for none."""
    sd = m[cpu, rq.SD_LLC]
    return m[sd, domain_v6_12.SHARED] if sd >= 0 else -1


@inner
def share_id(m, cpu):
    """sd_share_id: return the first CPU of a CPU's cluster, or else of its LLC; note that there are clusters."""
    first = m[cpu, rq.SD]
    for sd in range(first, first + m[cpu, rq.NR_DOMAINS]):
        if m[sd, domain.FLAGS] & sd_flag.CLUSTER:
            m[globals_row(m), v6_12.CLUSTERS] = m[globals_row(m), v6_12.CLUSTERS_SCANNED]
            return item(m, m[sd, domain_v6_12.SPAN_CPUS])
    return m[cpu, rq.SD_LLC_ID]


@apart(NOTHING)
def update_sharing(m):
    """update_top_cache_domain(), sched_smt_active(): note which CPUs share a cluster, and whether some core has two CPUs."""
    g = globals_row(m)
    m[g, v6_12.SMT_ACTIVE] = 0
    m[g, v6_12.CLUSTERS] = 0
    for cpu in range(m[0, sim.CPUS]):
        m[m[0, sim.CPUS] + cpu, rq_v6_12.SHARE_ID] = share_id(m, cpu)
        if test(m, cpuset.ACTIVE, cpu):
            sibling = sibling_of(m, cpu)
            while sibling != cpu:
                if test(m, cpuset.ACTIVE, sibling):
                    m[g, v6_12.SMT_ACTIVE] = 1
                sibling = sibling_of(m, sibling)


@apart(NOTHING)
def update_idle_core(m, cpu):
    """__update_idle_core(): note that a core became idle when its last CPU does."""
    shared = sd_llc_shared(m, cpu)
    if m[globals_row(m), v6_12.SMT_ACTIVE] == 0 or shared < 0:
        return
    if m[shared, domain_shared.HAS_IDLE_CORES] != 0:
        return
    sibling = sibling_of(m, cpu)
    while sibling != cpu:
        if test(m, cpuset.ACTIVE, sibling) and not idle_cpu(m, sibling):
            return
        sibling = sibling_of(m, sibling)
    m[shared, domain_shared.HAS_IDLE_CORES] = 1


@inner
def share_resources(m, cpu, other):
    """cpus_share_resources(): return whether no cluster separates two CPUs of an LLC."""
    n = m[0, sim.CPUS]
    return (
        m[globals_row(m), v6_12.CLUSTERS] == 0
        or m[n + cpu, rq_v6_12.SHARE_ID] == m[n + other, rq_v6_12.SHARE_ID]
    )


@apart(VALUE)
def select_idle_smt(m, p, sd, cpu):
    """select_idle_smt(): return the first other idle CPU of a core, or -1."""
    first = first_of_core(m, cpu)
    c = first
    while True:
        if (
            c != cpu
            and test(m, cpuset.ACTIVE, c)
            and test(m, m[p, task.CPUS_ALLOWED], c)
            and test(m, m[sd, domain.SPAN], c)
            and idle_cpu(m, c)
        ):
            return c
        c = sibling_of(m, c)
        if c == first:
            return -1


@inner
def see(m, cpu):
    """Remember that a search examined a CPU, for the log."""
    if m[0, sim.LOG_CONSIDERED] != 0:
        include(m, cpuset.SEEN, cpu)


@apart(NOTHING)
def examine_core(m, core):
    """select_idle_core(): find out whether all CPUs of a core are idle, and remember the first idle CPU met."""
    g = globals_row(m)
    first = first_of_core(m, core)
    idle = True
    c = first
    while True:
        if test(m, cpuset.ACTIVE, c):
            see(m, c)
            if not idle_cpu(m, c):
                idle = False
                if m[g, v6_12.SCAN_CPU] >= 0:
                    break
            elif m[g, v6_12.SCAN_CPU] < 0 and test(m, cpuset.LB, c):
                m[g, v6_12.SCAN_CPU] = c
        c = sibling_of(m, c)
        if c == first:
            break
    if idle:
        m[g, v6_12.SCAN_CPU] = core
        m[g, v6_12.SCAN_OVER] = 1
    c = first
    while True:
        exclude(m, cpuset.LB, c)
        c = sibling_of(m, c)
        if c == first:
            break


@inner
def examine(m, cpu):
    """Examine a CPU, unless as many were examined as SIS_UTIL allows."""
    g = globals_row(m)
    if m[g, v6_12.SCAN_LEFT] == 0:
        m[g, v6_12.SCAN_OVER] = 1
        return
    m[g, v6_12.SCAN_LEFT] -= 1
    see(m, cpu)
    if idle_cpu(m, cpu):
        m[g, v6_12.SCAN_CPU] = cpu
        m[g, v6_12.SCAN_OVER] = 1


@apart(NOTHING)
def scan(m, first, number, target, for_core):
    """Examine those CPUs of a list that are left to examine, from behind ``target`` around (for_each_cpu_wrap())."""
    g = globals_row(m)
    for turn in range(2):
        for i in range(first, first + number):
            cpu = item(m, i)
            if (cpu > target) == (turn == 0) and test(m, cpuset.LB, cpu):
                if for_core:
                    examine_core(m, cpu)
                else:
                    examine(m, cpu)
                if m[g, v6_12.SCAN_OVER] != 0:
                    return


@inner
def begin_scan(m, p, sd, limit):
    """Let the allowed CPUs of a domain be left to examine."""
    g = globals_row(m)
    m[g, v6_12.SCAN_LEFT] = limit
    m[g, v6_12.SCAN_CPU] = -1
    m[g, v6_12.SCAN_OVER] = 0
    for word in range(m[0, sim.CPUSET_WORDS]):
        allowed = m[row_of(m, m[p, task.CPUS_ALLOWED]), word]
        m[row_of(m, cpuset.LB), word] = m[m[sd, domain.SPAN], word] & allowed
        m[row_of(m, cpuset.SEEN), word] = 0


@apart(NOTHING)
def log_scan(m, cpu, level):
    """Log the CPUs that a search examined: a record, and then the words of the set, six in a record (simulator/scans.py)."""
    if m[0, sim.LOG_CONSIDERED] == 0:
        return
    here = m[0, sim.CPU]
    record(m, log_kind.CONSIDERED, cpu, -1, -1, here, level, log_op.SELECT_IDLE_SIBLING)
    seen = row_of(m, cpuset.SEEN)
    for w in range(0, m[0, sim.CPUSET_WORDS], 6):
        record(
            m, log_kind.CONSIDERED_PART, m[seen, w], m[seen, w + 1], m[seen, w + 2],
            m[seen, w + 3], m[seen, w + 4], m[seen, w + 5],
        )  # fmt: skip


@apart(VALUE)
def select_idle_cpu(m, p, sd, has_idle_core, target):
    """select_idle_cpu(): search the LLC from behind ``target`` and return an idle CPU, or -1.

    With an idle core in the LLC, the search is for the whole core and has no limit. Otherwise it examines at most
    ``nr_idle_scan`` CPUs.
    """
    g = globals_row(m)
    shared = m[sd, domain_v6_12.SHARED]
    limit = m[shared, domain_shared.NR_IDLE_SCAN]
    if m[g, v6_12.SIS_UTIL] == 0:
        limit = m[sd, domain.SPAN_WEIGHT]
    if limit == 0:
        return -1
    begin_scan(m, p, sd, limit)
    near = m[sd, domain.GROUPS]
    if m[g, v6_12.CLUSTERS] != 0 and m[near, sched_group.FLAGS] & sd_flag.CLUSTER:
        first = m[near, sched_group.CPUS]
        scan(m, first, m[near, sched_group.GROUP_WEIGHT], target, has_idle_core)
        for i in range(first, first + m[near, sched_group.GROUP_WEIGHT]):
            exclude(m, cpuset.LB, item(m, i))
    if m[g, v6_12.SCAN_OVER] == 0:
        first = m[sd, domain_v6_12.SPAN_CPUS]
        scan(m, first, m[sd, domain.SPAN_WEIGHT], target, has_idle_core)
    log_scan(m, m[p, task.CPU], m[sd, domain.LEVEL])
    if has_idle_core and m[g, v6_12.SCAN_OVER] == 0:
        m[shared, domain_shared.HAS_IDLE_CORES] = 0
    return m[g, v6_12.SCAN_CPU]


@inner
def wakes_for_itself(m, prev):
    """Return whether a kernel thread that is bound to this CPU wakes the task, and leaves the CPU to it.

    Such a thread often completes work that the task asked for (is_per_cpu_kthread()).
    """
    here = m[0, sim.CPU]
    waker = m[here, rq.CURR]
    return (
        waker >= 0
        and m[waker, eevdf.KTHREAD] != 0
        and m[waker, task.NR_CPUS_ALLOWED] == 1
        and m[globals_row(m), v6_12.IN_INTERRUPT] == 0
        and prev == here
        and m[prev, rq.NR_RUNNING] <= 1
    )


@apart(VALUE)
def beyond_cache(m, p, target):
    """Return where a task goes for which no idle CPU was found in the LLC: to ``target``, unless the kernel has the paper's fix.

    The fix is that of the paper's section 3.3 for kernels that search one LLC, and no release has it: the CPU that has been idle
    longest in the smallest domain beyond the LLC that has an idle CPU on which the task may run.
    """
    if m[0, sim.OVERLOAD_ON_WAKEUP_FIX] == 0:
        return target
    first = m[target, rq.SD]
    for sd in range(first, first + m[target, rq.NR_DOMAINS]):
        if sd <= m[target, rq.SD_LLC]:
            continue
        begin_scan(m, p, sd, 0)
        best = -1
        spanned = m[sd, domain_v6_12.SPAN_CPUS]
        for i in range(spanned, spanned + m[sd, domain.SPAN_WEIGHT]):
            cpu = item(m, i)
            if test(m, cpuset.LB, cpu):
                see(m, cpu)
                if idle_cpu(m, cpu) and (
                    best < 0 or m[cpu, rq.IDLE_STAMP] < m[best, rq.IDLE_STAMP]
                ):
                    best = cpu
        log_scan(m, m[p, task.CPU], m[sd, domain.LEVEL])
        if best >= 0:
            return best
    return target


@apart(VALUE)
def select_idle_sibling(m, p, prev, target):
    """select_idle_sibling(): find an idle CPU in the LLC of ``target``, which is ``prev`` or the waker's CPU."""
    if idle_cpu(m, target):
        return target
    llc = m[target, rq.SD_LLC_ID]
    near = -1
    if prev != target and m[prev, rq.SD_LLC_ID] == llc and idle_cpu(m, prev):
        if share_resources(m, prev, target):
            return prev
        near = prev
    if wakes_for_itself(m, prev):
        return prev
    recent = m[p, eevdf.RECENT_USED_CPU]
    m[p, eevdf.RECENT_USED_CPU] = prev
    if (
        recent != prev
        and recent != target
        and m[recent, rq.SD_LLC_ID] == llc
        and idle_cpu(m, recent)
        and test(m, m[p, task.CPUS_ALLOWED], recent)
    ):
        if share_resources(m, recent, target):
            return recent
    else:
        recent = -1
    sd = m[target, rq.SD_LLC]
    if sd < 0:
        return beyond_cache(m, p, target)
    has_idle_core = False
    if m[globals_row(m), v6_12.SMT_ACTIVE] != 0:
        has_idle_core = m[m[sd, domain_v6_12.SHARED], domain_shared.HAS_IDLE_CORES] != 0
        if not has_idle_core and m[prev, rq.SD_LLC_ID] == llc:
            found = select_idle_smt(m, p, sd, prev)
            if found >= 0:
                return found
    found = select_idle_cpu(m, p, sd, has_idle_core, target)
    if found < 0:
        found = near
    if found < 0:
        found = recent
    return found if found >= 0 else beyond_cache(m, p, target)
