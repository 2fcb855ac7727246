"""Makes the students' and the instructor's copy of a lab."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

from wastedcores.errors import UsageError
from wastedcores.files import written_whole
from wastedcores_course.source import MARK, Cell, Source, read_source, stub
from wastedcores_course.task import Manual

HIDDEN_BEGIN, HIDDEN_END = "### BEGIN HIDDEN TESTS", "### END HIDDEN TESTS"


def student_notebook(source: Source, student: str = "") -> dict[str, Any]:
    """Return the copy for a student: stubs instead of solutions, and no hidden checks.

    Its cells have the metadata of nbgrader, so nbgrader can grade this copy like a release that it made itself.
    """
    cells = []
    for cell in source.cells:
        if cell.role in ("hidden", "instructor"):
            continue
        text = stub(source, cell) if cell.role == "solution" else cell.text
        cells.append(written(cell, _named(cell, text, student), nbgrader_metadata(source, cell)))
    return notebook(source, cells)


def instructor_notebook(source: Source, student: str = "") -> dict[str, Any]:
    """Return the copy with everything in it; the parameters are those of :func:`student_notebook`."""
    cells = [
        written(c, _named(c, c.text, student), {"tags": [c.role]} if c.role else {})
        for c in source.cells
    ]
    return notebook(source, cells)


def nbgrader_notebook(source: Source) -> dict[str, Any]:
    """Return nbgrader's source form: solutions, and hidden checks inside the test cells."""
    cells = []
    for cell in source.cells:
        if cell.role in ("hidden", "instructor"):
            continue
        text = cell.text
        if cell.role == "solution" and cell.kind == "code":
            text = between(text, "### BEGIN SOLUTION", "### END SOLUTION")
        elif cell.role == "check":
            text = _with_hidden(text, source.hidden(cell.task))
        cells.append(written(cell, text, nbgrader_metadata(source, cell)))
    return notebook(source, cells)


def between(solution: str, begin: str, end: str) -> str:
    """Put two lines around the part of a solution below the mark, with the same indentation as this part."""
    head, _, body = solution.partition(f"{MARK}\n")
    spaces = " " * (len(body) - len(body.lstrip(" ")))
    return f"{head}{MARK}\n{spaces}{begin}\n{body.rstrip()}\n{spaces}{end}"


def _with_hidden(check: str, hidden: Cell | None) -> str:
    """Return the text of a check cell. Only hidden checks count, so a copy that a student made of the cell does not count.

    The hidden check comes first, because a check of a wrong answer ends the cell.
    """
    text = f"{HIDDEN_BEGIN}\n{counted(check)}\n{HIDDEN_END}\n{shown(check)}"
    if hidden is None:
        return text
    return f"{text}\n{HIDDEN_BEGIN}\n{shown(counted(hidden.text))}\n{HIDDEN_END}"


_CHECKS = ("lab.check", "lab.check_hidden")


def counted(check: str) -> str:
    """Return a check with the argument that marks it as the grader's own check."""
    tree = ast.parse(check)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in _CHECKS:
            node.keywords.append(ast.keyword("counts", ast.Constant(True)))
    return ast.unparse(tree)


def shown(check: str) -> str:
    """Return the code of a check, changed so that it prints the value of its last expression.

    This value must not be the value of the cell, which nbgrader would take for points; and it must not be printed to the standard
    error, because nbgrader takes everything there for a failure.
    """
    last = ast.parse(check).body[-1]
    if not isinstance(last, ast.Expr):
        return check
    lines = check.splitlines()
    call = "\n".join(lines[last.lineno - 1 : last.end_lineno])
    return "\n".join([*lines[: last.lineno - 1], f"print({call})"])


def nbgrader_metadata(source: Source, cell: Cell) -> dict[str, Any]:
    """Return the metadata of a cell in nbgrader's schema 3."""
    if cell.role == "parameters":
        return {"tags": ["parameters"]}
    task = source.tasks.get(cell.task)
    manual = cell.role == "solution" and isinstance(task, Manual)
    graded = manual or cell.role == "check"
    about: dict[str, Any] = {
        "schema_version": 3,
        "grade_id": f"task-{cell.task}{'-check' if cell.role == 'check' else ''}"
        if cell.task
        else cell.id,
        "grade": graded,
        "solution": cell.role == "solution",
        "locked": cell.role != "solution",
        "task": False,
    }
    if graded and task:
        about["points"] = task.points
    metadata: dict[str, Any] = {"nbgrader": about}
    if cell.task:
        metadata["task"] = cell.task
    if cell.role != "solution":
        metadata |= {"deletable": False, "editable": False}
    return metadata


def written(cell: Cell, text: str, metadata: dict[str, Any]) -> dict[str, Any]:
    """Return a cell in the form in which notebooks store it, without outputs."""
    found = {
        "cell_type": cell.kind,
        "id": cell.id,
        "metadata": metadata,
        "source": text.splitlines(keepends=True),
    }
    return found | ({"execution_count": None, "outputs": []} if cell.kind == "code" else {})


def notebook(source: Source, cells: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a notebook with the source's metadata."""
    return {"cells": cells, "metadata": source.metadata, "nbformat": 4, "nbformat_minor": 5}


def _named(cell: Cell, text: str, student: str) -> str:
    """Put a student's id into the parameters cell."""
    if cell.role != "parameters" or not student:
        return text
    return re.sub(
        r'^student: str = "[^"]*"',
        lambda _: f"student: str = {json.dumps(student, ensure_ascii=False)}",
        text,
        count=1,
        flags=re.MULTILINE,
    )


def save(content: dict[str, Any], path: Path) -> Path:
    """Write a notebook and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with written_whole(path) as part:
        part.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    return path


def write_copies(
    labs: list[int], folder: Path, students: list[str], instructor: bool = False
) -> list[Path]:
    """Write students' or instructor's copies of labs."""
    make = instructor_notebook if instructor else student_notebook
    for student in students:
        if not re.fullmatch(r"[\w.@+-]+", student) or student.startswith("."):
            raise UsageError(
                f"student {student!r}: an id names a folder, so it consists of letters, digits and . _ - @ +, and does not "
                "begin with a dot."
            )
    sources = [read_source(lab) for lab in labs]
    if not students:
        return [save(make(s), folder / f"{s.name}.ipynb") for s in sources]
    return [
        save(make(s, who), folder / who / f"{s.name}.ipynb") for who in students for s in sources
    ]
