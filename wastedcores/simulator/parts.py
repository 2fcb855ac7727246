"""Parts of the table that only some replays have: clocks, real-time tasks, a modern kernel's fair class and balancer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from wastedcores.errors import WorkloadError
from wastedcores.jit.plain import Plain
from wastedcores.kernels import KernelModel
from wastedcores.kernels.rules import NEWIDLE, REWEIGHTS
from wastedcores.simulator.engine import classes
from wastedcores.simulator.engine.world import table
from wastedcores.simulator.engine.world.structs import (
    Clock,
    ClockConstants,
    Kernel,
    Modern,
    RqModern,
    RtRq,
    RtShared,
    SchedDomain,
    SchedDomainShared,
    SchedGroup,
)
from wastedcores.topology.clocks import UNIT
from wastedcores.topology.domains import Domain, Domains
from wastedcores.topology.group_flags import group_flags
from wastedcores.topology.levels import SD_SHARE_PKG_RESOURCES
from wastedcores.topology.machine import Machine
from wastedcores.workload import ops
from wastedcores.workload.program import Costs, Program


def clock_rows(machine: Machine) -> int:
    """Count the rows of the clocks: one per CPU and one for the constants; none if all CPUs run at one constant speed."""
    return machine.cpus + 1 if machine.has_clocks else 0


def install_clocks(
    m: np.ndarray, first: int, machine: Machine, costs: Costs, plain: Plain | None
) -> None:
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
    _write_clock_constants(m[first + machine.cpus], machine, costs)
    classes.clocks(m[first + machine.cpus], plain)
    if machine.frequency is not None:
        lowest = machine.frequency.min_khz
        m[first : first + machine.cpus, Clock.khz] = lowest
        m[first : first + machine.cpus, Clock.speed] = (
            lowest * UNIT // machine.frequency.nominal_khz
        )


def _write_clock_constants(c: np.ndarray, machine: Machine, costs: Costs) -> None:
    c[ClockConstants.shared_speed] = round(machine.smt_speed * UNIT)
    if (f := machine.frequency) is not None:
        for name in ("min_khz", "nominal_khz", "ramp_ticks"):
            c[getattr(ClockConstants, name)] = getattr(f, name)
        c[ClockConstants.hold_ns] = f.hold_ticks * costs.tick_ns
        c[ClockConstants.steps] = len(f.turbo)
        steps = np.array(f.turbo, dtype=np.int64).ravel()
        c[ClockConstants.step : ClockConstants.step + len(steps)] = steps
    states = [(s.residency_ns, s.exit_ns) for s in machine.idle_states]
    c[ClockConstants.states] = len(states)
    flat = np.array(states, dtype=np.int64).ravel()
    c[ClockConstants.state : ClockConstants.state + len(flat)] = flat


#: sched_rr_timeslice
RR_TIMESLICE_NS = 100_000_000


def has_policies(program: Program) -> bool:
    """Tell whether a task of the program changes its scheduling policy."""
    return any(
        row[0] == ops.OP_POLICY
        for spec in (*program.tasks, *program.templates)
        for row in spec.rows
    )


def check_policies(program: Program, kernel: KernelModel) -> None:
    """Refuse a program that changes scheduling policies, unless the kernel has the scheduler of v4.1."""
    if (kernel.modules is not None or kernel.is_modern or kernel.tracks_load_v4_4) and has_policies(
        program
    ):
        raise WorkloadError(
            f"kernel {kernel.name!r}: the replay has scheduling policies (FIFO, RR, batch, idle) only with the scheduler of "
            "v4.1; take that kernel, or a workload without policies."
        )


def realtime_rows(program: Program, cpus: int) -> int:
    """Count the rows of the real-time class: one per CPU and one that all CPUs share; none if no task changes its policy."""
    return cpus + 1 if has_policies(program) else 0


def install_realtime(
    m: np.ndarray, first: int, program: Program, costs: Costs, plain: Plain | None
) -> None:
    """Write the real-time queues into the table; do nothing if no task changes its policy."""
    if not has_policies(program):
        return
    cpus = int(m[0, Kernel.nr_cpus])
    m[0, Kernel.rt0] = first
    m[first : first + cpus, [RtRq.head, RtRq.tail]] = -1
    last = m[first + cpus]
    last[RtShared.period_cpu] = -1
    last[RtShared.time_slice] = max(RR_TIMESLICE_NS // costs.tick_ns, 1)
    classes.realtime(last, plain)


#: sd_init(): newidle balancing of a new domain begins as if half of its attempts had succeeded
_NEWIDLE = {
    SchedDomain.newidle_call: 512,
    SchedDomain.newidle_success: 256,
    SchedDomain.newidle_ratio: 512,
}

#: the rules of a kernel; each of them has a column of the same name in Modern
_RULES = (
    "tg_load_avg_limited", "whole_cores_balance", "siblings_counted", "prefer_sibling_of_child", "last_fully_busy",
    "placement_masked", "waiting_is_use", "clusters_scanned", "sleepers_counted", "sleepers_pulled", "ineligible_wait",
    "slice_end_stored", "exact_averages", "sleepers_lag_kept", "wakeup_picks", "util_est_at_dequeue", "idle_time_at_exit",
    "slice_timer", "lazy_preemption",
)  # fmt: skip


def modern_rows(trees: Sequence[Domains], kernel: KernelModel) -> int:
    """Count the rows of ``struct sched_domain_shared``, which the CPUs of a last-level cache share."""
    return sum(len(_shared(tree)) for tree in trees) if kernel.is_modern else 0


def install_modern(
    m: np.ndarray,
    first: int,
    trees: Sequence[Domains],
    kernel: KernelModel,
    plain: Plain | None,
) -> None:
    """Write into the table what a modern kernel needs; do nothing for other kernels."""
    if not kernel.is_modern:
        return
    g = m[m[0, Kernel.scratch] + table.MODERN_ROW]
    classes.modern(g, kernel.rules.structure, plain)
    g[Modern.newidle] = list(NEWIDLE).index(kernel.rules.newidle)
    g[Modern.reweight] = REWEIGHTS.index(kernel.rules.reweight)
    g[Modern.delay_dequeue] = kernel.rules.delayed_dequeue
    g[Modern.sis_util] = kernel.rules.scan_limited
    g[Modern.idle_ticks_before_stop] = kernel.rules.idle_ticks_before_stop
    for rule in _RULES:
        g[getattr(Modern, rule)] = getattr(kernel.rules, rule)
    row = int(m[0, Kernel.domain0])
    for tree in trees:
        shared = _shared(tree)
        for i, weight in enumerate(shared.values(), first):
            m[i, SchedDomainShared.nr_busy_cpus] = weight
        number = dict(zip(shared, range(first, first + len(shared)), strict=True))
        first += len(shared)
        for cpu, d in _domains(tree):
            _write_domain(m, row, tree, cpu, d)
            m[row, SchedDomain.shared] = number.get(_key(d), -1)
            row += 1
    _write_siblings(m, trees[0].machine.core_of_cpu)


def _domains(tree: Domains) -> Iterator[tuple[int, Domain]]:
    """Yield each CPU with each of its domains, the innermost first. The rows of the domains are in the same order."""
    for cpu, mine in enumerate(tree.by_cpu):
        for d in mine:
            yield cpu, d


def _key(d: Domain) -> tuple[int, int]:
    """Return the level and the first CPU of a domain. They identify the row that the domain's CPUs share."""
    return d.index, min(d.cpus)


def _shared(tree: Domains) -> dict[tuple[int, int], int]:
    """Return the number of CPUs of each domain whose CPUs share a last-level cache."""
    return {_key(d): d.weight for _, d in _domains(tree) if d.flags & SD_SHARE_PKG_RESOURCES}


def _write_domain(m: np.ndarray, row: int, tree: Domains, cpu: int, d: Domain) -> None:
    """Write the columns of a domain and of its groups that only modern kernels use."""
    m[row, list(_NEWIDLE)] = list(_NEWIDLE.values())
    m[row, SchedDomain.imb_numa_nr] = d.imb_numa_nr
    core = tree.machine.core_of_cpu
    for place, (group, flags) in enumerate(zip(d.groups, group_flags(tree, cpu, d), strict=True)):
        at = int(m[row, SchedDomain.groups]) + place
        m[at, SchedGroup.flags] = flags
        m[at, SchedGroup.cores] = len({int(core[c]) for c in group.cpus})


def _write_siblings(m: np.ndarray, core_of_cpu: Iterable[int]) -> None:
    """Link the CPUs of each core in a ring."""
    cores: dict[int, list[int]] = {}
    for cpu, core in enumerate(core_of_cpu):
        cores.setdefault(int(core), []).append(cpu)
    for cpus in cores.values():
        for cpu, following in zip(cpus, cpus[1:] + cpus[:1], strict=True):
            m[m[0, Kernel.nr_cpus] + cpu, RqModern.sibling] = following
