"""Columns of a ``struct task_group``."""

from __future__ import annotations

SHARES, LOAD_AVG, RUNNABLE_AVG = range(3)
