"""Random cases for the placement and the balancer of v6.12: more CPUs, caches and tasks than other random cases have."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from support.eevdf_runs import without_policies
from support.random_runs import MS, Case, cases
from wastedcores.kernels import KernelModel
from wastedcores.topology.machine import Machine
from wastedcores.workload import ops
from wastedcores.workload.program import Program, TaskSpec

V6_12 = KernelModel.named("v6.12.107")
V6_18 = KernelModel.named("v6.18.15")
V7_2 = KernelModel.named("v7.2.13")
V6_1 = KernelModel.named("v6.1.192")
#: with the wakeup fix, with features switched off, and with other slices
_CHANGED = [
    KernelModel.named("v6.12.107+" + change)
    for change in (
        "overload_on_wakeup",
        "NO_NI_RANDOM",
        "NO_DELAY_DEQUEUE+NO_SIS_UTIL",
        "base_slice_ns:300000",
        "NO_NI_RANDOM+base_slice_ns:20000000",
        "newidle:migration_cost",
        "newidle:bump",
        "newidle:rate",
    )
]
_DRAWN = [
    *[V6_12] * 3,
    *[V6_18] * 2,
    *[V7_2] * 3,
    KernelModel.named("v7.2.13+NO_HRTICK"),
    *_CHANGED,
    *[V6_1] * 6,
    KernelModel.named("v6.1.166"),
]
_FOREVER = (ops.OP_LOOP, 0, 0, -1, -1)
_EXIT = (ops.OP_EXIT, 0, 0, 0, 0)


@st.composite
def machines(draw):
    """1 to 4 nodes of 4 or 8 CPUs, or one of 16, with one or more LLCs and perhaps clusters (CPUs that share an L2 cache)."""
    nodes, per_node = draw(st.sampled_from([(1, 16), (1, 8), (2, 8), (2, 4), (3, 4), (4, 4)]))
    smt = draw(st.sampled_from([1, 2]))
    l2 = draw(st.sampled_from([smt, smt, 4]))
    llc = draw(st.sampled_from([per_node, per_node, 4]))
    cpus = range(nodes * per_node)
    far = draw(st.sampled_from([16, 20, 31]))
    return Machine.from_dict(
        {
            "name": "caches",
            "cpus": len(cpus),
            "node_of_cpu": [c // per_node for c in cpus],
            "distance": [[10 if a == b else far for b in range(nodes)] for a in range(nodes)],
            "core_of_cpu": [c // smt for c in cpus],
            "l2_of_cpu": [c // l2 for c in cpus],
            "llc_of_cpu": [c // llc for c in cpus],
        }
    )


def _work(draw, low_us: int, high_us: int) -> tuple[int, ...]:
    low = draw(st.integers(low_us, high_us)) * 1000
    return (ops.OP_COMPUTE, low, 2 * low, 0, 0)


def _nap(draw) -> tuple[int, ...]:
    low = draw(st.integers(20, 4_000)) * 1000
    return (ops.OP_SLEEP, low, 2 * low, 0, 0)


@st.composite
def _crowds(draw, program: Program, cpus: int) -> Program:
    """The program with daemons that compute, sleep, wake each other and fork; each pair of partners has two semaphores."""
    semaphores, templates, tasks = list(program.semaphores), list(program.templates), []
    groups = len(program.shares)
    gone = {cpu for _, cpu, _ in program.hotplug}
    stays = [cpu for cpu in range(cpus) if cpu not in gone]

    def add(comm: str, *rows: tuple[int, ...], allowed: frozenset[int] | None = None) -> None:
        start = min(allowed) if allowed else draw(st.integers(0, min(cpus - 1, 3)))
        nice = draw(st.sampled_from([0, 0, 0, 10, -5]))
        group = draw(st.integers(0, groups - 1))
        at = draw(st.integers(0, 5_000)) * 1000
        tasks.append(
            TaskSpec(comm, (*rows, _FOREVER, _EXIT), group, nice, allowed, start, at, True)
        )

    for i in range(draw(st.integers(0, cpus + 4))):
        add(f"hog{i}", _work(draw, 1_000, 30_000))
    for i in range(draw(st.integers(2, cpus))):
        add(f"nap{i}", _work(draw, 20, 3_000), _nap(draw))
    for i in range(draw(st.integers(0, cpus // 2))):
        ping, pong = len(semaphores), len(semaphores) + 1
        semaphores += [0, 0]
        to, back = (ops.OP_POST, ping, 1, 0, 0), (ops.OP_POST, pong, 1, 0, 0)
        waits = [(ops.OP_WAIT, s, ops.MODE_BLOCK, 0, 0) for s in (ping, pong)]
        bound = draw(st.booleans())
        cpu = draw(st.sampled_from(stays))
        worker, own = (f"kworker/{cpu}:{i}", frozenset([cpu])) if bound else (f"ask{i}", None)
        add(worker, _work(draw, 5, 400), to, waits[1], allowed=own)
        add(f"answer{i}", waits[0], _work(draw, 5, 2_000), back)
    for i in range(draw(st.integers(0, 3))):
        exec_ = [(ops.OP_EXEC, 0, 0, 0, 0)] * draw(st.integers(0, 1))
        templates.append(TaskSpec(f"job{i}", (*exec_, _work(draw, 100, 6_000), _EXIT)))
        child = (ops.OP_FORK, len(templates) - 1, draw(st.integers(-1, groups - 1)), 0, 0)
        children = [child] * draw(st.integers(1, 4))
        add(f"make{i}", _work(draw, 20, 300), *children, (ops.OP_WAIT_CHILDREN, 0, 0, 0, 0))
    return replace(
        program,
        tasks=(*program.tasks, *tasks),
        templates=tuple(templates),
        semaphores=tuple(semaphores),
    )


@st.composite
def balancing_cases(draw, kernel: KernelModel | None = None) -> Case:
    """A random case under v6.12, v6.1 or a given kernel with several CPUs, half of them crowded."""
    crowded = draw(st.booleans())
    case = draw(
        cases(
            st.sampled_from(_DRAWN if kernel is None else [kernel]), machines() if crowded else None
        )
    )
    program = without_policies(case.program)
    if crowded:
        # one task that lasts keeps the replay going
        last = TaskSpec("last", ((ops.OP_COMPUTE, 90 * MS, 90 * MS, 0, 0), _EXIT))
        program = draw(_crowds(replace(program, tasks=(*program.tasks, last)), case.machine.cpus))
    return replace(case, program=program, decisions=draw(st.booleans()))
