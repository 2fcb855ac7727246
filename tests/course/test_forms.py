"""Every form of a lab has what it must have, and nothing that students must not see."""

from __future__ import annotations

import ast
import json

import nbformat
import pytest
from support.classroom import judged_tasks

from wastedcores.cli.course import _ids
from wastedcores.errors import UsageError
from wastedcores_course import LABS, Manual
from wastedcores_course import source as sources
from wastedcores_course.copies import (
    instructor_notebook,
    nbgrader_notebook,
    shown,
    student_notebook,
    write_copies,
)
from wastedcores_course.otter_assignment import otter_notebook
from wastedcores_course.source import MARK, Cell, Source, names_read, read_source, stub

FORMS = (student_notebook, instructor_notebook, nbgrader_notebook, otter_notebook)


def texts(notebook):
    return ["".join(cell["source"]) for cell in notebook["cells"]]


@pytest.mark.parametrize("lab", LABS)
@pytest.mark.parametrize("form", FORMS, ids=lambda f: f.__name__)
def test_every_form_is_a_notebook_without_outputs(lab, form):
    found = form(read_source(lab))
    nbformat.validate(nbformat.from_dict(found))
    for cell in found["cells"]:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None
    assert len({cell["id"] for cell in found["cells"]}) == len(found["cells"])


@pytest.mark.parametrize("lab", LABS)
def test_the_students_copy_has_no_solution_no_hidden_check_and_no_note(lab):
    source = read_source(lab)
    found = {cell["id"]: "".join(cell["source"]) for cell in student_notebook(source)["cells"]}
    for cell in source.cells:
        if cell.role in ("hidden", "instructor"):
            assert cell.id not in found
        elif cell.role != "solution":
            assert found[cell.id] == cell.text
        elif cell.kind == "code":
            head, _, body = cell.text.partition(MARK)
            assert found[cell.id].startswith(head + MARK)
            assert body.strip() not in found[cell.id]
        else:
            assert isinstance(source.tasks[cell.task], Manual)
            assert len(found[cell.id]) < 30


@pytest.mark.parametrize("lab", LABS)
def test_a_stub_defines_what_its_check_reads_or_says_which_task_is_next(lab):
    source = read_source(lab)
    for task in judged_tasks(source):
        (solution,) = (c for c in source.cells if c.task == task and c.role == "solution")
        (check,) = (c for c in source.cells if c.task == task and c.role == "check")
        text = stub(source, solution)
        defined = {
            n.id
            for n in ast.walk(ast.parse(text))
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        }
        defined |= {
            n.name
            for n in ast.walk(ast.parse(text))
            if isinstance(n, ast.FunctionDef | ast.ClassDef)
        }
        assert names_read(check.text) - {"lab"} <= defined
        assert text.rstrip().endswith("= ...") or f"task {task}: " in text


@pytest.mark.parametrize("lab", LABS)
def test_nbgraders_hidden_checks_are_between_its_marks(lab):
    source = read_source(lab)
    wanted = {c.id: c.text for c in source.cells if c.role == "check"}
    for cell in nbgrader_notebook(source)["cells"]:
        kept, hidden = [], []
        into = kept
        for line in "".join(cell["source"]).splitlines():
            if line == "### BEGIN HIDDEN TESTS":
                into = hidden
            elif line == "### END HIDDEN TESTS":
                into = kept
            else:
                into.append(line)
        assert into is kept
        assert "check_hidden" not in "".join(kept)
        if cell["id"] in wanted:
            # students see the check only; a copy of it in a cell of their own does not count
            assert kept == [f"print({wanted[cell['id']]})"]
            assert "counts=True)" in hidden[0]
        else:
            assert not hidden
    points = [
        c["metadata"]["nbgrader"].get("points")
        for c in nbgrader_notebook(source)["cells"]
        if "nbgrader" in c["metadata"]
    ]
    assert sum(p or 0 for p in points) == sum(t.points for t in source.tasks.values())


def test_a_check_is_printed_because_nbgrader_takes_values_for_points():
    assert shown('lab.check("1", a)') == 'print(lab.check("1", a))'
    assert shown("x = 1\nlab.check(\n    x\n)") == "x = 1\nprint(lab.check(\n    x\n))"
    assert shown("x = 1") == "x = 1"


def test_each_student_of_a_class_gets_a_copy_with_the_own_id(tmp_path):
    write_copies([4], tmp_path, ["ada", 's-"1', "bob"][::2])
    for student in ("ada", "bob"):
        (path,) = (tmp_path / student).iterdir()
        assert (
            f'student: str = "{student}"' in json.loads(path.read_text())["cells"][1]["source"][0]
        )
    with pytest.raises(UsageError, match=r"student '\.\./x': an id names a folder"):
        write_copies([4], tmp_path, ["ada", "../x"])


def test_the_list_of_a_class_may_come_from_a_spreadsheet(tmp_path):
    file = tmp_path / "ids.txt"
    file.write_bytes("ada\r\n\r\nmüller\r\nada\r\n".encode("utf-8-sig"))
    assert _ids(["eve"], file, 3) == ["eve", "ada", "müller", "seed-3"]
    file.write_bytes("müller\n".encode("latin-1"))
    with pytest.raises(UsageError, match=r"ids\.txt: expected ids in UTF-8, one in a line"):
        _ids(None, file, None)


def cell(role, task="1", text=f"{MARK}\nx = 1", kind="code", name="c"):
    return Cell(name, kind, role, task, text)


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ([cell("solution")], r"task 1 has cells with the tags solution; expected check, solution"),
        (
            [cell("check"), cell("solution")],
            r"cell c: the solution of task 1 must come before its check cell",
        ),
        ([cell("solution"), cell("solution")], r"task 1 has a second cell with the tag solution"),
        ([cell("solution", text="x = 1")], r"expected a line `# your answer`"),
        ([cell("solution", "9")], r"task '9' is not one of the lab's tasks, 1"),
        ([cell("")], r"it names task 1, so it needs the tag"),
    ],
)
def test_a_source_that_cannot_be_graded_is_refused(cells, message, tmp_path):
    task = next(iter(judged_tasks(read_source(4)).values()))
    source = Source(4, "x", tuple(cells), {"1": task}, {})
    with pytest.raises(UsageError, match=message):
        sources._validate(source, tmp_path / "x.ipynb")
