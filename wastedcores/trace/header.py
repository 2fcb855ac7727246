"""The facts about a trace that are not in its events. They are stored as JSON in the Parquet file's metadata."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

#: version 2: the header has fields for what version 1 kept as text in ``provenance``; the columns are the same
SCHEMA_VERSION = 2


class Window(BaseModel):
    """A part of a trace, in ns of its clock."""

    model_config = ConfigDict(frozen=True)

    #: the first moment inside, and the first moment after it
    start_ns: int
    end_ns: int
    #: the names of the two ends: beginnings of marks, or times as they were written; None: only the times are known
    names: tuple[str, str] | None = None

    @property
    def ends(self) -> tuple[str, str]:
        """The two ends for people: their names, else the times in seconds."""
        return self.names or (f"{self.start_ns / 1e9:.9f}", f"{self.end_ns / 1e9:.9f}")


class TaskFacts(BaseModel):
    """The facts about one task in a snapshot."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    #: numbers of the thread, of its process, and of its parent
    pid: int
    tgid: int | None = None
    ppid: int | None = None
    #: when the task began, in clock ticks since boot. A pid can be used again, but no two tasks have the same pid and start.
    start_ticks: int | None = None
    comm: str | None = None
    kthread: bool | None = None  #: whether it is a kernel thread (PF_KTHREAD)
    allowed: str | None = None  #: the CPUs on which it may run, in the kernel's list format
    #: scheduling policy (``other``, ``fifo``, ``rr``, ``batch``, ``idle``, ``deadline``, ``ext``), nice value, and real-time
    #: priority
    policy: str | None = None
    nice: int | None = None
    rt_prio: int | None = None
    #: path of the control group that limits the task's CPU time, and path of the task's cpuset
    cgroup: str | None = None
    cpuset: str | None = None
    #: name of its autogroup; None if it has none, or if that is not known
    autogroup: str | None = None
    #: its cookie of core scheduling (0: none); None if it is not known
    core_cookie: int | None = None
    #: whether the task ran or waited for a CPU when one of the snapshots was taken
    runnable: bool | None = None
    #: names of the fields above whose values had changed when the trace ended
    changed: tuple[str, ...] = ()


class CpuCounts(BaseModel):
    """What the kernel has counted of a CPU since it booted."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    #: for how long tasks ran (without the present run of the running task), and how often a task began to run
    ran_ns: int
    slices: int
    #: for how long the CPU was busy and idle, counted in ticks
    busy_ns: int
    idle_ns: int


class CpusetFacts(BaseModel):
    """A cpuset that has CPUs of its own."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    path: str  #: its path, ``/`` for the root
    cpus: str  #: its CPUs that are online, in the kernel's list format
    #: in version 1, the value of ``cpuset.sched_load_balance``; in version 2, False if the cpuset is an isolated partition
    load_balance: bool | None = None
    #: ``cpuset.cpus.partition`` of version 2 (``member``, ``root``, ``isolated``, or one of these with ``invalid``); None in
    #: version 1
    partition: str | None = None


class SchedDomainFacts(BaseModel):
    """A scheduling domain that the running kernel had."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    cpus: str  #: the CPUs that have this domain, in the kernel's list format
    level: int  #: 0 is the lowest domain of these CPUs
    #: the kernel's name of the level (``SMT``, ``MC``, ``NUMA``, ...); None if it could not be read
    name: str | None = None
    span: str | None = None  #: the CPUs in the domain; None if they could not be read
    #: names of its flags (``SD_BALANCE_NEWIDLE``, ...); None if they could not be read
    flags: tuple[str, ...] | None = None


class Header(BaseModel):
    """Everything about a trace that is not an event.

    Attributes
    ----------
    schema_version
        Version of :mod:`wastedcores.trace.schema` with which the file was written.
    source_format
        ``ftrace``, ``trace-cmd``, ``perf-script``, ``perf.data``, ``sched_profiler``, ``sched_profiler-fork``,
        ``schedtrace``, ``tracefs``, ``replay``, ...
    kernel_release, host, clock
        Release, host name and clock of the recorded machine as the source states them; None if it does not.
    kernel_model
        Name of the kernel model with its fixes, as ``KernelModel.named()`` takes it, if known.
    scheduler
        Name of the sched_ext scheduler that ran instead of the kernel's own; None: none is known.
    recording
        Name of the recorder's run from which a bundled data set was made.
    cpus
        Number of CPUs: the number of online CPUs, or one more than the highest CPU number in the events.
    cpus_online
        Numbers of the online CPUs, if known.
    machine
        Topology as ``Machine.to_dict()`` gives it, if known.
    window
        The window in which the recording's workload was measured, if the recording names one.
    counted_cpus
        The CPUs that the workload may use, if the recording names them.
    start_ns, end_ns, events
        Times of the first and last event, and the number of events.
    kinds
        Number of events of each kind, sorted by name; None for a trace that was not written as Parquet.
    highest_cpu, highest_pid
        The highest numbers in the events; None for a trace that was not written as Parquet.
    every_switch
        True if the source records every context switch, so that a CPU without any event was idle.
    silent_is_idle
        True if it is known that a CPU without any event was idle; otherwise one thread may have run on it all the time.
    some_tasks
        True if only the events of some tasks were recorded.
    every_cpu
        True if the recorder's command says that the events of all CPUs were recorded.
    unswitched
        CPUs on which no task began or ceased to run between two snapshots around the recording; True: one task ran there all
        the time, False: the CPU was idle. None: unknown.
    wakings
        True if the wakeups are sched_waking events, which come before the thread is put on a runqueue.
    lost
        Lost events per CPU. CPU -1: the source does not say which CPU. A count of -1: some events, and nobody knows how many.
    overwritten
        Events per CPU that a ring buffer overwrote before the first event that it kept (also counted in ``lost``).
    tasks
        The tasks that a snapshot shows at the beginning of the trace; None without a snapshot.
    later_tasks
        The tasks that began during the trace, as a snapshot at its end shows them; None without a snapshot.
    follows_affinity
        Whether changes of affinity are among the events; None: this is as usual for the source format.
    quotas
        CPU time per period, in us, of every control group that has a limit; empty: no group has a limit; None: unknown.
    task_groups
        The control groups among which CPU time is shared, without the root; None: unknown.
    boot_id
        The kernel's random number of this boot (``/proc/sys/kernel/random/boot_id``).
    boot_parameters
        The kernel's command line.
    isolated_cpus
        CPUs that are in no scheduling domain on purpose (``isolcpus``); empty: no CPU is isolated; None: unknown.
    nohz_full_cpus
        CPUs without a regular tick; None: unknown.
    cpusets
        All cpusets with CPUs of their own; None: unknown.
    sched_domains
        The domains that the kernel had, one entry per group of CPUs that share a domain; None: unknown, empty: no CPU had any.
    sched_features
        The kernel's scheduler features as it prints them (``GENTLE_FAIR_SLEEPERS``, ``NO_HRTICK``, ...); None: unknown.
    core_scheduling
        Whether any task had a cookie of core scheduling; None: unknown.
    autogroups
        Whether each autogroup was a group of its own (``kernel.sched_autogroup_enabled``); None: unknown. The kernel tells the
        names of tasks' autogroups even if autogroups are disabled.
    changed
        Names of the fields from ``quotas`` on whose values were different when the trace ended.
    truncated_last_line
        What the reader left out because the file ends within it; None if the file is complete.
    unproven
        Why a change of the events since the recording would go unnoticed; None if the file's seal proves that nothing changed.
    stolen_ns
        For how long a hypervisor ran something else on each CPU during the trace, as the kernel counts it; None: unknown.
    provenance
        Free text: machine, workload, how it was recorded, SHA-256 of the source. Nothing is computed from it.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    schema_version: int = SCHEMA_VERSION
    source_format: str
    kernel_release: str | None = None
    host: str | None = None
    kernel_model: str | None = None
    scheduler: str | None = None
    recording: str | None = None
    clock: str | None = None
    cpus: int | None = None
    cpus_online: list[int] | None = None
    machine: dict[str, Any] | None = None
    window: Window | None = None
    counted_cpus: list[int] | None = None
    start_ns: int | None = None
    end_ns: int | None = None
    events: int | None = None
    kinds: dict[str, int] | None = None
    highest_cpu: int | None = None
    highest_pid: int | None = None
    every_switch: bool = False
    silent_is_idle: bool = False
    some_tasks: bool = False
    every_cpu: bool = False
    unswitched: dict[int, bool] | None = None
    wakings: bool = False
    lost: dict[int, int] = Field(default_factory=dict)
    overwritten: dict[int, int] = Field(default_factory=dict)
    tasks: list[TaskFacts] | None = None
    later_tasks: list[TaskFacts] | None = None
    follows_affinity: bool | None = None
    quotas: dict[str, int] | None = None
    task_groups: list[str] | None = None
    boot_id: str | None = None
    boot_parameters: str | None = None
    isolated_cpus: list[int] | None = None
    nohz_full_cpus: list[int] | None = None
    cpusets: list[CpusetFacts] | None = None
    sched_domains: list[SchedDomainFacts] | None = None
    sched_features: list[str] | None = None
    core_scheduling: bool | None = None
    autogroups: bool | None = None
    changed: list[str] = Field(default_factory=list)
    truncated_last_line: str | None = None
    unproven: str | None = None
    stolen_ns: dict[int, int] | None = None
    provenance: dict[str, str] = Field(default_factory=dict)

    @property
    def lost_total(self) -> int:
        """Number of lost events; a loss of unknown size counts as one."""
        return sum(abs(n) for n in self.lost.values())
