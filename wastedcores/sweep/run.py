"""Defines a run, that is, the name of a task with its arguments, and the task that replays a scenario.

A run includes a digest of the code that it executes, so that results of other code are never reused.

The digest covers all source files of the package except those that only present results, so a change in the words of a page
does not make any replay necessary.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from stat import S_ISREG
from typing import Any

from wastedcores.errors import ModelWarning, UsageError, WastedCoresError

#: the package that every task uses
PACKAGE = __name__.partition(".")[0]
#: subpackages that only present results; no replay executes their code
PRESENTATION = ("capture", "cli", "figures", "reports", "widgets", "words")


@lru_cache(maxsize=32)
def digest(module: str) -> str:
    """Return a digest of the sources of this package and of the task's own top-level package."""
    own = module.partition(".")[0]
    if not _files(own):
        return ""
    total = hashlib.sha256(own.encode())
    for top in dict.fromkeys((PACKAGE, own)):
        for path in _files(top):
            total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()[:16]


def _files(top: str) -> list[Path]:
    """Return the sorted source files of a top-level package or module, or nothing if it does not exist."""
    found = find_spec(top)
    if found is None or not found.origin or not Path(found.origin).is_file():
        return []
    origin = Path(found.origin)
    if origin.name != "__init__.py":
        return [origin]
    hidden = PRESENTATION if top == PACKAGE else ()
    return sorted(
        p
        for p in origin.parent.rglob("*.py")
        if p.relative_to(origin.parent).parts[0] not in hidden
    )


Value = str | int | float | bool | None
#: the task that replays a scenario
SCENARIO_TASK = "wastedcores.sweep:replay_once"


#: arguments that may name a file: the file of an rt-app workload or of a machine
_FILES = ("scenario", "machine")
#: the name that stands for the machine on which a run is executed
LIVE = "live"


def _content(argument: str, name: str) -> str:
    """Return a digest of what an argument names: the content of a file or this machine; empty if it names neither.

    As a machine, ``live`` names this machine, and the folder of a recording names its ``meta.json``
    (:func:`wastedcores.topology.source.find_machine`).
    """
    if argument == "machine" and name == LIVE and not os.path.exists(name):
        return live_machine()
    if argument == "machine" and os.path.isdir(name):
        name = os.path.join(name, "meta.json")
    try:
        facts = os.stat(name)
        return _content_of(name, facts.st_mtime_ns, facts.st_size) if S_ISREG(facts.st_mode) else ""
    except (OSError, ValueError):
        return ""


@lru_cache(maxsize=1)
def live_machine() -> str:
    """Return the digest of this machine."""
    from wastedcores.topology.machine import Machine

    return hashlib.sha256(json.dumps(Machine.live().to_dict()).encode()).hexdigest()


@lru_cache(maxsize=64)
def _content_of(name: str, *version: int) -> str:
    del version  # ``version`` only makes the cache read a changed file again
    return hashlib.sha256(Path(name).read_bytes()).hexdigest()


@dataclass(frozen=True)
class Run:
    """One call of a task."""

    task: str  #: ``"package.module:function"``, which can be imported wherever the run is executed
    #: keyword arguments: plain values (str, int, float, bool, None, or lists of them)
    arguments: tuple[tuple[str, Any], ...]

    @classmethod
    def of(cls, task: str, **arguments: Any) -> Run:
        """Return a run of a task (``"package.module:function"``) with these keyword arguments."""
        return cls(task, tuple(arguments.items()))

    @property
    def key(self) -> str:
        """A hash of the task, its code, its arguments, and the files and machines that these name; it identifies the run."""
        files = [_content(name, str(v)) for name, v in self.arguments if name in _FILES]
        text = json.dumps([self.code, self.task, sorted(self.arguments), files], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:20]

    @property
    def code(self) -> str:
        """Digest of the code that the run executes."""
        return digest(self.task.partition(":")[0])


def grid(
    task: str, axes: Mapping[str, Sequence[Any]], *, fixed: dict[str, Any] | None = None
) -> list[Run]:
    """Return one run for each combination of the values in ``axes``, which has a list for each argument; the last varies fastest.

    ``fixed`` holds arguments that are the same in all runs.
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
    """Replay a scenario once and return the results as a row; an empty ``machine`` stands for the scenario's own machine.

    The row has ``machine_name``, ``warning`` (features of this kernel that the replay does not model, see ``replay_warning``),
    ``result`` and its ``result_name``, ``makespan_ns``, ``busy_cpus``, ``idle_while_overloaded`` (share of the window),
    ``events`` and ``wall_s``.
    """
    from wastedcores.simulator import replay_scenario

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModelWarning)  # the row has the warning
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


def execute(task: str, arguments: tuple[tuple[str, Any], ...], code: str = "") -> dict[str, Value]:
    """Execute one run in this process; return what the task returned, and ``error``: None or a text.

    An exception becomes the ``error`` of the row, so that the other runs continue. If ``code`` is not the digest of the task's
    code on this machine, the task is not executed, and the row has an ``error``, too.
    """
    module, _, function = task.partition(":")
    # this process computes the digest at its first run, when it also imports the modules, so both are of the same code
    if code and digest(module) != code:
        return {"error": f"{socket.gethostname()} has other code than the sweep ({task})"}
    try:
        found: Callable[..., dict[str, Value]] = getattr(import_module(module), function)
        return {**found(**dict(arguments)), "error": None}
    except WastedCoresError as e:
        return {"error": str(e)}
    except Exception as e:
        return {"error": f"{type(e).__name__}: {e}"}
