"""All structs of the engine, and the NULL of each that is pointed to. A row of the world's table (table.py) is one of them."""

from __future__ import annotations

from wastedcores.jit.structs import null
from wastedcores.simulator.engine.world.class_structs import (
    Balancer,
    ClockFunctions,
    CoreModule,
    FairClass,
    RtClass,
)
from wastedcores.simulator.engine.world.domain_structs import (
    Decision,
    DecisionGroup,
    LbEnv,
    SchedDomain,
    SchedDomainShared,
    SchedGroup,
    SchedGroupCapacity,
    SdLbStats,
    SgLbStats,
    SgLbStatsV4,
)
from wastedcores.simulator.engine.world.kernel_structs import (
    Clock,
    ClockConstants,
    Design,
    HotplugStep,
    Kernel,
    Modern,
    Op,
    WaitObject,
)
from wastedcores.simulator.engine.world.queue_structs import CfsRq, Rq, RqModern, RtRq, RtShared
from wastedcores.simulator.engine.world.task_structs import (
    RandomState,
    SchedAvg,
    SchedEntity,
    TaskGroup,
    TaskStruct,
)

NO_TASK = null(TaskStruct)
NO_ENTITY = null(SchedEntity)
NO_QUEUE = null(CfsRq)
NO_DOMAIN = null(SchedDomain)
NO_GROUP = null(SchedGroup)
NO_SHARED = null(SchedDomainShared)
NO_CLOCK = null(Clock)

__all__ = [
    "NO_CLOCK",
    "NO_DOMAIN",
    "NO_ENTITY",
    "NO_GROUP",
    "NO_QUEUE",
    "NO_SHARED",
    "NO_TASK",
    "Balancer",
    "CfsRq",
    "Clock",
    "ClockConstants",
    "ClockFunctions",
    "CoreModule",
    "Decision",
    "DecisionGroup",
    "Design",
    "FairClass",
    "HotplugStep",
    "Kernel",
    "LbEnv",
    "Modern",
    "Op",
    "RandomState",
    "Rq",
    "RqModern",
    "RtClass",
    "RtRq",
    "RtShared",
    "SchedAvg",
    "SchedDomain",
    "SchedDomainShared",
    "SchedEntity",
    "SchedGroup",
    "SchedGroupCapacity",
    "SdLbStats",
    "SgLbStats",
    "SgLbStatsV4",
    "TaskGroup",
    "TaskStruct",
    "WaitObject",
]
