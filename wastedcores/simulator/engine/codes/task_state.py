"""States of a task (``task.STATE``)."""

from __future__ import annotations

(
    NEW,
    READY,  # queued or running
    SLEEPING,
    WAKING,  # on a wake list
    DEAD,
) = range(5)
