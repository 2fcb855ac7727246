"""Kinds of scheduling groups, the least busy first (``enum group_type``, v6.12). MISFIT and ASYM_PACKING never occur."""

HAS_SPARE, FULLY_BUSY, MISFIT, SMT_BALANCE, ASYM_PACKING, IMBALANCED, OVERLOADED = range(7)
