"""What a blocked or spinning task waits for (``TaskStruct.waits_for``)."""

from __future__ import annotations

(
    NOTHING,
    TIMER,
    BARRIER,
    LOCK,
    SEM,
    CHILDREN,
    JIFFY,  # its timer, which fires at a tick
) = range(7)
