"""The state in which a CPU balances (``enum cpu_idle_type``), in the order of ``vocabulary.IDLE_TYPES``."""

IDLE, NOT_IDLE, NEWLY_IDLE = range(3)
