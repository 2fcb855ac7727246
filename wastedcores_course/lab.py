"""The class of a lab for notebooks, and the judgement of measured answers."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Sequence
from dataclasses import asdict
from functools import cached_property
from hashlib import blake2b
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from wastedcores.errors import UsageError
from wastedcores.files import notebooks
from wastedcores.shown import Shown
from wastedcores_course.measuring import measured, same
from wastedcores_course.noted import RefusedAnswerError
from wastedcores_course.task import Answer, Feedback, Manual, Task, WrongAnswerError

#: number of each lab -> name of its notebook and of its modules
LABS = {
    1: "idle_cores",
    2: "domains_and_groups",
    3: "group_construction",
    4: "average_and_minimum",
    5: "overload_on_wakeup",
    6: "missing_domains",
}

#: environment variables of a grader: the student, the file with the secret of hidden checks, the file with variations that were
#: drawn elsewhere, and the file to which measured answers are appended, one JSON object per line
STUDENT, SECRET, VARIATIONS, MEASURED = (
    "WASTEDCORES_COURSE_STUDENT",
    "WASTEDCORES_COURSE_SECRET",
    "WASTEDCORES_COURSE_VARIATIONS",
    "WASTEDCORES_COURSE_MEASURED",
)
#: a lab's hidden checks use the variations of these students, who do not exist
HIDDEN = ("hidden 1", "hidden 2")


def module_of(lab: int) -> ModuleType:
    """Return the module of a lab."""
    if lab not in LABS:
        raise UsageError(
            f"lab {lab!r}: there is no such lab; there are {', '.join(map(str, LABS))}."
        )
    return import_module(f"wastedcores_course.labs.{LABS[lab]}")


def source_of(lab: int) -> Path:
    """Return the path of a lab's source notebook."""
    module_of(lab)
    return notebooks() / "course" / f"{lab:02d}_{LABS[lab]}.ipynb"


def answers_of(lab: int) -> dict[str, Answer]:
    """Return the answers of a lab by the names of its tasks."""
    module_of(lab)
    found: dict[str, Answer] = import_module(f"wastedcores_course.answers.{LABS[lab]}").ANSWERS
    return found


class Lab(Shown):
    """One lab for one student.

    Parameters
    ----------
    number
        Number of the lab.
    student
        The student's id. A grader's setting takes precedence over it.

    Attributes
    ----------
    variation
        The student's own machine and numbers; also called ``v``.
    tasks
        The tasks by name, in their order.
    """

    def __init__(self, number: int, student: str) -> None:
        # an id may be a number
        self.number, self.student = number, str(os.environ.get(STUDENT, student))
        self.module = module_of(number)
        drawn = _drawn_elsewhere(number)
        self.variation = self.v = drawn[0] if drawn else variation(number, self.student)
        self.tasks: dict[str, Task | Manual] = {t.name: t for t in self.module.TASKS}

    def _facts(self) -> dict[str, str]:
        return {
            "lab": f"{self.number}, {self.module.TITLE}",
            "student": self.student,
            **self.module.facts(self.variation),
            "points": f"{self.points:g} in {len(self.tasks)} tasks",
        }

    @property
    def points(self) -> float:
        """The points of all tasks."""
        return sum(t.points for t in self.tasks.values())

    @cached_property
    def hidden_variations(self) -> list[Any]:
        """The machines and numbers of hidden checks."""
        if drawn := _drawn_elsewhere(self.number):
            return drawn[1:]
        path = os.environ.get(SECRET)
        secret = Path(path).read_bytes() if path else b""
        return [variation(self.number, student, secret) for student in HIDDEN]

    def task(self, name: str) -> Task:
        """Return a task that a check judges."""
        task = self.tasks.get(name)
        if not isinstance(task, Task):
            known = [t.name for t in self.tasks.values() if isinstance(t, Task)]
            raise UsageError(f"task {name!r}: expected one of {', '.join(known)}.")
        return task

    def check(self, name: str, answer: Any, counts: bool = False) -> Feedback:
        """Judge an answer with the student's own numbers.

        Parameters
        ----------
        name
            Name of the task.
        answer
            A value or a function.
        counts
            Whether this is the grader's own check. If a task has one, other checks of this task neither add points nor take them
            away.

        Returns
        -------
        Feedback
            The judgement of a right answer.

        Raises
        ------
        WrongAnswerError
            The answer is not right; the message is the feedback.
        """
        return self._check(name, answer, [self.variation], False, counts)

    def check_hidden(self, name: str, answer: Any, counts: bool = False) -> Feedback:
        """Judge an answer with numbers that students do not have; the parameters are those of :meth:`check`.

        Parameters
        ----------
        name
            Name of the task.
        answer
            A value or a function.
        counts
            Whether this is the grader's own check.

        Returns
        -------
        Feedback
            The judgement of a right answer.
        """
        return self._check(name, answer, self.hidden_variations, True, counts)

    def _check(
        self, name: str, answer: Any, variations: list[Any], hidden: bool, counts: bool
    ) -> Feedback:
        task = self.task(name)
        found = [measured(task, v, answer) for v in variations]
        if path := os.environ.get(MEASURED):
            row = {
                "lab": self.number,
                "task": name,
                "student": self.student,
                "hidden": hidden,
                "counts": counts,
                "measured": found,
            }
            with open(path, "a") as file:
                file.write(json.dumps(row) + "\n")
            try:
                answers_of(self.number)
            except ImportError:
                return Feedback(name, True, 0, task.points, "measured; it is judged elsewhere.")
        feedback = None
        for v, one in zip(variations, found, strict=True):
            feedback = judge(self.number, name, v, one, hidden)
            if not feedback.passed:
                raise WrongAnswerError(feedback)
        assert feedback is not None
        return feedback


def _drawn_elsewhere(lab: int) -> list[Any]:
    """Return the student's and the hidden variations that the grader has drawn, or an empty list.

    So the sandbox needs neither the secret nor the functions that draw variations.
    """
    path = os.environ.get(VARIATIONS)
    return read_variations(lab, Path(path).read_text()) if path else []


#: the exceptions that are raised if an answer has another shape than the right answer, or a number too large for a float
_OTHER_SHAPE = (TypeError, ValueError, KeyError, IndexError, AttributeError, OverflowError)


def judge(
    lab: int, name: str, v: Any, found: dict[str, Any], hidden: bool = False, quoted: bool = True
) -> Feedback:
    """Judge what was measured of an answer."""
    task = next(t for t in module_of(lab).TASKS if t.name == name)

    def failed(message: str, hint: str = "") -> Feedback:
        return Feedback(name, False, 0, task.points, message, hint)

    if "unanswered" in found:
        return failed(f"there is no answer yet ({task.title}).")
    if "error" in found:
        if hidden:
            return failed(
                "your code stopped with an exception where the numbers are others than yours."
            )
        if not quoted:
            return failed(
                "your code stopped with an exception, which the check in your notebook shows."
            )
        return failed(f"your code stopped with {str(found['error'])[:500]}")
    answer = answers_of(lab)[name]

    def followed(found: dict[str, Any]) -> Any:
        return task.follow(v, found["value"]) if task.follow else found["value"]

    want = followed(measured(task, v, answer.right(v)))
    try:
        got = followed(found)
    except RefusedAnswerError as error:
        return failed(str(error))
    except _OTHER_SHAPE:
        return failed("the answer has another shape than the task asks for.")
    try:
        if task.right(v, want, got) if task.right else same(want, got):
            return Feedback(name, True, task.points, task.points, f"right ({task.title}).")
        message = task.explain(v, want, got)
    except (*_OTHER_SHAPE, StopIteration):
        # the answer has another shape than the right answer, perhaps only inside
        if _shape(want) == _shape(got):
            return failed(
                f"your answer is {_shape(got)}, as expected, but something in it is of another kind, or in it twice."
            )
        return failed(f"expected {_shape(want)}, but your answer is {_shape(got)}.")
    for mistake in answer.mistakes:
        other = measured(task, v, mistake.answer(v))
        if "value" in other and same(followed(other), got):
            return failed(message, mistake.hint)
    return failed(message)


def _shape(value: Any) -> str:
    """Describe the shape of a value without its content, which would give the answer away."""
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if isinstance(value, dict):
        return f"a dictionary with {len(value)} keys"
    kinds = {bool: "True or False", int: "a number", float: "a number", str: "a text"}
    return kinds[type(value)]


#: A variation that is unsuitable for the lab is drawn again, at most this many times.
MOST_DRAWS = 200


def variation(lab: int, student: str, secret: bytes = b"") -> Any:
    """Draw the numbers of a lab for a student."""
    who = student.strip().lower()
    if not who:
        raise UsageError("student: the id is empty; write your id into the parameters cell.")
    module = module_of(lab)
    # blake2b takes keys of at most 64 bytes
    key = blake2b(secret).digest() if secret else b""
    digest = blake2b(f"{lab} {who}".encode(), key=key).digest()
    # random.Random and not numpy, because its sequence for a seed is the same in all versions of Python
    rng = random.Random(int.from_bytes(digest, "big"))
    for _ in range(MOST_DRAWS):
        drawn = module.draw(rng)
        if module.is_fair(drawn):
            return drawn
    raise UsageError(
        f"lab {lab}, student {student!r}: no variation after {MOST_DRAWS} draws; this is a mistake in the lab."
    )


def write_variations(lab: int, drawn: Sequence[Any]) -> str:
    """Return variations as a text."""
    return json.dumps({"lab": lab, "variations": [asdict(v) for v in drawn]})


def read_variations(lab: int, text: str) -> list[Any]:
    """Read variations."""
    found = json.loads(text)
    if found["lab"] != lab:
        return []
    kind = module_of(lab).Variation
    return [kind(**{name: _tuples(x) for name, x in v.items()}) for v in found["variations"]]


def _tuples(value: Any) -> Any:
    """Turn lists into tuples; a variation has tuples everywhere, and JSON has none."""
    return tuple(_tuples(x) for x in value) if isinstance(value, list) else value
