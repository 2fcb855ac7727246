"""The place where Linux hands over to a design: one call through an address that is in the table.

The scheduler's own code calls :func:`ask` at the few places where a design decides (docs/design-mode.md). It names no function
of the design, so a replay of Linux neither compiles nor loads any of them. When the world is built, the address of the compiled
core is written into the core row (``Design.entry``), or 0 for Linux.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from wastedcores.jit.compile import config, inner
from wastedcores.simulator.engine.world.structs import Kernel

# The questions. Their arguments are (task, flag, sync), (cpu), (cpu) and none.
ASK_PLACE, ASK_PULL, ASK_TICK, ASK_SETTLE = range(4)


@intrinsic  # type: ignore[misc]  # numba's decorators have no types
def call_at(typingctx: Any, m: Any, address: Any, question: Any, a: Any, b: Any, c: Any) -> Any:
    """Call the C function at ``address``: int64 (table, int64, int64, int64, int64)."""
    signature = types.int64(m, *(types.int64,) * 5)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        word = ir.IntType(64)
        kind = ir.FunctionType(word, [args[0].type, word, word, word, word])
        function = builder.inttoptr(args[1], kind.as_pointer())
        return builder.call(function, [args[0], *args[2:]])

    return signature, codegen


@inner
def designed(k: Kernel) -> bool:
    """Return whether a design decides instead of Linux."""
    return k.design.entry != 0


if config.DISABLE_JIT:

    def ask(k: Kernel, question: int, a: int, b: int, c: int) -> int:
        """Return the core's answer."""
        from wastedcores.simulator.engine.design.core_jit import answer

        return answer(k, question, a, b, c)

else:

    @inner
    def ask(k: Kernel, question: int, a: int, b: int, c: int) -> int:
        """Return the core's answer."""
        return call_at(k, k.design.entry, question, a, b, c)  # type: ignore[call-arg]
