"""The address of the compiled balancer of v6.12, which the world's table holds."""

from __future__ import annotations

from typing import Any

from wastedcores.jit.compile import config
from wastedcores.jit.units import prepare


def entry() -> int:
    """Return the address of the balancer's entry and compile it if necessary. Without the compiler any number but 0 will do."""
    from wastedcores.simulator.engine.balance import answer_v6_12_jit

    if config.DISABLE_JIT:
        return 1
    unit: Any = answer_v6_12_jit.answer
    prepare()
    return int(unit.address)
