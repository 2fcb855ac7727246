"""Flags of an attempt to balance (``LBF_*``, kernel/sched/fair.c)."""

ALL_PINNED, NEED_BREAK, DST_PINNED, SOME_PINNED, ACTIVE_LB = 1, 2, 4, 8, 16
