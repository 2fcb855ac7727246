"""The core module: no CPU is idle while a thread that may run on it waits (docs/design-mode.md; paper, section 5)."""

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.balance.load_balance_v4_1_jit import attach_task, detach_task
from wastedcores.simulator.engine.codes import log_kind, log_op, sd_flag, suggestion
from wastedcores.simulator.engine.design.modules_jit import (
    NONE,
    REST,
    is_free,
    is_idle,
    near,
    nearest_free,
    shortest_queue,
    suggest_cpu,
    suggest_pull,
    suggest_source,
    waiting_thread,
)
from wastedcores.simulator.engine.fair.load_jit import update_blocked_averages
from wastedcores.simulator.engine.world import cpuset
from wastedcores.simulator.engine.world.cpusets_jit import test
from wastedcores.simulator.engine.world.log_jit import log_balance, pid_of, record
from wastedcores.simulator.engine.world.rows_jit import cpu_rq
from wastedcores.simulator.engine.world.structs import NO_TASK, Kernel, TaskStruct

# --- bookkeeping ----------------------------------------------------------------------------------------------------------


@inner
def count(k: Kernel, module: int, why: int, result: int) -> None:
    """Count an answer: silent, taken or refused."""
    k[k.design.counts + module, 3 * why + result] += 1


@apart(NOTHING)
def refuse(k: Kernel, module: int, why: int, reason: int, cpu: int, src: int, pid: int) -> None:
    """Count and log a suggestion that the core refuses."""
    count(k, module, why, suggestion.REFUSED)
    what = suggestion.MOMENTS * reason + why
    record(k, log_kind.REFUSED, cpu, pid, module, src, what, log_op.REFUSED)


@apart(NOTHING)
def move(k: Kernel, p: TaskStruct, dst: int, why: int) -> None:
    """Move a waiting thread to another runqueue."""
    src = p.cpu
    detach_task(k, p, dst, why)
    attach_task(k, p)
    log_balance(k, dst, src, why, 1)


# --- the moments ----------------------------------------------------------------------------------------------------------


@apart(VALUE)
def place(k: Kernel, p: TaskStruct, why: int, free: int) -> int:
    """Choose a CPU for ``p``. ``free`` is the nearest free CPU; it is -1, and the thread may wait, if no CPU is free."""
    for i in range(k.design.modules):
        module = k.design.module[i]
        cpu = suggest_cpu(k, module, p, why)
        if cpu == NONE:
            count(k, module, why, suggestion.SILENT)
        elif not test(k, p.cpus_allowed, cpu) or not test(k, cpuset.ACTIVE, cpu):
            refuse(k, module, why, suggestion.IMPOSSIBLE, cpu, p.cpu, pid_of(k, p))
        elif free >= 0 and not is_free(k, p, cpu):
            refuse(k, module, why, suggestion.WASTEFUL, cpu, p.cpu, pid_of(k, p))
        else:
            count(k, module, why, suggestion.TAKEN)
            return cpu
    if free >= 0:
        return free
    return p.cpu if why == log_op.EXEC else shortest_queue(k, p)


@apart(VALUE)
def select_cpu(k: Kernel, p: TaskStruct, flag: int, sync: int) -> int:
    """Choose a CPU for a thread that becomes runnable; ``flag`` is SD_BALANCE_WAKE, _FORK or _EXEC."""
    k.design.sync = sync
    why = log_op.EXEC
    if flag == sd_flag.BALANCE_WAKE:
        why = log_op.WAKEUP
    elif flag == sd_flag.BALANCE_FORK:
        why = log_op.FORK
    cpu = place(k, p, why, nearest_free(k, p))
    # If no allowed CPU is online, neither is the thread's own CPU; Linux's search for a fallback then reports the error.
    return cpu if cpu >= 0 else p.cpu


@apart(VALUE)
def pull(k: Kernel, cpu: int) -> int:
    """Take a waiting thread for ``cpu``, which ran out of work; return whether it has one now."""
    cpu_rq(k, cpu).idle_stamp = k.now_ns
    src = -1
    p = NO_TASK
    if test(k, cpuset.ACTIVE, cpu):
        for i in range(k.nr_cpus):
            src = near(k, cpu, i)
            p = waiting_thread(k, src, cpu)
            if p:
                break
    if not p:
        return 0
    for i in range(k.design.modules):
        module = k.design.module[i]
        suggested = suggest_source(k, module, cpu)
        if suggested == NONE:
            count(k, module, log_op.NEWIDLE, suggestion.SILENT)
        elif suggested == REST:
            refuse(k, module, log_op.NEWIDLE, suggestion.WASTEFUL, cpu, src, pid_of(k, p))
        else:
            found = waiting_thread(k, suggested, cpu)
            if found:
                count(k, module, log_op.NEWIDLE, suggestion.TAKEN)
                p = found
                break
            refuse(k, module, log_op.NEWIDLE, suggestion.IMPOSSIBLE, cpu, suggested, pid_of(k, p))
    move(k, p, cpu, log_op.NEWIDLE)
    cpu_rq(k, cpu).idle_stamp = 0
    return 1


@apart(NOTHING)
def task_tick(k: Kernel, cpu: int) -> None:
    """Even out queues when a busy CPU ticks, if a module suggests it."""
    update_blocked_averages(k, cpu)
    for i in range(k.design.modules):
        module = k.design.module[i]
        src = suggest_pull(k, module, cpu)
        if src == NONE:
            count(k, module, log_op.PERIODIC, suggestion.SILENT)
            continue
        p = waiting_thread(k, src, cpu)
        if p:
            count(k, module, log_op.PERIODIC, suggestion.TAKEN)
            move(k, p, cpu, log_op.PERIODIC)
            return
        refuse(k, module, log_op.PERIODIC, suggestion.IMPOSSIBLE, cpu, src, -1)


@inner
def any_idle(k: Kernel) -> bool:
    """Return whether some CPU is idle."""
    for cpu in range(k.nr_cpus):  # noqa: SIM110 (numba has no generators here)
        if is_idle(k, cpu):
            return True
    return False


@apart(NOTHING)
def settle(k: Kernel) -> None:
    """Hand over, after an event, every thread that waits although a CPU is free for it."""
    if not any_idle(k):
        return
    for cpu in range(k.nr_cpus):
        if cpu_rq(k, cpu).nr_running < 2:
            continue
        p = cpu_rq(k, cpu).cfs_tasks_tail
        while p and cpu_rq(k, cpu).nr_running >= 2:
            before = p.cfs_tasks_prev
            if p != cpu_rq(k, cpu).curr:
                free = nearest_free(k, p)
                if free >= 0:
                    move(k, p, place(k, p, log_op.HANDOVER, free), log_op.HANDOVER)
            p = before
