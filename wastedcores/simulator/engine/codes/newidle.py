"""When newidle balancing tries a level (wastedcores/kernels/rules.py: NEWIDLE); column ``Modern.newidle``."""

from __future__ import annotations

MIGRATION_COST, COST, BUMP, RANDOM, RATE = range(5)
