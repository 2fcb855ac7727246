"""Programs of many equal threads that wait for each other, as in the OpenMP version of the NAS Parallel Benchmarks (NPB).

There are four kinds:

* ``none``: every thread has one piece of work (ep).
* ``barrier``: work, then a barrier (bt, cg, ft, is, mg, sp). The barrier works like libgomp's: a waiting thread spins for
  a while and then sleeps on a futex.
* ``lock``: like ``barrier``, but in each interval every thread also enters a short critical section once. Every two threads share
  a lock (ua: the locks of its mortar points, which neighbouring elements share).
* ``pipeline``: sweeps over planes. A thread starts on a plane when its neighbour has finished its own part of the plane. The
  sweeps go first forwards and then backwards, with a barrier after each sweep (lu: ``sync_left`` and ``sync_right``, flags in
  memory that are polled without a limit, NPB 3.3 LU/ssor.f and syncs.f). The rows of a plane are distributed as
  ``schedule(static)`` does. If the rows do not divide evenly, the first threads have one row more, and the other threads
  wait for them.

The master is thread 0, as in OpenMP, and creates the others as pthread_create() does (``builder.py``). It marks every
interval, so that rates can be measured on a trace.
"""

from __future__ import annotations

from dataclasses import dataclass

from wastedcores.errors import WorkloadError
from wastedcores.topology.machine import Machine
from wastedcores.workload.background import SECOND, add_hogs, add_kworkers
from wastedcores.workload.builder import Creation, Measure, Workload
from wastedcores.workload.program import Program
from wastedcores.workload.script import Script

KINDS = ("none", "barrier", "lock", "pipeline")
#: without OMP_WAIT_POLICY libgomp polls 300 000 times before it sleeps (config/linux/wait.h: do_spin(), team.c and env.c:
#: gomp_spin_count_var); a poll is a load, a comparison and a pause, about 7 cycles of 2.1 GHz
SPIN_LIMIT_NS = 1_000_000
#: the work of the threads in an interval differs by up to this fraction in both directions
SPREAD = 0.01
#: length of the critical section of the kind ``lock``
HOLD_NS = 1_000
#: text of the mark at each interval
MARK = "interval"

_SETTLE_NS = 300_000_000


@dataclass(frozen=True)
class Spmd:
    """A parallel program and its place on the machine."""

    #: number of threads, and the way in which they wait for each other
    threads: int
    kind: str
    #: mean work of a thread in an interval, in ns (``pipeline``: on a plane; ``none``: all work of the thread)
    grain_ns: int
    #: the number of planes in a sweep, and of rows in a plane. The threads share the rows; with 0 rows all have the same work.
    planes: int = 0
    rows: int = 0
    #: nodes to which the program is bound (``numactl --cpunodebind``); None for all nodes
    nodes: tuple[int, ...] | None = None
    start_node: int = 1  #: the node of the program's shell
    #: a CPU that goes offline and comes back before the program starts; None for no CPU
    reonline: int | None = None
    #: number of single-threaded programs that always run (the paper's R). Each has its own session; they start one by one.
    hogs: int = 0
    kworker_ns: int = SECOND  #: time between two runs of the kernel thread of each CPU, in ns
    #: see :data:`SPIN_LIMIT_NS` and :data:`SPREAD`
    spin_ns: int = SPIN_LIMIT_NS
    spread: float = SPREAD
    #: number of intervals; None for a program without an end. A pipeline has two sweeps in an interval.
    intervals: int | None = None

    @property
    def start_ns(self) -> int:
        """The start of the program in ns: after the hotplug, or when the hogs have found their places."""
        if self.reonline is not None:
            return 2 * _SETTLE_NS
        return _SETTLE_NS * self.hogs

    def grain_of(self, i: int) -> float:
        """Return the work of thread ``i`` in an interval, in ns."""
        if not self.rows:
            return self.grain_ns
        each, more = divmod(self.rows, self.threads)
        return self.grain_ns * self.threads * (each + (i < more)) / self.rows


def program(spec: Spmd, machine: Machine, seed: int = 1) -> Program:
    """Make the program as flat rows."""
    return workload(spec, machine, seed).program()


def workload(spec: Spmd, machine: Machine, seed: int = 1) -> Workload:
    """Make one run of the program; the seed decides when kernel threads run.

    If the spec has ``intervals``, the workload measures ``s_per_iter``, the seconds per interval.
    """
    _check(spec)
    bound = [
        cpu
        for cpu, node in enumerate(machine.node_of_cpu)
        if spec.nodes is None or int(node) in spec.nodes
    ]
    home = [cpu for cpu, node in enumerate(machine.node_of_cpu) if int(node) == spec.start_node]
    if not home or not bound:
        raise WorkloadError(
            f"machine {machine.name!r} has no node {spec.start_node if not home else spec.nodes}."
        )
    ends = spec.intervals is not None
    measure = Measure("s_per_iter", "start", "end", "nas") if ends else None
    w = Workload("spmd", measure, spec.nodes)
    session = w.session()
    meet = w.barrier(spec.threads)
    locks = [w.lock() for _ in range(max(spec.threads // 2, 1))] if spec.kind == "lock" else []
    edges = 2 * (min(spec.rows or spec.threads, spec.threads) - 1) if spec.kind == "pipeline" else 0
    flags = [w.semaphore(i % 2) for i in range(2 * edges)]
    parts = _Parts(spec, meet, locks, flags)
    master = Script()
    if spec.nodes is not None:
        master.affinity(bound)
    if ends:
        master.mark("start")
    creation = Creation(w)
    for i in range(1, spec.threads):
        creation.create(master, creation.template("nas", parts.thread(i, Script())))
    parts.thread(0, master)
    if ends:
        master.wait_children(0).mark("end")
    add_hogs(w, spec.hogs, cpu=home[0], apart_ns=_SETTLE_NS)
    w.task(
        "nas",
        master,
        session=session,
        allowed=home[:1] if spec.nodes is not None else None,
        cpu=home[0],
        start_ns=spec.start_ns,
    )
    add_kworkers(w, machine, seed, spec.reonline, spec.kworker_ns)
    if spec.reonline is not None:
        w.hotplug(0, spec.reonline, False)
        w.hotplug(_SETTLE_NS, spec.reonline, True)
    return w


def _check(spec: Spmd) -> None:
    """Refuse an impossible program."""
    if spec.kind not in KINDS:
        raise WorkloadError(
            f"kind {spec.kind!r} of parallel program; there are {', '.join(KINDS)}."
        )
    if spec.threads < 1 or spec.grain_ns < 1 or (spec.kind == "pipeline" and spec.planes < 1):
        raise WorkloadError(
            f"{spec.kind} program: expected at least one thread, 1 ns of work and, for a pipeline, one plane; got "
            f"{spec.threads} threads, {spec.grain_ns} ns, {spec.planes} planes."
        )
    if spec.intervals is not None and spec.intervals < 1:
        raise WorkloadError(
            f"{spec.kind} program of {spec.intervals} intervals; expected 1 or more."
        )


@dataclass(frozen=True)
class _Parts:
    """What the threads share: a barrier, locks, and in a pipeline two flags for each pair of neighbours and direction."""

    spec: Spmd
    meet: int
    locks: list[int]
    flags: list[int]

    def thread(self, i: int, script: Script) -> Script:
        """Write the script of thread ``i``: all intervals or, for ``none``, one piece of work. Thread 0 writes the marks."""
        spec = self.spec
        if spec.kind == "none":
            self._work(script, i)
            return script.mark(MARK) if i == 0 else script
        script.loop(spec.intervals)
        if spec.kind == "pipeline":
            self._sweep(script, i, back=False)
            self._sweep(script, i, back=True)
        else:
            self._work(script, i)
            if spec.kind == "lock":
                lock = self.locks[i % len(self.locks)]
                script.lock(lock, "spin_block", spec.spin_ns).compute(HOLD_NS).unlock(lock)
            self._barrier(script)
        if i == 0:
            script.mark(MARK)
        return script.end()

    def _work(self, script: Script, i: int) -> None:
        grain, spread = self.spec.grain_of(i), self.spec.spread
        script.compute(round(grain * (1 - spread)), round(grain * (1 + spread)))

    def _barrier(self, script: Script) -> None:
        script.barrier(self.meet, "spin_block", self.spec.spin_ns)

    def _sweep(self, script: Script, i: int, back: bool) -> None:
        """Write the part of thread ``i`` in a sweep. The thread can be at most one plane ahead of its neighbour.

        Threads without a row do not take part (``mthreadnum``, NPB 3.3 LU/ssor.f), but wait at the barrier.
        """
        n = min(self.spec.rows or self.spec.threads, self.spec.threads)
        if i >= n:
            self._barrier(script)
            return
        before, behind = (i, i - 1) if back else (i - 1, i)
        base = 2 * (n - 1) if back else 0
        has_before, has_behind = (i < n - 1, i > 0) if back else (i > 0, i < n - 1)
        script.loop(self.spec.planes)
        if has_before:
            script.wait(self.flags[base + 2 * before], "spin")
            script.post(self.flags[base + 2 * before + 1])
        self._work(script, i)
        if has_behind:
            script.wait(self.flags[base + 2 * behind + 1], "spin")
            script.post(self.flags[base + 2 * behind])
        script.end()
        self._barrier(script)


def spmd(
    machine: Machine,
    seed: int,
    threads: int = 0,
    kind: str = "barrier",
    grain_us: int = 1000,
    intervals: int = 500,
    planes: int = 30,
    hogs: int = 0,
    pinned: bool = False,
) -> Workload:
    """Make a program like NPB's from a few plain parameters, as the scenario ``spmd`` does."""
    nodes = (1, 2) if pinned else None
    inside = sum(nodes is None or int(n) in nodes for n in machine.node_of_cpu)
    spec = Spmd(
        threads or inside,
        kind,
        grain_us * 1000,
        planes=planes,
        nodes=nodes,
        start_node=min(1, machine.nodes - 1),
        hogs=hogs,
        intervals=intervals,
    )
    return workload(spec, machine, seed)
