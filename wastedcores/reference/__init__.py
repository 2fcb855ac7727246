"""The replay in plain Python: the oracle of the compiled engine, and what you extend.

Slow and simple, written from the model of Linux v4.1 and docs/replay-semantics.md, not from the engine. Every
decision is a plain function in :class:`Policies`; replace one and run::

    k = Kernel(machine, KernelModel.named("v4.1"), domain_events(machine, "v4.1"))
    k.policies.select_idle_sibling = lambda k, p, target: ...
    Simulation(k, program, seed=1).run(until_ns=1_000_000_000)
    k.log
"""

from wastedcores.reference.kernel import EPOCH_NS, Costs, Event, Kernel, Policies
from wastedcores.reference.programs import Program, TaskSpec
from wastedcores.reference.simulation import Simulation

__all__ = ["EPOCH_NS", "Costs", "Event", "Kernel", "Policies", "Program", "Simulation", "TaskSpec"]
