"""How a task comes to the queue of a modern kernel's fair class."""

MOVED, NEW, WOKEN = range(3)
