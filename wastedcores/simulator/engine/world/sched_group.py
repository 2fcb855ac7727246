"""Columns of a ``struct sched_group``."""

from __future__ import annotations

(
    CPUS,  # place of its CPUs in the lists
    GROUP_WEIGHT,  # their number
    SPAN,  # row of the CPU set
    SGC,  # row of its capacity
    BALANCE_CPU,  # group_balance_cpu()
    BALANCE_CPUS,  # place in the lists of those CPUs that are in its balance mask
    NR_BALANCE_CPUS,
    FLAGS,  # those of the domain below it (v6.12), as are
    CORES,  # the number of its cores
) = range(9)
