"""Columns of a ``struct sched_group_capacity``."""

from __future__ import annotations

CAPACITY, IMBALANCE, NR_BUSY_CPUS, NEXT_UPDATE = range(4)
