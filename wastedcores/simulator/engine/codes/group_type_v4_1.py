"""Kinds of scheduling groups, the less busy first (``enum group_type``, v4.1)."""

from __future__ import annotations

OTHER, IMBALANCED, OVERLOADED = range(3)
