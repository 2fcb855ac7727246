"""Makes an assignment of otter-grader: its input, from which ``otter assign`` makes the release and the autograder's zip."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

from wastedcores import __version__
from wastedcores_course.copies import between, counted, notebook, save, written
from wastedcores_course.nbgrader_tree import assignment_name, run_tool
from wastedcores_course.source import MARK, Cell, Source, names_read, read_source, stub
from wastedcores_course.task import Manual

#: what pip installs in Gradescope's container, unless the lecturer names something else
REQUIREMENT = f"wastedcores[lab]=={__version__}"


def question_name(task: str) -> str:
    """Return the name of a task among otter's questions."""
    return f"task{task}"


def otter_notebook(source: Source, requirement: str = REQUIREMENT) -> dict[str, Any]:
    """Return the input of ``otter assign``.

    Tests raise exceptions (``ok_format: false``), because the text of the exception is the feedback. Like a task of
    a lab, a question gives all of its points or none.
    """
    settings = {
        "name": assignment_name(source.lab),
        "init_cell": False,
        "check_all_cell": False,
        "export_cell": False,
        "requirements": [requirement],
        "tests": {"ok_format": False},
        "generate": {"show_stdout": True},
    }
    cells = [_raw(f"# ASSIGNMENT CONFIG\n{json.dumps(settings, indent=2)}", "otter-config")]
    for cell in source.cells:
        if cell.role == "solution":
            cells += _question(source, cell)
        elif cell.role not in ("hidden", "instructor"):
            # a check stays as it is, because students run it without otter
            cells.append(written(cell, cell.text, {"tags": [cell.role]} if cell.role else {}))
    return notebook(source, cells)


def _question(source: Source, cell: Cell) -> list[dict[str, Any]]:
    """Return the cells of a question: the configuration, the answer and its tests."""
    task = source.tasks[cell.task]
    about: dict[str, Any] = {"name": question_name(cell.task), "points": task.points}
    if isinstance(task, Manual):
        about["manual"] = True
        # there is no prompt, because otter would lock its cell; without one, otter adds a cell for the answer
        body = _between("SOLUTION", cell, [written(cell, cell.text, {})])
    else:
        about |= {"all_or_nothing": True, "check_cell": False}
        body = _between("SOLUTION", cell, [written(cell, _answer(source, cell), {})])
        body += _between("TESTS", cell, _tests(source, cell.task))
    begin = _raw(f"# BEGIN QUESTION\n{json.dumps(about, indent=2)}", f"{cell.id}-question")
    return [begin, *body, _raw("# END QUESTION", f"{cell.id}-end")]


def _answer(source: Source, cell: Cell) -> str:
    """Return a solution between otter's marks, with the stub as its prompt."""
    head, _, body = stub(source, cell).partition(f"{MARK}\n")
    spaces = " " * (len(body) - len(body.lstrip(" ")))
    prompt = f'{spaces}"""  # BEGIN PROMPT\n{body}\n{spaces}"""  # END PROMPT\n'
    solved = between(cell.text, "# BEGIN SOLUTION NO PROMPT", "# END SOLUTION")
    return f"{head}{MARK}\n{prompt}{solved.partition(f'{MARK}{chr(10)}')[2]}"


def _tests(source: Source, task: str) -> list[dict[str, Any]]:
    """Return the public test of a task, and the hidden one if there is one."""
    found = []
    for cell in source.cells:
        if cell.task == task and cell.role in ("check", "hidden"):
            # the test makes the lab again, so that it does not use a student's own variable `lab`
            arguments = ", ".join(["student", *sorted(names_read(cell.text) - {"lab", "student"})])
            lines = [f"    {line}" for line in counted(cell.text).splitlines()]
            text = "\n".join(
                [
                    *(["# HIDDEN"] if cell.role == "hidden" else []),
                    f"def test_{cell.role}({arguments}):",
                    "    from wastedcores_course import Lab",
                    f'    lab = Lab({source.lab}, student or "")',
                    *lines,
                    f"test_{cell.role}({arguments})",
                ]
            )
            found.append(written(Cell(f"{cell.id}-test", "code", "", "", text), text, {}))
    return found


def _between(kind: str, cell: Cell, cells: list[dict[str, Any]]) -> list[dict[str, Any]]:
    mark = kind.lower()
    return [
        _raw(f"# BEGIN {kind}", f"{cell.id}-{mark}"),
        *cells,
        _raw(f"# END {kind}", f"{cell.id}-{mark}-end"),
    ]


def _raw(text: str, name: str) -> dict[str, Any]:
    return {
        "cell_type": "raw",
        "id": name,
        "metadata": {},
        "source": text.splitlines(keepends=True),
    }


def write_otter(
    labs: list[int], folder: Path, requirement: str = REQUIREMENT, run_tests: bool = True
) -> list[Path]:
    """Write labs as assignments of otter-grader."""
    found = []
    for source in (read_source(lab) for lab in labs):
        target = folder / assignment_name(source.lab)
        with tempfile.TemporaryDirectory() as work:
            # otter writes the notebook's path, relative to the folder of the result, into its files
            save(otter_notebook(source, requirement), Path(work) / f"{source.name}.ipynb")
            words = [f"{source.name}.ipynb", "result", *([] if run_tests else ["--no-run-tests"])]
            run_tool("otter", "assign", *words, cwd=Path(work))
            shutil.rmtree(target, ignore_errors=True)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(Path(work) / "result", target)
        made = next((target / "autograder").glob("*.zip"))
        found.append(made.rename(made.with_name(f"{assignment_name(source.lab)}-autograder.zip")))
    return found
