"""What only the replay of a design has (docs/design-mode.md): the core module's row, and the fate of the modules' suggestions."""

from __future__ import annotations

import numpy as np
import polars as pl

from wastedcores.jit.plain import Plain
from wastedcores.kernels import MODULES, KernelModel
from wastedcores.simulator.engine import classes
from wastedcores.simulator.engine.codes import log_op, suggestion
from wastedcores.simulator.engine.world.structs import Design, Kernel
from wastedcores.simulator.engine.world.table import rows_for, write_list
from wastedcores.simulator.vocabulary import ANSWERS, OPERATIONS, REFUSALS
from wastedcores.topology.machine import IntArray, Machine

#: the moments at which a module is asked
_MOMENTS = (
    log_op.WAKEUP, log_op.FORK, log_op.EXEC, log_op.HANDOVER, log_op.NEWIDLE, log_op.PERIODIC,
)  # fmt: skip


def module_names(kernel: KernelModel) -> list[str]:
    """Return the names of modules in the order of their codes: first the shipped modules, then the user's."""
    return list(dict.fromkeys((*MODULES, *(kernel.modules or ()))))


def rows_of(machine: Machine, kernel: KernelModel) -> int:
    """Count the rows that follow the core row: the counts of answers, the counts of busy CPUs, and the lists of near CPUs."""
    if not kernel.is_design:
        return 0
    n = machine.cpus
    return len(module_names(kernel)) + rows_for(max(n, machine.nodes)) + rows_for(n * n)


def nearness(machine: Machine) -> IntArray:
    """List for each CPU all CPUs, the nearest first.

    The order is: the CPU itself, its core, its last-level cache, its node, then nodes by distance. Of two equally near CPUs,
    the one with the lower number comes first.
    """
    m = machine
    everyone = np.arange(m.cpus, dtype=np.int32)
    out = np.empty((m.cpus, m.cpus), dtype=np.int32)
    for cpu in range(m.cpus):
        away = m.distance[m.node_of_cpu[cpu]][m.node_of_cpu]
        keys = (
            everyone,
            away,
            m.llc_of_cpu != m.llc_of_cpu[cpu],
            m.core_of_cpu != m.core_of_cpu[cpu],
            everyone != cpu,
        )
        out[cpu] = np.lexsort(keys)
    return out


def install(m: np.ndarray, machine: Machine, kernel: KernelModel, plain: Plain | None) -> None:
    """Write the core row and the lists of near CPUs into the table; do nothing if the kernel is Linux."""
    if kernel.modules is None:
        return
    first = int(m[0, Kernel.design])
    core = m[first]
    core[Design.decides] = 1
    classes.design(core, plain)
    core[Design.nodes] = machine.nodes
    core[Design.counts] = first + 1
    names = module_names(kernel)
    core[Design.busy] = core[Design.counts] + len(names)
    core[Design.near_list] = core[Design.busy] + rows_for(max(machine.cpus, machine.nodes))
    core[Design.modules] = len(kernel.modules)
    for i, name in enumerate(kernel.modules):
        core[Design.module + i] = names.index(name)
    write_list(m, int(core[Design.near_list]), nearness(machine).ravel())


def refusal_text(kernel: KernelModel, module: int, value: int) -> str:
    """Return the text of the event that a refused suggestion causes."""
    reason, moment = divmod(value, suggestion.MOMENTS)
    return f"{module_names(kernel)[module]}: {OPERATIONS[moment]}, {REFUSALS[reason]}"


SUGGESTIONS = pl.Schema(
    {"module": pl.String, "moment": pl.String} | dict.fromkeys(("asked", *ANSWERS), pl.Int64)
)


def suggestions(world: np.ndarray, kernel: KernelModel) -> pl.DataFrame:
    """Tabulate the fate of each module's suggestions."""
    rows = []
    for name in kernel.modules or ():
        counts = world[int(world[0, Kernel.design]) + 1 + module_names(kernel).index(name)]
        for why in _MOMENTS:
            answers = [int(x) for x in counts[3 * why : 3 * why + 3]]
            if sum(answers):
                rows.append((name, OPERATIONS[why], sum(answers), *answers))
    return pl.DataFrame(rows, schema=SUGGESTIONS, orient="row")
