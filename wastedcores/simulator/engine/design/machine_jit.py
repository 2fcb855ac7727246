"""Questions that the core and the modules ask about the machine: which CPUs are near, idle or free, and which threads wait."""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.world import core_row, cpuset, rq, sim, table, task
from wastedcores.simulator.engine.world.cpusets_jit import test


@inner
def near(m, cpu, i):
    """Return the CPU that is ``i``-th nearest to ``cpu``; the nearest (0) is ``cpu`` itself."""
    place = cpu * m[0, sim.CPUS] + i
    return m[m[m[0, sim.SETS], core_row.NEAR] + (place >> table.SHIFT), place & table.LOW]


@inner
def is_idle(m, cpu):
    """Return whether the CPU is online and its runqueue is empty."""
    return m[cpu, rq.NR_RUNNING] == 0 and test(m, cpuset.ACTIVE, cpu)


@inner
def is_free(m, p, cpu):
    """Return whether task ``p`` would run there at once: the CPU is idle, or ``p`` already runs there alone."""
    return is_idle(m, cpu) or (m[cpu, rq.CURR] == p and m[cpu, rq.NR_RUNNING] == 1)


@apart(VALUE)
def nearest_free(m, p):
    """Return the free CPU nearest to where ``p`` was, or -1 if there is none."""
    for i in range(m[0, sim.CPUS]):
        cpu = near(m, m[p, task.CPU], i)
        if is_free(m, p, cpu) and test(m, m[p, task.CPUS_ALLOWED], cpu):
            return cpu
    return -1


@apart(VALUE)
def shortest_queue(m, p):
    """Return the CPU with the shortest queue where ``p`` may run, the nearest of equals, or -1 if there is none."""
    best = -1
    for i in range(m[0, sim.CPUS]):
        cpu = near(m, m[p, task.CPU], i)
        if (
            (best < 0 or m[cpu, rq.NR_RUNNING] < m[best, rq.NR_RUNNING])
            and test(m, m[p, task.CPUS_ALLOWED], cpu)
            and test(m, cpuset.ACTIVE, cpu)
        ):
            best = cpu
    return best


@apart(VALUE)
def waiting_thread(m, src, cpu):
    """Return the thread that has been on ``src`` longest among those that wait and may run on ``cpu``, or -1."""
    if m[src, rq.NR_RUNNING] < 2 or src == cpu:
        return -1
    p = m[src, rq.CFS_TASKS_TAIL]
    while p >= 0:
        if p != m[src, rq.CURR] and test(m, m[p, task.CPUS_ALLOWED], cpu):
            return p
        p = m[p, task.CFS_TASKS_PREV]
    return -1


@apart(VALUE)
def nearest_on_node(m, p, start, node, idle):
    """Return a CPU of a node where ``p`` may run: the nearest idle one or, for ``idle`` = 0, the one with the shortest queue."""
    best = -1
    for i in range(m[0, sim.CPUS]):
        cpu = near(m, start, i)
        if m[cpu, rq.NODE] != node:
            continue
        if not test(m, m[p, task.CPUS_ALLOWED], cpu) or not test(m, cpuset.ACTIVE, cpu):
            continue
        if idle != 0:
            if m[cpu, rq.NR_RUNNING] == 0:
                return cpu
        elif best < 0 or m[cpu, rq.NR_RUNNING] < m[best, rq.NR_RUNNING]:
            best = cpu
    return best


@inner
def busy_row(m, i):
    """Return the row of the ``i``-th count of :func:`count_busy`."""
    return m[m[0, sim.SETS], core_row.BUSY] + (i >> table.SHIFT)


@apart(NOTHING)
def count_busy(m, column, n):
    """Count the busy CPUs by the number, below ``n``, in a column of their rows: their node or their last-level cache."""
    for i in range(n):
        m[busy_row(m, i), i & table.LOW] = 0
    for cpu in range(m[0, sim.CPUS]):
        if m[cpu, rq.NR_RUNNING] > 0:
            i = m[cpu, column]
            m[busy_row(m, i), i & table.LOW] += 1


@inner
def busy(m, i):
    """Return the ``i``-th number of the last count."""
    return m[busy_row(m, i), i & table.LOW]
