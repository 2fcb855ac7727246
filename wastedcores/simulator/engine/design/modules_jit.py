"""The optimisation modules: each has an opinion on some of three questions (docs/design-mode.md; names: codes.MODULES).

-1 is no opinion. The plain ones, wastedcores/simulator/reference/modules.py, say the same.
"""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.jit.units import VALUE, apart
from wastedcores.simulator.engine.balance.group_stats_jit import (
    OUT_GROUP,
    OUT_IMBALANCE,
    find_busiest_group,
)
from wastedcores.simulator.engine.balance.load_balance_v4_1_jit import (
    E_DST,
    E_IDLE,
    E_IMB,
    E_SD,
    MIGRATION_COST,
    find_busiest_queue,
)
from wastedcores.simulator.engine.balance.select_task_rq_v4_1_jit import select_task_rq_fair
from wastedcores.simulator.engine.design.machine_jit import (
    busy,
    count_busy,
    is_idle,
    near,
    nearest_on_node,
    waiting_thread,
)
from wastedcores.simulator.engine.fair.load_jit import update_blocked_averages
from wastedcores.simulator.engine.world.codes import (
    CPU_NEWLY_IDLE,
    MOD_BALANCE_V4_1,
    MOD_CACHE_AFFINITY,
    MOD_CONTENTION,
    MOD_LOAD_BALANCE,
    MOD_NUMA,
    MOD_POWER,
    MOD_WAKER_LOCALITY,
    MOD_WAKEUP_V4_1,
    SD_BALANCE_EXEC,
    SD_BALANCE_FORK,
    SD_BALANCE_NEWIDLE,
    SD_BALANCE_WAKE,
    WHY_EXEC,
    WHY_FORK,
    WHY_HANDOVER,
    WHY_WAKEUP,
)
from wastedcores.simulator.engine.world.cpusets_jit import start_from_active, test
from wastedcores.simulator.engine.world.state import (
    D_FLAGS,
    G_CPU,
    G_CPUS,
    G_OVERLOAD,
    G_SCRATCH,
    G_SETS,
    K_NODES,
    K_SYNC,
    R_AVG_IDLE,
    R_LLC_ID,
    R_NODE,
    R_NR,
    R_NSD,
    R_SD,
    T_CPU,
    T_HOME,
    T_MASK,
)

NONE = -1
#: to a CPU that ran out of work: stay idle
REST = -2


# --- where should this thread run? ----------------------------------------------------------------------------------------


@inner
def beside_waker(m, p):
    """waker_locality: the idle CPU nearest to the waker on its node, else the waker's own CPU."""
    waker = m[0, G_CPU]
    idle = nearest_on_node(m, p, waker, m[waker, R_NODE], 1)
    return waker if idle < 0 else idle


@inner
def at_home(m, p):
    """numa: an idle CPU of the home node, else its shortest queue."""
    idle = nearest_on_node(m, p, m[p, T_CPU], m[p, T_HOME], 1)
    return nearest_on_node(m, p, m[p, T_CPU], m[p, T_HOME], 0) if idle < 0 else idle


@inner
def quiet_cache(m, p):
    """contention: an idle CPU of the last-level cache with the fewest busy CPUs, the nearest of equals."""
    count_busy(m, R_LLC_ID, m[0, G_CPUS])
    best = NONE
    fewest = 0
    for i in range(m[0, G_CPUS]):
        cpu = near(m, m[p, T_CPU], i)
        if not is_idle(m, cpu) or not test(m, m[p, T_MASK], cpu):
            continue
        sharing = busy(m, m[cpu, R_LLC_ID])
        if best < 0 or sharing < fewest:
            best = cpu
            fewest = sharing
    return best


@inner
def next_busiest(m, last_busy, last_node):
    """The busiest node after ``last_node`` in the order (most busy CPUs, lowest number); -1: no other is awake."""
    best = -1
    for node in range(m[m[0, G_SETS], K_NODES]):
        n = busy(m, node)
        if n == 0 or n > last_busy or (n == last_busy and node <= last_node):
            continue
        if best < 0 or n > busy(m, best):
            best = node
    return best


@inner
def awake_node(m, p):
    """power: an idle CPU of the busiest node that has one, else the shortest queue of the busiest node."""
    count_busy(m, R_NODE, m[m[0, G_SETS], K_NODES])
    for idle in range(1, -1, -1):
        node = next_busiest(m, m[0, G_CPUS] + 1, -1)
        while node >= 0:
            found = nearest_on_node(m, p, m[p, T_CPU], node, idle)
            if found >= 0:
                return found
            node = next_busiest(m, busy(m, node), node)
    return NONE


@inner
def as_v4_1(m, p, why):
    """wakeup_v4_1: select_task_rq_fair(), with the Overload-on-Wakeup bug (paper, section 3.3)."""
    flag = SD_BALANCE_WAKE
    if why == WHY_FORK:
        flag = SD_BALANCE_FORK
    elif why == WHY_EXEC:
        flag = SD_BALANCE_EXEC
    return select_task_rq_fair(m, p, m[p, T_CPU], flag, m[0, G_CPU], m[m[0, G_SETS], K_SYNC])


@apart(VALUE)
def suggest_cpu(m, module, p, why):
    """What a module says to "where should ``p`` run?"."""
    begins = why == WHY_WAKEUP or why == WHY_FORK
    if module == MOD_CACHE_AFFINITY:
        return m[p, T_CPU] if why == WHY_WAKEUP else NONE
    if module == MOD_WAKER_LOCALITY:
        return beside_waker(m, p) if begins else NONE
    if module == MOD_NUMA:
        return at_home(m, p) if why != WHY_FORK else NONE
    if module == MOD_CONTENTION:
        return quiet_cache(m, p)
    if module == MOD_POWER:
        return awake_node(m, p) if begins else NONE
    if module == MOD_WAKEUP_V4_1:
        return as_v4_1(m, p, why) if why != WHY_HANDOVER else NONE
    return NONE


# --- from where should this CPU take work? --------------------------------------------------------------------------------


@inner
def from_own_node(m, cpu):
    """numa: a CPU of the own node; the other nodes' threads stay with their memory."""
    for i in range(m[0, G_CPUS]):
        src = near(m, cpu, i)
        if m[src, R_NODE] == m[cpu, R_NODE] and waiting_thread(m, src, cpu) >= 0:
            return src
    return REST


@inner
def newly_idle_v4_1(m, cpu):
    """balance_v4_1: idle_balance() and the first steps of load_balance(), without their limit of cost."""
    if m[cpu, R_AVG_IDLE] < MIGRATION_COST or m[0, G_OVERLOAD] == 0:
        return REST
    update_blocked_averages(m, cpu)
    st = m[0, G_SCRATCH]
    out = st + 3
    env = st + 4
    first = m[cpu, R_SD]
    for sd in range(first, first + m[cpu, R_NSD]):
        if m[sd, D_FLAGS] & SD_BALANCE_NEWIDLE == 0:
            continue
        m[env, E_SD] = sd
        m[env, E_DST] = cpu
        m[env, E_IDLE] = CPU_NEWLY_IDLE
        start_from_active(m)
        if not find_busiest_group(m, sd, cpu, CPU_NEWLY_IDLE, st, out):
            continue
        m[env, E_IMB] = m[out, OUT_IMBALANCE]
        src = find_busiest_queue(m, env, m[out, OUT_GROUP])
        if src >= 0 and m[src, R_NR] > 1:
            return src
    return REST


@apart(VALUE)
def suggest_source(m, module, cpu):
    """What a module says to "``cpu`` ran out of work: take some from where?"."""
    if module == MOD_NUMA:
        return from_own_node(m, cpu)
    if module == MOD_POWER:
        count_busy(m, R_NODE, m[m[0, G_SETS], K_NODES])
        return NONE if busy(m, m[cpu, R_NODE]) > 0 else REST
    if module == MOD_BALANCE_V4_1:
        return newly_idle_v4_1(m, cpu)
    return NONE


@apart(VALUE)
def suggest_pull(m, module, cpu):
    """What a module says to "``cpu`` ticks: should it take a waiting thread?"."""
    if module != MOD_LOAD_BALANCE:
        return NONE
    longest = cpu
    for i in range(m[0, G_CPUS]):
        other = near(m, cpu, i)
        if m[other, R_NR] > m[longest, R_NR]:
            longest = other
    return longest if m[longest, R_NR] >= m[cpu, R_NR] + 2 else NONE
