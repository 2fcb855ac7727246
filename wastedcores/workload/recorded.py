"""The workloads of the guest recordings, as their README describes them, for any machine.

Each function takes the machine, the seed and the parameters that ``--set`` can change, and returns a Workload. What
the recorder's own processes cost (48 us for a fork, 20 us for a thread) was read off the recordings.
"""

from __future__ import annotations

from wastedcores.engine import codes
from wastedcores.errors import WorkloadError
from wastedcores.topology.machine import Machine
from wastedcores.workload.builder import Measure, Script, Workload

MS = 1_000_000
SECOND = 1_000_000_000
JUMPS = (codes.OP_LOOP, codes.OP_LOOP_BARRIER)
#: a unit of work of the pure loops
UNIT_NS = 200_000


def _parent_cpu(machine: Machine, seed: int) -> int:
    """The CPU the recorder happened to run on: any; follows the seed (splitmix64's multiplier)."""
    return (seed * 0x9E3779B97F4A7C15 >> 20) % machine.cpus


def _kernel_threads(
    w: Workload,
    machine: Machine,
    seed: int,
    exits: bool = False,
    rcu_cpu: int = 0,
    start_ns: int = 0,
) -> None:
    """What runs on an idle guest: on each CPU a kworker once a second, and rcu_sched while tasks exit."""
    offset = (seed * 0xD1342543DE82EF95 >> 16) % SECOND
    work = Script().loop().compute(8_000).sleep(SECOND).end()
    for cpu in range(machine.cpus):
        at = start_ns + (offset + (machine.cpus - 1 - cpu) * 12 * MS) % SECOND
        w.task(f"kworker/{cpu}", work, allowed=[cpu], cpu=cpu, start_ns=at, daemon=True)
    # grace periods follow one another while tasks exit; else a few follow the birth of the workload
    periods = Script().loop(None if exits else 8).compute(4_000).sleep(4 * MS).end()
    w.task("rcu_sched", periods, cpu=rcu_cpu, start_ns=start_ns, daemon=True)


def _create_threads(w: Workload, shell: Script, n: int, body: Script, comm: str) -> Script:
    """pthread_create() n times, 28 us each as in the recordings.

    The new thread's first page faults meet the creator's mmap() for the next stack (mmap_sem): it starts where fork
    put it, sleeps at once and is woken by the creator, which can pull it into the creator's LLC. Without this the
    threads would begin where only fork balancing put them.
    """
    mmap_sem = w.lock()
    thread = Script().compute(4_000).lock(mmap_sem, "block").compute(2_000).unlock(mmap_sem)
    thread.rows += [
        (op, a + len(thread.rows) if op in JUMPS else a, *rest) for op, a, *rest in body.rows
    ]
    template = w.template(comm, thread)
    shell.loop(n).lock(mmap_sem, "block").compute(8_000).unlock(mmap_sem)
    return shell.compute(20_000).fork(template).end()


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
) -> Workload:
    """``make -jJ`` of ``jobs`` compilers, each 20-60 ms, beside ``hogs`` R processes (paper 3.1)."""
    w = Workload("recorded-gi", Measure("make_s", "make start", "make end"))
    cpu = _parent_cpu(machine, seed)
    hog = Script().loop().compute(SECOND).end()
    for i in range(hogs):
        w.task(f"R-{i}", hog, session=w.session(), cpu=cpu, start_ns=48_000 * i, daemon=True)
    make = w.session()
    child = w.template("cc1", Script().compute(lo_us * 1000, hi_us * 1000).compute(60_000))
    script = Script().mark("make start").loop(jobs).compute(48_000).fork(child)
    script.wait_children((J or machine.cpus) - 1).end().wait_children(0).mark("make end")
    w.task("make", script, session=make, cpu=cpu, start_ns=300 * MS)
    _kernel_threads(w, machine, seed, exits=True, rcu_cpu=cpu)
    return w


def recorded_gc(machine: Machine, seed: int, n: int = 0, limit_s: float = 3.0) -> Workload:
    """Two threads a CPU pinned to nodes 1 and 2, created on node 1 (paper 3.2)."""
    w = Workload(
        "recorded-gc",
        Measure("cpus_of_work", "threads start", "threads stop", "ep", UNIT_NS),
        (1, 2),
    )
    cpus = _pinned_nodes(machine)
    n = n or len(cpus)
    limit = int(limit_s * SECOND)
    work = Script().loop(until_ns=limit).compute(UNIT_NS).end()
    shell = Script().mark("threads start").affinity(cpus).compute(20_000)
    _create_threads(w, shell, n, work, "ep").wait_children(0).mark("threads stop")
    w.task("shell", shell, session=w.session(), allowed=[cpus[0]], cpu=cpus[0])
    _kernel_threads(w, machine, seed, rcu_cpu=cpus[0])
    return w


def recorded_ms(
    machine: Machine, seed: int, n: int = 0, limit_s: float = 3.0, hotplug: str = ""
) -> Workload:
    """A CPU goes and comes back, then as many busy processes as CPUs start on node 2 (paper 3.4)."""
    w = Workload("recorded-ms", Measure("cpus_of_work", "start", "stop", "busy", UNIT_NS))
    node2 = machine.cpus_of_node(min(2, machine.nodes - 1))
    off = str(hotplug) or str(node2[len(node2) // 2])
    if off != "none":
        w.hotplug(0, int(off), False)
        w.hotplug(300 * MS, int(off), True)
    limit = int(limit_s * SECOND)
    child = w.template("busy", Script().loop(until_ns=limit).compute(UNIT_NS).end())
    shell = Script().mark("start").affinity(range(machine.cpus))
    shell.loop(n or machine.cpus).compute(48_000).fork(child).end().wait_children(0).mark("stop")
    w.task("shell", shell, session=w.session(), allowed=[node2[0]], cpu=node2[0], start_ns=600 * MS)
    _kernel_threads(w, machine, seed, start_ns=600 * MS, rcu_cpu=node2[0])
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
) -> Workload:
    """Threads that spin at a barrier after every ``work_us`` (NAS lu, paper table 1)."""
    w = Workload(
        "recorded-lu", Measure("s_per_iter", "lu start", "lu end", "lu"), (1, 2) if pinned else None
    )
    cpus = _pinned_nodes(machine) if pinned else list(range(machine.cpus))
    n = n or (len(cpus) if pinned else machine.cpus - hogs)
    start = 300 * MS if hogs else 0
    parent = cpus[0] if pinned else _parent_cpu(machine, seed)
    hog = Script().loop().compute(SECOND).end()
    for i in range(hogs):
        w.task(f"R-{i}", hog, session=w.session(), cpu=parent, start_ns=48_000 * i, daemon=True)
    meet = w.barrier(n)
    deadline = start + int(limit_s * SECOND)
    body = Script().loop(iterations, stopped_by=meet).compute(work_us * 1000)
    body.barrier(meet, "spin", deadline_ns=deadline).end()
    shell = Script().mark("lu start")
    if pinned:
        shell.affinity(cpus)
    shell.compute(20_000)
    _create_threads(w, shell, n, body, "lu").wait_children(0).mark("lu end")
    w.task(
        "shell",
        shell,
        session=w.session(),
        allowed=[cpus[0]] if pinned else None,
        cpu=parent,
        start_ns=start,
    )
    _kernel_threads(w, machine, seed, start_ns=start, rcu_cpu=parent)
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
) -> Workload:
    """Workers that meet at a blocking barrier, disturbed by pinned noise (TPC-H, paper 3.3)."""
    w = Workload("recorded-db", Measure("db_s", "db start", "db end", "db"))
    n = n or machine.cpus
    group = group or n
    if n % group:
        raise WorkloadError(f"{n} workers do not divide into groups of {group}")
    start = 200 * MS
    period = int(noise_period_ms * MS)
    noise = Script().loop().sleep_exponential(period, 8 * period).compute(100_000, 500_000).end()
    for cpu in range(machine.cpus):
        w.task(f"noise/{cpu}", noise, allowed=[cpu], cpu=cpu, daemon=True)
    shell = Script().mark("db start")
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
    w.task("rec", shell, cpu=_parent_cpu(machine, seed), start_ns=start)
    _kernel_threads(w, machine, seed, rcu_cpu=_parent_cpu(machine, seed))
    return w
