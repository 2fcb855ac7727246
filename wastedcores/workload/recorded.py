"""The workloads of the guest recordings, as their README describes them, for any machine.

Each function takes the machine, the seed and the parameters that ``--set`` can change, and returns a Workload. What
the recorder's own processes cost (48 us for a fork, 20 us for a thread) was read off the recordings.
"""

from __future__ import annotations

from wastedcores.errors import WorkloadError
from wastedcores.topology.machine import Machine
from wastedcores.workload.builder import Measure, Script, Workload
from wastedcores.workload.guest import FORK_NS, LEAD_NS, MS, SETSID_NS, US, background, recorder_cpu
from wastedcores.workload.threads import Creation

SECOND = 1_000_000_000
#: a unit of work of the pure loops
UNIT_NS = 200_000
#: between the hogs and the rest
HOGS_FIRST_NS = 300 * MS


def _hogs(w: Workload, shell: Script, hogs: int) -> Script:
    """R processes, each in a session of its own, a while before the rest."""
    if not hogs:
        return shell
    for i in range(hogs):
        hog = Script().touch().compute(*SETSID_NS).session(w.session())
        template = w.template(f"R-{i}", hog.loop().compute(SECOND).end(), daemon=True)
        shell.compute(*FORK_NS).touch().fork(template)
    return shell.sleep(HOGS_FIRST_NS)


def _create_threads(
    w: Workload, shell: Script, n: int, body: Script, comm: str, daemon: bool = False
) -> Script:
    """Create n equal threads, one after the other."""
    creation = Creation(w)
    template = creation.template(comm, body, daemon)
    return creation.create(shell.loop(n), template).end()


def _hotplug(w: Workload, machine: Machine, cpu: str) -> tuple[int | None, int]:
    """A CPU goes for 300 ms; 300 ms after it is back the rest begins. Which CPU, and when in ns."""
    if str(cpu) == "none":
        return None, LEAD_NS
    if not str(cpu).isdecimal() or int(cpu) >= machine.cpus:
        raise WorkloadError(
            f"machine {machine.name!r} has no CPU {cpu} to take offline, only 0-{machine.cpus - 1}; give one, or none"
        )
    w.hotplug(LEAD_NS, int(cpu), False)
    w.hotplug(LEAD_NS + 300 * MS, int(cpu), True)
    return int(cpu), LEAD_NS + 600 * MS


def _pinned_nodes(machine: Machine) -> list[int]:
    if machine.nodes < 3:
        raise WorkloadError(
            f"machine {machine.name!r} has {machine.nodes} nodes; this workload is pinned to nodes 1 and 2"
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
) -> Workload:
    """``make -jJ`` of ``jobs`` compilers, each 20-60 ms, beside ``hogs`` R processes (paper 3.1)."""
    w = Workload("recorded-gi", Measure("make_s", "make start", "make end"))
    cpu = recorder_cpu(machine, seed, "gi")
    off, start = _hotplug(w, machine, hotplug)
    background(w, machine, seed, "gi", cpu, exits=True, offline=off)
    child = w.template(
        "cc1", Script().touch().compute(lo_us * US, hi_us * US).compute(60 * US).touch()
    )
    make = (
        Script()
        .touch()
        .compute(*SETSID_NS)
        .session(w.session())
        .loop(jobs)
        .compute(*FORK_NS)
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
) -> Workload:
    """A thread a CPU pinned to nodes 1 and 2, created on node 1 (paper 3.2)."""
    w = Workload(
        "recorded-gc",
        Measure("cpus_of_work", "threads start", "threads stop", "ep", UNIT_NS),
        (1, 2) if pinned else None,
    )
    cpus = _pinned_nodes(machine) if pinned else list(range(machine.cpus))
    cpu = cpus[0] if pinned else recorder_cpu(machine, seed, "gc")
    n = n or len(cpus)
    work = Script().loop().compute(UNIT_NS).end()
    off, start = _hotplug(w, machine, hotplug)
    background(w, machine, seed, "gc", cpu, exits=False, offline=off)
    shell = Script().mark("threads start").affinity(cpus).compute(20 * US)
    _create_threads(w, shell, n, work, "ep", daemon=True)
    shell.sleep(int(limit_s * SECOND)).mark("threads stop")
    w.task("shell", shell, session=w.session(), allowed=[cpu], cpu=cpu, start_ns=start)
    return w


def recorded_ms(
    machine: Machine, seed: int, n: int = 0, limit_s: float = 3.0, hotplug: str = ""
) -> Workload:
    """A CPU goes and comes back, then as many busy processes as CPUs start on node 2 (paper 3.4)."""
    w = Workload("recorded-ms", Measure("cpus_of_work", "start", "stop", "busy", UNIT_NS))
    node2 = machine.cpus_of_node(min(2, machine.nodes - 1))
    middle = str(node2[len(node2) // 2])
    off, _ = _hotplug(w, machine, str(hotplug) or middle)
    start = LEAD_NS + 600 * MS  # also where none goes
    background(w, machine, seed, "ms", node2[0], exits=False, offline=off)
    child = w.template("busy", Script().touch().loop().compute(UNIT_NS).end(), daemon=True)
    shell = Script().mark("start").affinity(range(machine.cpus))
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
) -> Workload:
    """Threads that spin at a barrier after every ``work_us`` (NAS lu, paper table 1)."""
    w = Workload(
        "recorded-lu", Measure("s_per_iter", "lu start", "lu end", "lu"), (1, 2) if pinned else None
    )
    cpus = _pinned_nodes(machine) if pinned else list(range(machine.cpus))
    n = n or (len(cpus) if pinned else machine.cpus - hogs)
    cpu = cpus[0] if pinned else recorder_cpu(machine, seed, "lu")
    off, start = _hotplug(w, machine, hotplug)
    background(w, machine, seed, "lu", cpu, exits=False, offline=off)
    meet = w.barrier(n)
    deadline = start + (HOGS_FIRST_NS if hogs else 0) + int(limit_s * SECOND)
    body = Script().loop(iterations, stopped_by=meet).compute(work_us * 1000)
    body.barrier(meet, "spin", deadline_ns=deadline).end()
    shell = _hogs(w, Script().affinity(cpus), hogs).mark("lu start").compute(20 * US)
    _create_threads(w, shell, n, body, "lu").wait_children(hogs).mark("lu end")
    w.task("shell", shell, session=w.session(), allowed=[cpu], cpu=cpu, start_ns=start)
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
) -> Workload:
    """Workers that meet at a blocking barrier, disturbed by pinned noise (TPC-H, paper 3.3)."""
    w = Workload("recorded-db", Measure("db_s", "db start", "db end", "db"))
    n = n or machine.cpus
    group = group or n
    if n % group:
        raise WorkloadError(f"{n} workers do not divide into groups of {group}")
    cpu = recorder_cpu(machine, seed, "db")
    off, start = _hotplug(w, machine, hotplug)
    background(w, machine, seed, "db", cpu, exits=False, offline=off)
    period = int(noise_period_ms * MS)
    noise = Script().loop().sleep_exponential(period, 8 * period).compute(100_000, 500_000).end()
    for c in range(machine.cpus):
        w.task(f"noise/{c}", noise, allowed=[c], cpu=c, start_ns=start, daemon=True)
    shell = Script().affinity(range(machine.cpus)).mark("db start")
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
    w.task("rec", shell, allowed=[cpu], cpu=cpu, start_ns=start + 200 * MS)
    return w
