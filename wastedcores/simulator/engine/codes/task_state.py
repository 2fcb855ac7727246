"""States of a task (``TaskStruct.state``)."""

(
    NEW,
    READY,  # queued or running
    SLEEPING,
    WAKING,  # on a wake list
    DEAD,
) = range(5)
