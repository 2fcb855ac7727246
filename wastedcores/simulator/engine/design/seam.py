"""The compiled core's address, for the door of the engine."""

from __future__ import annotations

from typing import Any

from wastedcores.jit.compile import config
from wastedcores.jit.units import prepare


def entry() -> int:
    """Address of the core's one entry; compiles it if that has not been done. 1 without compiler: any but 0 will do."""
    from wastedcores.simulator.engine.design import core_jit

    if config.DISABLE_JIT:
        return 1
    unit: Any = core_jit.answer
    prepare()
    return int(unit.address)
