"""Workloads as flat rows, which the engine executes (docs/replay-semantics.md, section 2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from wastedcores.errors import WorkloadError
from wastedcores.limits import LONGEST_NS
from wastedcores.topology.machine import Machine

#: the largest number of rounds, units or shares; their sums still fit into 64 bits
MOST = 1_000_000_000_000


def whole_ns(value: Any, what: str) -> int:
    """Check a time in ns."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= LONGEST_NS:
        raise WorkloadError(
            f"{what} is {value!r}; expected a whole number of nanoseconds from 0 to 10^15 (11 days)."
        )
    return value


def whole(value: Any, what: str, least: int = 1) -> int:
    """Check a number."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= MOST:
        raise WorkloadError(f"{what} is {value!r}; expected a whole number from {least} to 10^12.")
    return value


#: operation code (ops.py) and its operands a, b, c, d
Row = tuple[int, int, int, int, int]


@dataclass(frozen=True)
class TaskSpec:
    """A task to start, or a template to fork."""

    comm: str
    rows: tuple[Row, ...]
    group: int = 0
    nice: int = 0
    allowed: frozenset[int] | None = None
    start_cpu: int = 0
    start_ns: int = 0
    daemon: bool = False


@dataclass(frozen=True)
class Program:
    """A whole workload as flat rows."""

    #: the top-level tasks in order, and the tasks that FORK copies
    tasks: tuple[TaskSpec, ...]
    templates: tuple[TaskSpec, ...] = ()
    shares: tuple[int, ...] = (1024,)  #: weight of each task group; the first is the root group (0)
    masks: tuple[frozenset[int], ...] = ()  #: the CPU sets of AFFINITY
    barriers: tuple[int, ...] = ()  #: the parties of each barrier
    locks: int = 0  #: the number of locks
    semaphores: tuple[int, ...] = ()  #: the first value of each semaphore
    texts: tuple[str, ...] = ()  #: the texts of MARK
    #: steps ``(time_ns, cpu, online)`` in order of time
    hotplug: tuple[tuple[int, int, bool], ...] = ()
    random_phase: bool = False  #: the program starts at a random moment within a tick


@dataclass(frozen=True)
class Costs:
    """Machine constants of docs/replay-semantics.md, section 1, in ns (``idle_ticks``: ticks).

    ``refill_ns`` is the time that a task loses when it first runs on a CPU with another last-level cache than before.
    ``syscall_ns`` is the time for which a task computes at the end of a system call: after a wait, and after it has woken other
    tasks. ``refill_ns`` and ``syscall_ns`` are 0 unless they were measured for the workload.
    """

    tick_ns: int = 4_000_000
    irq_ns: int = 2_000
    skew_ns: int = 50
    ipi_ns: int = 1_000
    switch_ns: int = 1_000
    wake_ns: int = 500
    spin_ns: int = 100
    lb_base_ns: int = 1_000
    lb_cpu_ns: int = 50
    idle_ticks: int = 0
    refill_ns: int = 0
    syscall_ns: int = 0


#: the guest of the recordings: its CPUs run in lockstep, in rounds of 4 us, at 1000 million instructions per second
GUEST = Costs(
    wake_ns=800, irq_ns=4_000, skew_ns=62, ipi_ns=2_000, spin_ns=2_000, lb_base_ns=2_000, lb_cpu_ns=100, idle_ticks=2,
)  # fmt: skip


def costs_of(machine: Machine) -> Costs:
    """Return the machine constants: for a machine of the recorded guests, the guest's constants; else the defaults."""
    guest = machine.name.startswith(("bd-paper-", "guest-")) or "(guest)" in machine.name
    return GUEST if guest else Costs()
