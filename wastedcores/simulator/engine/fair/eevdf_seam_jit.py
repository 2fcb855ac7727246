"""The place where the scheduler hands over to the fair class of a modern kernel: one call through an address in the table.

v4.1's class is called directly. A replay of v4.1 neither compiles nor loads EEVDF or CFS of v6.1, as with designs
(``design/seam_jit.py``).
"""

from __future__ import annotations

from wastedcores.jit.compile import config, inner
from wastedcores.simulator.engine.design.seam_jit import call_at
from wastedcores.simulator.engine.world.structs import Kernel

# What the class can be asked. The arguments are, in this order: (task, MOVED, NEW or WOKEN), (task, whether it sleeps),
# (cpu, previous task), (task), (task), (cpu, woken task), (task), (task), (task, nice), (task), (task, group), (task), and for
# a machine with several CPUs (task that changes its CPU), (cpu), (chosen task, previous task), (cpu that goes offline),
# (task that died), (entity of a new group), (cpu, new task).
(
    FAIR_ENQUEUE,
    FAIR_DEQUEUE,
    FAIR_PICK,
    FAIR_PUT_PREV,
    FAIR_TICK,
    FAIR_PREEMPT,
    FAIR_FORK,
    FAIR_POST_INIT,
    FAIR_NICE,
    FAIR_YIELD,
    FAIR_GROUP,
    FAIR_WAKE,
    FAIR_MIGRATE,
    FAIR_CHOOSE,
    FAIR_SET,
    FAIR_LEAVE,
    FAIR_DEAD,
    FAIR_ONLINE,
    FAIR_PREEMPT_NEW,
) = range(19)

#: how a task comes to a queue
MOVED, NEW, WOKEN = range(3)


@inner
def has_eevdf(k: Kernel) -> bool:
    """Return whether the fair class is that of a modern kernel: CFS of v6.1 or EEVDF."""
    return k.fair_entry != 0


if config.DISABLE_JIT:

    def ask_fair(k: Kernel, question: int, a: int, b: int) -> int:
        """Let the fair class of a modern kernel do something; return its answer."""
        from wastedcores.simulator.engine.fair import cfs_v6_1_class_jit, eevdf_class_jit

        classes = (cfs_v6_1_class_jit, eevdf_class_jit)
        return classes[k.fair_entry - 1].answer(k, question, a, b, 0)

else:

    @inner
    def ask_fair(k: Kernel, question: int, a: int, b: int) -> int:
        """Let the fair class of a modern kernel do something; return its answer."""
        return call_at(k, k.fair_entry, question, a, b, 0)  # type: ignore[call-arg]
