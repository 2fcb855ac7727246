"""Answers of lab 5, overload on wakeup."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from wastedcores.invariant.checking import check
from wastedcores.simulator.replay import Replay, replay_scenario
from wastedcores_course.labs.overload_on_wakeup import (
    BUGGY,
    FIXED,
    ITERATIONS,
    MACHINE,
    NODE,
    SCENARIO,
    Cpu,
    Variation,
    woken_on,
)
from wastedcores_course.task import Answer, Mistake

Allowed = frozenset[int]


def _choose(prev_cpu: int, allowed: Allowed, cpus: Sequence[Cpu]) -> int | None:
    """Return the previous CPU if it is idle, or else the CPU that has been idle for longest (paper, 3.3)."""
    idle = [c for c in sorted(allowed) if cpus[c].online and cpus[c].nr_running == 0]
    if prev_cpu in idle:
        return prev_cpu
    return min(idle, key=lambda c: cpus[c].idle_since_ms, default=None)


def _without_affinity(prev_cpu: int, allowed: Allowed, cpus: Sequence[Cpu]) -> int | None:
    return _choose(prev_cpu, frozenset(range(len(cpus))), cpus)


def _without_offline(prev_cpu: int, allowed: Allowed, cpus: Sequence[Cpu]) -> int | None:
    return _choose(prev_cpu, allowed, [Cpu(True, c.nr_running, c.idle_since_ms) for c in cpus])


def _without_previous(prev_cpu: int, allowed: Allowed, cpus: Sequence[Cpu]) -> int | None:
    return _choose(-1, allowed, cpus)


def _by(key: Callable[[Cpu, int], float]) -> Callable[..., int | None]:
    def choose(prev_cpu: int, allowed: Allowed, cpus: Sequence[Cpu]) -> int | None:
        idle = [c for c in sorted(allowed) if cpus[c].online and cpus[c].nr_running == 0]
        if prev_cpu in idle:
            return prev_cpu
        return min(idle, key=lambda c: key(cpus[c], c), default=None)

    return choose


def _node(v: Variation, cpu: int) -> list[int]:
    first = cpu // NODE * NODE
    return list(range(first, first + NODE))


def _run(v: Variation, kernel: str) -> Replay:
    return replay_scenario(SCENARIO, kernel, MACHINE, v.seed, {"iterations": ITERATIONS})


def _ratio(v: Variation) -> float:
    return round(_run(v, BUGGY).makespan_ns / _run(v, FIXED).makespan_ns, 2)


def _wasted(v: Variation, field: str = "wall_ns") -> list[float]:
    return [round(getattr(check(_run(v, k).trace), field) / 1e6, 2) for k in (BUGGY, FIXED)]


ANSWERS = {
    "1": Answer(lambda v: _node(v, v.prev_cpu), (
        Mistake(lambda v: list(range(2 * NODE)),
            "That would have been the fix. Linux 4.1 looks at the CPUs of one last-level cache only."),
        Mistake(lambda v: _node(v, v.idle[0][0]), "This is the other node. The search begins where the thread ran last."),
    )),
    "2": Answer(lambda v: woken_on(v, BUGGY), (
        Mistake(lambda v: _choose(v.prev_cpu, v.allowed, v.cpus),
            "This CPU is idle, but on the other node, where Linux 4.1 does not look."),
        Mistake(lambda v: v.forbidden, "This CPU is on the other node, and the thread may not even run there."),
    )),
    "3": Answer(lambda v: _choose, (
        Mistake(lambda v: _without_affinity, "Your function ignores the affinity: only CPUs in allowed may be returned."),
        Mistake(lambda v: _without_offline, "Your function may return a CPU that is offline."),
        Mistake(lambda v: _by(lambda cpu, c: c),
            "You take the idle CPU with the lowest number. Take the one that has been idle for longest."),
        Mistake(lambda v: _by(lambda cpu, c: -cpu.idle_since_ms),
            "You take the CPU that became idle last. The smallest time is the longest idleness."),
        Mistake(lambda v: _without_previous,
            "If the CPU where the thread ran last is idle, it is the best one: its cache may still be warm."),
    )),
    "4": Answer(lambda v: _choose(v.prev_cpu, v.allowed, v.cpus), (
        Mistake(lambda v: v.forbidden, "It has been idle for longest, but the affinity goes first."),
        Mistake(lambda v: min(c for c, _ in v.idle if c != v.forbidden), "This is the lowest number."),
    )),
    "5": Answer(lambda v: _choose, (
        Mistake(lambda v: lambda prev_cpu, allowed, cpus: -1,
            "With -1 or None Linux 4.1 decides as before, and nothing is repaired."),
    )),
    "6": Answer(_ratio, (
        Mistake(lambda v: round(_run(v, FIXED).makespan_ns / _run(v, BUGGY).makespan_ns, 2),
            "You divided the other way round."),
    )),
    "7": Answer(_wasted, (
        Mistake(lambda v: _wasted(v, "waiting_ns"), "This is the time that threads waited, whether a CPU was idle or not."),
        Mistake(lambda v: list(reversed(_wasted(v))), "You exchanged the two kernels."),
    )),
}  # fmt: skip
