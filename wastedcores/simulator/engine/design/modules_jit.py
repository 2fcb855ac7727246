"""The optimisation modules: each one answers some of three questions (docs/design-mode.md; names in codes/module_code.py).

-1 means that a module has no opinion. wastedcores/simulator/reference/modules.py has the same modules in plain Python.
"""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.jit.units import VALUE, apart
from wastedcores.simulator.engine.balance.group_stats_jit import find_busiest_group
from wastedcores.simulator.engine.balance.load_balance_v4_1_jit import (
    MIGRATION_COST,
    find_busiest_queue,
)
from wastedcores.simulator.engine.balance.select_task_rq_v4_1_jit import select_task_rq_fair
from wastedcores.simulator.engine.clocks.khz_jit import khz_of
from wastedcores.simulator.engine.codes import idle_type, log_op, module_code, sd_flag
from wastedcores.simulator.engine.design.machine_jit import (
    busy,
    count_busy,
    is_idle,
    near,
    nearest_on_node,
    waiting_thread,
)
from wastedcores.simulator.engine.fair.load_jit import update_blocked_averages
from wastedcores.simulator.engine.world import core_row, domain, lb_env, rq, sds, sim, task
from wastedcores.simulator.engine.world.cpusets_jit import start_from_active, test
from wastedcores.workload import ops

NONE = -1
#: the suggestion that a CPU that ran out of work should stay idle
REST = -2


# --- where should this thread run? ----------------------------------------------------------------------------------------


@inner
def beside_waker(m, p):
    """waker_locality: return the idle CPU of the waker's node nearest to the waker, else the waker's own CPU."""
    waker = m[0, sim.CPU]
    idle = nearest_on_node(m, p, waker, m[waker, rq.NODE], 1)
    return waker if idle < 0 else idle


@inner
def at_home(m, p):
    """numa: return an idle CPU of the home node, else the one with its shortest queue."""
    idle = nearest_on_node(m, p, m[p, task.CPU], m[p, task.HOME], 1)
    return nearest_on_node(m, p, m[p, task.CPU], m[p, task.HOME], 0) if idle < 0 else idle


@inner
def quiet_cache(m, p):
    """contention: return an idle CPU of the last-level cache with the fewest busy CPUs, the nearest of equals."""
    count_busy(m, rq.SD_LLC_ID, m[0, sim.CPUS])
    best = NONE
    fewest = 0
    for i in range(m[0, sim.CPUS]):
        cpu = near(m, m[p, task.CPU], i)
        if not is_idle(m, cpu) or not test(m, m[p, task.CPUS_ALLOWED], cpu):
            continue
        sharing = busy(m, m[cpu, rq.SD_LLC_ID])
        if best < 0 or sharing < fewest:
            best = cpu
            fewest = sharing
    return best


@inner
def next_busiest(m, last_busy, last_node):
    """Return the busiest node after ``last_node`` in the order (most busy CPUs, lowest number), or -1 if no other is busy."""
    best = -1
    for node in range(m[m[0, sim.SETS], core_row.NODES]):
        n = busy(m, node)
        if n == 0 or n > last_busy or (n == last_busy and node <= last_node):
            continue
        if best < 0 or n > busy(m, best):
            best = node
    return best


@inner
def awake_node(m, p):
    """power: return an idle CPU of the busiest node that has one, else the one with the shortest queue of the busiest node."""
    count_busy(m, rq.NODE, m[m[0, sim.SETS], core_row.NODES])
    for idle in range(1, -1, -1):
        node = next_busiest(m, m[0, sim.CPUS] + 1, -1)
        while node >= 0:
            found = nearest_on_node(m, p, m[p, task.CPU], node, idle)
            if found >= 0:
                return found
            node = next_busiest(m, busy(m, node), node)
    return NONE


@inner
def beside_waiting_parent(m, p):
    """fork_flag: return the parent's CPU if the parent's next operation waits for its children."""
    parent = m[p, task.PARENT]
    if parent < 0 or m[m[parent, task.PC], 0] != ops.OP_WAIT_CHILDREN:
        return NONE
    return m[0, sim.CPU]


@inner
def fastest_idle(m, p):
    """fast_core: return the idle CPU whose core has the highest frequency, of equal ones the nearest to the waker."""
    if m[0, sim.CLOCK0] == 0:
        return NONE
    best = NONE
    highest = -1
    for i in range(m[0, sim.CPUS]):
        cpu = near(m, m[0, sim.CPU], i)
        if is_idle(m, cpu) and test(m, m[p, task.CPUS_ALLOWED], cpu) and khz_of(m, cpu) > highest:
            best = cpu
            highest = khz_of(m, cpu)
    return best


@inner
def as_v4_1(m, p, why):
    """wakeup_v4_1: return the choice of select_task_rq_fair(), with the Overload-on-Wakeup bug (paper, section 3.3)."""
    flag = sd_flag.BALANCE_WAKE
    if why == log_op.FORK:
        flag = sd_flag.BALANCE_FORK
    elif why == log_op.EXEC:
        flag = sd_flag.BALANCE_EXEC
    return select_task_rq_fair(
        m, p, m[p, task.CPU], flag, m[0, sim.CPU], m[m[0, sim.SETS], core_row.SYNC]
    )


@apart(VALUE)
def suggest_cpu(m, module, p, why):
    """Return a module's answer to the question where ``p`` should run."""
    begins = why == log_op.WAKEUP or why == log_op.FORK
    if module == module_code.CACHE_AFFINITY:
        return m[p, task.CPU] if why == log_op.WAKEUP else NONE
    if module == module_code.WAKER_LOCALITY:
        return beside_waker(m, p) if begins else NONE
    if module == module_code.NUMA:
        return at_home(m, p) if why != log_op.FORK else NONE
    if module == module_code.CONTENTION:
        return quiet_cache(m, p)
    if module == module_code.POWER:
        return awake_node(m, p) if begins else NONE
    if module == module_code.WAKEUP_V4_1:
        return as_v4_1(m, p, why) if why != log_op.HANDOVER else NONE
    if module == module_code.FORK_FLAG:
        return beside_waiting_parent(m, p) if why == log_op.FORK else NONE
    if module == module_code.FAST_CORE:
        return fastest_idle(m, p) if begins else NONE
    return NONE


# --- from where should this CPU take work? --------------------------------------------------------------------------------


@inner
def from_own_node(m, cpu):
    """numa: return a CPU of the own node, because the threads of other nodes should stay with their memory."""
    for i in range(m[0, sim.CPUS]):
        src = near(m, cpu, i)
        if m[src, rq.NODE] == m[cpu, rq.NODE] and waiting_thread(m, src, cpu) >= 0:
            return src
    return REST


@inner
def newly_idle_v4_1(m, cpu):
    """balance_v4_1: return the choice of idle_balance() and the first steps of load_balance(), without their cost limit."""
    if m[cpu, rq.AVG_IDLE] < MIGRATION_COST or m[0, sim.OVERLOAD] == 0:
        return REST
    update_blocked_averages(m, cpu)
    st = m[0, sim.SCRATCH]
    out = st + 3
    env = st + 4
    first = m[cpu, rq.SD]
    for sd in range(first, first + m[cpu, rq.NR_DOMAINS]):
        if m[sd, domain.FLAGS] & sd_flag.BALANCE_NEWIDLE == 0:
            continue
        m[env, lb_env.SD] = sd
        m[env, lb_env.DST_CPU] = cpu
        m[env, lb_env.IDLE] = idle_type.NEWLY_IDLE
        start_from_active(m)
        if not find_busiest_group(m, sd, cpu, idle_type.NEWLY_IDLE, st, out):
            continue
        m[env, lb_env.IMBALANCE] = m[out, sds.IMBALANCE]
        src = find_busiest_queue(m, env, m[out, sds.BUSIEST])
        if src >= 0 and m[src, rq.NR_RUNNING] > 1:
            return src
    return REST


@apart(VALUE)
def suggest_source(m, module, cpu):
    """Return a module's answer to the question from where ``cpu``, which ran out of work, should take a thread."""
    if module == module_code.NUMA:
        return from_own_node(m, cpu)
    if module == module_code.POWER:
        count_busy(m, rq.NODE, m[m[0, sim.SETS], core_row.NODES])
        return NONE if busy(m, m[cpu, rq.NODE]) > 0 else REST
    if module == module_code.BALANCE_V4_1:
        return newly_idle_v4_1(m, cpu)
    return NONE


@apart(VALUE)
def suggest_pull(m, module, cpu):
    """Return a module's answer to the question from where ``cpu``, which ticks, should take a waiting thread."""
    if module != module_code.LOAD_BALANCE:
        return NONE
    longest = cpu
    for i in range(m[0, sim.CPUS]):
        other = near(m, cpu, i)
        if m[other, rq.NR_RUNNING] > m[longest, rq.NR_RUNNING]:
            longest = other
    return longest if m[longest, rq.NR_RUNNING] >= m[cpu, rq.NR_RUNNING] + 2 else NONE
