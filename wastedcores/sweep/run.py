"""One run: a task by name and its arguments, known by them and by the code that it runs."""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from itertools import product
from pathlib import Path
from stat import S_ISREG
from typing import Any

from wastedcores.errors import ModelWarning, UsageError, WastedCoresError
from wastedcores.sweep.code import digest

Value = str | int | float | bool | None
#: the task of a scenario's replay
SCENARIO_TASK = "wastedcores.sweep:replay_once"


#: arguments that may name a file (an rt-app workload, a machine)
_FILES = ("scenario", "machine")


def _content(name: str) -> str:
    """Digest of a file; empty if there is none of that name."""
    try:
        facts = os.stat(name)
        return _content_of(name, facts.st_mtime_ns, facts.st_size) if S_ISREG(facts.st_mode) else ""
    except (OSError, ValueError):
        return ""


@lru_cache(maxsize=64)
def _content_of(name: str, *version: int) -> str:
    del version  # reads the file again when it has changed
    return hashlib.sha256(Path(name).read_bytes()).hexdigest()


@dataclass(frozen=True)
class Run:
    """One call of a task.

    Attributes
    ----------
    task
        ``"package.module:function"``; importable wherever it runs.
    arguments
        Keyword arguments; plain values (str, int, float, bool, None, or lists of them).
    """

    task: str
    arguments: tuple[tuple[str, Any], ...]

    @classmethod
    def of(cls, task: str, **arguments: Any) -> Run:
        """Make a run from keyword arguments."""
        return cls(task, tuple(arguments.items()))

    @property
    def key(self) -> str:
        """Name of this run: a hash of task, arguments, code, and the content of files that are arguments."""
        files = [_content(str(v)) for name, v in self.arguments if name in _FILES]
        text = json.dumps([self.code, self.task, sorted(self.arguments), files], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:20]

    @property
    def code(self) -> str:
        """Digest of the code that it runs."""
        return digest(self.task.partition(":")[0])


def grid(
    task: str, axes: Mapping[str, Sequence[Any]], *, fixed: dict[str, Any] | None = None
) -> list[Run]:
    """All combinations of the axes' values, the last axis running fastest.

    Raises
    ------
    UsageError
        An axis without a value.
    """
    for name, values in axes.items():
        if not values:
            raise UsageError(f"sweep: {name} has no value; give at least one.")
    names = list(axes)
    return [
        Run.of(task, **dict(zip(names, values, strict=True)), **(fixed or {}))
        for values in product(*axes.values())
    ]


def replay_once(
    scenario: str, kernel: str, machine: str, seed: int, **given: Any
) -> dict[str, Value]:
    """One replay of a scenario as a row; an empty ``machine`` is the scenario's own.

    Returns
    -------
    dict
        ``machine_name``, ``warning`` (what the replay does not model of this kernel, see ``replay_warning``),
        ``result`` and its ``result_name``, ``makespan_ns``, ``busy_cpus``, ``idle_while_overloaded`` (share of the
        window), ``events``, ``wall_s``.
    """
    from wastedcores.simulator import replay_scenario

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModelWarning)  # in the row instead of once a process
        r = replay_scenario(scenario, kernel, machine or None, seed, given)
    return {
        "machine_name": r.machine.name,
        "warning": r.kernel.replay_warning,
        "result_name": r.result_name,
        "result": r.summary.result,
        "makespan_ns": r.makespan_ns,
        "busy_cpus": r.busy_cpus,
        "idle_while_overloaded": r.summary.idle_while_overloaded,
        "events": r.raw.events,
        "wall_s": r.raw.wall_s,
    }


def execute(task: str, arguments: tuple[tuple[str, Any], ...]) -> dict[str, Value]:
    """Do one run here; what workers call.

    An error of ours, or any other, becomes the row's ``error``: the other runs go on.
    """
    module, _, function = task.partition(":")
    try:
        found: Callable[..., dict[str, Value]] = getattr(import_module(module), function)
        return {**found(**dict(arguments)), "error": None}
    except WastedCoresError as e:
        return {"error": str(e)}
    except Exception as e:
        return {"error": f"{type(e).__name__}: {e}"}
