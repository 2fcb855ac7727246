"""Refuses modules and answers of modules that cannot be meant, with the method, the value and the line that gave it."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from wastedcores.errors import UsageError

if TYPE_CHECKING:
    from wastedcores.simulator.reference.core import Module

#: the questions that a module may answer
QUESTIONS = ("suggest_cpu", "suggest_source", "suggest_pull")


def answer(question: Callable[..., int | None], *about: Any) -> int | None:
    """Ask a module and return its answer.

    Parameters
    ----------
    question
        A method of the module.
    *about
        Its arguments.

    Returns
    -------
    int or None
        The number of a CPU, which need not exist, or None.

    Raises
    ------
    UsageError
        The answer is neither a whole number nor None.
    """
    value = question(*about)
    if value is None or type(value) is int:
        return value
    if isinstance(value, np.integer):
        return int(value)
    code = inspect.unwrap(question).__code__
    raise UsageError(
        f"{question.__qualname__}() answered {value!r}, a {type(value).__name__}; expected the number of a CPU or None. "  # type: ignore[attr-defined]
        f"The method begins in {code.co_filename}, line {code.co_firstlineno}."
    )


def checked_modules(
    modules: Iterable[Module | str], shipped: Mapping[str, type[Module]], base: type[Module]
) -> list[Module]:
    """Return modules as instances.

    Parameters
    ----------
    modules
        Instances, and names of shipped modules.
    shipped
        Name -> class of the modules that wastedcores ships.
    base
        The class of which every module is an instance.

    Returns
    -------
    list of Module
        The instances in the same order.

    Raises
    ------
    UsageError
        One of them is no module, or has a method that nobody would ask.
    """
    if isinstance(modules, base | str) or not isinstance(modules, Iterable):
        raise UsageError(
            f"modules={modules!r}: expected a list of modules, such as [{_name(modules)}]."
        )
    return [_checked(m, shipped, base) for m in modules]


def _checked(module: Any, shipped: Mapping[str, type[Module]], base: type[Module]) -> Module:
    if isinstance(module, str):
        if module not in shipped:
            near = difflib.get_close_matches(module, list(shipped), n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise UsageError(
                f"module {module!r}: there is no such module.{hint} There are {', '.join(shipped)}."
            )
        return shipped[module]()
    if isinstance(module, type) and issubclass(module, base):
        raise UsageError(f"{module.__name__} is a class; pass an instance: [{module.__name__}()].")
    if not isinstance(module, base):
        raise UsageError(
            f"{module!r} is not a module; expected an instance of a subclass of Module, or a name."
        )
    for name in vars(type(module)):
        near = difflib.get_close_matches(name, QUESTIONS, n=1, cutoff=0.75)
        if near and name not in QUESTIONS:
            raise UsageError(
                f"{type(module).__name__}.{name}: the core never calls a method of this name. Did you mean {near[0]}?"
            )
    return module


def _name(module: Any) -> str:
    return repr(module) if isinstance(module, str) else f"{type(module).__name__}()"
