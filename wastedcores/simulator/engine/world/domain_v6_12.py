"""Columns of a ``struct sched_domain`` that only v6.12 has, behind those of ``domain.py``."""

from __future__ import annotations

#: the first column
FIRST = 48
(
    NEWIDLE_CALL,
    NEWIDLE_SUCCESS,
    NEWIDLE_RATIO,
    LAST_DECAY_MAX_LB_COST,  # jiffies
    NOHZ_IDLE,
    IMB_NUMA_NR,
    SHARED,  # row of what the CPUs of an LLC have in common (domain_shared.py), -1 for none
    SPAN_CPUS,  # place of its CPUs in the lists
    NEWIDLE_STAMP,  # when the ratio was computed last, ns since boot
) = range(FIRST, FIRST + 9)
