"""The place where the scheduler hands over to the real-time class: one call through an address that is in the table.

A program that never changes its policy neither compiles nor loads that class, as with designs (``design/seam_jit.py``).
"""

from __future__ import annotations

from wastedcores.jit.compile import config, inner
from wastedcores.simulator.engine.design.seam_jit import call_at
from wastedcores.simulator.engine.fair.entity_jit import dequeue_task, enqueue_task
from wastedcores.simulator.engine.world.structs import NO_TASK, Kernel, RtShared, TaskStruct

# The questions. Their arguments are (task, head), (task), (cpu, previous task), (cpu, task) twice more, (task, flag),
# (cpu, task) three times, (cpu), nothing, (task, policy, priority), (task) and (cpu).
(
    ENQUEUE,
    DEQUEUE,
    PICK,
    PUT_PREV,
    TICK,
    SELECT,
    PREEMPT,
    WOKEN,
    YIELD,
    POST_SCHEDULE,
    PERIOD,
    SET_POLICY,
    BORN,
    OFFLINE,
) = range(14)

if config.DISABLE_JIT:

    def ask_rt(k: Kernel, question: int, a: int, b: int, c: int) -> int:
        """Return the answer of the real-time class."""
        from wastedcores.simulator.engine.realtime.class_jit import answer

        return answer(k, question, a, b, c)

else:

    @inner
    def ask_rt(k: Kernel, question: int, a: int, b: int, c: int) -> int:
        """Return the answer of the real-time class."""
        return call_at(  # type: ignore[call-arg]
            k, RtShared(k, k.rt0 + k.nr_cpus).entry, question, a, b, c
        )


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
        ask_rt(k, ENQUEUE, p.row, 0, 0)
    else:
        enqueue_task(k, p, wakeup, waking)


@inner
def dequeue(k: Kernel, p: TaskStruct, sleep: int) -> None:
    """dequeue_task() of the task's class."""
    if p.rt_priority != 0:
        ask_rt(k, DEQUEUE, p.row, 0, 0)
    else:
        dequeue_task(k, p, sleep)
