"""Programs of many equal threads that wait for each other, as NPB's OpenMP version does.

Four kinds:

* ``none``: every thread has one piece of work (ep);
* ``barrier``: work, then a barrier (bt, cg, ft, is, mg, sp). libgomp's: a thread that waits spins for a while, then
  sleeps on a futex;
* ``lock``: as barrier, and inside each interval every thread once enters a short critical section, two threads to a
  lock (ua: the locks of its mortar points; neighbouring elements share one);
* ``pipeline``: sweeps over planes; a thread starts on a plane when its neighbour has finished its part of it, forwards
  and then backwards, a barrier after each sweep (lu: ``sync_left``/``sync_right``, flags in memory that are polled
  without any limit, NPB 3.3 LU/ssor.f and syncs.f).

The master forks the others and is thread 0, as under OpenMP; it marks every interval, so rates can be read off a trace.
"""

from __future__ import annotations

from dataclasses import dataclass

from wastedcores.engine import codes as c
from wastedcores.errors import WorkloadError
from wastedcores.topology.machine import Machine
from wastedcores.workload.program import Program, Row, TaskSpec

KINDS = ("none", "barrier", "lock", "pipeline")
#: libgomp without OMP_WAIT_POLICY polls 300 000 times before it sleeps (config/linux/wait.h: do_spin(), team.c/env.c:
#: gomp_spin_count_var); a poll is a load, a compare and a pause, about 7 cycles of 2.1 GHz
SPIN_LIMIT_NS = 1_000_000
#: threads of one interval differ by up to this part of its length, either way
SPREAD = 0.01
#: a critical section of the kind ``lock``
HOLD_NS = 1_000
#: what text each interval is marked with
MARK = "interval"

_SETTLE_NS = 300_000_000


@dataclass(frozen=True)
class Spmd:
    """One parallel program and where it runs.

    Attributes
    ----------
    threads, kind
        How many, and how they wait for each other.
    grain_ns
        Work of one thread in an interval (for a pipeline: on a plane; for none: all of it).
    planes
        Planes of a sweep.
    nodes
        Nodes it is bound to (``numactl --cpunodebind``); None: anywhere.
    start_node
        Where its shell runs.
    reonline
        A CPU that goes offline and comes back before; None: none does.
    hogs
        Single-threaded programs in sessions of their own that run all the time (the paper's R).
    spin_ns, spread
        As :data:`SPIN_LIMIT_NS` and :data:`SPREAD`.
    """

    threads: int
    kind: str
    grain_ns: int
    planes: int = 0
    nodes: tuple[int, ...] | None = None
    start_node: int = 1
    reonline: int | None = None
    hogs: int = 0
    spin_ns: int = SPIN_LIMIT_NS
    spread: float = SPREAD

    @property
    def start_ns(self) -> int:
        """When the program is started; before that comes the hotplug, or the hogs find their place."""
        if self.reonline is not None:
            return 2 * _SETTLE_NS
        return _SETTLE_NS if self.hogs else 0


def program(spec: Spmd, machine: Machine, seed: int = 1) -> Program:
    """The workload as flat rows.

    Raises
    ------
    WorkloadError
        Another kind, no thread, no work, or a node that the machine does not have.
    """
    if spec.kind not in KINDS:
        raise WorkloadError(
            f"kind {spec.kind!r} of parallel program; there are {', '.join(KINDS)}."
        )
    if spec.threads < 1 or spec.grain_ns < 1 or (spec.kind == "pipeline" and spec.planes < 1):
        raise WorkloadError(
            f"{spec.kind} program: expected at least one thread, 1 ns of work and, for a pipeline, one plane; got "
            f"{spec.threads} threads, {spec.grain_ns} ns, {spec.planes} planes."
        )
    bound = frozenset(
        cpu
        for cpu, node in enumerate(machine.node_of_cpu)
        if spec.nodes is None or int(node) in spec.nodes
    )
    home = [cpu for cpu, node in enumerate(machine.node_of_cpu) if int(node) == spec.start_node]
    if not home or not bound:
        raise WorkloadError(
            f"machine {machine.name!r} has no node {spec.start_node if not home else spec.nodes}."
        )
    first: list[Row] = [(c.OP_AFFINITY, 0, 0, 0, 0)] if spec.nodes is not None else []
    first += [(c.OP_FORK, i - 1, -1, 0, 0) for i in range(1, spec.threads)]
    others = tuple(TaskSpec("nas", tuple(_whole(spec, i))) for i in range(1, spec.threads))
    master = TaskSpec(
        "nas",
        tuple(_whole(spec, 0, first)),
        group=1,
        allowed=frozenset(home[:1]) if spec.nodes is not None else None,
        start_cpu=home[0],
        start_ns=spec.start_ns,
    )
    hog: tuple[Row, ...] = (
        (c.OP_COMPUTE, 1_000_000_000, 1_000_000_000, 0, 0),
        (c.OP_LOOP, 0, 0, -1, -1),
        (c.OP_EXIT, 0, 0, 0, 0),
    )
    hogs = tuple(
        TaskSpec(f"R-{i}", hog, group=2 + i, start_cpu=home[0], daemon=True)
        for i in range(spec.hogs)
    )
    edges = 2 * (spec.threads - 1) if spec.kind == "pipeline" else 0
    steps: tuple[tuple[int, int, bool], ...] = ()
    if spec.reonline is not None:
        steps = ((0, spec.reonline, False), (_SETTLE_NS, spec.reonline, True))
    return Program(
        tasks=(*hogs, master, *_kernel_threads(machine, seed, spec.reonline)),
        templates=others,
        shares=(1024,) * (2 + spec.hogs),
        masks=(bound,),
        barriers=(spec.threads,),
        locks=max(spec.threads // 2, 1) if spec.kind == "lock" else 0,
        semaphores=(0, 1) * edges,
        texts=(MARK,),
        hotplug=steps,
        random_phase=True,
    )


def _kernel_threads(machine: Machine, seed: int, parked: int | None) -> list[TaskSpec]:
    """Per CPU a kworker that runs 8 us once a second, as on the recorded idle guests; none where it would be parked."""
    offset = (seed * 0xD1342543DE82EF95 >> 16) % 1_000_000_000
    rows: tuple[Row, ...] = (
        (c.OP_COMPUTE, 8_000, 8_000, 0, 0),
        (c.OP_SLEEP, 1_000_000_000, 1_000_000_000, 0, 0),
        (c.OP_LOOP, 0, 0, -1, -1),
        (c.OP_EXIT, 0, 0, 0, 0),
    )
    return [
        TaskSpec(
            f"kworker/{cpu}",
            rows,
            allowed=frozenset([cpu]),
            start_cpu=cpu,
            start_ns=(offset + (machine.cpus - 1 - cpu) * 12_000_000) % 1_000_000_000,
            daemon=True,
        )
        for cpu in range(machine.cpus)
        if cpu != parked
    ]


def _whole(spec: Spmd, i: int, first: list[Row] | None = None) -> list[Row]:
    """Thread ``i``: for ever (its piece of work once for ``none``), and thread 0 marks."""
    rows = list(first or ())
    top = len(rows)
    if spec.kind == "none":
        rows.append(_work(spec))
    elif spec.kind == "pipeline":
        rows += _sweep(spec, i, False, top)
        rows += _sweep(spec, i, True, len(rows))
    else:
        rows.append(_work(spec))
        if spec.kind == "lock":
            lock = i % max(spec.threads // 2, 1)
            rows += [
                (c.OP_LOCK, lock, c.MODE_SPIN_BLOCK, spec.spin_ns, 0),
                (c.OP_COMPUTE, HOLD_NS, HOLD_NS, 0, 0),
                (c.OP_UNLOCK, lock, 0, 0, 0),
            ]
        rows.append(_barrier(spec))
    if i == 0:
        rows.append((c.OP_MARK, 0, 0, 0, 0))
    if spec.kind != "none":
        rows.append((c.OP_LOOP, top, 2, -1, -1))
    rows.append((c.OP_EXIT, 0, 0, 0, 0))
    return rows


def _work(spec: Spmd) -> Row:
    return (
        c.OP_COMPUTE,
        round(spec.grain_ns * (1 - spec.spread)),
        round(spec.grain_ns * (1 + spec.spread)),
        0,
        0,
    )


def _barrier(spec: Spmd) -> Row:
    return (c.OP_BARRIER, 0, c.MODE_SPIN_BLOCK, spec.spin_ns, -1)


def _sweep(spec: Spmd, i: int, back: bool, top: int) -> list[Row]:
    """Thread ``i``'s part of a sweep: one flag between neighbours, so a thread is at most one plane ahead."""
    n = spec.threads
    before, behind = (i, i - 1) if back else (i - 1, i)
    base = 2 * (n - 1) if back else 0
    has_before, has_behind = (i < n - 1, i > 0) if back else (i > 0, i < n - 1)
    rows: list[Row] = []
    if has_before:
        rows += [
            (c.OP_WAIT, base + 2 * before, c.MODE_SPIN, 0, 0),
            (c.OP_POST, base + 2 * before + 1, 1, 0, 0),
        ]
    rows.append(_work(spec))
    if has_behind:
        rows += [
            (c.OP_WAIT, base + 2 * behind + 1, c.MODE_SPIN, 0, 0),
            (c.OP_POST, base + 2 * behind, 1, 0, 0),
        ]
    rows += [(c.OP_LOOP, top, int(back), spec.planes, -1), _barrier(spec)]
    return rows
