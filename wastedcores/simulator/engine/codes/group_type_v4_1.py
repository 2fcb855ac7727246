"""Kinds of scheduling groups, the least busy first (``enum group_type``, v4.1)."""

OTHER, IMBALANCED, OVERLOADED = range(3)
