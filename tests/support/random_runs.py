"""Random small machines and programs, and their replays, compiled and in plain Python, as comparable rows."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from itertools import zip_longest

import numpy as np
from hypothesis import strategies as st

from wastedcores.errors import WorkloadError
from wastedcores.kernels import FIXES, MODULES, KernelModel
from wastedcores.simulator import RawReplay, simulate
from wastedcores.simulator.decisions import decision_texts
from wastedcores.simulator.design import refusal_text, suggestions
from wastedcores.simulator.engine.codes import log_kind
from wastedcores.simulator.engine.world.cpuset import cpus_of
from wastedcores.simulator.engine.world.structs import Kernel as Globals
from wastedcores.simulator.plain.engine import PlainEngine
from wastedcores.simulator.vocabulary import (
    ANSWERS,
    DECISION_RESULTS,
    KINDS,
)
from wastedcores.topology.clocks import Frequency, IdleState
from wastedcores.topology.machine import Machine
from wastedcores.workload import ops
from wastedcores.workload.program import Costs, Program, Row, TaskSpec

MS = 1_000_000


@dataclass(frozen=True)
class Case:
    """What a replay gets."""

    machine: Machine
    kernel: KernelModel
    program: Program
    costs: Costs
    seed: int
    until_ns: int
    considered: bool
    decisions: bool = False


# --- machines ---------------------------------------------------------------------------------------------------------


@st.composite
def machines(draw):
    """1 to 16 CPUs on 1 to 5 nodes, SMT or not, one or two nodes a package, some distance table."""
    nodes = draw(st.integers(1, 5))
    per_node = draw(st.sampled_from([n for n in (1, 2, 3, 4, 8) if n * nodes <= 16]))
    smt = draw(st.sampled_from([1, 2])) if per_node % 2 == 0 else 1
    in_package = draw(st.sampled_from([1, 2]))
    cpus = nodes * per_node
    distance = [[10] * nodes for _ in range(nodes)]
    for i in range(nodes):
        for j in range(i):
            distance[i][j] = distance[j][i] = draw(st.sampled_from([16, 20, 22, 31]))
    node_of_cpu = [cpu // per_node for cpu in range(cpus)]
    return Machine.from_dict(
        {
            "name": "random",
            "cpus": cpus,
            "node_of_cpu": node_of_cpu,
            "distance": distance,
            "package_of_cpu": [n // in_package for n in node_of_cpu],
            "core_of_cpu": [cpu // smt for cpu in range(cpus)],
        }
    )


@st.composite
def clocked_machines(draw):
    """A random machine whose CPUs change their speed: frequencies, shared cores, idle states, or all of them."""
    machine = draw(machines())
    frequency = idle_states = None
    if draw(st.booleans()):
        khz = sorted(draw(st.lists(st.integers(900, 4_000), min_size=2, max_size=4)))
        cores = sorted(
            draw(st.sets(st.integers(1, 9), min_size=len(khz) - 1, max_size=len(khz) - 1))
        )
        frequency = Frequency(
            khz[0],
            draw(st.sampled_from([khz[0], khz[-1], 2_100])),
            tuple(zip(cores, reversed(khz[1:]), strict=True)),
            draw(st.integers(1, 4)),
            draw(st.integers(1, 4)),
        )
    if draw(st.booleans()):
        idle_states = (IdleState("C1", 2_000, 0), IdleState("C6", 30_000, draw(_stay)))
    share = draw(st.sampled_from([1.0, 0.9, 0.6, 0.25]))
    return replace(machine, frequency=frequency, smt_speed=share, idle_states=idle_states or ())


_stay = st.sampled_from([1, 100_000, 5_000_000])

kernels = st.builds(
    lambda readings, strategy: KernelModel.named(
        "v4.1" + "".join(f"+{f}:{r}" for f, r in zip(FIXES, readings, strict=True) if r) + strategy
    ),
    st.tuples(*[st.sampled_from([None, None, "paper", "patch"])] * len(FIXES)),
    st.sampled_from(["", "", "+fork_wait:1", "+fork_wait:2"]),
)
#: kernels of the same balancer whose forks choose groups otherwise
later_kernels = st.sampled_from(
    [KernelModel.named(name) for name in ("v4.12", "v4.19", "v4.19+fork_wait:1")]
)

#: a design with any modules in any order
designs = st.lists(st.sampled_from(list(MODULES)), unique=True, max_size=4).map(
    lambda modules: KernelModel.named("+".join(("core", *modules)))
)

costs = st.sampled_from(
    [
        Costs(),
        Costs(
            irq_ns=4_000, skew_ns=62, ipi_ns=2_000, spin_ns=2_000, lb_base_ns=2_000, lb_cpu_ns=100
        ),
        Costs(irq_ns=0, skew_ns=0, wake_ns=0, switch_ns=0, idle_ticks=2),
        Costs(refill_ns=30_000, syscall_ns=3_000),
        Costs(tick_ns=1_000_000, skew_ns=3, ipi_ns=1, wake_ns=7, spin_ns=0, idle_ticks=1),
    ]
)


# --- programs ---------------------------------------------------------------------------------------------------------


def _time(lo_us: int, hi_us: int) -> st.SearchStrategy[tuple[int, int]]:
    return st.tuples(st.integers(lo_us, hi_us), st.integers(0, 3_000)).map(
        lambda t: (t[0] * 1000, (t[0] + t[1]) * 1000)
    )


modes = st.sampled_from([(ops.MODE_SPIN, 0), (ops.MODE_BLOCK, 0), (ops.MODE_SPIN_BLOCK, 300_000)])


@st.composite
def _step(draw, masks: int, templates: int, groups: int) -> list[Row]:
    """One thing a task does; leaves locks free."""
    kinds = [
        "compute",
        "compute",
        "compute",
        "exp",
        "sleep",
        "sleep_exp",
        "lock",
        "post",
        "barrier",
        "nice",
        "timer",
        "signal",
        "condition",
    ]
    kinds += ["jiffies", "touch", "shared", "session"]
    kinds += (
        ["yield", "exec", "mark"] + ["affinity"] * (masks > 0) + ["fork", "fork"] * (templates > 0)
    )
    kind = draw(st.sampled_from(kinds))
    lo, hi = draw(_time(50, 9_000))
    mode, spin = draw(modes)
    if kind == "compute":
        return [(ops.OP_COMPUTE, lo, hi, 0, 0)]
    if kind == "exp":
        return [(ops.OP_COMPUTE_EXP, lo, hi, 1_000, 0)]
    if kind == "sleep":
        return [(ops.OP_SLEEP, lo, hi, 0, 0)]
    if kind == "sleep_exp":
        return [(ops.OP_SLEEP_EXP, lo, hi, 1_000, 0)]
    if kind == "lock":
        body = (ops.OP_COMPUTE, lo // 4, lo // 4, 0, 0)
        return [(ops.OP_LOCK, 0, mode, spin, 0), body, (ops.OP_UNLOCK, 0, mode, 0, 0)]
    if kind == "jiffies":
        ticks = draw(st.integers(0, 2))
        round_to = (draw(st.integers(0, 9)), draw(st.integers(1, 6)))
        # mostly the wheel of its own CPU, sometimes that of CPU 0, which every machine has
        return [(ops.OP_SLEEP_JIFFIES, ticks, *round_to, draw(st.sampled_from((0, 0, 1))))]
    if kind == "touch":
        touch = (ops.OP_TOUCH, draw(st.integers(0, 1)), 0, 0, 0)
        return [touch, (ops.OP_COMPUTE, lo // 4, lo // 4, 0, 0)]
    if kind == "shared":
        body = (ops.OP_COMPUTE, lo // 4, lo // 4, 0, 0)
        return [(ops.OP_LOCK, 0, ops.MODE_BLOCK, 0, 1), body, (ops.OP_UNLOCK, 0, 0, 0, 1)]
    if kind == "session":
        return [(ops.OP_SESSION, draw(st.integers(0, groups - 1)), 0, 0, 0)]
    if kind == "post":
        # a token goes out and somebody's comes back, so nobody waits for ever
        sync = draw(st.integers(0, 1))
        return [(ops.OP_POST, 0, 1, sync, 0), (ops.OP_WAIT, 0, mode, spin, 0)]
    if kind == "barrier":
        return [(ops.OP_BARRIER, 0, mode, spin, -1)]
    if kind == "timer":
        return [(ops.OP_TIMER, 1, lo, draw(st.integers(0, 1)), 0)]
    if kind == "signal":
        return [(ops.OP_SIGNAL, 2, draw(st.integers(0, 1)), 0, 0)]
    if kind == "condition":
        # work between the two lets signals come in between; the task's own may be lost
        body = (ops.OP_COMPUTE, lo // 2, lo // 2, 0, 0)
        held = [(ops.OP_LOCK, 0, mode, spin, 0), (ops.OP_CATCH, 2, 0, 0, 0)]
        return [*held, (ops.OP_UNLOCK, 0, 0, 0, 0), body, (ops.OP_WAIT_SIGNAL, 2, mode, spin, 0)]
    if kind == "nice":
        return [(ops.OP_NICE, draw(st.integers(-20, 19)), 0, 0, 0)]
    if kind == "yield":
        return [(ops.OP_YIELD, 0, 0, 0, 0), (ops.OP_COMPUTE, 20_000, 20_000, 0, 0)]
    if kind == "exec":
        return [(ops.OP_EXEC, 0, 0, 0, 0)]
    if kind == "mark":
        return [(ops.OP_MARK, 0, 0, 0, 0)]
    if kind == "affinity":
        return [(ops.OP_AFFINITY, draw(st.integers(0, masks - 1)), 0, 0, 0)]
    child = draw(st.integers(0, templates - 1))
    group = draw(st.integers(-1, groups - 1))
    thread = draw(st.integers(0, 1))
    return [(ops.OP_FORK, child, group, thread, 0), (ops.OP_COMPUTE, 30_000, 30_000, 0, 0)]


@st.composite
def _rows(draw, masks: int, templates: int, groups: int) -> tuple[Row, ...]:
    body = [
        row for _ in range(draw(st.integers(1, 4))) for row in draw(_step(masks, templates, groups))
    ]
    body.append((ops.OP_COMPUTE, 10_000, 10_000, 0, 0))
    rows = [
        *body,
        (ops.OP_LOOP, 0, 0, draw(st.integers(1, 6)), draw(st.sampled_from([-1, 60 * MS]))),
    ]
    if templates and draw(st.booleans()):
        rows.append((ops.OP_WAIT_CHILDREN, draw(st.integers(0, 1)), 0, 0, 0))
    return (*rows, (ops.OP_EXIT, 0, 0, 0, 0))


def _page_counters(draw, cpus: int) -> list[TaskSpec]:
    """A flusher on each CPU (semaphore 3 + CPU) and their shepherd, both daemons that go round for ever."""
    period = draw(st.integers(1, 6))
    offset = draw(st.integers(0, 5))
    work = (ops.OP_COMPUTE, 4_000, 12_000, 0, 0)
    again = (ops.OP_LOOP, 0, 0, -1, -1)
    ends = (again, (ops.OP_EXIT, 0, 0, 0, 0))
    out = []
    for cpu in range(cpus):
        rows = (work, (ops.OP_FLUSH, 3 + cpu, offset, period, 0), *ends)
        at = draw(st.integers(0, 9_000)) * 1000
        out.append(TaskSpec(f"flush{cpu}", rows, 0, 0, frozenset([cpu]), cpu, at, True))
    touch = (ops.OP_TOUCH, 0, 0, 0, 0)
    nap = (ops.OP_SLEEP_JIFFIES, 0, offset, period, 0)
    rows = (nap, touch, work, (ops.OP_SHEPHERD, 3, 0, 0, 0), *ends)
    return [*out, TaskSpec("shepherd", rows, 0, 0, None, 0, 0, True)]


def _readers(draw, cpus: int) -> list[TaskSpec]:
    """Daemons that share lock 1, and one that wants it alone."""
    out = []
    for i in range(draw(st.integers(2, 4))):
        shared = int(i > 0)
        nap = draw(st.integers(1, 60)) * 1000
        rows = (
            (ops.OP_LOCK, 1, ops.MODE_BLOCK, 0, shared),
            (ops.OP_COMPUTE, 5_000, 50_000, 0, 0),
            (ops.OP_UNLOCK, 1, 0, 0, shared),
            (ops.OP_SLEEP, nap, nap + 50_000, 0, 0),
            (ops.OP_LOOP, 0, 0, 200, -1),
            (ops.OP_EXIT, 0, 0, 0, 0),
        )
        cpu = draw(st.integers(0, cpus - 1))
        out.append(TaskSpec(f"reader{i}", rows, 0, 0, None, cpu, 0, True))
    return out


@st.composite
def programs(draw, machine: Machine):
    """A few tasks, with templates to fork, groups, sets of CPUs, one lock, one barrier, one semaphore, hotplug."""
    cpus = machine.cpus
    cpu_sets = st.frozensets(st.integers(0, cpus - 1), min_size=1)
    hotplug = ()
    if cpus > 1 and draw(st.booleans()):
        cpu = draw(st.integers(1, cpus - 1))
        down = draw(st.integers(0, 20)) * MS
        hotplug = ((down, cpu, False), (down + draw(st.integers(1, 20)) * MS, cpu, True))
        # somewhere to go while it is away
        cpu_sets = cpu_sets.map(lambda s: s | {0})
    masks = tuple(draw(st.lists(cpu_sets, max_size=2)))
    groups = draw(st.integers(1, 4))
    templates = draw(st.integers(0, 2))
    shares = (
        1024,
        *draw(
            st.lists(
                st.sampled_from([1024, 1024, 335, 3121]), min_size=groups - 1, max_size=groups - 1
            )
        ),
    )
    specs = []
    for i in range(templates + draw(st.integers(1, 5))):
        template = i < templates
        specs.append(
            TaskSpec(
                f"t{i}",
                draw(_rows(len(masks), 0 if template else templates, groups)),
                draw(st.integers(0, groups - 1)),
                0 if template else draw(st.sampled_from([0, 0, 5, -5, 19, -20])),
                draw(st.one_of(st.none(), cpu_sets)),
                0 if template else draw(st.integers(0, cpus - 1)),
                0 if template else draw(st.integers(0, 10_000)) * 1000,
                draw(st.integers(0, 9)) == 0,
            )
        )
    if draw(st.booleans()):
        specs += _page_counters(draw, cpus)
    if draw(st.booleans()):
        specs += _readers(draw, cpus)
    return Program(
        tuple(specs[templates:]),
        tuple(specs[:templates]),
        shares,
        masks,
        barriers=(draw(st.integers(1, 3)),),
        locks=2,
        semaphores=(
            draw(st.integers(0, 1)),
            0,
            0,
            *(0,) * cpus,
        ),  # a token, a timer, a condition, flushers
        texts=("here",),
        hotplug=hotplug,
        random_phase=draw(st.booleans()),
    )


@st.composite
def cases(
    draw,
    of: st.SearchStrategy[KernelModel] = kernels,
    on: st.SearchStrategy[Machine] | None = None,
) -> Case:
    """Everything random; ``of``: kernels or designs; ``on``: machines."""
    machine = draw(machines() if on is None else on)
    return Case(
        machine,
        draw(of),
        draw(programs(machine)),
        draw(costs),
        draw(st.integers(0, 2**31)),
        draw(st.integers(20, 120)) * MS,
        draw(st.booleans()),
    )


# --- replays as rows --------------------------------------------------------------------------------------------------


def raw_replay(case: Case, plain: bool = False) -> RawReplay:
    """Replay a case, compiled or in plain Python."""
    return simulate(
        case.program, case.machine, case.kernel, seed=case.seed, until_ns=case.until_ns,
        costs=case.costs, considered=case.considered, decisions=case.decisions,
        plain=PlainEngine(case.machine, case.program) if plain else None,
    )  # fmt: skip


def by_engine(case: Case, plain: bool = False) -> tuple[list[tuple], dict, str]:
    """Events and counts of a replay; its error instead if there is one."""
    try:
        raw = raw_replay(case, plain)
    except WorkloadError as e:
        return [], {}, str(e)
    return engine_rows(raw, case), counts(raw, case), ""


def counts(raw: RawReplay, case: Case) -> dict:
    """The numbers of load_balance() calls and of the modules' answers."""
    calls = {tuple(at): int(raw.counts[tuple(at)]) for at in np.argwhere(raw.counts).tolist()}
    for row in suggestions(raw.masks, case.kernel).to_dicts():
        calls |= {(row["module"], row["moment"], a): row[a] for a in ANSWERS if row[a]}
    return calls


def engine_rows(raw: RawReplay, case: Case) -> list[tuple]:
    """Its log as tuples."""
    rows, cpus = [], case.machine.cpus
    texts = iter([] if raw.decided is None else decision_texts(raw, cpus))
    for ts, kind, cpu, pid, other, src, value, op in raw.log.tolist():
        name = KINDS[kind]
        if name == "decision":
            rows.append(
                (ts, name, cpu, src, value, DECISION_RESULTS[other], json.loads(next(texts)))
            )
        elif name == "considered":
            rows.append((ts, name, cpu, src, value, op, tuple(cpus_of(raw.masks[pid], cpus))))
        elif name == "affinity":
            rows.append((ts, name, cpu, pid, tuple(cpus_of(raw.masks[value], cpus))))
        elif kind == log_kind.REFUSED:
            rows.append((ts, name, cpu, pid, refusal_text(case.kernel, other, value), src, 0, op))
        else:
            rows.append((ts, name, cpu, pid, other, src, value, op))
    return rows


def difference(case: Case) -> str:
    """Empty if the compiled engine and the plain one agree in every event and leave the same state; else where they differ."""
    try:
        mine = raw_replay(case)
    except WorkloadError as e:
        _, _, error = by_engine(case, plain=True)
        return "" if error == str(e) else f"compiled: {e}\nplain: {error or 'fine'}"
    other = raw_replay(case, plain=True)
    pair = engine_rows(mine, case), engine_rows(other, case)
    for i, (a, b) in enumerate(zip_longest(*pair)):
        if a != b:
            before = "\n".join(f"  {row}" for row in pair[0][max(0, i - 12) : i])
            return f"event {i}\n{before}\ncompiled {a}\nplain    {b}"
    if counts(mine, case) != counts(other, case):
        return f"counts: compiled {counts(mine, case)}, plain {counts(other, case)}"
    if not np.array_equal(mine.tasks, other.tasks):
        row, column = np.argwhere(mine.tasks != other.tasks)[0]
        return f"task {row}, column {column}: compiled {mine.tasks[row, column]}, plain {other.tasks[row, column]}"
    return _queue_difference(mine.masks, other.masks)


def _queue_difference(mine: np.ndarray, other: np.ndarray) -> str:
    """Compare the runqueues and the domains, which lie behind one another and have no addresses of functions."""
    cpus = int(mine[0, Globals.nr_cpus])
    for first, last in ((cpus, 2 * cpus), (mine[0, Globals.cfs_rq0], mine[0, Globals.wait0])):
        for row, column in np.argwhere(mine[first:last] != other[first:last]).tolist():
            at = int(first) + row, column
            return f"row {at[0]}, column {column}: compiled {mine[at]}, plain {other[at]}"
    return ""
