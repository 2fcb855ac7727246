"""Answers of lab 4, average against minimum load."""

from __future__ import annotations

from wastedcores_course.labs.average_and_minimum import (
    GroupStats,
    Variation,
    decisions,
    makespan_ms,
    moved_per_pass,
)
from wastedcores_course.task import Answer, Mistake

#: the passes of task 6
PASSES = 6


def _by_average(local: GroupStats, busiest: GroupStats) -> bool:
    """Compare the averages (Algorithm 1, line 15)."""
    return local.avg_load >= busiest.avg_load


def _by_minimum(local: GroupStats, busiest: GroupStats) -> bool:
    """Compare the least loaded CPUs (paper, 3.1)."""
    return local.min_load >= busiest.min_load


def _steady(local: GroupStats, busiest: GroupStats) -> bool:
    """Pull only if the least loaded CPU here, with one more thread, would stay below the other group's least loaded CPU."""
    return local.min_load + busiest.load_per_task >= busiest.min_load


def _loads(v: Variation) -> tuple[int, int]:
    load = 100 * v.weight
    return load, load // v.threads


def _sums(v: Variation) -> list[int]:
    lone, each = _loads(v)
    return [lone, each * v.threads] if v.lone_cpu < 2 else [each * v.threads, lone]


def _refusal(v: Variation) -> tuple[int, int]:
    last = [d for d in decisions(v) if d.cpu == v.idle_cpu][-1]
    return v.idle_cpu, last.line


def _ratio(v: Variation) -> float:
    return round(makespan_ms(v, "v4.1") / makespan_ms(v, "v4.1+group_imbalance"), 2)


ANSWERS = {
    "1": Answer(_loads, (
        Mistake(lambda v: (100 * v.weight,) * 2, "The threads of a session share its weight: divide by their number."),
        Mistake(lambda v: (v.weight, v.weight / v.threads), "A load is the weight times the percent of a CPU, here 100."),
        Mistake(lambda v: (100 * v.weight // v.threads, 100 * v.weight // v.threads),
            "The lone thread has its session for itself, so its load is not divided."),
    )),
    "2": Answer(lambda v: [s // 2 for s in _sums(v)], (
        Mistake(_sums, "These are the sums. A node has two CPUs, one of which may be idle: it counts too."),
    )),
    "3": Answer(_refusal, (
        Mistake(lambda v: (v.idle_cpu, 8),
            "Line 8 sends away CPUs that are not designated to balance for their node. An idle CPU comes before them."),
        Mistake(lambda v: (v.lone_cpu, _refusal(v)[1]), "This is the CPU of the lone thread. Its neighbour is idle."),
    )),
    "4": Answer(lambda v: _by_average, (
        Mistake(lambda v: lambda a, b: a.group_load >= b.group_load,
            "You compare sums. A group with more CPUs has a greater sum without being busier."),
        Mistake(lambda v: lambda a, b: a.avg_load > b.avg_load,
            "Equal loads are balanced. If they are not, threads move although nobody gains by it."),
        Mistake(lambda v: lambda a, b: a.avg_load < b.avg_load,
            "This is the opposite: True means that nothing has to be done."),
    )),
    "5": Answer(lambda v: _by_minimum, (
        Mistake(lambda v: lambda a, b: a.max_load >= b.max_load,
            "You compare the most loaded CPUs. A single heavy thread hides the idle CPU next to it."),
        Mistake(lambda v: lambda a, b: a.min_load > b.min_load,
            "Equal minimums are balanced. If they are not, threads move for ever."),
        Mistake(lambda v: _by_average, "This is still the average, with which the lone thread hides the idle CPU."),
    )),
    "6": Answer(lambda v: moved_per_pass(v, _by_minimum, PASSES), (
        Mistake(lambda v: moved_per_pass(v, _by_average, PASSES),
            "These are the moves with the average. Use your rule of task 5."),
        Mistake(lambda v: moved_per_pass(v, _steady, PASSES),
            "These are the moves with a rule that settles. Use the rule of the fix, from task 5."),
    )),
    "7": Answer(lambda v: _steady, (
        Mistake(lambda v: _by_minimum, "This is the rule of task 5, which never settles."),
        Mistake(lambda v: _by_average,
            "A rule that moves nothing has settled, but an idle CPU must get a thread. Begin with the minimum."),
    )),
    "8": Answer(_ratio, (
        Mistake(lambda v: round(makespan_ms(v, "v4.1+group_imbalance") / makespan_ms(v, "v4.1"), 2),
            "You divided the other way round. A number above 1 says how many times longer the buggy kernel takes."),
        Mistake(lambda v: makespan_ms(v, "v4.1") - makespan_ms(v, "v4.1+group_imbalance"),
            "This is the difference in ms; the ratio does not depend on how long the jobs are."),
    )),
}  # fmt: skip
