"""Measures a student's answer: calls the answer if it is a function, and turns the outcome into plain JSON."""

from __future__ import annotations

import math
import traceback
from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import wastedcores
from wastedcores.errors import UsageError
from wastedcores_course.task import Task

#: the folders of this project's packages; a student's own lines are not in them
_PACKAGES = {Path(wastedcores.__file__).parent, Path(__file__).parent}


def measured(task: Task, v: Any, answer: Any) -> dict[str, Any]:
    """Measure an answer: return {"value": measurement}, {"error": sentence} or {"unanswered": True}."""
    if answer is ... or answer is None:
        return {"unanswered": True}
    try:
        with _disabled(task):
            return {"value": plain(task.measure(v, answer))}
    except NotImplementedError:
        return {"unanswered": True}
    except Exception as error:
        # if a method of a student's module is not written yet, the core raises an exception of its own from NotImplementedError
        if isinstance(error.__cause__, NotImplementedError):
            return {"unanswered": True}
        return {"error": _sentence(error)}


def plain(value: Any) -> Any:
    """Return a value as plain JSON: sets as sorted lists, tuples and arrays as lists, NumPy's numbers as Python's."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, Mapping):
        return {str(k): plain(x) for k, x in value.items()}
    if isinstance(value, Set):
        return sorted((plain(x) for x in value), key=repr if _mixed(value) else None)
    if isinstance(value, list | tuple | range):
        return [plain(x) for x in value]
    raise UsageError(
        f"{value!r} is a {type(value).__name__}; expected numbers, texts, or lists and sets of them."
    )


def _mixed(values: Set[Any]) -> bool:
    return not all(isinstance(x, int | float | np.number) for x in values)


def same(a: Any, b: Any) -> bool:
    """Tell whether two measurements are equal; floats may differ by one part in a million."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, int | float) and isinstance(b, int | float):
        return a == b or math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-9)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    return bool(a == b)


def _sentence(error: Exception) -> str:
    """Describe an exception with the student's own line, which is the last line in the traceback that is not in a package."""
    place = ""
    for frame in traceback.extract_tb(error.__traceback__):
        if (
            not _PACKAGES & {*Path(frame.filename).parents}
            and "site-packages" not in frame.filename
        ):
            place = f" in your line {frame.lineno}" + (f", `{frame.line}`" if frame.line else "")
    text = str(error).strip().rstrip(".") or "no message"
    return f"{type(error).__name__}{place}: {text}."


@contextmanager
def _disabled(task: Task) -> Iterator[None]:
    """While a student's code runs, switch off the package's functions that would give the answer."""

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise UsageError(
            f"task {task.name} asks you to write this yourself, so the package's own function is switched off here"
        )

    saved = []
    try:
        for name in task.writes:
            module, _, path = name.partition(":")
            *parents, last = path.split(".")
            owner: Any = import_module(module)
            for parent in parents:
                owner = getattr(owner, parent)
            saved.append((owner, last, getattr(owner, last)))
            setattr(owner, last, refuse)
        yield
    finally:
        for owner, last, function in saved:
            setattr(owner, last, function)
