"""Lab 6: levels of domains are lost after hotplug. Students find the step that loses them, and design a module of their own."""

from __future__ import annotations

import random
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from wastedcores.errors import ModelWarning, UsageError
from wastedcores.invariant.checking import check
from wastedcores.simulator.plain.answers import QUESTIONS
from wastedcores.simulator.plain.modules import Module
from wastedcores.simulator.replay import Replay, replay
from wastedcores.topology.machine import Machine
from wastedcores.topology.presets import grid, two_packages
from wastedcores.workload import Script, Workload
from wastedcores_course.noted import RefusedAnswerError, Said, noting, whole_or_none
from wastedcores_course.task import Manual, Task, right_ratio

TITLE = "hotplug, missing domains, and a module of your own"
BUGGY, FIXED = "v4.1", "v4.1+missing_domains"
ROUNDS = 10
#: the application starts this long after the machine, when hotplug is over
START_NS = 5_000_000
#: with a student's module, the application may take at most this many times as long as with the right one
MOST_RATIO = 1.02
#: a run with a module ends here at the latest
_LONGEST_NS = 1_000_000_000


@dataclass(frozen=True)
class Variation:
    """The machine of one student, and the application that runs on it."""

    cores: int  #: CPUs per node; there are two packages of two nodes
    cpu: int  #: the CPU that goes offline and comes back
    threads: int  #: threads of the application
    seed: int  #: seed of the application's random lengths

    @property
    def machine(self) -> Machine:
        """The machine, before anything happens to it."""
        return grid(
            f"4 nodes x {self.cores} cores",
            packages=2,
            nodes_per_package=2,
            cores_per_llc=self.cores,
            distance=two_packages(16, 22, 2),
        )

    @property
    def workload(self) -> Workload:
        """An application that starts on CPU 0 when the CPU is back."""
        w = Workload("an application after hotplug")
        w.hotplug(1_000_000, self.cpu, False)
        w.hotplug(2_000_000, self.cpu, True)
        script = Script().loop(ROUNDS).compute(2_000_000, 3_000_000).sleep(500_000, 1_500_000).end()
        for i in range(self.threads):
            w.task(f"worker-{i}", script, cpu=0, start_ns=START_NS)
        return w


def draw(rng: random.Random) -> Variation:
    """Draw a variation."""
    cores = rng.choice((3, 4, 5))
    cpu = rng.randrange(1, 4 * cores)
    return Variation(cores, cpu, 4 * cores + rng.randrange(-2, 3), rng.randrange(1, 1000))


def is_fair(v: Variation) -> bool:
    """Every variation has the same difficulty by construction."""
    return True


def facts(v: Variation) -> dict[str, str]:
    """Return what a student sees of a variation."""
    return {
        "machine": f"2 packages of 2 nodes of {v.cores} CPUs",
        "hotplug": f"CPU {v.cpu} goes offline and comes back",
        "application": f"{v.threads} threads, which start on CPU 0 afterwards",
    }


# --- what students work with ------------------------------------------------------------------------------------------


def run(v: Variation, kernel: str) -> Replay:
    """Run the application after hotplug, in the compiled simulator."""
    return replay(v.workload, v.machine, kernel, v.seed)


def try_module(v: Variation, module: Module) -> dict[str, float]:
    """Run the application under the work-conserving core with a module, in plain Python."""
    r = replay(v.workload, v.machine, seed=v.seed, until_ns=_LONGEST_NS, modules=[module])
    return {
        "makespan_ms": (r.raw.end_ns - START_NS) / 1e6,
        "wasted_ms": check(r.trace).wall_ns / 1e6,
        "taken": int(r.suggestions["taken"].sum()),
        "refused": int(r.suggestions["refused"].sum()),
    }


# --- what checks measure ----------------------------------------------------------------------------------------------


def _measure_module(v: Variation, module: Callable[[], Module]) -> dict[str, list[Any]]:
    """Return the answers that the module gives in a run, by question."""
    if not (isinstance(module, type) and issubclass(module, Module)):
        raise UsageError(
            f"{module!r}: expected your class, which inherits from Module, and not an instance or a function."
        )
    own = module()
    said: dict[str, list[Any]] = {}
    for name in QUESTIONS:
        if getattr(module, name) is not getattr(Module, name):
            said[name] = []
            # object.__setattr__ also works for an instance of a frozen class
            object.__setattr__(own, name, noting(getattr(own, name), said[name]))
    try_module(v, own)
    return said


class _Answers(Module):
    """A module that gives the answers that a student's module gave."""

    name = "answers"

    def __init__(self, said: dict[str, Said]) -> None:
        self.said = said
        self.crowded = 0  #: suggestions for which :func:`_is_crowded` is true

    def _next(self, question: str) -> int | None:
        return whole_or_none(self.said[question].next()) if question in self.said else None

    def suggest_cpu(self, k: Any, p: Any, waker_cpu: int, why: str) -> int | None:
        """Suggest a CPU for a thread that becomes runnable."""
        cpu = self._next("suggest_cpu")
        if cpu is not None and cpu in k.active:
            self.crowded += _is_crowded(k, p, cpu)
        return cpu

    def suggest_source(self, k: Any, cpu: int) -> int | None:
        """Suggest a CPU from which a CPU without work should take a thread."""
        return self._next("suggest_source")

    def suggest_pull(self, k: Any, cpu: int) -> int | None:
        """Suggest a CPU from which a busy CPU should take a thread."""
        return self._next("suggest_pull")


def _is_crowded(k: Any, p: Any, cpu: int) -> bool:
    """Tell whether a thread could get an idle CPU on a node that has fewer busy CPUs than the node of this CPU."""
    node = k.machine.node_of_cpu
    busy = Counter(node[rq.cpu] for rq in k.rqs if rq.nr_running)
    idle = (c for c in p.allowed & k.active if not k.rqs[c].nr_running)
    return any(busy[node[c]] < busy[node[cpu]] for c in idle)


def _follow_module(v: Variation, answers: Any) -> dict[str, float]:
    """Run the application with these answers."""
    if not isinstance(answers, dict) or not set(answers) <= set(QUESTIONS):
        raise RefusedAnswerError("the answers are not those of a module.")
    said = {name: Said(x, f"{name}()") for name, x in answers.items()}
    with warnings.catch_warnings():
        # the student has already seen the warning, where the module ran
        warnings.simplefilter("ignore", ModelWarning)
        found = try_module(v, module := _Answers(said))
    for one in said.values():
        one.ended()
    return found | {"crowded": module.crowded}


# --- how a wrong answer is explained ----------------------------------------------------------------------------------


def _explain_before(v: Variation, want: Any, got: Any) -> str:
    return f"CPU 0 has {len(want)} domains: its node, its package, and the machine. Their spans do not have {got} CPUs."


def _explain_after(v: Variation, want: Any, got: Any) -> str:
    return (
        f"after CPU {v.cpu} went offline and came back, the spans of CPU 0's domains do not have {got} CPUs. Build the domains "
        f"of v.machine.offline({v.cpu}).online({v.cpu})."
    )


def _explain_step(v: Variation, want: Any, got: Any) -> str:
    return f"it is not {got!r}. Build the domains of v.machine.offline({v.cpu}), and look at a CPU that stays online."


def _explain_cpus(v: Variation, want: Any, got: Any) -> str:
    return f"it is not {got}. Count the CPUs whose widest domain is smaller than before."


def _explain_nodes(v: Variation, want: Any, got: Any) -> str:
    i = next(i for i, (w, g) in enumerate(zip(want, got, strict=True)) if w != g)
    return (
        f"under {(BUGGY, FIXED)[i]} it is not {got[i]} nodes. Look at busy_per_node of the run: how many nodes have more than "
        "half a CPU busy?"
    )


def _explain_ratio(v: Variation, want: Any, got: Any) -> str:
    return f"the ratio is not {got:g}. Divide the makespan under {BUGGY} by that under {FIXED}, and round to two digits."


def _right_module(v: Variation, want: Any, got: Any) -> bool:
    return (
        got["refused"] == got["crowded"] == 0
        and got["taken"] >= v.threads
        and got["wasted_ms"] <= want["wasted_ms"]
        and got["makespan_ms"] <= MOST_RATIO * want["makespan_ms"]
    )


def _explain_module(v: Variation, want: Any, got: Any) -> str:
    if got["refused"]:
        return (
            f"the core refused {got['refused']} suggestions of your module, because a CPU would have stayed idle beside a "
            "waiting thread, or because the thread may not run there. Suggest an idle CPU, or nothing."
        )
    if got["taken"] < v.threads:
        return f"the core took {got['taken']} suggestions of your module; expected at least {v.threads}, one for each thread."
    if got["crowded"]:
        return (
            f"of your module's suggestions {got['crowded']} named a CPU of a node with more busy CPUs than the node of another "
            "idle CPU. Compare the numbers of busy CPUs of the nodes first."
        )
    return (
        f"with your module the application takes {got['makespan_ms']:.1f} ms, and may take "
        f"{MOST_RATIO * want['makespan_ms']:.1f} ms."
    )


TASKS = (
    Task("1", "domains before hotplug", 1, 5, explain=_explain_before),
    Task("2", "domains after hotplug", 2, 10, explain=_explain_after),
    Task("3", "the step that loses them", 1, 5, explain=_explain_step),
    Task("4", "who is affected", 2, 5, explain=_explain_cpus),
    Task("5", "nodes that work", 2, 10, explain=_explain_nodes),
    Task("6", "what the bug costs", 2, 5, explain=_explain_ratio, right=right_ratio),
    Task(
        "7", "a module of your own", 5, 30, _measure_module, _explain_module, _right_module, _follow_module, hidden=True,
    ),
    Manual("8", "reflection: rule and policy", 3, 10),
)  # fmt: skip
