"""What a replay of a design needs beside a Linux's: the core row of the table, and what became of the suggestions."""

from __future__ import annotations

import numpy as np
import polars as pl

from wastedcores.kernels import KernelModel
from wastedcores.simulator.engine.world import codes
from wastedcores.simulator.engine.world import state as s
from wastedcores.topology.machine import IntArray, Machine

#: moments a module is asked at, by their code
_MOMENTS = (
    codes.WHY_WAKEUP,
    codes.WHY_FORK,
    codes.WHY_EXEC,
    codes.WHY_HANDOVER,
    codes.WHY_NEWIDLE,
    codes.WHY_PERIODIC,
)


def _rows(elements: int) -> int:
    return -(-elements // s.LIST)


def rows_of(machine: Machine, kernel: KernelModel) -> int:
    """Rows behind the core row: counts of answers, counts of busy CPUs, CPUs by nearness."""
    if not kernel.is_design:
        return 0
    n = machine.cpus
    return len(codes.MODULES) + _rows(max(n, machine.nodes)) + _rows(n * n)


def nearness(machine: Machine) -> IntArray:
    """Per CPU all CPUs, the nearest first; int32 (cpus, cpus).

    Itself, its core, its last-level cache, its node, then nodes by distance; lower numbers first.
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


def install(m: np.ndarray, machine: Machine, kernel: KernelModel) -> None:
    """Write the core row and what it names into the table; nothing for a Linux."""
    if kernel.modules is None:
        return
    from wastedcores.simulator.engine.design.seam import entry

    first = int(m[0, s.G_SETS])
    core = m[first]
    core[s.K_ENTRY] = entry()
    core[s.K_NODES] = machine.nodes
    core[s.K_COUNTS] = first + 1
    core[s.K_BUSY] = core[s.K_COUNTS] + len(codes.MODULES)
    core[s.K_NEAR] = core[s.K_BUSY] + _rows(max(machine.cpus, machine.nodes))
    core[s.K_MODULES] = len(kernel.modules)
    for i, name in enumerate(kernel.modules):
        core[s.K_MODULE0 + i] = codes.MODULES.index(name)
    start, rows = int(core[s.K_NEAR]), _rows(machine.cpus**2)
    near = np.zeros(rows * s.LIST, dtype=np.int64)
    near[: machine.cpus**2] = nearness(machine).ravel()
    m[start : start + rows, : s.LIST] = near.reshape(rows, s.LIST)


def refusal_text(module: int, value: int) -> str:
    """Text of a refused suggestion's event; ``value`` says when and why (simulator/engine/design/core_jit.py: refuse())."""
    reason, moment = divmod(value, codes.MOMENTS)
    return f"{codes.MODULES[module]}: {codes.OPS_OF_LOG[moment]}, {codes.REFUSALS[reason]}"


SUGGESTIONS = pl.Schema(
    {"module": pl.String, "moment": pl.String} | dict.fromkeys(("asked", *codes.ANSWERS), pl.Int64)
)


def suggestions(world: np.ndarray, kernel: KernelModel) -> pl.DataFrame:
    """What became of each module's suggestions: a row per module and moment it was asked at.

    Parameters
    ----------
    world
        The table the engine left.
    kernel
        Of the replay; a Linux has no rows.

    Returns
    -------
    DataFrame
        module, moment (wakeup, fork, exec, handover, newidle, periodic), asked, silent, taken, refused.
    """
    rows = []
    for name in kernel.modules or ():
        counts = world[int(world[0, s.G_SETS]) + 1 + codes.MODULES.index(name)]
        for why in _MOMENTS:
            answers = [int(x) for x in counts[3 * why : 3 * why + 3]]
            if sum(answers):
                rows.append((name, codes.OPS_OF_LOG[why], sum(answers), *answers))
    return pl.DataFrame(rows, schema=SUGGESTIONS, orient="row")
