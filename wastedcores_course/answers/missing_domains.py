"""Answers of lab 6, hotplug, missing domains, and a module of your own."""

from __future__ import annotations

from typing import Any

from wastedcores.simulator.plain.modules import Module
from wastedcores.topology.domains import build_domains
from wastedcores.topology.machine import Machine
from wastedcores_course.labs.missing_domains import BUGGY, FIXED, Variation, run
from wastedcores_course.task import Answer, Mistake


def _sizes(machine: Machine, cpu: int = 0) -> list[int]:
    return [d.weight for d in build_domains(machine, BUGGY).of(cpu)]


def _after(v: Variation) -> Machine:
    return v.machine.offline(v.cpu).online(v.cpu)


def _step(v: Variation) -> str:
    lost = len(_sizes(v.machine.offline(v.cpu))) < len(_sizes(v.machine))
    return "offline" if lost else "online"


def _affected(v: Variation) -> int:
    return sum(_sizes(v.machine, c)[-1] > _sizes(_after(v), c)[-1] for c in range(v.machine.cpus))


def _nodes(v: Variation) -> list[int]:
    return [sum(busy > 0.5 for busy in run(v, k).busy_per_node) for k in (BUGGY, FIXED)]


def _ratio(v: Variation, first: str = BUGGY, second: str = FIXED) -> float:
    return round(run(v, first).makespan_ns / run(v, second).makespan_ns, 2)


class _Spread(Module):
    """Suggest the idle CPU whose node has the fewest busy CPUs."""

    name = "spread"

    def suggest_cpu(self, k: Any, p: Any, waker_cpu: int, why: str) -> int | None:
        """Suggest a CPU for a thread that becomes runnable."""
        node = k.machine.node_of_cpu
        idle = [c for c in sorted(p.allowed & k.active) if k.rqs[c].nr_running == 0]
        return min(
            idle,
            key=lambda c: sum(rq.nr_running > 0 for rq in k.rqs if node[rq.cpu] == node[c]),
            default=None,
        )


class _Lowest(Module):
    """Suggest the idle CPU with the lowest number."""

    name = "lowest"

    def suggest_cpu(self, k: Any, p: Any, waker_cpu: int, why: str) -> int | None:
        """Suggest a CPU for a thread that becomes runnable."""
        return min((c for c in p.allowed & k.active if k.rqs[c].nr_running == 0), default=None)


class _OneNode(Module):
    """Suggest a CPU of node 0, idle or not."""

    name = "one_node"

    def suggest_cpu(self, k: Any, p: Any, waker_cpu: int, why: str) -> int | None:
        """Suggest a CPU for a thread that becomes runnable."""
        return min((c for c in p.allowed if k.machine.node_of_cpu[c] == 0), default=None)


class _Silent(Module):
    """A module that never suggests anything."""

    name = "silent"


class _Sticky(Module):
    """Suggest the CPU where the thread ran last."""

    name = "sticky"

    def suggest_cpu(self, k: Any, p: Any, waker_cpu: int, why: str) -> int | None:
        """Suggest a CPU for a thread that becomes runnable."""
        cpu: int = p.cpu
        return cpu


ANSWERS = {
    "1": Answer(lambda v: _sizes(v.machine), (
        Mistake(lambda v: [1, 2, 4], "Count CPUs, and not nodes."),
        Mistake(lambda v: [v.machine.cpus], "This is the widest domain. List all, the smallest first."),
    )),
    "2": Answer(lambda v: _sizes(_after(v)), (
        Mistake(lambda v: _sizes(v.machine),
            "These are the domains before hotplug. The machine has the same CPUs again, but not the same domains."),
        Mistake(lambda v: _sizes(v.machine)[:-1], "You assume that one level is lost. Build the domains and count."),
    )),
    "3": Answer(_step, (
        Mistake(lambda v: "offline",
            "While the CPU is offline all levels are still there. They are lost when it comes back."),
    )),
    "4": Answer(_affected, (
        Mistake(lambda v: 1,
            "Not only the CPU that went: the kernel builds the domains of all CPUs again, from a table without those levels."),
        Mistake(lambda v: v.cores, "Not only the CPUs of one node."),
    )),
    "5": Answer(_nodes, (
        Mistake(lambda v: [4, 4], "Under Linux 4.1 no domain contains another node."),
        Mistake(lambda v: list(reversed(_nodes(v))), "You exchanged the two kernels."),
    )),
    "6": Answer(_ratio, (Mistake(lambda v: _ratio(v, FIXED, BUGGY), "You divided the other way round."),)),
    "7": Answer(lambda v: _Spread, (
        Mistake(lambda v: _OneNode,
            "A module that fills one node is refused whenever another node has an idle CPU. This is the rule of the core."),
        Mistake(lambda v: _Lowest,
            "The idle CPU with the lowest number fills one node after the other. Count the busy CPUs of each node."),
        Mistake(lambda v: _Silent,
            "Your module never has an opinion. Override suggest_cpu, and return the number of a CPU."),
        Mistake(lambda v: _Sticky,
            "The CPU where a thread ran last is not always idle. Look at k.rqs[cpu].nr_running first."),
    )),
}  # fmt: skip
