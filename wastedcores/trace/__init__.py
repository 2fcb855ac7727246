"""Traces: the registry of events, the native file, and the readers of other formats."""

from wastedcores.trace.header import Header
from wastedcores.trace.trace import Trace

__all__ = ["Header", "Trace"]
