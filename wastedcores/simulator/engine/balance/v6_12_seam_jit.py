"""The place where the scheduler hands over to the placement and the balancer of v6.12: one call through an address in the table.

v4.1's are called directly, so a replay of v4.1 neither compiles nor loads these (see ``fair/eevdf_seam_jit.py``).
"""

from __future__ import annotations

from wastedcores.jit.compile import config, inner
from wastedcores.simulator.engine.design.seam_jit import call_at
from wastedcores.simulator.engine.world.rows_jit import modern
from wastedcores.simulator.engine.world.structs import Kernel

# What can be asked, with the arguments: (), (jiffy of the last balancing), (task, flag, sync), and (cpu) for all others.
(
    BOOTED,
    ATTACHED,
    PLACE,
    PULL,  # newidle balancing
    AT_TICK,
    SOFTIRQ,
    KICKED,
    ACTIVE,  # active balance, in the stopper's thread
    IDLES,  # entry to the idle loop
    IDLE_CORE,
    ENTERS_NOHZ,
    WOKEN,
    LEAVES,
) = range(13)


@inner
def balances_v6_12(k: Kernel) -> bool:
    """Return whether v6.12's balancer and placement are at work."""
    return modern(k).entry != 0


if config.DISABLE_JIT:

    def ask_balancer(k: Kernel, question: int, a: int, b: int, c: int) -> int:
        """Let the balancer of v6.12 do something; return its answer."""
        from wastedcores.simulator.engine.balance.answer_v6_12_jit import answer

        return answer(k, question, a, b, c)

else:

    @inner
    def ask_balancer(k: Kernel, question: int, a: int, b: int, c: int) -> int:
        """Let the balancer of v6.12 do something; return its answer."""
        return call_at(k, modern(k).entry, question, a, b, c)  # type: ignore[call-arg]
