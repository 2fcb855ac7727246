"""The address of the compiled fair class of a modern kernel, which the world's table holds."""

from __future__ import annotations

from typing import Any

from wastedcores.jit.compile import config
from wastedcores.jit.units import prepare


def entry(eevdf: bool) -> int:
    """Return the address of a class's entry and compile it if necessary."""
    if config.DISABLE_JIT:
        return 2 if eevdf else 1
    unit: Any
    if eevdf:
        from wastedcores.simulator.engine.fair.eevdf_class_jit import answer as unit
    else:
        from wastedcores.simulator.engine.fair.cfs_v6_1_class_jit import answer as unit
    prepare()
    return int(unit.address)
