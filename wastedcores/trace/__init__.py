"""Traces: the registry of events, the native file, and the readers of other formats."""

from __future__ import annotations

from wastedcores.lazy import lazy

__getattr__, __dir__, __all__ = lazy(__name__, {"header": "Header", "trace": "Trace"})
