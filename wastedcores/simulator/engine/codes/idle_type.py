"""``enum cpu_idle_type``: in what state a CPU balances."""

from __future__ import annotations

IDLE, NOT_IDLE, NEWLY_IDLE = range(3)
NAMES = ("idle", "busy", "newidle")
