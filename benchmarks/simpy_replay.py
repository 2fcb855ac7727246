"""The same replay on SimPy: the engine as plain Python, with its events as SimPy timeouts.

It handles the same events as the compiled engine, so both have the same number of events per second of simulated time. Every
read and write goes to the engine's table. A peer whose structs are Python objects was 2 to 2.5 times as fast on 64 CPUs.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import simpy

from wastedcores.kernels import KernelModel
from wastedcores.simulator import costs_of
from wastedcores.simulator.engine import run_jit
from wastedcores.simulator.engine.events import queue_jit
from wastedcores.simulator.engine.tasks import program_jit
from wastedcores.simulator.engine.world import table
from wastedcores.simulator.plain.engine import PlainEngine
from wastedcores.simulator.world import build_world
from wastedcores.topology.domains import build_domains
from wastedcores.topology.machine import Machine
from wastedcores.workload.program import Program


class SimpyReplay(PlainEngine):
    """A replay whose queue of events and whose loop are SimPy's."""

    events = 0

    def __init__(self, program: Program, machine: Machine, kernel: KernelModel, seed: int) -> None:
        super().__init__(machine, program)
        self.env = simpy.Environment(table.EPOCH_NS)
        self.replace(queue_jit.push, self.push)
        self.replace(queue_jit.push_tick, partial(self.push_of_cpu, queue_jit.TICK_AT))
        self.replace(queue_jit.push_run, partial(self.push_of_cpu, queue_jit.RUN_AT))
        self.dispatch = self.of(run_jit.dispatch)
        self.run_over = self.of(program_jit.run_over)
        self.after_event = self.of(run_jit.after_event)
        trees = [build_domains(machine, kernel)]
        m = build_world(
            program, machine, kernel, trees, costs_of(machine), seed=seed, considered=False, load=False, plain=self
        )  # fmt: skip
        self.k = self.kernel(m)

    def push(self, k: Any, event: int, time_ns: int) -> None:
        """Plan an event, also if it was planned for another time."""
        k.seq += 1
        row, column = event >> table.SHIFT, event & table.LOW
        k[row, column], k[row, column + 1] = time_ns, k.seq
        timeout = self.env.timeout(time_ns - self.env.now, (event, k.seq))
        timeout.callbacks.append(self.arrives)

    def push_of_cpu(self, column: int, k: Any, cpu: int, time_ns: int) -> None:
        """Plan the next tick of a CPU, or the end of the stretch that runs there."""
        self.push(k, (cpu << table.SHIFT) + column, time_ns)

    def arrives(self, timeout: simpy.Event) -> None:
        """Handle one event as the engine's loop does, if it was not cancelled or moved in the meantime."""
        k, (event, seq) = self.k, timeout.value
        row, column = event >> table.SHIFT, event & table.LOW
        if k[row, column + 1] != seq:
            return
        k[row, column + 1] = 0
        k.now_ns = self.env.now
        k.jiffies = k.now_ns // k.tick_ns
        k.steps = k.log_n = 0
        self.events += 1
        tick = False
        if row < k.nr_cpus and column == queue_jit.RUN_AT:
            k.this_cpu = row
            self.run_over(k, row)
        else:
            tick = self.dispatch(k, event)
        self.after_event(k, tick)

    def simulate(self, until_ns: int) -> None:
        """Run for ``until_ns`` of simulated time."""
        with np.errstate(over="ignore"):  # splitmix64 wraps
            self.env.run(until=self.k.t_start + until_ns)
