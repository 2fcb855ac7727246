"""References to rows whose place is computed."""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.simulator.engine.world.structs import (
    CfsRq,
    Kernel,
    Modern,
    Rq,
    SchedDomain,
    SchedEntity,
    SchedGroup,
    TaskStruct,
)
from wastedcores.simulator.engine.world.table import MODERN_ROW


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
    return Modern(k, k.scratch + MODERN_ROW)


@inner
def task_of(se: SchedEntity) -> TaskStruct:
    """task_of(): the task of an entity that is no group's."""
    return TaskStruct(se, se.row)


@inner
def domain_at(k: Kernel, cpu: int, height: int) -> SchedDomain:
    """Return the domain of a CPU at a height, 0 for the innermost one, as for_each_domain() goes through them."""
    return SchedDomain(k, cpu_rq(k, cpu).sd.row + height)


@inner
def group_at(sd: SchedDomain, place: int) -> SchedGroup:
    """Return the group at a place in the ring of a domain, 0 for the local group: sd->groups and its ->next."""
    return SchedGroup(sd, sd.groups.row + place)
