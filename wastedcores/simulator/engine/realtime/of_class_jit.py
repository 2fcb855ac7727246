"""Whether a task is a real-time one, and what depends on its class."""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.simulator.engine.fair.entity_jit import dequeue_task, enqueue_task
from wastedcores.simulator.engine.world.rows_jit import rt_class
from wastedcores.simulator.engine.world.structs import NO_TASK, Kernel, TaskStruct


@inner
def has_rt(k: Kernel) -> bool:
    """Return whether the program changes policies, so that there may be real-time tasks."""
    return k.rt0 != 0


@inner
def is_rt(k: Kernel, p: TaskStruct) -> bool:
    """Return whether ``p`` is a real-time task; NULL, which stands for the idle task, is none."""
    return p != NO_TASK and p.rt_priority != 0


@inner
def enqueue(k: Kernel, p: TaskStruct, wakeup: int, waking: int) -> None:
    """enqueue_task() of the task's class."""
    if p.rt_priority != 0:
        rt_class(k).enqueue_task(k, p, 0)
    else:
        enqueue_task(k, p, wakeup, waking)


@inner
def dequeue(k: Kernel, p: TaskStruct, sleep: int) -> None:
    """dequeue_task() of the task's class."""
    if p.rt_priority != 0:
        rt_class(k).dequeue_task(k, p)
    else:
        dequeue_task(k, p, sleep)
