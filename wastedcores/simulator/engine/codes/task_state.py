"""States of a task (``TaskStruct.state``)."""

from __future__ import annotations

(
    NEW,
    READY,  # queued or running
    SLEEPING,
    WAKING,  # on a wake list
    DEAD,
) = range(5)
