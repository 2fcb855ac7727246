"""Lets a verb take several options that belong together as one parameter."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from typing import Any, get_type_hints

from wastedcores.cli._options import Between, Cpus, Sessions, SnapshotSource, Whole


@dataclass(frozen=True)
class Counted:
    """Which part of a trace counts."""

    between: Between = None
    cpus: Cpus = None
    whole: Whole = False


@dataclass(frozen=True)
class Told:
    """Facts about the tasks of a trace that the user adds to those in the trace."""

    session: Sessions = None
    snapshot: SnapshotSource = None


def with_groups(verb: Callable[..., None]) -> Callable[..., None]:
    """Replace each parameter that is a dataclass by one option for each field of the dataclass, in the order of the fields."""
    hints = get_type_hints(verb, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    options: list[inspect.Parameter] = []
    for parameter in inspect.signature(verb).parameters.values():
        name = parameter.name
        if name not in groups:
            options.append(parameter.replace(annotation=hints[name]))
            continue
        kinds = get_type_hints(groups[name], include_extras=True)
        options += [
            parameter.replace(name=f.name, annotation=kinds[f.name], default=f.default)
            for f in fields(groups[name])
        ]

    @wraps(verb)
    def run(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{f.name: given.pop(f.name) for f in fields(group)})
        verb(**given)

    run.__annotations__ = {o.name: o.annotation for o in options}
    run.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]  # typer reads both
    return run
