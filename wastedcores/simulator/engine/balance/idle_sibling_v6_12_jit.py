"""The search for an idle CPU in the LLC of a woken task (kernel/sched/fair.c, v6.12.107).

SIS_UTIL limits how many CPUs a search examines. No task is SCHED_IDLE here, so a CPU is idle or busy. The set ``cpuset.LB``
holds the CPUs that are still to be examined; load_balance() also uses this set, but never during a wakeup.
"""

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.codes import log_kind, log_op, sd_flag
from wastedcores.simulator.engine.fair.load_jit import idle_cpu
from wastedcores.simulator.engine.world import cpuset
from wastedcores.simulator.engine.world.cpusets_jit import exclude, include, item, row_of, test
from wastedcores.simulator.engine.world.log_jit import record
from wastedcores.simulator.engine.world.rows_jit import cpu_cfs_rq, cpu_rq, domain_at, modern
from wastedcores.simulator.engine.world.structs import NO_TASK, Kernel, SchedDomain, TaskStruct


@inner
def sibling_of(k: Kernel, cpu: int) -> int:
    """Return the next CPU in the ring of a core's CPUs."""
    return cpu_cfs_rq(k, cpu).rq_modern.sibling


@inner
def first_of_core(k: Kernel, cpu: int) -> int:
    """Return the first CPU of a core, online or not."""
    first = cpu
    sibling = sibling_of(k, cpu)
    while sibling != cpu:
        first = min(first, sibling)
        sibling = sibling_of(k, sibling)
    return first


@inner
def share_id(k: Kernel, cpu: int) -> int:
    """sd_share_id: return the first CPU of a CPU's cluster, or else of its LLC. If there is a cluster, note this."""
    first = cpu_rq(k, cpu).sd.row
    for sd_row in range(first, first + cpu_rq(k, cpu).nr_domains):
        sd = SchedDomain(k, sd_row)
        if sd.flags & sd_flag.CLUSTER:
            modern(k).clusters = modern(k).clusters_scanned
            return item(k, sd.span_cpus)
    return cpu_rq(k, cpu).sd_llc_id


@apart(NOTHING)
def update_sharing(k: Kernel) -> None:
    """update_top_cache_domain(), sched_smt_active(): note which CPUs share a cluster, and whether some core has two CPUs."""
    g = modern(k)
    g.smt_active = 0
    g.clusters = 0
    for cpu in range(k.nr_cpus):
        cpu_cfs_rq(k, cpu).rq_modern.share_id = share_id(k, cpu)
        if test(k, cpuset.ACTIVE, cpu):
            sibling = sibling_of(k, cpu)
            while sibling != cpu:
                if test(k, cpuset.ACTIVE, sibling):
                    g.smt_active = 1
                sibling = sibling_of(k, sibling)


@apart(NOTHING)
def update_idle_core(k: Kernel, cpu: int) -> None:
    """__update_idle_core(): if all other CPUs of a core are idle, too, note that the core became idle."""
    sd = cpu_rq(k, cpu).sd_llc
    if modern(k).smt_active == 0 or not sd or sd.shared.has_idle_cores != 0:
        return
    sibling = sibling_of(k, cpu)
    while sibling != cpu:
        if test(k, cpuset.ACTIVE, sibling) and not idle_cpu(k, sibling):
            return
        sibling = sibling_of(k, sibling)
    sd.shared.has_idle_cores = 1


@inner
def share_resources(k: Kernel, cpu: int, other: int) -> bool:
    """cpus_share_resources(): return whether no cluster separates two CPUs of an LLC."""
    return (
        modern(k).clusters == 0
        or cpu_cfs_rq(k, cpu).rq_modern.share_id == cpu_cfs_rq(k, other).rq_modern.share_id
    )


@apart(VALUE)
def select_idle_smt(k: Kernel, p: TaskStruct, sd: SchedDomain, cpu: int) -> int:
    """select_idle_smt(): return the first other idle CPU of a core, or -1."""
    first = first_of_core(k, cpu)
    c = first
    while True:
        if (
            c != cpu
            and test(k, cpuset.ACTIVE, c)
            and test(k, p.cpus_allowed, c)
            and test(k, sd.span, c)
            and idle_cpu(k, c)
        ):
            return c
        c = sibling_of(k, c)
        if c == first:
            return -1


@inner
def see(k: Kernel, cpu: int) -> None:
    """Remember that a search examined a CPU, for the log."""
    if k.log_considered != 0:
        include(k, cpuset.SEEN, cpu)


@apart(NOTHING)
def examine_core(k: Kernel, core: int) -> None:
    """select_idle_core(): find out whether all CPUs of a core are idle, and remember the first idle CPU met."""
    g = modern(k)
    first = first_of_core(k, core)
    idle = True
    c = first
    while True:
        if test(k, cpuset.ACTIVE, c):
            see(k, c)
            if not idle_cpu(k, c):
                idle = False
                if g.scan_cpu >= 0:
                    break
            elif g.scan_cpu < 0 and test(k, cpuset.LB, c):
                g.scan_cpu = c
        c = sibling_of(k, c)
        if c == first:
            break
    if idle:
        g.scan_cpu = core
        g.scan_over = 1
    c = first
    while True:
        exclude(k, cpuset.LB, c)
        c = sibling_of(k, c)
        if c == first:
            break


@inner
def examine(k: Kernel, cpu: int) -> None:
    """Examine a CPU, unless the search has already examined as many CPUs as SIS_UTIL allows."""
    g = modern(k)
    if g.scan_left == 0:
        g.scan_over = 1
        return
    g.scan_left -= 1
    see(k, cpu)
    if idle_cpu(k, cpu):
        g.scan_cpu = cpu
        g.scan_over = 1


@apart(NOTHING)
def scan(k: Kernel, first: int, number: int, target: int, for_core: int) -> None:
    """Examine the CPUs of a list that are in ``cpuset.LB``, beginning after ``target``, in cyclic order (for_each_cpu_wrap())."""
    g = modern(k)
    for turn in range(2):
        for i in range(first, first + number):
            cpu = item(k, i)
            if (cpu > target) == (turn == 0) and test(k, cpuset.LB, cpu):
                if for_core:
                    examine_core(k, cpu)
                else:
                    examine(k, cpu)
                if g.scan_over != 0:
                    return


@inner
def begin_scan(k: Kernel, p: TaskStruct, sd: SchedDomain, limit: int) -> None:
    """Begin a search of the CPUs of a domain on which the task may run."""
    g = modern(k)
    g.scan_left = limit
    g.scan_cpu = -1
    g.scan_over = 0
    for word in range(k.cpuset_words):
        allowed = k[row_of(k, p.cpus_allowed), word]
        k[row_of(k, cpuset.LB), word] = k[sd.span, word] & allowed
        k[row_of(k, cpuset.SEEN), word] = 0


@apart(NOTHING)
def log_scan(k: Kernel, cpu: int, level: int) -> None:
    """Log the CPUs that a search examined: one record, followed by records with six words of the set each (simulator/log.py)."""
    if k.log_considered == 0:
        return
    here = k.this_cpu
    record(k, log_kind.CONSIDERED, cpu, -1, -1, here, level, log_op.SELECT_IDLE_SIBLING)
    seen = row_of(k, cpuset.SEEN)
    for w in range(0, k.cpuset_words, 6):
        record(
            k, log_kind.CONSIDERED_PART, k[seen, w], k[seen, w + 1], k[seen, w + 2],
            k[seen, w + 3], k[seen, w + 4], k[seen, w + 5],
        )  # fmt: skip


@apart(VALUE)
def select_idle_cpu(
    k: Kernel, p: TaskStruct, sd: SchedDomain, has_idle_core: int, target: int
) -> int:
    """select_idle_cpu(): search the LLC, beginning after ``target``, and return an idle CPU, or -1.

    If the LLC has an idle core, the search looks for an idle core and has no limit. Otherwise it examines at most
    ``nr_idle_scan`` CPUs.
    """
    g = modern(k)
    shared = sd.shared
    limit = shared.nr_idle_scan
    if g.sis_util == 0:
        limit = sd.span_weight
    if limit == 0:
        return -1
    begin_scan(k, p, sd, limit)
    near = sd.groups
    if g.clusters != 0 and near.flags & sd_flag.CLUSTER:
        first = near.cpus
        scan(k, first, near.group_weight, target, has_idle_core)
        for i in range(first, first + near.group_weight):
            exclude(k, cpuset.LB, item(k, i))
    if g.scan_over == 0:
        first = sd.span_cpus
        scan(k, first, sd.span_weight, target, has_idle_core)
    log_scan(k, p.cpu, sd.level)
    if has_idle_core and g.scan_over == 0:
        shared.has_idle_cores = 0
    return g.scan_cpu


@inner
def wakes_for_itself(k: Kernel, prev: int) -> bool:
    """Return whether the waker is a kernel thread that is bound to this CPU, so that the task stays here.

    Such a thread often completes work that the task asked for (is_per_cpu_kthread()).
    """
    here = k.this_cpu
    waker = cpu_rq(k, here).curr
    return (
        waker != NO_TASK
        and waker.kthread != 0
        and waker.nr_cpus_allowed == 1
        and modern(k).in_interrupt == 0
        and prev == here
        and cpu_rq(k, prev).nr_running <= 1
    )


@apart(VALUE)
def beyond_cache(k: Kernel, p: TaskStruct, target: int) -> int:
    """Return the CPU of a task for which the LLC has no idle CPU: ``target``, unless the kernel has the paper's fix.

    The fix applies section 3.3 of the paper to kernels that search one LLC; no release has it. It takes the smallest domain
    beyond the LLC that has an idle CPU on which the task may run, and of these CPUs the one that has been idle for longest.
    """
    if k.overload_on_wakeup_fix == 0:
        return target
    for height in range(cpu_rq(k, target).nr_domains):
        sd = domain_at(k, target, height)
        if sd.row <= cpu_rq(k, target).sd_llc.row:
            continue
        begin_scan(k, p, sd, 0)
        best = -1
        spanned = sd.span_cpus
        for i in range(spanned, spanned + sd.span_weight):
            cpu = item(k, i)
            if test(k, cpuset.LB, cpu):
                see(k, cpu)
                if idle_cpu(k, cpu) and (
                    best < 0 or cpu_rq(k, cpu).idle_stamp < cpu_rq(k, best).idle_stamp
                ):
                    best = cpu
        log_scan(k, p.cpu, sd.level)
        if best >= 0:
            return best
    return target


@apart(VALUE)
def select_idle_sibling(k: Kernel, p: TaskStruct, prev: int, target: int) -> int:
    """select_idle_sibling(): find an idle CPU in the LLC of ``target``, which is ``prev`` or the waker's CPU."""
    if idle_cpu(k, target):
        return target
    llc = cpu_rq(k, target).sd_llc_id
    near = -1
    if prev != target and cpu_rq(k, prev).sd_llc_id == llc and idle_cpu(k, prev):
        if share_resources(k, prev, target):
            return prev
        near = prev
    if wakes_for_itself(k, prev):
        return prev
    recent = p.recent_used_cpu
    p.recent_used_cpu = prev
    if (
        recent != prev
        and recent != target
        and cpu_rq(k, recent).sd_llc_id == llc
        and idle_cpu(k, recent)
        and test(k, p.cpus_allowed, recent)
    ):
        if share_resources(k, recent, target):
            return recent
    else:
        recent = -1
    sd = cpu_rq(k, target).sd_llc
    if not sd:
        return beyond_cache(k, p, target)
    has_idle_core = False
    if modern(k).smt_active != 0:
        has_idle_core = sd.shared.has_idle_cores != 0
        if not has_idle_core and cpu_rq(k, prev).sd_llc_id == llc:
            found = select_idle_smt(k, p, sd, prev)
            if found >= 0:
                return found
    found = select_idle_cpu(k, p, sd, has_idle_core, target)
    if found < 0:
        found = near
    if found < 0:
        found = recent
    return found if found >= 0 else beyond_cache(k, p, target)
