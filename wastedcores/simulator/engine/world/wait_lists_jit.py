"""Lists of the tasks that wait for a barrier, lock or semaphore, in order of arrival."""

from wastedcores.jit.compile import inner
from wastedcores.simulator.engine.world.structs import NO_TASK, Kernel, TaskStruct, WaitObject


@inner
def append(k: Kernel, y: WaitObject, p: TaskStruct) -> None:
    """Append ``p`` to the list of wait object ``y``."""
    p.wait_next = NO_TASK
    if y.head == NO_TASK:
        y.head = p
    else:
        y.tail.wait_next = p
    y.tail = p


@inner
def unlink(k: Kernel, y: WaitObject, p: TaskStruct, before: TaskStruct) -> None:
    """Remove ``p``, whose predecessor is ``before`` (NULL for none), from the list."""
    if before == NO_TASK:
        y.head = p.wait_next
    else:
        before.wait_next = p.wait_next
    if y.tail == p:
        y.tail = before


@inner
def leave(k: Kernel, y: WaitObject, p: TaskStruct) -> None:
    """Remove ``p`` from the list, wherever it is."""
    before = NO_TASK
    other = y.head
    while other != p:
        before = other
        other = other.wait_next
    unlink(k, y, p, before)
