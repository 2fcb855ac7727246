"""The part of a replay that only a machine with changing speeds has: the rows of its clocks."""

from __future__ import annotations

import numpy as np

from wastedcores.simulator.engine.world import clock, sim
from wastedcores.topology.clocks import UNIT
from wastedcores.topology.machine import Machine
from wastedcores.workload.program import Costs


def rows_of(machine: Machine) -> int:
    """Count the rows of the clocks: one per CPU and one for the constants; none at one constant speed."""
    return machine.cpus + 1 if machine.has_clocks else 0


def install(m: np.ndarray, first: int, machine: Machine, costs: Costs) -> None:
    """Write the clocks into the table; do nothing if all CPUs run at one constant speed."""
    if not machine.has_clocks:
        return
    from wastedcores.simulator.engine.clocks.seam import entry

    m[0, sim.CLOCK0] = first
    cores: dict[int, int] = {}
    packages: dict[int, int] = {}
    for cpu in range(machine.cpus):
        row = first + cpu
        core = cores.setdefault(int(machine.core_of_cpu[cpu]), row)
        last = core
        while m[last, clock.SIBLING] > 0:
            last = int(m[last, clock.SIBLING])
        if last != row:
            m[last, clock.SIBLING] = row
        m[row, clock.SIBLING] = -1
        m[row, clock.CORE] = core
        m[row, clock.PACKAGE] = packages.setdefault(int(machine.package_of_cpu[cpu]), row)
        m[row, clock.LAST_TICK] = -1
        m[row, clock.SPEED] = UNIT
    _write_constants(m[first + machine.cpus], machine, costs)
    m[first + machine.cpus, clock.ENTRY] = entry()
    if machine.frequency is not None:
        lowest = machine.frequency.min_khz
        m[first : first + machine.cpus, clock.KHZ] = lowest
        m[first : first + machine.cpus, clock.SPEED] = (
            lowest * UNIT // machine.frequency.nominal_khz
        )


def _write_constants(c: np.ndarray, machine: Machine, costs: Costs) -> None:
    c[clock.SHARED_SPEED] = round(machine.smt_speed * UNIT)
    if (f := machine.frequency) is not None:
        c[clock.MIN_KHZ], c[clock.NOMINAL_KHZ], c[clock.RAMP_TICKS] = (
            f.min_khz,
            f.nominal_khz,
            f.ramp_ticks,
        )
        c[clock.HOLD_NS], c[clock.STEPS] = f.hold_ticks * costs.tick_ns, len(f.turbo)
        steps = np.array(f.turbo, dtype=np.int64).ravel()
        c[clock.STEP0 : clock.STEP0 + len(steps)] = steps
    states = [(s.residency_ns, s.exit_ns) for s in machine.idle_states]
    c[clock.STATES] = len(states)
    flat = np.array(states, dtype=np.int64).ravel()
    c[clock.STATE0 : clock.STATE0 + len(flat)] = flat
