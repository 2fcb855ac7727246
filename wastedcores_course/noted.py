"""Records the answers of a student's function in the sandbox, and repeats them outside, where no student's code runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from typing import Any

from wastedcores_course.measuring import plain

#: longer lists of answers are refused; no right solution gives so many answers in one experiment
_MOST = 200_000


class RefusedAnswerError(ValueError):
    """An answer that no right solution can have; the message says what is wrong with it."""


def noting(function: Callable[..., Any], said: list[Any]) -> Callable[..., Any]:
    """Return a function that does the same as ``function`` and also writes its answers into ``said``."""

    @wraps(function)
    def noted(*about: Any) -> Any:
        value = function(*about)
        said.append(plain(value))
        return value

    return noted


class Said:
    """Gives answers again in the order in which they were given.

    Parameters
    ----------
    answers
        What :func:`noting` wrote down, perhaps in a process that cannot be trusted.
    of
        The name of the function or module that gave the answers, for messages.
    """

    def __init__(self, answers: Any, of: str) -> None:
        if not isinstance(answers, list) or len(answers) > _MOST:
            raise RefusedAnswerError(f"the answers of {of} are not a list of answers.")
        self.number, self.of = len(answers), of
        self._left: Iterator[Any] = iter(answers)
        self._given = 0

    def next(self) -> Any:
        """Return the next answer."""
        self._given += 1
        if self._given > self.number:
            raise RefusedAnswerError(
                f"{self.of} was asked {self._given} times here, and {self.number} times where it ran. Its answers, or the state "
                "of the scheduler, were changed by other code."
            )
        return next(self._left)

    def ended(self) -> None:
        """Note that no further answer will be asked for; raise an error if answers are left."""
        if self._given != self.number:
            raise RefusedAnswerError(
                f"{self.of} was asked {self._given} times here, and {self.number} times where it ran. Its answers, or the state "
                "of the scheduler, were changed by other code."
            )


def cpu_or_none(value: Any, cpus: int, of: str) -> int | None:
    """Return an answer that must be the number of a CPU, or None; -1 means None, as in the kernel."""
    if value is None or (value == -1 and not isinstance(value, bool)):
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < cpus:
        raise RefusedAnswerError(
            f"{of} answered {_short(value)}; expected a CPU from 0 to {cpus - 1}, or None."
        )
    return value


def whole_or_none(value: Any) -> int | None:
    """Return an answer of a module, which must be a whole number or None; the core then refuses CPUs that do not exist."""
    if value is None or (type(value) is int and abs(value) < 1 << 31):
        return value
    raise RefusedAnswerError(
        f"your module answered {_short(value)}; expected the number of a CPU, or None."
    )


def cpu_sets(value: Any, cpus: Sequence[int], of: str) -> list[list[int]]:
    """Return an answer that must be a list of sets of CPUs."""
    known = set(cpus)
    if not isinstance(value, list) or not all(isinstance(group, list) and group for group in value):
        raise RefusedAnswerError(f"{of} answered {_short(value)}; expected lists of CPUs.")
    for group in value:
        for c in group:
            if isinstance(c, bool) or not isinstance(c, int) or c not in known:
                raise RefusedAnswerError(
                    f"{of} answered a group with {_short(c)}, which is no CPU of the domain."
                )
    return value


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}..."
