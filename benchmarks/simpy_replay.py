"""The same replay on SimPy: the engine's functions as plain Python, with its future events as SimPy timeouts.

It handles the same events as the engine, so both have the same number of events per second of simulated time. A simulator that
is written in Python alone, without structs in a table, is about twice as fast as this one (bench_engine.py measures it), so the
goal is 200 times as many events per second where 100 would do against that one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import simpy

from wastedcores.kernels import KernelModel
from wastedcores.simulator.engine import run_jit
from wastedcores.simulator.engine.codes import cpu_event
from wastedcores.simulator.engine.events import queue_jit
from wastedcores.simulator.engine.tasks import program_jit
from wastedcores.simulator.engine.world import table
from wastedcores.simulator.plain.engine import PlainEngine
from wastedcores.simulator.simulate import costs_of
from wastedcores.simulator.world import build_world
from wastedcores.topology.domains import build_domains
from wastedcores.topology.machine import Machine
from wastedcores.workload.program import Program


class SimpyReplay(PlainEngine):
    """The engine as plain Python whose loop and queues are those of a SimPy environment."""

    def __init__(self, program: Program, machine: Machine, kernel: KernelModel) -> None:
        super().__init__(machine, program)
        self.env = simpy.Environment(table.EPOCH_NS)
        self.replace(queue_jit.push, self.push)
        for function, kind in (
            (queue_jit.push_tick, cpu_event.TICK),
            (queue_jit.push_run, cpu_event.RUN),
        ):
            self.replace(function, self._push_of(kind))
        trees = [build_domains(machine, kernel)]
        m = build_world(
            program, machine, kernel, trees, costs_of(machine), seed=1, considered=False, load=False, plain=self
        )  # fmt: skip
        self.k = self.kernel(m)
        self.events = 0
        self.run_over, self.dispatch, self.after_event = map(
            self.of, (program_jit.run_over, run_jit.dispatch, run_jit.after_event)
        )

    def push(self, k: Any, event: int, time_ns: int) -> None:
        """Plan an event, also if it was planned for another time."""
        k.seq += 1
        at = event >> table.SHIFT, event & table.LOW
        k[at], k[at[0], at[1] + 1] = time_ns, k.seq
        timeout = self.env.timeout(time_ns - self.env.now, (k.seq, event))
        timeout.callbacks.append(self._arrives)

    def _push_of(self, kind: int) -> Any:
        event_of = self.of(queue_jit.event_of)
        return lambda k, cpu, time_ns: self.push(k, event_of(kind, cpu), time_ns)

    def _arrives(self, timeout: simpy.Event) -> None:
        """Handle an event that was not cancelled, as the engine's loop does."""
        k, (seq, event) = self.k, timeout.value
        cpu, column = event >> table.SHIFT, event & table.LOW
        if k[cpu, column + 1] != seq:
            return
        k[cpu, column + 1] = 0
        k.now_ns, k.jiffies, k.steps = self.env.now, self.env.now // k.tick_ns, 0
        if k.log_n + k.log_margin > k.log_room:
            k.log_n = 0
        self.events += 1
        was_tick = 0
        if column == queue_jit.RUN_AT and cpu < k.nr_cpus:
            k.this_cpu = cpu
            self.run_over(k, cpu)
        else:
            was_tick = self.dispatch(k, event)
        self.after_event(k, was_tick)

    def run(self, until_ns: int) -> None:
        """Run for ``until_ns`` of simulated time."""
        with np.errstate(over="ignore"):  # splitmix64 wraps
            self.env.run(until=self.k.t_start + until_ns)
