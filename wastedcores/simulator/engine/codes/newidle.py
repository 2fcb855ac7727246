"""When newidle balancing tries a level (wastedcores/kernels/rules.py: NEWIDLE); column ``v6_12.NEWIDLE``."""

from __future__ import annotations

MIGRATION_COST, COST, BUMP, RANDOM, RATE = range(5)
