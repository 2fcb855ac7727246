"""Optimisation modules that users write for the core module of a design (docs/design-mode.md)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from wastedcores.simulator.plain.answers import QUESTIONS, answer, warn_of_absent_cpu
from wastedcores.simulator.plain.engine import PlainEngine
from wastedcores.simulator.vocabulary import OPERATIONS

#: the codes for "no opinion" and for "this CPU, which has no work, should stay idle" (engine/design/modules_jit.py)
NONE, REST = -1, -2


class Module:
    """An optimisation module. It may answer any of three questions; the answer None means that it has no opinion.

    Subclass it, override one method, and pass an instance to ``replay(workload, machine, modules=[YourModule()])``. It can
    read but not change the kernel: ``k.rqs[cpu].nr_running`` and ``.curr``, ``k.active``, ``k.machine``, ``k.now_ns``,
    ``k.design.near[cpu]``, and for a thread ``p.cpu``, ``p.allowed``, ``p.comm`` and ``p.pid``.
    """

    name = "module"

    def suggest_cpu(self, k: Any, p: Any, waker_cpu: int, why: str) -> int | None:
        """Suggest the CPU on which a task that becomes runnable should run.

        Parameters
        ----------
        k
            The kernel.
        p
            The task; ``p.cpu`` is the CPU on which it ran last.
        waker_cpu
            The CPU on which the task is woken or forked.
        why
            ``wakeup``, ``fork``, ``exec`` or ``handover``.

        Returns
        -------
        int or None
            A CPU; None for no opinion.
        """

    def suggest_source(self, k: Any, cpu: int) -> int | None:
        """Suggest the CPU from which a CPU without work should take a waiting thread. At least one such thread exists.

        Parameters
        ----------
        k
            The kernel.
        cpu
            The CPU that ran out of work.

        Returns
        -------
        int or None
            A CPU; :data:`REST` to stay idle; None for no opinion.
        """

    def suggest_pull(self, k: Any, cpu: int) -> int | None:
        """Suggest the CPU from which a busy CPU should take a waiting thread at its tick.

        Parameters
        ----------
        k
            The kernel.
        cpu
            The CPU that ticks.

        Returns
        -------
        int or None
            A CPU; None for no opinion.
        """


def names_of(modules: Sequence[Module | str]) -> list[str]:
    """Return the names of modules. If a name is repeated, a number is added to it."""
    names: list[str] = []
    for module in modules:
        name = module if isinstance(module, str) else module.name
        again = sum(n == name or n.startswith(f"{name} ") for n in names)
        names.append(f"{name} {again + 1}" if again else name)
    return names


def ask(plain: PlainEngine, own: Mapping[int, Module]) -> None:
    """Let the core module ask the user's modules besides the shipped modules. The keys of ``own`` are the modules' codes."""
    from wastedcores.simulator.engine.design import modules_jit

    for question in QUESTIONS:
        shipped = getattr(modules_jit, question)
        plain.replace(shipped, _question(plain, question, plain.of(shipped), own))


def _question(
    plain: PlainEngine, question: str, shipped: Callable[..., int], own: Mapping[int, Module]
) -> Callable[..., int]:
    @functools.wraps(shipped)
    def suggest(k: Any, code: int, about: Any, *why: int) -> int:
        if code not in own:
            return shipped(k, code, about, *why)
        more = (k.this_cpu, OPERATIONS[why[0]]) if why else ()
        module = own[code]
        suggested = answer(getattr(module, question), plain.shown(k), plain.shown(about), *more)
        if suggested is None:
            return NONE
        if suggested == REST and question == "suggest_source":
            return REST
        if suggested not in k.active and not (why and suggested == about.cpu):
            # the CPU where a thread ran last is a fair suggestion, even if it has gone offline since
            warn_of_absent_cpu(module, question, suggested, k)
        if 0 <= suggested < len(k.rqs):
            return suggested
        # the core refuses both of these CPUs: no thread may run on a CPU that does not exist, and none waits on the CPU that asks
        return len(k.rqs) if why else about

    return suggest
