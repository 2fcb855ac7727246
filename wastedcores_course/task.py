"""Tasks of a lab, and the answers to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from typing import Any

from wastedcores.errors import WastedCoresError

#: what a check measured of an answer, as plain JSON
Measured = Any


def _as_it_is(v: Any, answer: Any) -> Measured:
    """Measure an answer that is a value: the measurement is the value itself."""
    return answer


def _other(v: Any, want: Measured, got: Measured) -> str:
    """Explain a wrong value."""
    return f"expected {want}, but your answer is {got}."


def right_ratio(v: Any, want: Measured, got: Measured) -> bool:
    """Tell whether a ratio of about two digits is right, rounded or not."""
    return bool(abs(want - got) <= 0.011)


@dataclass(frozen=True)
class Task:
    """A task that a check judges."""

    name: str  #: its name, unique in the lab; the notebook's cells name it too
    title: str  #: a few words, for tables
    #: the points for a right answer, and the time that it should take
    points: float
    minutes: int
    #: Function of the variation and the answer. If the answer is a function, it calls the answer. It returns plain JSON. It runs
    #: where the student's code runs, so it must not need the right answer.
    measure: Callable[[Any, Any], Measured] = _as_it_is
    #: Function of the variation, the expected measurement and the measurement of the given answer; with ``follow``, it gets
    #: the results of ``follow`` instead of the measurements. It returns one or two sentences about the first difference.
    explain: Callable[[Any, Measured, Measured], str] = _other
    #: Function of the same arguments as ``explain`` that tells whether the answer is right. None: it is right if the two are
    #: equal, floats to one part in a million. A task with several right answers needs such a function.
    right: Callable[[Any, Measured, Measured], bool] | None = None
    #: Function of the variation and of a measurement that consists of answers. It computes what follows from the answers (queues,
    #: times, moves). It runs where no student's code runs, so a student who changes the package gains nothing. None: the answers
    #: themselves are judged.
    follow: Callable[[Any, Measured], Measured] | None = None
    #: the grader repeats the check on machines and numbers that students do not have
    hidden: bool = False
    #: functions of the package that the answer must not call, because they would give the right answer; each is written as
    #: ``module:name`` or ``module:Class.name``
    writes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Manual:
    """A reflection question, which a person grades."""

    #: as in :class:`Task`
    name: str
    title: str
    points: float
    minutes: int


@dataclass(frozen=True)
class Mistake:
    """A common wrong answer, made deliberately."""

    answer: Callable[[Any], Any]  #: function of the variation that returns the wrong answer
    hint: str  #: one or two sentences for a student whose answer gives the same measurement


@dataclass(frozen=True)
class Answer:
    """The right answer to a task, and common wrong ones."""

    #: function of the variation that returns the right answer: a value, or the function that students have to write
    right: Callable[[Any], Any]
    mistakes: tuple[Mistake, ...] = ()  #: common wrong answers


@dataclass(frozen=True)
class Feedback:
    """The judgement of one answer."""

    task: str  #: name of the task
    passed: bool  #: true if the answer is right
    #: the points that the answer gets, and those that a right answer gets
    points: float
    most: float
    message: str  #: one to three sentences in the terms of the lab
    hint: str = ""  #: a hint for a common mistake; empty if the answer is not a common mistake

    def __str__(self) -> str:
        text = f"task {self.task}: {self.message}"
        return f"{text}\nHint: {self.hint}" if self.hint else text

    __repr__ = __str__

    def _repr_html_(self) -> str:
        colour = "#2e7d32" if self.passed else "#b3261e"
        hint = f"<br><b>Hint.</b> {escape(self.hint)}" if self.hint else ""
        return (
            f"<div style='border-left:4px solid {colour};padding:4px 10px'><b>Task {escape(self.task)}:</b> "
            f"{escape(self.message)}{hint}</div>"
        )


class WrongAnswerError(WastedCoresError):
    """An answer is not right; the message is the feedback. A notebook shows it without a traceback."""

    def __init__(self, feedback: Feedback) -> None:
        super().__init__(str(feedback))
        self.feedback = feedback

    def _render_traceback_(self) -> list[str]:
        """Return what IPython prints instead of a traceback."""
        return [str(self)]
