"""The same replay on SimPy: the ticks, choices and balancing of the plain-Python reference, with its events as SimPy timeouts.

It handles the same events as the engine, so both have the same number of events per second of simulated time.
"""

from __future__ import annotations

from typing import Any

import simpy

from wastedcores.kernels import KernelModel
from wastedcores.simulator.reference import Kernel, Program, Simulation
from wastedcores.simulator.reference.kernel import EPOCH_NS
from wastedcores.simulator.simulate import costs_of
from wastedcores.topology.domains import build_domains
from wastedcores.topology.machine import Machine


class SimpyKernel(Kernel):
    """A kernel of the reference whose future events are timeouts of the SimPy environment."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.env = simpy.Environment(EPOCH_NS)
        self.handler: Any = None

    def push(self, time_ns: int, kind: str, subject: Any) -> None:
        key = (kind, subject)
        if kind == "RESCHED" and key in self._pending:
            return
        self._pending[key] = self._seq
        timeout = self.env.timeout(time_ns - self.env.now, (self._seq, kind, subject))
        timeout.callbacks.append(self._arrives)
        self._seq += 1

    def _arrives(self, timeout: simpy.Event) -> None:
        seq, kind, subject = timeout.value
        if self._pending.get((kind, subject)) == seq:
            del self._pending[kind, subject]
            self.handler(kind, subject)


class SimpySimulation(Simulation):
    """A simulation of the reference whose loop is SimPy's."""

    events = 0

    def run(self, until_ns: int) -> None:
        """Run for ``until_ns`` of simulated time."""
        self.k.handler = self.handle
        self.k.env.run(until=self.start_ns + until_ns)

    def handle(self, kind: str, subject: Any) -> None:
        """Handle one event, as :meth:`Simulation.run` does."""
        k = self.k
        self.events += 1
        self._zero_time = 0
        k.now_ns = k.env.now
        k.cpu = self._cpu_of(kind, subject)
        getattr(self, f"_on_{kind.lower()}")(subject)
        rq = k.rqs[k.cpu]
        if kind == "TICK" and k.costs.irq_ns and rq.need_resched:
            k.push(k.now_ns + k.costs.irq_ns, "RESCHED", rq.cpu)
        else:
            self._reschedule(rq)


def simpy_replay(
    program: Program, machine: Machine, kernel: KernelModel, seed: int = 1
) -> SimpySimulation:
    """Return a simulation that is ready to run."""
    k = SimpyKernel(machine, kernel, [build_domains(machine, kernel)], costs_of(machine))
    return SimpySimulation(k, program, seed)
