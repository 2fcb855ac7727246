"""Lab 4: a balancer that compares averages leaves a core idle; comparing minimums fills this core but never settles."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import astuple, dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from wastedcores.kernels import KernelModel
from wastedcores.lecture import TOPOLOGIES
from wastedcores.simulator import simulate
from wastedcores.simulator.plain.stepping import Decision, Thread, balancing_pass
from wastedcores.topology.machine import Machine
from wastedcores.workload import Script, Workload
from wastedcores_course.noted import RefusedAnswerError
from wastedcores_course.task import Manual, Task, right_ratio

if TYPE_CHECKING:
    from wastedcores.simulator.engine.world.structs import SgLbStatsV4

TITLE = "average against minimum load"
#: Algorithm 1 of the paper decides in these lines that two groups are balanced
BALANCED_LINES = (15, 16)
#: a balancer must have settled after the first number of passes: it must not move a thread in the second number of later passes
SETTLED_AFTER, WATCHED = 8, 3
#: a rule must also settle in this many states with unequal averages
TRIALS = 3
#: rounding errors up to this size do not make a difference
_EXACT = 1e-6


@dataclass
class GroupStats:
    """The statistics of a group (struct sg_lb_stats), with min_load and max_load of the authors' patch."""

    avg_load: int = 0
    group_load: int = 0
    sum_weighted: int = 0
    load_per_task: int = 0
    capacity: int = 0
    usage: int = 0
    nr_running: int = 0
    idle_cpus: int = 0
    weight: int = 0
    type: int = 0
    no_capacity: bool = False
    min_load: int = 0
    max_load: int = 0


Balanced = Callable[[GroupStats, GroupStats], bool]


@dataclass(frozen=True)
class Variation:
    """The numbers of one student."""

    weight: int  #: weight of a session on the scale of the slides
    lone_cpu: int  #: the CPU of the session with one thread
    threads: int  #: the number of threads of the other session, half of them on each CPU of the other node
    #: the number of threads of the second session in the experiment, and the CPU time of each thread
    jobs: int
    job_ms: int
    seed: int  #: seed of the pairs of groups on which functions are tried

    @property
    def machine(self) -> Machine:
        """The machine of the lecture."""
        return TOPOLOGIES["2 nodes x 2 cores"]

    @property
    def idle_cpu(self) -> int:
        """The CPU without a thread: the neighbour of the lone thread."""
        return self.lone_cpu ^ 1

    @property
    def crowded(self) -> tuple[int, int]:
        """The CPUs of the node with many threads."""
        first = 2 - self.lone_cpu // 2 * 2
        return first, first + 1

    def state(self) -> list[Thread]:
        """The lone thread, and then the threads of the other session."""
        many = [
            Thread(cpu, self.weight, session_threads=self.threads)
            for cpu in self.crowded
            for _ in range(self.threads // 2)
        ]
        return [Thread(self.lone_cpu, self.weight), *many]


def draw(rng: random.Random) -> Variation:
    """Draw a variation."""
    # if minimums are compared, 8 or 14 threads are moved for ever; other even numbers below 18 settle
    return Variation(
        weight=rng.randrange(6, 25),
        lone_cpu=rng.randrange(4),
        threads=rng.choice((8, 14)),
        jobs=rng.choice((10, 12)),
        job_ms=rng.randrange(30, 51),
        seed=rng.randrange(1 << 30),
    )


def is_fair(v: Variation) -> bool:
    """Every variation has the same difficulty by construction."""
    return True


def facts(v: Variation) -> dict[str, str]:
    """Return what a student sees of a variation."""
    return {
        "machine": v.machine.name,
        "first session": f"1 thread on CPU {v.lone_cpu}",
        "second session": f"{v.threads} threads, half of them on CPU {v.crowded[0]}, half on CPU {v.crowded[1]}",
        "weight of each session": f"{v.weight}, and each thread uses 100 % of a CPU",
    }


# --- what students work with ------------------------------------------------------------------------------------------


def decisions(v: Variation, kernel: str = "v4.1", passes: int = 1) -> list[Decision]:
    """Return the decisions of a real balancer in the state of a variation.

    * ``kernel``: ``v4.1``, or ``v4.1+group_imbalance`` with the authors' fix.
    * ``passes``: the largest number of passes; there are fewer if a pass moves nothing.
    """
    return balancing_pass(v.machine, kernel, v.state(), passes=passes)


def moved_per_pass(v: Variation, balanced: Balanced, passes: int = 8) -> list[int]:
    """Let a rule balance the state of a variation, and count the threads that each pass moves."""
    total = [0]
    for n in range(1, passes + 1):
        total.append(sum(len(d.moved) for d in _balanced_by(v, balanced, n)))
    return [b - a for a, b in pairwise(total)]


def queues_after(v: Variation, balanced: Balanced, passes: int = 8) -> list[int]:
    """Let a rule balance the state of a variation, and return the number of threads on each CPU afterwards."""
    return [len(q) for q in _balanced_by(v, balanced, passes)[-1].queues]


def makespan_ms(v: Variation, kernel: str) -> float:
    """Run one long thread and many short ones until all have ended, and return how long that takes."""
    w = Workload("two sessions")
    first, second = w.session(), w.session()
    w.task("long", Script().compute(4 * v.job_ms * 1_000_000), session=first, cpu=v.lone_cpu)
    for i in range(v.jobs):
        script = Script().compute(v.job_ms * 1_000_000)
        w.task(f"short-{i}", script, session=second, cpu=v.crowded[i % 2])
    return simulate(w.program(), v.machine, KernelModel.named(kernel)).end_ns / 1e6


def _stats(s: SgLbStatsV4) -> GroupStats:
    return GroupStats(
        s.avg_load, s.group_load, s.sum_weighted_load, s.load_per_task, s.group_capacity, s.group_usage,
        s.sum_nr_running, s.idle_cpus, s.group_weight, s.group_type, s.group_no_capacity != 0, s.min_load, s.max_load,
    )  # fmt: skip


def _balanced_by(
    v: Variation, balanced: Balanced, passes: int, threads: list[Thread] | None = None
) -> list[Decision]:
    def policy(
        k: Any, sd: Any, idle: int, local: SgLbStatsV4, busiest: SgLbStatsV4, average: int
    ) -> bool:
        return bool(balanced(_stats(local), _stats(busiest)))

    return balancing_pass(
        v.machine,
        "v4.1+group_imbalance",
        threads or v.state(),
        passes=passes,
        policies={"balanced": policy},
    )


# --- what checks measure ----------------------------------------------------------------------------------------------


def group(loads: list[int]) -> GroupStats:
    """Return the statistics of a group whose CPUs have these loads."""
    return GroupStats(
        avg_load=sum(loads) // len(loads), group_load=sum(loads), sum_weighted=sum(loads),
        weight=len(loads), min_load=min(loads), max_load=max(loads), nr_running=sum(x > 0 for x in loads),
        idle_cpus=loads.count(0), capacity=1024 * len(loads),
    )  # fmt: skip


def pairs(v: Variation) -> list[tuple[list[int], list[int]]]:
    """Return CPU loads of local and busiest groups on which a rule is tried."""
    rng = random.Random(v.seed)
    load = v.weight * 100
    found = [
        ([load, 0], [load // 2, load // 2]),  # equal averages, and an idle core
        ([load, load], [load, load]),  # equal in every respect
        ([load // 2, load // 2], [load // 2, load // 2, load // 2]),  # equal averages, other sums
        ([load, load // 4], [load // 2, load // 2]),
        ([load // 4, load // 4], [2 * load, 0]),
        ([load, load], [2 * load, 0]),  # equal averages, other maximums
    ]
    for _ in range(20):
        a, b = ([load * rng.randrange(9) // 8 for _ in range(rng.choice((1, 2, 3)))] for _ in "ab")
        found.append((a, b))
    return found


def _measure_rule(v: Variation, rule: Balanced) -> list[bool]:
    return [bool(rule(group(a), group(b))) for a, b in pairs(v)]


@lru_cache(maxsize=16)
def trials(v: Variation) -> list[list[Thread]]:
    """Return the states in which a rule must settle: the student's own state, and some states in which the averages differ.

    In the second state, a rule that always pulls never settles.
    """
    rng = random.Random(v.seed)
    found = [v.state()]
    while len(found) <= TRIALS:
        weight, many = rng.randrange(6, 25), rng.randrange(6, 17)
        first = 2 * rng.randrange(2)
        # both CPUs of one node have threads, in general not equally many; the other node has none
        left = rng.randrange(2, many - 1)
        cpus = [first] * left + [first + 1] * (many - left)
        threads = [Thread(cpu, weight, session_threads=many) for cpu in cpus]
        if len(found) > 1 or _outcome(v, lambda local, busiest: False, threads)["late moves"]:
            found.append(threads)
    return found


def _outcome(v: Variation, rule: Balanced, threads: list[Thread]) -> dict[str, Any]:
    """Return the threads per CPU after the passes in which a rule must settle, and the number of moves in later passes."""
    passes = [_balanced_by(v, rule, n, threads) for n in (SETTLED_AFTER, SETTLED_AFTER + WATCHED)]
    early, late = (sum(len(d.moved) for d in p) for p in passes)
    return {"queues": [len(q) for q in passes[0][-1].queues], "late moves": late - early}


def _key(stats: GroupStats) -> list[int]:
    return [int(value) for value in astuple(stats)]


def _measure_steady(v: Variation, rule: Balanced) -> list[list[Any]]:
    """Return the rule's truth table: each question that it was asked in any state, with its answer."""
    table: dict[str, list[Any]] = {}

    def noted(local: GroupStats, busiest: GroupStats) -> bool:
        asked = [_key(local), _key(busiest)]
        said = bool(rule(local, busiest))
        table[repr((asked, said))] = [*asked, said]
        return said

    for threads in trials(v):
        _balanced_by(v, noted, SETTLED_AFTER + WATCHED, threads)
    return list(table.values())


def _follow_steady(v: Variation, answers: Any) -> list[dict[str, Any]]:
    """Balance each state with the rule's truth table."""
    table: dict[tuple[tuple[int, ...], tuple[int, ...]], bool] = {}
    for local, busiest, said in answers:
        asked = tuple(local), tuple(busiest)
        if table.setdefault(asked, said) is not said or not isinstance(said, bool):
            raise RefusedAnswerError(
                "your rule must return True or False, and the same for groups with the same statistics."
            )

    def rule(local: GroupStats, busiest: GroupStats) -> bool:
        try:
            return table[tuple(_key(local)), tuple(_key(busiest))]
        except KeyError:
            raise RefusedAnswerError(
                "your rule was not asked the same here as where it ran. Its answers were changed by other code."
            ) from None

    return [_outcome(v, rule, threads) for threads in trials(v)]


# --- how a wrong answer is explained ----------------------------------------------------------------------------------


def _right_loads(v: Variation, want: Any, got: Any) -> bool:
    # the balancer rounds the load of a thread down, but students need not round it
    return all(-_EXACT <= g - w < 1 for w, g in zip(want, got, strict=True))


def _right_averages(v: Variation, want: Any, got: Any) -> bool:
    # without rounding, both averages are half of a session's load; with rounding, each of the many threads loses less than 1
    load = v.weight * 100 / 2
    return all(w - 1 <= g <= load + _EXACT for w, g in zip(want, got, strict=True))


def _explain_loads(v: Variation, want: Any, got: Any) -> str:
    names = ("of the lone thread", f"of each of the {v.threads} threads")
    name, _, g = next(
        x for x in zip(names, want, got, strict=True) if not -_EXACT <= x[2] - x[1] < 1
    )
    return (
        f"the load {name} is not {g}. It is the weight of its session times the percent of a CPU that it uses, divided by the "
        "threads of the session."
    )


def _explain_averages(v: Variation, want: Any, got: Any) -> str:
    node = max((0, 1), key=lambda n: abs(want[n] - got[n]))
    a, b = v.machine.cpus_of_node(node)
    return (
        f"the average load of node {node} is not {got[node]}. Add the loads of all threads on CPUs {a} and {b}, and divide by "
        "two."
    )


def _right_refusal(v: Variation, want: Any, got: Any) -> bool:
    return got == want or (got[0] == want[0] and got[1] in BALANCED_LINES)


def _explain_refusal(v: Variation, want: Any, got: Any) -> str:
    if got[0] != v.idle_cpu:
        return f"CPU {got[0]} has a thread, so it is not idle. Look for the CPU without one."
    return (
        f"CPU {v.idle_cpu} does not give up in line {got[1]}. Step to its decision at the level of the nodes, where it has "
        "compared its own node with the other one."
    )


def _explain_rule(name: str, of: Callable[[list[int]], float]) -> Callable[[Any, Any, Any], str]:
    def explain(v: Variation, want: Any, got: Any) -> str:
        a, b = next(p for p, w, g in zip(pairs(v), want, got, strict=True) if w != g)
        verdict, x, y = of(a) >= of(b), of(a), of(b)
        return (
            f"with CPU loads {a} in the local group and {b} in the busiest, your function must return {verdict}, because the "
            f"{name} {x:g} of the local group is {'not less' if verdict else 'less'} than the busiest one's {y:g}."
        )

    return explain


def _explain_moves(v: Variation, want: Any, got: Any) -> str:
    if len(got) != len(want):
        return f"expected the threads moved in each of {len(want)} passes, but your list has {len(got)} numbers."
    n = next(i for i, (w, g) in enumerate(zip(want, got, strict=True)) if w != g)
    return f"pass {n + 1} does not move {got[n]} threads when the rule compares minimum loads."


def _is_steady(found: dict[str, Any]) -> bool:
    return 0 not in found["queues"] and found["late moves"] == 0


def _right_steady(v: Variation, want: Any, got: Any) -> bool:
    return all(map(_is_steady, got))


def _explain_steady(v: Variation, want: Any, got: Any) -> str:
    i = next(i for i, found in enumerate(got) if not _is_steady(found))
    queues, late = got[i]["queues"], got[i]["late moves"]
    cpus = [sum(t.cpu == c for t in trials(v)[i]) for c in range(v.machine.cpus)]
    where = "" if i == 0 else f"in a state that begins with {cpus} threads per CPU, "
    if 0 in queues:
        return (
            f"{where}CPU {queues.index(0)} is still idle after {SETTLED_AFTER} passes (threads per CPU: "
            f"{queues}). Your rule calls the nodes balanced too early."
        )
    return (
        f"{where}no CPU is idle, but passes {SETTLED_AFTER + 1} to {SETTLED_AFTER + WATCHED} still move {late} threads "
        "although nobody gains by it. Your rule must call the groups balanced sooner."
    )


def _explain_ratio(v: Variation, want: Any, got: Any) -> str:
    return (
        f"the ratio is not {got:g}. Run {v.jobs} threads of {v.job_ms} ms with both kernels, and divide the makespan of v4.1 by "
        "that of v4.1+group_imbalance."
    )


TASKS = (
    Task("1", "loads of threads", 1, 5, explain=_explain_loads, right=_right_loads),
    Task("2", "averages of nodes", 1, 5, explain=_explain_averages, right=_right_averages),
    Task("3", "the idle CPU and the line", 2, 10, explain=_explain_refusal, right=_right_refusal),
    Task(
        "4", "the rule of Linux 4.1", 2, 10, _measure_rule, hidden=True,
        explain=_explain_rule("average", lambda loads: sum(loads) // len(loads)),
    ),
    Task(
        "5", "the rule of the fix", 3, 10, _measure_rule, hidden=True,
        explain=_explain_rule("minimum", min),
    ),
    Task("6", "threads moved per pass", 2, 10, explain=_explain_moves),
    Task(
        "7", "a rule that settles", 4, 20, _measure_steady, _explain_steady, _right_steady, _follow_steady,
        hidden=True,
    ),
    Task("8", "what the bug costs", 2, 5, explain=_explain_ratio, right=right_ratio),
    Manual("9", "reflection: is the minimum ideal?", 3, 10),
)  # fmt: skip
