"""When newidle balancing tries a level (wastedcores/kernels/rules.py: NEWIDLE); column ``Modern.newidle``."""

MIGRATION_COST, COST, BUMP, RANDOM, RATE = range(5)
