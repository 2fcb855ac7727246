"""The log that a replay writes (docs/replay-semantics.md, section 6; columns in log_column.py)."""

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, apart
from wastedcores.simulator.engine.codes import log_kind
from wastedcores.simulator.engine.world import log_column, table
from wastedcores.simulator.engine.world.rows_jit import cpu_cfs_rq, cpu_rq
from wastedcores.simulator.engine.world.structs import Kernel, TaskStruct


@apart(NOTHING)
def record(
    k: Kernel, kind: int, cpu: int, pid: int, other: int, src: int, value: int, op: int
) -> None:
    """Append one record. The main loop makes sure that there is room for it."""
    i = k.log_n
    if i >= k.log_room:
        k.log_lost += 1
        return
    k.log_n = i + 1
    row = k.log0 + (i * log_column.WIDTH >> table.SHIFT)
    first = (i * log_column.WIDTH) & table.LOW
    k[row, first + 0] = k.now_ns - table.EPOCH_NS
    k[row, first + 1] = kind
    k[row, first + 2] = cpu
    k[row, first + 3] = pid
    k[row, first + 4] = other
    k[row, first + 5] = src
    k[row, first + 6] = value
    k[row, first + 7] = op


@inner
def pid_of(k: Kernel, p: TaskStruct) -> int:
    """Return the pid of a task row, 0 for idle."""
    if not p:
        return 0
    return p.number + 1 + k.nr_cpus


@inner
def log_nr(k: Kernel, cpu: int) -> None:
    """Log the number of runnable tasks: the length of a runqueue without the sleepers that v6.12 keeps queued."""
    asleep = cpu_cfs_rq(k, cpu).h_nr_delayed
    record(k, log_kind.NR_RUNNING, cpu, -1, -1, -1, cpu_rq(k, cpu).nr_running - asleep, -1)


@inner
def log_load(k: Kernel, cpu: int) -> None:
    """Log the weight of a runqueue if it differs from the weight that was logged last."""
    if k.log_load != 0 and cpu_rq(k, cpu).load_weight != cpu_rq(k, cpu).logged_weight:
        cpu_rq(k, cpu).logged_weight = cpu_rq(k, cpu).load_weight
        record(k, log_kind.LOAD, cpu, -1, -1, -1, cpu_rq(k, cpu).load_weight, -1)


@inner
def log_migrate(k: Kernel, p: TaskStruct, src: int, dst: int, why: int) -> None:
    """Log that a task moves to another CPU, as set_task_cpu() does."""
    record(k, log_kind.MIGRATE, dst, pid_of(k, p), -1, src, -1, why)


@inner
def log_affinity(k: Kernel, p: TaskStruct, cpu: int) -> None:
    """Log that ``cpu`` sets the CPUs on which a task may run from now on."""
    record(k, log_kind.AFFINITY, cpu, pid_of(k, p), -1, -1, p.cpus_allowed, -1)


@inner
def log_balance(k: Kernel, dst: int, src: int, why: int, moved: int) -> None:
    """Log a load balancing that had an effect."""
    record(k, log_kind.BALANCE, dst, -1, -1, src, moved, why)


@inner
def log_considered(k: Kernel, cpu: int, mask: int, look: int, level: int) -> None:
    """Log that the kernel function ``look`` examines the CPUs of row ``mask`` on behalf of ``cpu`` (paper, section 4.2)."""
    if k.log_considered != 0:
        record(k, log_kind.CONSIDERED, cpu, mask, -1, k.this_cpu, level, look)
