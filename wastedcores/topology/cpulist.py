"""The old name of :mod:`wastedcores.cpulist`, for modules of the simulator that still import it from here."""

from __future__ import annotations

from wastedcores.cpulist import format_cpulist, parse_cpulist

__all__ = ["format_cpulist", "parse_cpulist"]
