"""What a blocked or spinning task waits for (``TaskStruct.waits_for``)."""

(
    NOTHING,
    TIMER,
    BARRIER,
    LOCK,
    SEM,
    CHILDREN,
    JIFFY,  # its timer, which fires at a tick
) = range(7)
