"""References to rows whose place has to be computed, and a test of whether a CPU runs its idle task."""

from wastedcores.jit.compile import inner
from wastedcores.simulator.engine.world.kernel_structs import (
    Balancer,
    ClockFunctions,
    CoreModule,
    FairClass,
    RtClass,
)
from wastedcores.simulator.engine.world.structs import (
    NO_TASK,
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
    """Return the additional globals of modern kernels."""
    return Modern(k, k.scratch + MODERN_ROW)


@inner
def task_of(se: SchedEntity) -> TaskStruct:
    """task_of(): the task of an entity that is not the entity of a group."""
    return TaskStruct(se, se.row)


@inner
def domain_at(k: Kernel, cpu: int, height: int) -> SchedDomain:
    """Return the domain of a CPU at a height: 0 is the innermost domain, as in the order of for_each_domain()."""
    return SchedDomain(k, cpu_rq(k, cpu).sd.row + height)


@inner
def group_at(sd: SchedDomain, place: int) -> SchedGroup:
    """Return the group at a place in the ring of a domain: 0 is the local group (sd->groups), 1 its ->next, and so on."""
    return SchedGroup(sd, sd.groups.row + place)


@inner
def fair_class(k: Kernel) -> FairClass:
    """Return the functions of the fair class of a modern kernel."""
    return FairClass(k, k.scratch + MODERN_ROW)


@inner
def balancer(k: Kernel) -> Balancer:
    """Return the functions of a modern kernel's placement and balancing."""
    return Balancer(k, k.scratch + MODERN_ROW)


@inner
def rt_class(k: Kernel) -> RtClass:
    """Return the functions of the real-time class, which only a replay with ``k.rt0 != 0`` has."""
    return RtClass(k, k.rt0 + k.nr_cpus)


@inner
def core_module(k: Kernel) -> CoreModule:
    """Return the functions of a design."""
    return CoreModule(k, k.design.row)


@inner
def clock_functions(k: Kernel) -> ClockFunctions:
    """Return the functions of the clocks, which only a replay with ``k.clock0 != 0`` has."""
    return ClockFunctions(k, k.clock0 + k.nr_cpus)


@inner
def runs_idle(k: Kernel, cpu: int) -> bool:
    """Return whether a CPU runs its idle task, and neither another task nor the stopper."""
    return cpu_rq(k, cpu).curr == NO_TASK and cpu_cfs_rq(k, cpu).rq_modern.stopper_runs == 0
