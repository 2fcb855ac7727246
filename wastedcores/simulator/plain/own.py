"""A replay with decisions or modules that the user supplies: :func:`plain_engine`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from wastedcores.errors import UsageError
from wastedcores.kernels import MODULES, KernelModel
from wastedcores.simulator.design import module_names
from wastedcores.simulator.plain.answers import checked_modules
from wastedcores.simulator.plain.engine import PlainEngine
from wastedcores.simulator.plain.modules import Module, ask, names_of
from wastedcores.simulator.plain.policies import replace_decisions
from wastedcores.topology.machine import Machine
from wastedcores.workload.program import Program


def plain_engine(
    kernel: KernelModel,
    machine: Machine,
    program: Program,
    modules: Sequence[Module | str],
    policies: Mapping[str, Callable[..., Any]],
) -> tuple[KernelModel, PlainEngine | None]:
    """Return the kernel with all modules, and the engine as plain Python if the user supplies a module or a decision."""
    mine = checked_modules(modules, MODULES, Module)
    if mine and not kernel.is_design:
        raise UsageError(
            f"kernel {kernel.name!r} asks no modules; the core module does: leave the kernel out, or take 'core'."
        )
    if mine:
        names = names_of([*(kernel.modules or ()), *mine])
        kernel = replace(kernel, name="+".join(("core", *names)), modules=tuple(names))
    if not policies and all(isinstance(m, str) for m in mine):
        return kernel, None
    plain = PlainEngine(machine, program)
    replace_decisions(plain, kernel, policies)
    if mine:
        codes = map(module_names(kernel).index, (kernel.modules or ())[-len(mine) :])
        ask(plain, {c: m for c, m in zip(codes, mine, strict=True) if isinstance(m, Module)})
    return kernel, plain
