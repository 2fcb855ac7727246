"""How a task leaves its queue (``DEQUEUE_*``): DELAYED ends a delayed dequeue, and a dequeue with SPECIAL is never delayed."""

#: MIGRATING: the task changes its CPU; SAVED: it will soon be back on the same queue (DEQUEUE_SAVE without _MOVE)
SLEEP, DELAYED, SPECIAL, MIGRATING, SAVED = 1, 2, 4, 8, 16
