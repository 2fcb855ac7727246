"""Submissions of simulated students, whose grades are known because their answers are."""

from __future__ import annotations

import base64
import copy
import json
from importlib import import_module

import cloudpickle

from wastedcores_course import Manual, variation
from wastedcores_course.lab import LABS, answers_of
from wastedcores_course.source import MARK, names_read

RIGHT, MISSING, BROKEN = "right", "missing", "broken"


def judged_tasks(source):
    """The tasks that a check judges, by name."""
    return {n: t for n, t in source.tasks.items() if not isinstance(t, Manual)}


def filled(notebook, source, student, choices):
    """Fill a student's notebook of any form; ``choices`` says for each task RIGHT, MISSING, BROKEN or the number of a mistake.

    Answers are written as pickled values and functions, so that each is independent of the others and of the package's answers.
    """
    cloudpickle.register_pickle_by_value(
        import_module(f"wastedcores_course.answers.{LABS[source.lab]}")
    )
    v = variation(source.lab, student)
    texts = {}
    for task, choice in choices.items():
        cell = next(c for c in source.cells if c.task == task and c.role == "solution")
        check = next(c for c in source.cells if c.task == task and c.role == "check")
        (name,) = names_read(check.text) - {"lab"}
        answer = answers_of(source.lab)[task]
        if choice == MISSING:
            continue
        if choice == BROKEN:
            texts[cell.id] = f"def {name}(:\n    {MARK}"
            continue
        value = answer.right(v) if choice == RIGHT else answer.mistakes[choice].answer(v)
        packed = base64.b64encode(cloudpickle.dumps(value)).decode()
        texts[cell.id] = (
            f'import base64, cloudpickle\n{name} = cloudpickle.loads(base64.b64decode("{packed}"))'
        )
    return with_texts(
        notebook,
        texts
        | {c.id: f'student: str = "{student}"' for c in source.cells if c.role == "parameters"},
    )


def with_texts(notebook, texts):
    """The notebook with other texts in some cells, by their ids."""
    found = copy.deepcopy(notebook)
    for cell in found["cells"]:
        if cell["id"] in texts:
            cell["source"] = texts[cell["id"]]
    return found


def known_points(source, choices):
    """The points of each task that :func:`filled` makes."""
    tasks = judged_tasks(source)
    return {n: tasks[n].points if choices.get(n) == RIGHT else 0 for n in tasks}


def mistaken(source, number):
    """Choices of a student who makes a common mistake in each task that has one."""
    found = {}
    for name in judged_tasks(source):
        mistakes = answers_of(source.lab)[name].mistakes
        found[name] = number % len(mistakes) if mistakes else MISSING
    return found


def written(notebook, path):
    """Write a notebook."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(notebook))
    return path
