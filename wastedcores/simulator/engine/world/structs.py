"""All structs of the engine, and a NULL for each struct that pointers refer to. A row of the table (table.py) is a struct."""
# ruff: noqa: F403, F405

from wastedcores.jit.structs import null
from wastedcores.simulator.engine.world.domain_structs import *
from wastedcores.simulator.engine.world.kernel_structs import *
from wastedcores.simulator.engine.world.queue_structs import *

NO_TASK = null(TaskStruct)
NO_ENTITY = null(SchedEntity)
NO_QUEUE = null(CfsRq)
NO_DOMAIN = null(SchedDomain)
NO_GROUP = null(SchedGroup)
