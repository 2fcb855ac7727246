"""Random programs whose tasks contend for few CPUs under all scheduling policies."""

from __future__ import annotations

from hypothesis import strategies as st

from support.random_runs import MS, Case, costs, kernels, machines, modes
from wastedcores.workload import ops
from wastedcores.workload.program import Program, Row, TaskSpec


@st.composite
def _policy(draw) -> Row:
    policy = draw(st.sampled_from([1, 1, 2, 2, 0, 3, 5]))
    return (ops.OP_POLICY, policy, draw(st.integers(1, 3)) if policy in (1, 2) else 0, 0, 0)


@st.composite
def _step(draw, masks: int, templates: int, groups: int, scale: int) -> list[Row]:
    kinds = ["compute"] * 5 + ["sleep", "sleep", "yield", "policy", "nice", "post", "exec", "lock"]
    kinds += ["session", "affinity", "affinity"] + ["fork", "fork", "wait"] * (templates > 0)
    kind = draw(st.sampled_from(kinds))
    lo = draw(st.integers(100, 12_000)) * 1000 * scale
    work = (ops.OP_COMPUTE, lo, 2 * lo, 0, 0)
    if kind == "compute":
        return [work]
    if kind == "sleep":
        return [(ops.OP_SLEEP, lo // 8, lo // 2, 0, 0)]
    if kind == "yield":
        return [work, (ops.OP_YIELD, 0, 0, 0, 0)]
    if kind == "policy":
        return [draw(_policy())]
    if kind == "nice":
        return [(ops.OP_NICE, draw(st.integers(-20, 19)), 0, 0, 0)]
    mode, spin = draw(modes)
    if kind == "post":
        return [(ops.OP_POST, 0, 1, 0, 0), (ops.OP_WAIT, 0, ops.MODE_BLOCK, 0, 0)]
    if kind == "lock":
        body = (ops.OP_COMPUTE, lo // 4, lo // 2, 0, 0)
        return [(ops.OP_LOCK, 0, mode, spin, 0), body, (ops.OP_UNLOCK, 0, mode, 0, 0)]
    if kind == "exec":
        return [(ops.OP_EXEC, 0, 0, 0, 0)]
    if kind == "session":
        return [(ops.OP_SESSION, draw(st.integers(0, groups - 1)), 0, 0, 0)]
    if kind == "affinity":
        return [(ops.OP_AFFINITY, draw(st.integers(0, masks - 1)), 0, 0, 0), work]
    if kind == "wait":
        return [(ops.OP_WAIT_CHILDREN, draw(st.integers(0, 1)), 0, 0, 0)]
    child = draw(st.integers(0, templates - 1))
    return [(ops.OP_FORK, child, draw(st.integers(-1, groups - 1)), draw(st.integers(0, 1)), 0)]


@st.composite
def _rows(draw, masks: int, templates: int, groups: int, scale: int) -> tuple[Row, ...]:
    body = [draw(_policy())] if draw(st.integers(0, 4)) else []
    for _ in range(draw(st.integers(1, 4))):
        body += draw(_step(masks, templates, groups, scale))
    body.append((ops.OP_COMPUTE, 50_000, 50_000, 0, 0))
    return (*body, (ops.OP_LOOP, 0, 0, draw(st.integers(1, 4)), -1), (ops.OP_EXIT, 0, 0, 0, 0))


@st.composite
def contended(draw) -> Case:
    """Two to eight tasks on one to eight CPUs; a fifth of the runs lasts so long that real-time tasks are throttled."""
    machine = draw(machines().filter(lambda m: m.cpus <= 8))
    cpus, scale = machine.cpus, draw(st.sampled_from([1, 1, 1, 8, 40]))
    sets = st.frozensets(st.integers(0, cpus - 1), min_size=1).map(lambda s: s | {0})
    hotplug = ()
    if cpus > 1 and draw(st.integers(0, 3)) == 0:
        cpu, down = draw(st.integers(1, cpus - 1)), draw(st.integers(0, 20)) * MS * scale
        hotplug = ((down, cpu, False), (down + draw(st.integers(1, 20)) * MS * scale, cpu, True))
    masks = (frozenset(range(cpus)), *draw(st.lists(sets, min_size=1, max_size=3)))
    groups = draw(st.integers(1, 2))
    templates = draw(st.integers(0, 2))
    specs = [
        TaskSpec(
            f"t{i}",
            draw(_rows(len(masks), 0 if i < templates else templates, groups, scale)),
            0 if i < templates else draw(st.integers(0, groups - 1)),
            0 if i < templates else draw(st.sampled_from([0, 0, 5, -5])),
            draw(st.one_of(st.none(), st.none(), sets)),
            0 if i < templates else draw(st.integers(0, cpus - 1)),
            0 if i < templates else draw(st.integers(0, 8_000)) * 1000,
        )
        for i in range(templates + draw(st.integers(2, 8)))
    ]
    program = Program(
        tuple(specs[templates:]), tuple(specs[:templates]), (1024,) * groups, masks,
        locks=1, semaphores=(draw(st.integers(0, 1)),), hotplug=hotplug, random_phase=draw(st.booleans()),
    )  # fmt: skip
    seed, until_ns = draw(st.integers(0, 2**31)), draw(st.integers(20, 120)) * MS * scale
    return Case(machine, draw(kernels), program, draw(costs), seed, until_ns, False)
