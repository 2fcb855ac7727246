"""The workloads of the guest recordings, for any machine.

Each function takes the machine, the seed and the parameters that ``--set`` can change. The costs of the recorder's own
processes (48 us for a fork, 20 us for a thread) were measured on the recordings.
"""

from __future__ import annotations

from collections.abc import Iterable

from wastedcores.errors import WorkloadError
from wastedcores.topology.machine import Machine
from wastedcores.workload.builder import Creation, Measure, Workload
from wastedcores.workload.recorded.guest import (
    FORK_NS,
    MS,
    SETSID_NS,
    US,
    background,
    recorder_cpu,
    start_ns,
)
from wastedcores.workload.script import Script

SECOND = 1_000_000_000
#: work of one round of the pure loops
UNIT_NS = 200_000
#: time between the start of the hogs and the start of all other tasks
HOGS_FIRST_NS = 300 * MS
#: time between the creation of the shell and its work
SHELL_FIRST_NS = 200 * MS
#: time for which the noise threads run before the workers
NOISE_FIRST_NS = 200 * MS
#: time between the creations of two noise threads
NOISE_NS = 25 * US
#: time that the shell's setsid() and sched_setaffinity() take; both have ended at the recorder's phase of a tick
SHELL_NS = 60 * US
#: sum of the time of a fork, SHELL_NS, the time of the stopper that moves the shell, and the time of a switch
BEFORE_SHELL_SLEEPS_NS = 112 * US


def _workload(name: str, measure: Measure, nodes: tuple[int, ...] | None = None) -> Workload:
    """Make a workload that begins at a tick. The start time of the recorder (``start_ns``) contains its phase of a tick."""
    return Workload(name, measure, nodes, random_phase=False)


def _hogs(w: Workload, shell: Script, hogs: int) -> Script:
    """Add R processes, each in a session of its own, that start some time before all other tasks."""
    if not hogs:
        return shell
    for i in range(hogs):
        hog = Script().touch().compute(*SETSID_NS).session(w.session())
        template = w.template(f"R-{i}", hog.loop().compute(SECOND).end(), daemon=True)
        shell.compute(*FORK_NS).touch().fork(template)
    return shell.sleep(HOGS_FIRST_NS)


def _shell(w: Workload, cpus: Iterable[int]) -> Script:
    """Make the shell that the recorder forks. It has a session of its own, is bound to ``cpus``, and sleeps for some time.

    So, before the threads are created, the entity of the session's group has already been on the queue of the CPU where fork
    placed the shell.
    """
    shell = Script().touch().compute(SHELL_NS).session(w.session()).affinity(cpus)
    return shell.sleep(SHELL_FIRST_NS)


def _record(w: Workload, machine: Machine, seed: int, kind: str, shell: Script, start: int) -> None:
    """Add the recorder, which forks the shell and waits for it."""
    cpu = recorder_cpu(machine, seed, kind)
    rec = Script().affinity(range(machine.cpus)).compute(FORK_NS[0])
    rec.touch().fork(w.template("shell", shell)).wait_children(0)
    at = start - BEFORE_SHELL_SLEEPS_NS
    w.task("rec", rec, allowed=[cpu], cpu=cpu, start_ns=at)


def _create_threads(
    w: Workload, shell: Script, n: int, body: Script, comm: str, daemon: bool = False
) -> Script:
    """Let the shell create n equal threads, one after the other."""
    creation = Creation(w)
    template = creation.template(comm, body, daemon)
    return creation.create(shell.loop(n), template).end()


def _hotplug(w: Workload, machine: Machine, cpu: str, at_ns: int) -> tuple[int | None, int]:
    """Take a CPU offline for 300 ms. Return this CPU (or None), and when the other tasks start: 300 ms after it is back."""
    if str(cpu) == "none":
        return None, at_ns
    if not str(cpu).isdecimal() or int(cpu) >= machine.cpus:
        raise WorkloadError(
            f"machine {machine.name!r} has no CPU {cpu} to take offline, only 0-{machine.cpus - 1}; give one of these, or none."
        )
    w.hotplug(at_ns, int(cpu), False)
    w.hotplug(at_ns + 300 * MS, int(cpu), True)
    return int(cpu), at_ns + 600 * MS


def _pinned_nodes(machine: Machine) -> list[int]:
    """Return the CPUs of nodes 1 and 2."""
    if machine.nodes < 3:
        raise WorkloadError(
            f"machine {machine.name!r} has {machine.nodes} nodes; this workload is pinned to nodes 1 and 2."
        )
    return [c for node in (1, 2) for c in machine.cpus_of_node(node)]


def recorded_gi(
    machine: Machine,
    seed: int,
    jobs: int = 4000,
    J: int = 0,
    hogs: int = 2,
    lo_us: int = 20_000,
    hi_us: int = 60_000,
    hotplug: str = "none",
    patched_boot: bool = False,
    fork_lo_us: int = FORK_NS[0] // US,
    fork_hi_us: int = FORK_NS[1] // US,
) -> Workload:
    """Run ``make -j`` next to R processes (paper 3.1). For each job, make computes for ``fork_lo_us`` to ``fork_hi_us``."""
    w = _workload("recorded-gi", Measure("make_s", "make start", "make end"))
    cpu = recorder_cpu(machine, seed, "gi")
    off, start = _hotplug(w, machine, hotplug, start_ns(machine, seed, "gi"))
    background(w, machine, seed, "gi", cpu, offline=off, patched=patched_boot)
    child = w.template(
        "cc1", Script().touch().compute(lo_us * US, hi_us * US).compute(60 * US).touch()
    )
    make = (
        Script()
        .touch()
        .compute(*SETSID_NS)
        .session(w.session())
        .loop(jobs)
        .compute(fork_lo_us * US, fork_hi_us * US)
        .touch()
        .fork(child)
    )
    make.wait_children((J or machine.cpus) - 1).end().wait_children(0).mark("make end")
    rec = _hogs(w, Script().affinity(range(machine.cpus)), hogs)
    rec.mark("make start").compute(*FORK_NS).touch().fork(w.template("make", make))
    rec.wait_children(hogs)
    w.task("rec", rec, allowed=[cpu], cpu=cpu, start_ns=start)
    return w


def recorded_gc(
    machine: Machine,
    seed: int,
    n: int = 0,
    limit_s: float = 3.0,
    pinned: bool = True,
    hotplug: str = "none",
    patched_boot: bool = False,
) -> Workload:
    """Run one thread per CPU of nodes 1 and 2, pinned there and created on node 1 (paper 3.2)."""
    w = _workload(
        "recorded-gc",
        Measure("cpus_of_work", "threads start", "threads stop", "ep", UNIT_NS),
        (1, 2) if pinned else None,
    )
    cpus = _pinned_nodes(machine) if pinned else list(range(machine.cpus))
    first = cpus[:1] if pinned else cpus
    n = n or len(cpus)
    work = Script().loop().compute(UNIT_NS).end()
    off, start = _hotplug(w, machine, hotplug, start_ns(machine, seed, "gc"))
    cpu = first[0] if pinned else recorder_cpu(machine, seed, "gc")
    background(w, machine, seed, "gc", cpu, start + SHELL_FIRST_NS, off, patched=patched_boot)
    shell = _shell(w, first).touch(rcu=True).mark("threads start").affinity(cpus).compute(20 * US)
    _create_threads(w, shell, n, work, "ep", daemon=True)
    shell.sleep(int(limit_s * SECOND)).mark("threads stop")
    _record(w, machine, seed, "gc", shell, start)
    return w


def recorded_ms(
    machine: Machine,
    seed: int,
    n: int = 0,
    limit_s: float = 3.0,
    hotplug: str = "",
    patched_boot: bool = False,
) -> Workload:
    """Take a CPU offline and online, then start on node 2 as many busy processes as it has CPUs (paper 3.4)."""
    w = _workload("recorded-ms", Measure("cpus_of_work", "start", "stop", "busy", UNIT_NS))
    node2 = machine.cpus_of_node(min(2, machine.nodes - 1))
    middle = str(node2[len(node2) // 2])
    begin = start_ns(machine, seed, "ms")
    off, _ = _hotplug(w, machine, str(hotplug) or middle, begin)
    start = begin + 600 * MS  # even if no CPU goes offline
    background(w, machine, seed, "ms", node2[0], start, off, patched=patched_boot)
    child = w.template("busy", Script().touch().loop().compute(UNIT_NS).end(), daemon=True)
    shell = Script().touch(rcu=True).mark("start").affinity(range(machine.cpus))
    shell.loop(n or machine.cpus).compute(*FORK_NS).touch().fork(child).end()
    shell.sleep(int(limit_s * SECOND)).mark("stop")
    w.task("shell", shell, session=w.session(), allowed=[node2[0]], cpu=node2[0], start_ns=start)
    return w


def recorded_lu(
    machine: Machine,
    seed: int,
    n: int = 0,
    work_us: int = 1000,
    iterations: int = 500,
    limit_s: float = 4.0,
    hogs: int = 0,
    pinned: bool = True,
    hotplug: str = "none",
    patched_boot: bool = False,
) -> Workload:
    """Run threads that meet at a spinning barrier (NAS lu, paper table 1)."""
    w = _workload(
        "recorded-lu", Measure("s_per_iter", "lu start", "lu end", "lu"), (1, 2) if pinned else None
    )
    cpus = _pinned_nodes(machine) if pinned else list(range(machine.cpus))
    n = n or (len(cpus) if pinned else machine.cpus - hogs)
    first = cpus[:1] if pinned else cpus
    off, start = _hotplug(w, machine, hotplug, start_ns(machine, seed, "lu"))
    cpu = first[0] if pinned else recorder_cpu(machine, seed, "lu")
    background(w, machine, seed, "lu", cpu, start + SHELL_FIRST_NS, off, patched=patched_boot)
    meet = w.barrier(n)
    deadline = start + SHELL_FIRST_NS + (HOGS_FIRST_NS if hogs else 0) + int(limit_s * SECOND)
    body = Script().loop(iterations, stopped_by=meet).compute(work_us * 1000)
    body.barrier(meet, "spin", deadline_ns=deadline).end()
    shell = _hogs(w, _shell(w, first).affinity(cpus), hogs)
    shell.touch(rcu=True).mark("lu start").compute(20 * US)
    _create_threads(w, shell, n, body, "lu").wait_children(hogs).mark("lu end")
    _record(w, machine, seed, "lu", shell, start)
    return w


def recorded_db(
    machine: Machine,
    seed: int,
    n: int = 0,
    iterations: int = 400,
    group: int = 0,
    lo_us: int = 1800,
    hi_us: int = 2200,
    noise_period_ms: float = 40.0,
    hotplug: str = "none",
    patched_boot: bool = False,
) -> Workload:
    """Run workers that meet at a blocking barrier and are disturbed by pinned kernel threads (TPC-H, paper 3.3)."""
    w = _workload("recorded-db", Measure("db_s", "db start", "db end", "db"))
    n = n or machine.cpus
    group = group or n
    if n % group:
        raise WorkloadError(f"{n} workers do not divide into groups of {group}.")
    cpu = recorder_cpu(machine, seed, "db")
    off, start = _hotplug(w, machine, hotplug, start_ns(machine, seed, "db"))
    background(w, machine, seed, "db", cpu, start + NOISE_FIRST_NS, off, patched=patched_boot)
    period = int(noise_period_ms * MS)
    noise = Script().loop().sleep_exponential(period, 8 * period).compute(100_000, 500_000).end()
    # the process with pid 356 creates first the noise threads (pids 357 to 420) and then the workers. In the recordings of
    # kernels with the group construction bug, this process was placed on node 1. From node 1, fork balancing does not reach
    # every node
    forked = start - machine.cpus * NOISE_NS
    for c in range(machine.cpus):
        at = forked + (c + 1) * NOISE_NS
        w.task(f"noise/{c}", noise, allowed=[c], cpu=c, start_ns=at, daemon=True)
    shell = Script().touch().affinity(range(machine.cpus))
    shell.compute(machine.cpus * NOISE_NS).sleep(NOISE_FIRST_NS)
    shell.touch(rcu=True).mark("db start")
    for _ in range(n // group):
        meet = w.barrier(group)
        body = (
            Script()
            .loop(iterations)
            .compute(lo_us * 1000, hi_us * 1000)
            .barrier(meet, "block")
            .end()
        )
        _create_threads(w, shell, group, body, "db")
    shell.wait_children(0).mark("db end")
    rec = Script().affinity(range(machine.cpus)).compute(FORK_NS[0]).touch()
    rec.fork(w.template("shell", shell)).wait_children(0)
    w.task("rec", rec, allowed=[cpu], cpu=cpu, start_ns=forked - FORK_NS[0])
    return w
