"""The replay in plain Python: the oracle of the compiled engine, and what you extend.

Slow and simple, written from the model of Linux v4.1 and docs/replay-semantics.md, not from the engine. Every
decision is a plain function in :class:`Policies`; replace one and run::

    k = Kernel(machine, KernelModel.named("v4.1"), domain_events(machine, "v4.1"))
    k.policies.select_idle_sibling = lambda k, p, target: ...
    Simulation(k, program, seed=1).run(until_ns=1_000_000_000)
    k.log

Or write an optimisation module for the core of section 5 of the paper (docs/design-mode.md)::

    class Sticky(Module):
        name = "sticky"

        def suggest_cpu(self, k, p, waker_cpu, why):
            return p.cpu

    replay_design(workload, "bd-paper-16", [Sticky(), "load_balance"])
"""

from wastedcores.simulator.reference.core import REST, Core, Module
from wastedcores.simulator.reference.kernel import EPOCH_NS, Costs, Event, Kernel, Policies
from wastedcores.simulator.reference.modules import SHIPPED
from wastedcores.simulator.reference.programs import Program, TaskSpec
from wastedcores.simulator.reference.simulation import Simulation
from wastedcores.simulator.reference.trace import replay_design, to_trace

__all__ = [
    "EPOCH_NS",
    "REST",
    "SHIPPED",
    "Core",
    "Costs",
    "Event",
    "Kernel",
    "Module",
    "Policies",
    "Program",
    "Simulation",
    "TaskSpec",
    "replay_design",
    "to_trace",
]
