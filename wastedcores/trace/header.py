"""What a trace says about itself; travels as JSON in the Parquet file's metadata."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from wastedcores.trace.schema import SCHEMA_VERSION

#: Entries of ``Header.provenance`` by which a recording names its own measured window ("first mark | last mark"), the
#: CPUs its workload may use, and the kernel model with the fixes it was built with.
WINDOW_KEY, CPUS_KEY, KERNEL_KEY = "window", "counted_cpus", "kernel_model"

#: Key of ``Header.lost`` for losses whose CPU the source does not name.
CPU_UNKNOWN = -1


class Header(BaseModel):
    """Everything about a trace that is not an event.

    Attributes
    ----------
    schema_version
        Version of :mod:`wastedcores.trace.schema` the file was written with.
    source_format
        ``ftrace``, ``trace-cmd``, ``perf-script``, ``perf.data``, ``sched_profiler``, ``sched_profiler-fork``,
        ``schedtrace``, ``tracefs``, ``replay``, ...
    kernel_release, clock
        As the source states them; None if it does not.
    cpus
        Number of CPUs: online ones, or one more than the highest seen.
    cpus_online
        Their numbers, if known.
    machine
        Topology as ``Machine.to_dict()`` gives it, if known.
    start_ns, end_ns, events
        First and last event, and how many.
    kinds, highest_cpu, highest_pid
        Counted while our Parquet was written; None for a trace in memory.
    every_switch
        True if the source records every context switch, so that a CPU without one event was idle.
    lost
        Lost events per CPU; CPU -1: the source does not say which. A count of -1: some, number unknown.
    overwritten
        Events per CPU that a ring buffer overwrote before the first one kept (also counted in ``lost``).
    provenance
        Free text: machine, workload, how it was recorded, SHA-256 of the source.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    schema_version: int = SCHEMA_VERSION
    source_format: str
    kernel_release: str | None = None
    clock: str | None = None
    cpus: int | None = None
    cpus_online: list[int] | None = None
    machine: dict[str, Any] | None = None
    start_ns: int | None = None
    end_ns: int | None = None
    events: int | None = None
    kinds: dict[str, int] | None = None
    highest_cpu: int | None = None
    highest_pid: int | None = None
    every_switch: bool = False
    lost: dict[int, int] = Field(default_factory=dict)
    overwritten: dict[int, int] = Field(default_factory=dict)
    provenance: dict[str, str] = Field(default_factory=dict)

    @property
    def measured(self) -> tuple[tuple[str, str] | None, str | None]:
        """The measured window (its two marks) and the CPUs in list format, where the recording names them."""
        first, found, last = self.provenance.get(WINDOW_KEY, "").partition(" | ")
        return ((first, last) if found else None), self.provenance.get(CPUS_KEY)

    @property
    def lost_total(self) -> int:
        """Lost events, a loss of unknown size counted as one."""
        return sum(abs(n) for n in self.lost.values())
