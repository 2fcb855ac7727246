"""The optimisation modules: each one answers some of three questions (docs/design-mode.md; names in codes/module_code.py).

The answer -1 means that a module has no opinion. The functions before the modules answer questions that the core and the modules
ask about the machine: which CPUs are near, idle or free, and which threads wait.
"""

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.balance.group_stats_jit import find_busiest_group
from wastedcores.simulator.engine.balance.load_balance_v4_1_jit import (
    MIGRATION_COST,
    find_busiest_queue,
)
from wastedcores.simulator.engine.balance.select_task_rq_v4_1_jit import select_task_rq_fair
from wastedcores.simulator.engine.codes import idle_type, log_op, module_code, sd_flag
from wastedcores.simulator.engine.core.stretch_jit import khz_of
from wastedcores.simulator.engine.fair.load_jit import update_blocked_averages
from wastedcores.simulator.engine.world import cpuset, table
from wastedcores.simulator.engine.world.cpusets_jit import start_from_active, test
from wastedcores.simulator.engine.world.rows_jit import cpu_rq
from wastedcores.simulator.engine.world.structs import (
    NO_TASK,
    Kernel,
    LbEnv,
    Rq,
    SchedDomain,
    SdLbStats,
    TaskStruct,
)
from wastedcores.workload import ops


@inner
def near(k: Kernel, cpu: int, i: int) -> int:
    """Return the CPU that is ``i``-th nearest to ``cpu``; the nearest (0) is ``cpu`` itself."""
    place = cpu * k.nr_cpus + i
    return k[k.design.near_list + (place >> table.SHIFT), place & table.LOW]


@inner
def is_idle(k: Kernel, cpu: int) -> int:
    """Return whether the CPU is online and its runqueue is empty."""
    return cpu_rq(k, cpu).nr_running == 0 and test(k, cpuset.ACTIVE, cpu)


@inner
def is_free(k: Kernel, p: TaskStruct, cpu: int) -> int:
    """Return whether task ``p`` would run there at once: the CPU is idle, or ``p`` already runs there alone."""
    return is_idle(k, cpu) or (cpu_rq(k, cpu).curr == p and cpu_rq(k, cpu).nr_running == 1)


@apart(VALUE)
def nearest_free(k: Kernel, p: TaskStruct) -> int:
    """Return the free CPU that is nearest to the last CPU of ``p``, or -1 if there is none."""
    for i in range(k.nr_cpus):
        cpu = near(k, p.cpu, i)
        if is_free(k, p, cpu) and test(k, p.cpus_allowed, cpu):
            return cpu
    return -1


@apart(VALUE)
def shortest_queue(k: Kernel, p: TaskStruct) -> int:
    """Return the CPU with the shortest queue among the CPUs where ``p`` may run; of several, the nearest; -1 if there is none."""
    best = -1
    for i in range(k.nr_cpus):
        cpu = near(k, p.cpu, i)
        if (
            (best < 0 or cpu_rq(k, cpu).nr_running < cpu_rq(k, best).nr_running)
            and test(k, p.cpus_allowed, cpu)
            and test(k, cpuset.ACTIVE, cpu)
        ):
            best = cpu
    return best


@apart(VALUE)
def waiting_thread(k: Kernel, src: int, cpu: int) -> TaskStruct:
    """Return the thread that waits on ``src``, may run on ``cpu`` and has been on ``src`` for longest, or NULL."""
    if cpu_rq(k, src).nr_running < 2 or src == cpu:
        return NO_TASK
    p = cpu_rq(k, src).cfs_tasks_tail
    while p:
        if p != cpu_rq(k, src).curr and test(k, p.cpus_allowed, cpu):
            return p
        p = p.cfs_tasks_prev
    return NO_TASK


@apart(VALUE)
def nearest_on_node(k: Kernel, p: TaskStruct, start: int, node: int, idle: int) -> int:
    """Return a CPU of a node where ``p`` may run: the nearest idle CPU or, if ``idle`` is 0, the CPU with the shortest queue."""
    best = -1
    for i in range(k.nr_cpus):
        cpu = near(k, start, i)
        if cpu_rq(k, cpu).node != node:
            continue
        if not test(k, p.cpus_allowed, cpu) or not test(k, cpuset.ACTIVE, cpu):
            continue
        if idle != 0:
            if cpu_rq(k, cpu).nr_running == 0:
                return cpu
        elif best < 0 or cpu_rq(k, cpu).nr_running < cpu_rq(k, best).nr_running:
            best = cpu
    return best


@inner
def busy_row(k: Kernel, i: int) -> int:
    """Return the row of the ``i``-th count of :func:`count_busy`."""
    return k.design.busy + (i >> table.SHIFT)


@apart(NOTHING)
def count_busy(k: Kernel, column: int, n: int) -> None:
    """Count the busy CPUs of each node or last-level cache. Column ``column`` has a CPU's node or cache, a number below ``n``."""
    for i in range(n):
        k[busy_row(k, i), i & table.LOW] = 0
    for cpu in range(k.nr_cpus):
        if cpu_rq(k, cpu).nr_running > 0:
            i = k[cpu, column]
            k[busy_row(k, i), i & table.LOW] += 1


@inner
def busy(k: Kernel, i: int) -> int:
    """Return the ``i``-th number of the last :func:`count_busy`."""
    return k[busy_row(k, i), i & table.LOW]


NONE = -1
#: the suggestion to stay idle, for a CPU that ran out of work
REST = -2


# --- where should this thread run? ----------------------------------------------------------------------------------------


@inner
def beside_waker(k: Kernel, p: TaskStruct) -> int:
    """waker_locality: return the waker's nearest idle CPU on its node, or the waker's own CPU if no CPU there is idle."""
    waker = k.this_cpu
    idle = nearest_on_node(k, p, waker, cpu_rq(k, waker).node, 1)
    return waker if idle < 0 else idle


@inner
def at_home(k: Kernel, p: TaskStruct) -> int:
    """numa: return an idle CPU of the home node, else the CPU with the node's shortest queue."""
    idle = nearest_on_node(k, p, p.cpu, p.home, 1)
    return nearest_on_node(k, p, p.cpu, p.home, 0) if idle < 0 else idle


@inner
def quiet_cache(k: Kernel, p: TaskStruct) -> int:
    """contention: return an idle CPU of the last-level cache with the fewest busy CPUs; of several, the nearest."""
    count_busy(k, Rq.sd_llc_id, k.nr_cpus)
    best = NONE
    fewest = 0
    for i in range(k.nr_cpus):
        cpu = near(k, p.cpu, i)
        if not is_idle(k, cpu) or not test(k, p.cpus_allowed, cpu):
            continue
        sharing = busy(k, cpu_rq(k, cpu).sd_llc_id)
        if best < 0 or sharing < fewest:
            best = cpu
            fewest = sharing
    return best


@inner
def next_busiest(k: Kernel, last_busy: int, last_node: int) -> int:
    """Return the node after ``last_node`` if nodes are sorted by busy CPUs (most first), then by number; -1 if none is left."""
    best = -1
    for node in range(k.design.nodes):
        n = busy(k, node)
        if n == 0 or n > last_busy or (n == last_busy and node <= last_node):
            continue
        if best < 0 or n > busy(k, best):
            best = node
    return best


@inner
def awake_node(k: Kernel, p: TaskStruct) -> int:
    """power: return an idle CPU of the busiest node that has one, else the CPU with the shortest queue of the busiest node."""
    count_busy(k, Rq.node, k.design.nodes)
    for idle in range(1, -1, -1):
        node = next_busiest(k, k.nr_cpus + 1, -1)
        while node >= 0:
            found = nearest_on_node(k, p, p.cpu, node, idle)
            if found >= 0:
                return found
            node = next_busiest(k, busy(k, node), node)
    return NONE


@inner
def beside_waiting_parent(k: Kernel, p: TaskStruct) -> int:
    """fork_flag: return the parent's CPU if the parent's next operation waits for its children."""
    parent = p.parent
    if not parent or parent.pc.code != ops.OP_WAIT_CHILDREN:
        return NONE
    return k.this_cpu


@inner
def fastest_idle(k: Kernel, p: TaskStruct) -> int:
    """fast_core: return the idle CPU whose core has the highest frequency; of several, the nearest to the waker."""
    if k.clock0 == 0:
        return NONE
    best = NONE
    highest = -1
    for i in range(k.nr_cpus):
        cpu = near(k, k.this_cpu, i)
        if is_idle(k, cpu) and test(k, p.cpus_allowed, cpu) and khz_of(k, cpu) > highest:
            best = cpu
            highest = khz_of(k, cpu)
    return best


@inner
def as_v4_1(k: Kernel, p: TaskStruct, why: int) -> int:
    """wakeup_v4_1: return the choice of select_task_rq_fair(), with the Overload-on-Wakeup bug (paper, section 3.3)."""
    flag = sd_flag.BALANCE_WAKE
    if why == log_op.FORK:
        flag = sd_flag.BALANCE_FORK
    elif why == log_op.EXEC:
        flag = sd_flag.BALANCE_EXEC
    return select_task_rq_fair(k, p, p.cpu, flag, k.this_cpu, k.design.sync)


@apart(VALUE)
def suggest_cpu(k: Kernel, module: int, p: TaskStruct, why: int) -> int:
    """Return the CPU on which a module suggests to run ``p``, NONE for no opinion."""
    begins = why == log_op.WAKEUP or why == log_op.FORK
    if module == module_code.CACHE_AFFINITY:
        return p.cpu if why == log_op.WAKEUP else NONE
    if module == module_code.WAKER_LOCALITY:
        return beside_waker(k, p) if begins else NONE
    if module == module_code.NUMA:
        return at_home(k, p) if why != log_op.FORK else NONE
    if module == module_code.CONTENTION:
        return quiet_cache(k, p)
    if module == module_code.POWER:
        return awake_node(k, p) if begins else NONE
    if module == module_code.WAKEUP_V4_1:
        return as_v4_1(k, p, why) if why != log_op.HANDOVER else NONE
    if module == module_code.FORK_FLAG:
        return beside_waiting_parent(k, p) if why == log_op.FORK else NONE
    if module == module_code.FAST_CORE:
        return fastest_idle(k, p) if begins else NONE
    return NONE


# --- from where should this CPU take work? --------------------------------------------------------------------------------


@inner
def from_own_node(k: Kernel, cpu: int) -> int:
    """numa: return a CPU of the same node, because the threads of other nodes should stay with their memory."""
    for i in range(k.nr_cpus):
        src = near(k, cpu, i)
        if cpu_rq(k, src).node == cpu_rq(k, cpu).node and waiting_thread(k, src, cpu):
            return src
    return REST


@inner
def newly_idle_v4_1(k: Kernel, cpu: int) -> int:
    """balance_v4_1: return the CPU that idle_balance() and the first steps of load_balance() choose without their cost limit."""
    if cpu_rq(k, cpu).avg_idle < MIGRATION_COST or k.overload == 0:
        return REST
    update_blocked_averages(k, cpu)
    st = k.scratch
    out = SdLbStats(k, st + 3)
    env = LbEnv(k, st + 4)
    first = cpu_rq(k, cpu).sd.row
    for sd_row in range(first, first + cpu_rq(k, cpu).nr_domains):
        sd = SchedDomain(k, sd_row)
        if sd.flags & sd_flag.BALANCE_NEWIDLE == 0:
            continue
        env.sd = sd
        env.dst_cpu = cpu
        env.idle = idle_type.NEWLY_IDLE
        start_from_active(k)
        if not find_busiest_group(k, sd, cpu, idle_type.NEWLY_IDLE, st, out):
            continue
        env.imbalance = out.imbalance
        src = find_busiest_queue(k, env, out.busiest)
        if src >= 0 and cpu_rq(k, src).nr_running > 1:
            return src
    return REST


@apart(VALUE)
def suggest_source(k: Kernel, module: int, cpu: int) -> int:
    """Return the CPU from which a module suggests that ``cpu``, which ran out of work, takes a thread; or REST, or NONE."""
    if module == module_code.NUMA:
        return from_own_node(k, cpu)
    if module == module_code.POWER:
        count_busy(k, Rq.node, k.design.nodes)
        return NONE if busy(k, cpu_rq(k, cpu).node) > 0 else REST
    if module == module_code.BALANCE_V4_1:
        return newly_idle_v4_1(k, cpu)
    return NONE


@apart(VALUE)
def suggest_pull(k: Kernel, module: int, cpu: int) -> int:
    """Return the CPU from which a module suggests that ``cpu``, which ticks, takes a waiting thread; NONE for no opinion."""
    if module != module_code.LOAD_BALANCE:
        return NONE
    longest = cpu
    for i in range(k.nr_cpus):
        other = near(k, cpu, i)
        if cpu_rq(k, other).nr_running > cpu_rq(k, longest).nr_running:
            longest = other
    return longest if cpu_rq(k, longest).nr_running >= cpu_rq(k, cpu).nr_running + 2 else NONE
