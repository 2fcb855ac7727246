"""References to rows whose place is computed."""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.simulator.engine.world.structs import (
    CfsRq,
    Kernel,
    Modern,
    Rq,
    SchedEntity,
    TaskStruct,
)


@inner
def cpu_rq(k: Kernel, cpu: int) -> Rq:
    """cpu_rq(): the runqueue of a CPU."""
    return Rq(k, cpu)


@inner
def cpu_cfs_rq(k: Kernel, cpu: int) -> CfsRq:
    """``&cpu_rq(cpu)->cfs``: the root queue of a CPU."""
    return CfsRq(k, k.nr_cpus + cpu)


@inner
def modern(k: Kernel) -> Modern:
    """Return the globals that modern kernels have besides."""
    return Modern(k, k.scratch + 6)


@inner
def task_of(se: SchedEntity) -> TaskStruct:
    """task_of(): the task of an entity that is no group's."""
    return TaskStruct(se, se.row)
