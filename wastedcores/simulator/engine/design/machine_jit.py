"""Questions that the core and the modules ask about the machine: which CPUs are near, idle or free, and which threads wait."""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.world import cpuset, table
from wastedcores.simulator.engine.world.cpusets_jit import test
from wastedcores.simulator.engine.world.rows_jit import cpu_rq
from wastedcores.simulator.engine.world.structs import NO_TASK, Kernel, TaskStruct


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
    """Return the free CPU nearest to where ``p`` was, or -1 if there is none."""
    for i in range(k.nr_cpus):
        cpu = near(k, p.cpu, i)
        if is_free(k, p, cpu) and test(k, p.cpus_allowed, cpu):
            return cpu
    return -1


@apart(VALUE)
def shortest_queue(k: Kernel, p: TaskStruct) -> int:
    """Return the CPU with the shortest queue where ``p`` may run, the nearest of equals, or -1 if there is none."""
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
    """Return the thread that has been on ``src`` longest among those that wait and may run on ``cpu``, or NULL."""
    if cpu_rq(k, src).nr_running < 2 or src == cpu:
        return NO_TASK
    p = cpu_rq(k, src).cfs_tasks_tail
    while p != NO_TASK:
        if p != cpu_rq(k, src).curr and test(k, p.cpus_allowed, cpu):
            return p
        p = p.cfs_tasks_prev
    return NO_TASK


@apart(VALUE)
def nearest_on_node(k: Kernel, p: TaskStruct, start: int, node: int, idle: int) -> int:
    """Return a CPU of a node where ``p`` may run: the nearest idle one or, for ``idle`` = 0, the one with the shortest queue."""
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
    """Count the busy CPUs by the number, below ``n``, in a column of their rows: their node or their last-level cache."""
    for i in range(n):
        k[busy_row(k, i), i & table.LOW] = 0
    for cpu in range(k.nr_cpus):
        if cpu_rq(k, cpu).nr_running > 0:
            i = k[cpu, column]
            k[busy_row(k, i), i & table.LOW] += 1


@inner
def busy(k: Kernel, i: int) -> int:
    """Return the ``i``-th number of the last count."""
    return k[busy_row(k, i), i & table.LOW]
