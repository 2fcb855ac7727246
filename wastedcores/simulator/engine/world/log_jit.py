"""The log that a replay writes (docs/replay-semantics.md, section 6; columns in log_column.py)."""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, apart
from wastedcores.simulator.engine.codes import log_kind
from wastedcores.simulator.engine.world import eevdf, log_column, rq, sim, table, task


@apart(NOTHING)
def record(m, kind, cpu, pid, other, src, value, op):
    """Append one record. The loop makes sure that there is room."""
    i = m[0, sim.LOG_N]
    if i >= m[0, sim.LOG_ROOM]:
        m[0, sim.LOG_LOST] += 1
        return
    m[0, sim.LOG_N] = i + 1
    row = m[0, sim.LOG0] + (i * log_column.WIDTH >> table.SHIFT)
    first = (i * log_column.WIDTH) & table.LOW
    m[row, first + 0] = m[0, sim.NOW] - table.EPOCH_NS
    m[row, first + 1] = kind
    m[row, first + 2] = cpu
    m[row, first + 3] = pid
    m[row, first + 4] = other
    m[row, first + 5] = src
    m[row, first + 6] = value
    m[row, first + 7] = op


@inner
def pid_of(m, p):
    """Return the pid of a task row, 0 for idle."""
    if p < 0:
        return 0
    return m[p, task.NUMBER] + 1 + m[0, sim.CPUS]


@inner
def log_nr(m, cpu):
    """Log the number of runnable tasks: the length of a runqueue without the sleepers that v6.12 keeps queued."""
    asleep = m[m[0, sim.CPUS] + cpu, eevdf.H_NR_DELAYED]
    record(m, log_kind.NR_RUNNING, cpu, -1, -1, -1, m[cpu, rq.NR_RUNNING] - asleep, -1)


@inner
def log_load(m, cpu):
    """Log the weight of a runqueue, if it differs from what was logged last."""
    if m[0, sim.LOG_LOAD] != 0 and m[cpu, rq.LOAD_WEIGHT] != m[cpu, rq.LOGGED_WEIGHT]:
        m[cpu, rq.LOGGED_WEIGHT] = m[cpu, rq.LOAD_WEIGHT]
        record(m, log_kind.LOAD, cpu, -1, -1, -1, m[cpu, rq.LOAD_WEIGHT], -1)


@inner
def log_migrate(m, p, src, dst, why):
    """Log that a task moves to another CPU, as set_task_cpu() does."""
    record(m, log_kind.MIGRATE, dst, pid_of(m, p), -1, src, -1, why)


@inner
def log_affinity(m, p, cpu):
    """Log that ``cpu`` sets the CPUs on which a task may run from now on."""
    record(m, log_kind.AFFINITY, cpu, pid_of(m, p), -1, -1, m[p, task.CPUS_ALLOWED], -1)


@inner
def log_balance(m, dst, src, why, moved):
    """Log a load balancing that had an effect."""
    record(m, log_kind.BALANCE, dst, -1, -1, src, moved, why)


@inner
def log_considered(m, cpu, mask, look, level):
    """Log that ``look`` looks at the CPUs of mask row ``mask`` on behalf of ``cpu`` (paper, section 4.2)."""
    if m[0, sim.LOG_CONSIDERED] != 0:
        record(m, log_kind.CONSIDERED, cpu, mask, -1, m[0, sim.CPU], level, look)
