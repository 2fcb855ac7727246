"""The part of a replay that only a machine with changing speeds has: the rows of its clocks."""

from __future__ import annotations

import numpy as np

from wastedcores.jit.plain import Plain
from wastedcores.simulator.engine import classes
from wastedcores.simulator.engine.world.structs import Clock, ClockConstants, Kernel
from wastedcores.topology.clocks import UNIT
from wastedcores.topology.machine import Machine
from wastedcores.workload.program import Costs


def rows_of(machine: Machine) -> int:
    """Count the rows of the clocks: one per CPU and one for the constants; none at one constant speed."""
    return machine.cpus + 1 if machine.has_clocks else 0


def install(m: np.ndarray, first: int, machine: Machine, costs: Costs, plain: Plain | None) -> None:
    """Write the clocks into the table; do nothing if all CPUs run at one constant speed."""
    if not machine.has_clocks:
        return
    m[0, Kernel.clock0] = first
    cores: dict[int, int] = {}
    packages: dict[int, int] = {}
    for cpu in range(machine.cpus):
        row = first + cpu
        core = cores.setdefault(int(machine.core_of_cpu[cpu]), row)
        last = core
        while m[last, Clock.sibling] > 0:
            last = int(m[last, Clock.sibling])
        if last != row:
            m[last, Clock.sibling] = row
        m[row, Clock.sibling] = -1
        m[row, Clock.core] = core
        m[row, Clock.package] = packages.setdefault(int(machine.package_of_cpu[cpu]), row)
        m[row, Clock.last_tick] = -1
        m[row, Clock.speed] = UNIT
    _write_constants(m[first + machine.cpus], machine, costs)
    classes.clocks(m[first + machine.cpus], plain)
    if machine.frequency is not None:
        lowest = machine.frequency.min_khz
        m[first : first + machine.cpus, Clock.khz] = lowest
        m[first : first + machine.cpus, Clock.speed] = (
            lowest * UNIT // machine.frequency.nominal_khz
        )


def _write_constants(c: np.ndarray, machine: Machine, costs: Costs) -> None:
    c[ClockConstants.shared_speed] = round(machine.smt_speed * UNIT)
    if (f := machine.frequency) is not None:
        c[ClockConstants.min_khz], c[ClockConstants.nominal_khz], c[ClockConstants.ramp_ticks] = (
            f.min_khz,
            f.nominal_khz,
            f.ramp_ticks,
        )
        c[ClockConstants.hold_ns], c[ClockConstants.steps] = (
            f.hold_ticks * costs.tick_ns,
            len(f.turbo),
        )
        steps = np.array(f.turbo, dtype=np.int64).ravel()
        c[ClockConstants.step : ClockConstants.step + len(steps)] = steps
    states = [(s.residency_ns, s.exit_ns) for s in machine.idle_states]
    c[ClockConstants.states] = len(states)
    flat = np.array(states, dtype=np.int64).ravel()
    c[ClockConstants.state : ClockConstants.state + len(flat)] = flat
