"""The optimisation modules of a design (docs/design-mode.md)."""

from __future__ import annotations

(
    CACHE_AFFINITY,
    WAKER_LOCALITY,
    LOAD_BALANCE,
    NUMA,
    CONTENTION,
    POWER,
    WAKEUP_V4_1,
    BALANCE_V4_1,
) = range(8)

NAMES = [
    "cache_affinity",
    "waker_locality",
    "load_balance",
    "numa",
    "contention",
    "power",
    "wakeup_v4_1",
    "balance_v4_1",
]
