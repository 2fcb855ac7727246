"""Lab 5: a thread wakes up on a busy core although others are idle; students write the fix and prove it."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from wastedcores.simulator.plain.stepping import Thread, cpu_after_wakeup
from wastedcores.simulator.replay import replay
from wastedcores.topology.machine import Machine
from wastedcores.topology.presets import grid
from wastedcores.workload.program import Costs
from wastedcores.workload.scenarios import scenario
from wastedcores_course.noted import RefusedAnswerError, Said, cpu_or_none, noting
from wastedcores_course.task import Manual, Task, right_ratio

TITLE = "overload on wakeup"
BUGGY, FIXED = "v4.1", "v4.1+overload_on_wakeup"
#: the database of notebook 06, made small
SCENARIO, MACHINE, ITERATIONS = "overload-on-wakeup", "bd-paper-16", 20
NODE = 8
#: seeds with which Linux 4.1 takes at least a quarter longer than with the fix. With others, the balancer happens to move
#: threads in time
SEEDS = tuple(s for s in range(1, 41) if s not in (8, 19, 21, 32))
#: a function is tried with this many states
STATES = 40
#: a run of the database ends here at the latest
_LONGEST_NS = 5_000_000_000


@dataclass(frozen=True)
class Cpu:
    """A CPU as a wakeup sees it."""

    online: bool  #: False if it was taken offline
    nr_running: int  #: the threads on its runqueue; 0 if it is idle
    idle_since_ms: float  #: if it is idle: when it became idle, on the machine's clock


#: function of the CPU where the thread ran last, the CPUs on which it may run, and all CPUs; returns a CPU or None
Choose = Callable[[int, frozenset[int], Sequence[Cpu]], int | None]


@dataclass(frozen=True)
class Variation:
    """The state of one student."""

    #: the CPU where the sleeping thread ran last, and the CPU of the thread that wakes it; both are on the same node
    prev_cpu: int
    waker_cpu: int
    #: idle CPUs of the other node, each with the time in ms at which it became idle
    idle: tuple[tuple[int, float], ...]
    forbidden: int  #: the one of these idle CPUs on which the thread may not run
    seed: int  #: seed of the database, and of the states on which functions are tried

    @property
    def machine(self) -> Machine:
        """Two nodes of eight CPUs."""
        return grid("2 nodes x 8 cores", nodes_per_package=2, cores_per_llc=NODE)

    @property
    def cpus(self) -> tuple[Cpu, ...]:
        """The CPUs at the moment of the wakeup."""
        idle = dict(self.idle)
        return tuple(Cpu(True, int(c not in idle), idle.get(c, 0.0)) for c in range(2 * NODE))

    @property
    def allowed(self) -> frozenset[int]:
        """The CPUs on which the thread may run."""
        return frozenset(range(2 * NODE)) - {self.forbidden}


def draw(rng: random.Random) -> Variation:
    """Draw a variation."""
    node = rng.randrange(2)
    own = range(node * NODE, (node + 1) * NODE)
    prev_cpu, waker_cpu = rng.sample(own, 2)
    others = rng.sample(range((1 - node) * NODE, (2 - node) * NODE), 4)
    times = [round(rng.uniform(1, 90), 1) for _ in others]
    idle = tuple(sorted(zip(others, times, strict=True)))
    longest = min(idle, key=lambda x: x[1])[0]
    return Variation(prev_cpu, waker_cpu, idle, longest, rng.choice(SEEDS))


def is_fair(v: Variation) -> bool:
    """Tell whether all mistakes and the right answer choose different CPUs.

    The choices are the forbidden CPU and three other idle CPUs: the one that became idle first (this is right), the one
    that became idle last, and the one with the lowest number.
    """
    usable = [x for x in v.idle if x[0] != v.forbidden]
    first, last = (f(usable, key=lambda x: x[1])[0] for f in (min, max))
    return len({v.forbidden, first, last, min(usable)[0]}) == 4 and len({t for _, t in v.idle}) == 4


def facts(v: Variation) -> dict[str, str]:
    """Return what a student sees of a variation."""
    return {
        "machine": "2 nodes of 8 CPUs: 0 to 7, and 8 to 15; each node has a last-level cache",
        "the thread": f"ran last on CPU {v.prev_cpu}, and is woken by a thread on CPU {v.waker_cpu}",
        "it may run": f"on all CPUs but {v.forbidden}",
        "idle CPUs": ", ".join(f"{c} since {t:g} ms" for c, t in v.idle),
    }


# --- what students work with ------------------------------------------------------------------------------------------


def woken_on(v: Variation, kernel: str) -> int:
    """Return the CPU on which a kernel wakes the thread."""
    idle = dict(v.idle)
    running = [Thread(c) for c in range(2 * NODE) if c not in idle]
    sleeper = Thread(v.prev_cpu, allowed=tuple(sorted(v.allowed)))
    return cpu_after_wakeup(v.machine, kernel, running, sleeper, v.waker_cpu)


def makespan_ms(v: Variation, choose: Choose | None = None) -> float:
    """Run the database under Linux 4.1's scheduler in plain Python."""
    if choose is None:
        return _database(v.seed, None)

    def policy(k: Any, p: Any, prev_cpu: int) -> int:
        online = k.active
        cpus = [Cpu(rq.cpu in online, rq.nr_running, rq.idle_stamp / 1e6) for rq in k.rqs]
        cpu = choose(prev_cpu, p.allowed, cpus)
        return -1 if cpu is None else int(cpu)

    return _database(v.seed, policy)


def _database(seed: int, policy: Callable[..., int] | None) -> float:
    machine = Machine.preset(MACHINE)
    work = scenario(SCENARIO).workload(machine, seed, {"iterations": ITERATIONS})
    run = replay(
        work,
        machine,
        FIXED if policy else BUGGY,
        seed,
        _LONGEST_NS,
        costs=Costs(),
        policies={"longest_idle_cpu": policy} if policy else None,
    )
    return run.makespan_ns / 1e6


# --- what checks measure ----------------------------------------------------------------------------------------------


State = tuple[int, frozenset[int], tuple[Cpu, ...]]


def _telling_states(rng: random.Random) -> list[State]:
    """Return states in which each common mistake chooses another CPU than the fix."""
    times = sorted(round(rng.uniform(0, 90), 2) for _ in range(6))
    # CPU 0 is busy. CPUs 1 and 2 would be best, but 1 is forbidden and 2 is offline. Of the others, 4 has been idle for longest
    since = dict(zip((1, 2, 4, 3, 6, 5), times, strict=True))
    cpus = [Cpu(c != 2, int(c not in since), since.get(c, 0.0)) for c in range(NODE)]
    allowed = frozenset(range(NODE)) - {1}
    found: list[State] = [(0, allowed, tuple(cpus)), (0, allowed - {2}, tuple(cpus))]
    online = [Cpu(True, c.nr_running, c.idle_since_ms) for c in cpus]
    found += [(5, allowed, tuple(cpus)), (0, frozenset(range(NODE)), tuple(online))]
    return found


@lru_cache(maxsize=8)
def states(seed: int) -> list[State]:
    """Return states with which a function is tried: previous CPU, allowed CPUs, and all CPUs."""
    rng = random.Random(seed)
    found = _telling_states(rng)
    for _ in range(STATES):
        busy = rng.choice((0.0, 0.5, 0.7, 0.7, 1.0))
        cpus = tuple(
            Cpu(rng.random() > 0.2, 0 if rng.random() > busy else rng.randrange(1, 4), round(rng.uniform(0, 90), 2))
            for _ in range(NODE)
        )  # fmt: skip
        allowed = frozenset(rng.sample(range(NODE), rng.randrange(3, NODE + 1)))
        found.append((rng.choice(sorted(allowed)), allowed, cpus))
    return found


def _measure_choose(v: Variation, choose: Choose) -> list[int | None]:
    return [choose(*state) for state in states(v.seed)]


def _measure_makespan(v: Variation, choose: Choose) -> list[int | None]:
    """Return the CPUs that the function chooses in a run of the database."""
    said: list[int | None] = []
    makespan_ms(v, noting(choose, said))
    return said


def _follow_makespan(v: Variation, answers: Any) -> float:
    """Run the database with these choices."""
    said = Said(answers, "your function")

    def choose(prev_cpu: int, allowed: frozenset[int], cpus: Sequence[Cpu]) -> int | None:
        cpu = cpu_or_none(said.next(), len(cpus), "your function")
        if cpu is not None and (cpu not in allowed or not cpus[cpu].online):
            raise RefusedAnswerError(
                f"your function returned CPU {cpu}, on which the thread may not run or which is offline."
            )
        return cpu

    found = makespan_ms(v, choose)
    said.ended()
    return found


# --- how a wrong answer is explained ----------------------------------------------------------------------------------


def _right_set(v: Variation, want: Any, got: Any) -> bool:
    return sorted(got) == want


def _explain_considered(v: Variation, want: Any, got: Any) -> str:
    c = min(set(want) ^ set(got))
    if c in want:
        return f"CPU {c} belongs to the list: it shares the last-level cache with CPU {v.prev_cpu}."
    return f"CPU {c} does not belong to the list: it has another last-level cache than CPU {v.prev_cpu}."


def _explain_woken(v: Variation, want: Any, got: Any) -> str:
    return f"Linux 4.1 does not choose CPU {got}. It looks for an idle CPU among those of task 1 only; what if there is none?"


def _explain_choose(v: Variation, want: Any, got: Any) -> str:
    (prev, allowed, cpus), w, g = next(
        x for x in zip(states(v.seed), want, got, strict=True) if x[1] != x[2]
    )
    if g is not None and not (isinstance(g, int) and 0 <= g < len(cpus)):
        return f"your function returned {g!r}; expected the number of a CPU, or None."
    if w is None:
        fault = (
            "the thread may not run there" if g not in allowed
            else "it is offline" if not cpus[g].online else "it is busy"
        )  # fmt: skip
        return f"no CPU is idle for the thread, so your function must return None and not {g}: {fault}."
    if w == prev:
        return f"CPU {prev}, on which the thread ran last, is idle and online, so it must be chosen, and not {g}."
    since = f"it has been idle since {cpus[w].idle_since_ms:g} ms, longer than all others on which the thread may run"
    return f"your function must return CPU {w}, because {since}; it returned {g}."


def _explain_with_fix(v: Variation, want: Any, got: Any) -> str:
    if got == v.forbidden:
        return f"the thread may not run on CPU {got}."
    if got not in dict(v.idle):
        return f"CPU {got} is busy."
    return f"CPU {got} has been idle since {dict(v.idle)[got]:g} ms. Another allowed CPU has been idle for longer."


def _right_makespan(v: Variation, want: Any, got: Any) -> bool:
    return bool(got <= 1.02 * want)


def _explain_makespan(v: Variation, want: Any, got: Any) -> str:
    return (
        f"with your function the database takes {got:.1f} ms, and with the fix {want:.1f} ms. At some wakeups a CPU is idle "
        "and your function does not return it."
    )


def _explain_ratio(v: Variation, want: Any, got: Any) -> str:
    return f"the ratio is not {got:g}. Divide the makespan under {BUGGY} by that under {FIXED}, with seed {v.seed}."


def _explain_wasted(v: Variation, want: Any, got: Any) -> str:
    i = next(i for i, (w, g) in enumerate(zip(want, got, strict=True)) if abs(w - g) > 0.1)
    return (
        f"under {(BUGGY, FIXED)[i]} it is not {got[i]:g} ms. Take the wall-clock time during which at least one CPU was idle and "
        "at least one thread waited."
    )


def _right_wasted(v: Variation, want: Any, got: Any) -> bool:
    return all(abs(w - g) <= 0.1 for w, g in zip(want, got, strict=True))


TASKS = (
    Task("1", "CPUs that are considered", 1, 5, explain=_explain_considered, right=_right_set),
    Task("2", "the CPU that Linux 4.1 chooses", 1, 5, explain=_explain_woken),
    Task("3", "the fix as a function", 5, 25, _measure_choose, _explain_choose, hidden=True),
    Task("4", "the CPU that the fix chooses", 1, 5, explain=_explain_with_fix),
    Task(
        "5", "the proof in the scheduler", 3, 10, _measure_makespan, _explain_makespan,
        _right_makespan, _follow_makespan, hidden=True,
    ),
    Task("6", "what the bug costs", 2, 5, explain=_explain_ratio, right=right_ratio),
    Task("7", "the wasted time", 2, 10, explain=_explain_wasted, right=_right_wasted),
    Manual("8", "reflection: the price of the fix", 3, 10),
)  # fmt: skip
