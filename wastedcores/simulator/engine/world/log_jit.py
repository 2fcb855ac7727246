"""The trace a replay writes (docs/replay-semantics.md, section 6)."""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, apart
from wastedcores.simulator.engine.world.codes import (
    LOG_BALANCE,
    LOG_CONSIDERED,
    LOG_LOAD,
    LOG_MIGRATE,
    LOG_NR_RUNNING,
)
from wastedcores.simulator.engine.world.state import (
    EPOCH_NS,
    G_CONSIDERED,
    G_CPU,
    G_CPUS,
    G_LOAD_LOG,
    G_LOG0,
    G_LOG_N,
    G_LOG_ROOM,
    G_LOST,
    G_NOW,
    LOW,
    R_LOADW,
    R_LOGGED,
    R_NR,
    RECORD,
    SHIFT,
    T_NUM,
)


@apart(NOTHING)
def record(m, kind, cpu, pid, other, src, value, op):
    """Append one record; the loop makes sure there is room."""
    i = m[0, G_LOG_N]
    if i >= m[0, G_LOG_ROOM]:
        m[0, G_LOST] += 1
        return
    m[0, G_LOG_N] = i + 1
    row = m[0, G_LOG0] + (i * RECORD >> SHIFT)
    first = (i * RECORD) & LOW
    m[row, first + 0] = m[0, G_NOW] - EPOCH_NS
    m[row, first + 1] = kind
    m[row, first + 2] = cpu
    m[row, first + 3] = pid
    m[row, first + 4] = other
    m[row, first + 5] = src
    m[row, first + 6] = value
    m[row, first + 7] = op


@inner
def pid_of(m, p):
    """Pid of a task row; 0 for idle."""
    if p < 0:
        return 0
    return m[p, T_NUM] + 1 + m[0, G_CPUS]


@inner
def log_nr(m, cpu):
    """The runqueue's new length."""
    record(m, LOG_NR_RUNNING, cpu, -1, -1, -1, m[cpu, R_NR], -1)


@inner
def log_load(m, cpu):
    """The runqueue's weight, if it is not what was logged last."""
    if m[0, G_LOAD_LOG] != 0 and m[cpu, R_LOADW] != m[cpu, R_LOGGED]:
        m[cpu, R_LOGGED] = m[cpu, R_LOADW]
        record(m, LOG_LOAD, cpu, -1, -1, -1, m[cpu, R_LOADW], -1)


@inner
def log_migrate(m, p, src, dst, why):
    """set_task_cpu()."""
    record(m, LOG_MIGRATE, dst, pid_of(m, p), -1, src, -1, why)


@inner
def log_balance(m, dst, src, why, moved):
    """A load balance that did something."""
    record(m, LOG_BALANCE, dst, -1, -1, src, moved, why)


@inner
def log_considered(m, cpu, mask, look, level):
    """``look`` on behalf of ``cpu`` looks at the CPUs of mask row ``mask`` (paper 4.2)."""
    if m[0, G_CONSIDERED] != 0:
        record(m, LOG_CONSIDERED, cpu, mask, -1, m[0, G_CPU], level, look)
