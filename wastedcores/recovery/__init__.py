"""Recovers the work of a trace: what its tasks computed, and how they waited for each other."""

from wastedcores.recovery.recovered import Recovered, recover

__all__ = ["Recovered", "recover"]
