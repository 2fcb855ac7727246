"""The loads of CPUs and tasks that placement and balancing of Linux 6.12 compare (kernel/sched/fair.c, v6.12.107).

Every CPU has the capacity 1024: no real-time load, frequency or asymmetry reduces it.
"""

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.codes import task_state
from wastedcores.simulator.engine.fair.load_jit import task_h_load
from wastedcores.simulator.engine.fair.pelt_v6_12_jit import update_blocked_se
from wastedcores.simulator.engine.world.rows_jit import cpu_cfs_rq, cpu_rq, runs_idle
from wastedcores.simulator.engine.world.structs import NO_TASK, Kernel, TaskStruct

#: SCHED_CAPACITY_SCALE
CAPACITY = 1024


@inner
def cpu_load(k: Kernel, cpu: int) -> int:
    """cpu_load(): the load of a CPU, with that of tasks that sleep."""
    return cpu_cfs_rq(k, cpu).avg.load_avg


@inner
def cpu_runnable(k: Kernel, cpu: int) -> int:
    """cpu_runnable(): how many tasks a CPU had to run on average, times 1024."""
    return cpu_cfs_rq(k, cpu).avg.runnable_avg


@inner
def task_util_est(k: Kernel, p: TaskStruct) -> int:
    """task_util_est(): the use that a task is expected to make of a CPU."""
    return max(p.se.avg.util_avg, p.se.avg.util_est)


@apart(VALUE)
def cpu_util(k: Kernel, cpu: int, p: TaskStruct, dst_cpu: int, boost: int) -> int:
    """cpu_util(): the use of a CPU as it is (``p`` is NULL), or as it would be if ``p`` ran on ``dst_cpu``.

    With ``boost``, tasks that wait for the CPU count as use.
    """
    q = cpu_cfs_rq(k, cpu)
    util = q.avg.util_avg
    runnable = q.avg.runnable_avg
    estimate = q.avg.util_est
    if p != NO_TASK:
        if p.cpu == cpu and dst_cpu != cpu:
            util -= min(util, p.se.avg.util_avg)
            runnable -= min(runnable, p.se.avg.runnable_avg)
        elif p.cpu != cpu and dst_cpu == cpu:
            util += p.se.avg.util_avg
            runnable += p.se.avg.runnable_avg
        if dst_cpu == cpu:
            estimate += p.se.avg.util_est
        elif p.se.on_rq != 0 or p.on_rt != 0 or cpu_rq(k, k.this_cpu).curr == p:
            estimate -= min(estimate, p.se.avg.util_est)
    if boost:
        util = max(util, runnable)
    return min(max(util, estimate), CAPACITY)


@inner
def contributes(k: Kernel, cpu: int, p: TaskStruct) -> bool:
    """Return whether the averages of a CPU contain those of ``p``, which a new task's do not."""
    return p.cpu == cpu and p.se.avg.last_update != 0


@inner
def cpu_util_without(k: Kernel, cpu: int, p: TaskStruct) -> int:
    """cpu_util_without(): the use of a CPU without the contribution of ``p``."""
    return cpu_util(k, cpu, p if contributes(k, cpu, p) else NO_TASK, -1, 0)


@inner
def cpu_load_without(k: Kernel, cpu: int, p: TaskStruct) -> int:
    """cpu_load_without(): the load of a CPU without the contribution of ``p``."""
    load = cpu_load(k, cpu)
    if contributes(k, cpu, p):
        load -= min(load, task_h_load(k, p))
    return load


@inner
def cpu_runnable_without(k: Kernel, cpu: int, p: TaskStruct) -> int:
    """cpu_runnable_without(): the runnable average of a CPU without the contribution of ``p``."""
    runnable = cpu_runnable(k, cpu)
    if contributes(k, cpu, p):
        runnable -= min(runnable, p.se.avg.runnable_avg)
    return runnable


@inner
def sync_entity_load_avg(k: Kernel, p: TaskStruct) -> None:
    """sync_entity_load_avg(): let the averages of a task decay up to the last update of its queue."""
    update_blocked_se(k, p.se.cfs_rq.avg.last_update, p.se)


@apart(NOTHING)
def remove_entity_load_avg(k: Kernel, p: TaskStruct) -> None:
    """remove_entity_load_avg(): let the old queue of a task that wakes elsewhere subtract its averages later."""
    sync_entity_load_avg(k, p)
    q = p.se.cfs_rq
    q.removed_nr += 1
    q.removed_util += p.se.avg.util_avg
    q.removed_load += p.se.avg.load_avg
    q.removed_runnable += p.se.avg.runnable_avg


@apart(NOTHING)
def migrate_task(k: Kernel, p: TaskStruct) -> None:
    """migrate_task_rq_fair(): take a task off the averages of the CPU that it leaves (v6.12.107; its end in v6.1).

    A queued task was detached when it was dequeued. A task that sleeps leaves its averages for the old queue to subtract. If its
    old CPU is idle, the averages also decay until now, which the queue of that CPU has not seen yet (migrate_se_pelt_lag()).
    """
    waking = p.state == task_state.WAKING and p.se.sched_delayed == 0
    if waking and p.se.avg.last_update != 0:
        remove_entity_load_avg(k, p)
        if runs_idle(k, p.se.cfs_rq.cpu):
            update_blocked_se(k, k.now_ns, p.se)
    p.se.avg.last_update = 0
    p.se.exec_start = 0
