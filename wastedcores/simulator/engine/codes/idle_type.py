"""The state in which a CPU balances (``enum cpu_idle_type``), in the order of ``vocabulary.IDLE_TYPES``."""

from __future__ import annotations

IDLE, NOT_IDLE, NEWLY_IDLE = range(3)
