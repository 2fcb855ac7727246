"""Columns of a ``struct sched_domain_shared``: what the CPUs of a last-level cache have in common (v6.12)."""

from __future__ import annotations

(
    NR_BUSY_CPUS,
    HAS_IDLE_CORES,
    NR_IDLE_SCAN,  # how many CPUs a wakeup may examine
) = range(3)
