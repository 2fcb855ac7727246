"""Why the engine's loop ended (``k.status``)."""

(RUNNING, DONE, UNTIL, LOG_FULL, DEADLOCK, ZERO_LOOP, NO_CPU, BAD_UNLOCK, TASKS_FULL) = range(9)
