"""The place where the scheduler hands over to the real-time class: one call through an address that is in the table.

A program that never changes its policy neither compiles nor loads that class, as with designs (``design/seam_jit.py``).
"""

from __future__ import annotations

from wastedcores.jit.compile import config, inner
from wastedcores.simulator.engine.design.seam_jit import call_at
from wastedcores.simulator.engine.fair.entity_jit import dequeue_task, enqueue_task
from wastedcores.simulator.engine.world import rt_rq, sim, task

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

    def ask_rt(m, question, a, b, c):
        """Return the answer of the real-time class."""
        from wastedcores.simulator.engine.realtime.class_jit import answer

        return answer(m, question, a, b, c)

else:

    @inner
    def ask_rt(m, question, a, b, c):
        """Return the answer of the real-time class."""
        return call_at(  # type: ignore[call-arg]
            m, m[m[0, sim.RT0] + m[0, sim.CPUS], rt_rq.ENTRY], question, a, b, c
        )


@inner
def has_rt(m):
    """Return whether the program changes policies, so that there may be real-time tasks."""
    return m[0, sim.RT0] != 0


@inner
def is_rt(m, p):
    """Return whether ``p`` is a real-time task; -1, which stands for idle, is none."""
    return p >= 0 and m[p, task.RT_PRIORITY] != 0


@inner
def enqueue(m, p, wakeup, waking):
    """enqueue_task() of the task's class."""
    if m[p, task.RT_PRIORITY] != 0:
        ask_rt(m, ENQUEUE, p, 0, 0)
    else:
        enqueue_task(m, p, wakeup, waking)


@inner
def dequeue(m, p, sleep):
    """dequeue_task() of the task's class."""
    if m[p, task.RT_PRIORITY] != 0:
        ask_rt(m, DEQUEUE, p, 0, 0)
    else:
        dequeue_task(m, p, sleep)
