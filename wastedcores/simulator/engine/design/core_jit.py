"""The core module: no CPU is idle while a thread waits that may run there (docs/design-mode.md; paper, section 5).

Its plain Python counterpart is wastedcores/simulator/reference/core.py.
"""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.balance.load_balance_v4_1_jit import attach_task, detach_task
from wastedcores.simulator.engine.codes import log_kind, log_op, sd_flag, suggestion
from wastedcores.simulator.engine.design.machine_jit import (
    is_free,
    is_idle,
    near,
    nearest_free,
    shortest_queue,
    waiting_thread,
)
from wastedcores.simulator.engine.design.modules_jit import (
    NONE,
    REST,
    suggest_cpu,
    suggest_pull,
    suggest_source,
)
from wastedcores.simulator.engine.design.seam_jit import ASK_PLACE, ASK_PULL, ASK_TICK
from wastedcores.simulator.engine.fair.load_jit import update_blocked_averages
from wastedcores.simulator.engine.world import core_row, cpuset, rq, sim, task
from wastedcores.simulator.engine.world.cpusets_jit import test
from wastedcores.simulator.engine.world.log_jit import log_balance, pid_of, record

# --- bookkeeping ----------------------------------------------------------------------------------------------------------


@inner
def modules(m):
    """Return how many modules there are to ask."""
    return m[m[0, sim.SETS], core_row.MODULES]


@inner
def module_at(m, i):
    """Return the code of the ``i``-th module."""
    return m[m[0, sim.SETS], core_row.MODULE0 + i]


@inner
def count(m, module, why, result):
    """Count an answer: silent, taken or refused."""
    m[m[m[0, sim.SETS], core_row.COUNTS] + module, 3 * why + result] += 1


@apart(NOTHING)
def refuse(m, module, why, reason, cpu, src, pid):
    """Count and log a suggestion that the core refuses."""
    count(m, module, why, suggestion.REFUSED)
    record(
        m,
        log_kind.REFUSED,
        cpu,
        pid,
        module,
        src,
        suggestion.MOMENTS * reason + why,
        log_op.REFUSED,
    )


@apart(NOTHING)
def move(m, p, dst, why):
    """Move a waiting thread to another runqueue."""
    src = m[p, task.CPU]
    detach_task(m, p, dst, why)
    attach_task(m, p)
    log_balance(m, dst, src, why, 1)


# --- the moments ----------------------------------------------------------------------------------------------------------


@apart(VALUE)
def place(m, p, why, free):
    """Choose a CPU for ``p``. ``free`` is the nearest free CPU or -1; the thread may wait only if there is none."""
    for i in range(modules(m)):
        module = module_at(m, i)
        cpu = suggest_cpu(m, module, p, why)
        if cpu == NONE:
            count(m, module, why, suggestion.SILENT)
        elif not test(m, m[p, task.CPUS_ALLOWED], cpu) or not test(m, cpuset.ACTIVE, cpu):
            refuse(m, module, why, suggestion.IMPOSSIBLE, cpu, m[p, task.CPU], pid_of(m, p))
        elif free >= 0 and not is_free(m, p, cpu):
            refuse(m, module, why, suggestion.WASTEFUL, cpu, m[p, task.CPU], pid_of(m, p))
        else:
            count(m, module, why, suggestion.TAKEN)
            return cpu
    if free >= 0:
        return free
    return m[p, task.CPU] if why == log_op.EXEC else shortest_queue(m, p)


@inner
def select(m, p, flag, sync):
    """Choose a CPU for a thread that becomes runnable; ``flag`` is SD_BALANCE_WAKE, _FORK or _EXEC."""
    m[m[0, sim.SETS], core_row.SYNC] = sync
    why = log_op.EXEC
    if flag == sd_flag.BALANCE_WAKE:
        why = log_op.WAKEUP
    elif flag == sd_flag.BALANCE_FORK:
        why = log_op.FORK
    cpu = place(m, p, why, nearest_free(m, p))
    # No CPU is allowed. The own CPU is not allowed either, so Linux's search for a fallback reports the error.
    return cpu if cpu >= 0 else m[p, task.CPU]


@apart(VALUE)
def pull(m, cpu):
    """Take a waiting thread for ``cpu``, which ran out of work; return whether it has one now."""
    m[cpu, rq.IDLE_STAMP] = m[0, sim.NOW]
    src = -1
    p = -1
    if test(m, cpuset.ACTIVE, cpu):
        for i in range(m[0, sim.CPUS]):
            src = near(m, cpu, i)
            p = waiting_thread(m, src, cpu)
            if p >= 0:
                break
    if p < 0:
        return 0
    for i in range(modules(m)):
        module = module_at(m, i)
        suggested = suggest_source(m, module, cpu)
        if suggested == NONE:
            count(m, module, log_op.NEWIDLE, suggestion.SILENT)
        elif suggested == REST:
            refuse(m, module, log_op.NEWIDLE, suggestion.WASTEFUL, cpu, src, pid_of(m, p))
        else:
            found = waiting_thread(m, suggested, cpu)
            if found >= 0:
                count(m, module, log_op.NEWIDLE, suggestion.TAKEN)
                p = found
                break
            refuse(m, module, log_op.NEWIDLE, suggestion.IMPOSSIBLE, cpu, suggested, pid_of(m, p))
    move(m, p, cpu, log_op.NEWIDLE)
    m[cpu, rq.IDLE_STAMP] = 0
    return 1


@apart(NOTHING)
def tick(m, cpu):
    """Even out queues when a busy CPU ticks, if a module suggests it."""
    update_blocked_averages(m, cpu)
    for i in range(modules(m)):
        module = module_at(m, i)
        src = suggest_pull(m, module, cpu)
        if src == NONE:
            count(m, module, log_op.PERIODIC, suggestion.SILENT)
            continue
        p = waiting_thread(m, src, cpu)
        if p >= 0:
            count(m, module, log_op.PERIODIC, suggestion.TAKEN)
            move(m, p, cpu, log_op.PERIODIC)
            return
        refuse(m, module, log_op.PERIODIC, suggestion.IMPOSSIBLE, cpu, src, -1)


@inner
def any_idle(m):
    """Return whether some CPU is idle."""
    for cpu in range(m[0, sim.CPUS]):  # noqa: SIM110 (numba has no generators here)
        if is_idle(m, cpu):
            return True
    return False


@apart(NOTHING)
def settle(m):
    """Hand over, after an event, every thread that waits although a CPU is free for it."""
    if not any_idle(m):
        return
    for cpu in range(m[0, sim.CPUS]):
        if m[cpu, rq.NR_RUNNING] < 2:
            continue
        p = m[cpu, rq.CFS_TASKS_TAIL]
        while p >= 0 and m[cpu, rq.NR_RUNNING] >= 2:
            before = m[p, task.CFS_TASKS_PREV]
            if p != m[cpu, rq.CURR]:
                free = nearest_free(m, p)
                if free >= 0:
                    move(m, p, place(m, p, log_op.HANDOVER, free), log_op.HANDOVER)
            p = before


@apart(VALUE, entry=True)
def answer(m, question, a, b, c):
    """Answer a question that the scheduler's own code asks through the seam."""
    if question == ASK_PLACE:
        return select(m, a, b, c)
    if question == ASK_PULL:
        return pull(m, a)
    if question == ASK_TICK:
        tick(m, a)
    else:
        settle(m)
    return 0
