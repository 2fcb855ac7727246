"""How a task comes to the queue of a modern kernel's fair class."""

from __future__ import annotations

MOVED, NEW, WOKEN = range(3)
