"""CPU sets as rows of the table: 32 bits per word, so that no word is ever negative."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from wastedcores.simulator.engine.world.table import WIDTH

WORD_SHIFT = 5
WORD_LOW = 31

# the sets that every function can name; the row of each of them is k.design.row plus this number
LB = -1  # `cpus` of load_balance()
ACTIVE = -2  # cpu_active_mask
NOHZ = -3  # nohz.idle_cpus_mask
SEEN = -4  # the CPUs that a search examined, if they are logged (v6.12)


def bits_of(cpus: Iterable[int]) -> np.ndarray:
    """Return a set of CPUs as a row of the table, int64 (WIDTH,)."""
    row = np.zeros(WIDTH, dtype=np.int64)
    for cpu in cpus:
        row[cpu >> WORD_SHIFT] |= 1 << (cpu & WORD_LOW)
    return row


def cpus_of(row: np.ndarray, cpus: int) -> list[int]:
    """Return the CPUs of the set in a row of the table."""
    return [c for c in range(cpus) if (int(row[c >> WORD_SHIFT]) >> (c & WORD_LOW)) & 1]
