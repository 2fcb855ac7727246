"""Traces: event registry, files, readers, state over time."""

from wastedcores.trace.header import Header
from wastedcores.trace.trace import Trace

__all__ = ["Header", "Trace"]
