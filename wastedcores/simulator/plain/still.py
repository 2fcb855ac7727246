"""A kernel whose clock stands still, with tasks that are put on its runqueues by hand: :class:`Still`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from wastedcores.kernels import KernelModel
from wastedcores.simulator.engine.events import queue_jit
from wastedcores.simulator.engine.world import log_column, table
from wastedcores.simulator.engine.world.structs import TaskStruct
from wastedcores.simulator.plain.engine import PlainEngine
from wastedcores.simulator.plain.policies import replace_decisions
from wastedcores.topology.domains import Domains, domain_events
from wastedcores.topology.machine import Machine
from wastedcores.workload import ops
from wastedcores.workload.program import Costs, Program, TaskSpec

#: the program of a task that is put on a runqueue by hand
ENDS = ((ops.OP_EXIT, 0, 0, 0, 0),)


class Still(PlainEngine):
    """A booted kernel at one moment, in plain Python.

    Parameters
    ----------
    machine, model
        The machine and the kernel that boot.
    tasks
        The tasks. They are new and on no runqueue.
    shares
        The weights of the task groups, the root group's included.
    trees
        The domains at boot and after each hotplug step of the machine. None: they are built here.
    costs
        The constants of the machine.
    policies
        Functions of the user that replace decisions of the kernel.

    Attributes
    ----------
    m, k
        The table, and its kernel.
    trees
        The domains.
    tasks
        The tasks, in the same order.
    """

    def __init__(
        self,
        machine: Machine,
        model: KernelModel,
        tasks: Sequence[TaskSpec] = (),
        *,
        shares: Sequence[int] = (1024,),
        trees: Sequence[Domains] | None = None,
        costs: Costs | None = None,
        considered: bool = False,
        policies: dict[str, Callable[..., Any]] | None = None,
    ) -> None:
        from wastedcores.simulator.world import build_world

        specs = tuple(replace(t, rows=t.rows or ENDS) for t in tasks)
        program = Program(specs, shares=tuple(shares))
        super().__init__(machine, program)
        replace_decisions(self, model, policies or {})
        self.model = model
        self.trees = domain_events(machine, model.linux) if trees is None else trees
        build_world(
            program, machine, model, self.trees, costs or Costs(), seed=1, considered=considered, load=False, plain=self
        )  # fmt: skip
        self.tasks = [TaskStruct(self.k, self.k.task0 + i) for i in range(len(specs))]
        for p in self.tasks:
            self.call(queue_jit.cancel, (p.row << table.SHIFT) + TaskStruct.timer)
        self.k.timers = self.k.log_n = 0

    def call(self, function: Any, *about: Any) -> Any:
        """Call a function of the engine."""
        with np.errstate(over="ignore"):  # splitmix64 overflows on purpose
            return self.of(function)(self.k, *about)

    def log(self) -> list[list[int]]:
        """Take the records out of the log; their columns are named in world/log_column.py."""
        n, first = self.k.log_n, self.k.log0
        self.k.log_n = 0
        flat = self.m[first : first + table.rows_for(n * log_column.WIDTH), : table.LIST].ravel()
        return flat[: n * log_column.WIDTH].reshape(n, log_column.WIDTH).tolist()  # type: ignore[no-any-return]
