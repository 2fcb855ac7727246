"""Old names for one release: ``replay()`` and ``replay_scenario()`` take modules and policies (docs/design-mode.md)."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from wastedcores.simulator.plain.modules import REST, Module
from wastedcores.simulator.replay import Replay, replay, replay_scenario
from wastedcores.topology.machine import Machine
from wastedcores.trace.trace import Trace
from wastedcores.workload.builder import Workload

__all__ = ["REST", "Module", "replay_design", "replay_reference"]


def replay_design(
    workload: Workload,
    machine: Machine | str,
    modules: Sequence[Module | str] = (),
    seed: int = 1,
    until_ns: int = 1_000_000_000,
) -> tuple[Trace, Replay]:
    """Run a workload under the core module; use ``replay(workload, machine, modules=modules)`` instead."""
    _warn("replay_design()", "replay(workload, machine, modules=...)")
    run = replay(workload, machine, seed=seed, until_ns=until_ns, modules=modules)
    return run.trace, run


def replay_reference(
    name: str,
    machine: Machine | str | None = None,
    kernel: str | None = None,
    *,
    policies: Mapping[str, Callable[..., Any]] | None = None,
    modules: Sequence[Module | str] | None = None,
    seed: int = 1,
    given: Mapping[str, Any] | None = None,
    until_ns: int = 1_000_000_000,
) -> Trace:
    """Run a scenario with decisions or modules of your own; use ``replay_scenario()`` instead."""
    _warn("replay_reference()", "replay_scenario(name, policies=..., modules=...)")
    return replay_scenario(
        name, kernel, machine, seed, given, until_ns, policies=policies, modules=modules
    ).trace


def _warn(old: str, new: str) -> None:
    warnings.warn(
        f"{old} goes away after the next release: use {new}", DeprecationWarning, stacklevel=3
    )
