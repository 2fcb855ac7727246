"""nbgrader and otter-grader, run for real, give the solution all points and the student's copy none."""

from __future__ import annotations

import json
import re
import zipfile

import pytest
from support.classroom import MISSING, filled, judged_tasks, known_points, mistaken, written

from wastedcores_course.lab import LABS, answers_of
from wastedcores_course.nbgrader_tree import run_tool, write_nbgrader
from wastedcores_course.otter_assignment import REQUIREMENT, write_otter
from wastedcores_course.source import read_source

#: by hand each grader runs all labs, with three wrong submissions
ALL_LABS = [
    pytest.param(
        lab,
        3,
        id=f"lab {lab}, three mistakes",
        marks=[pytest.mark.long, pytest.mark.timeout(1500)],
    )
    for lab in LABS
]
#: CI gives each grader one lab
FOR_NBGRADER = [pytest.param(4, 0, id="lab 4"), *ALL_LABS]
FOR_OTTER = [pytest.param(3, 0, id="lab 3"), *ALL_LABS]


def submissions(source, solution, student_copy, wrong):
    """Name -> notebook and known points."""
    tasks = judged_tasks(source)
    empty = dict.fromkeys(tasks, MISSING)
    found = {
        "solution": (solution, {n: t.points for n, t in tasks.items()}),
        "nothing": (student_copy, known_points(source, empty)),
    }
    for number in range(wrong):
        choices = mistaken(source, number)
        found[f"wrong{number}"] = (
            filled(student_copy, source, "ada", choices),
            known_points(source, choices),
        )
    return found


def hints(source, number):
    """The hints for the mistakes of a wrong submission, by task."""
    return {
        task: answers_of(source.lab)[task].mistakes[choice].hint
        for task, choice in mistaken(source, number).items()
        if choice != MISSING
    }


def expect_messages(source, name, messages):
    """Check that each task without points says why, in a message of its own."""
    for task, about in judged_tasks(source).items():
        if name == "nothing":
            assert f"task {task}: there is no answer yet ({about.title})." in messages[task]
        elif name.startswith("wrong"):
            expected = hints(source, int(name.removeprefix("wrong"))).get(
                task, "there is no answer yet"
            )
            assert expected in messages[task]


def plain_text(text):
    """Text without the colours of a terminal."""
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


@pytest.mark.slow
@pytest.mark.parametrize(("lab", "wrong"), FOR_NBGRADER)
def test_nbgrader(lab, wrong, tmp_path):
    from nbgrader.api import Gradebook

    source = read_source(lab)
    (release,) = write_nbgrader([lab], tmp_path)
    solution = json.loads((tmp_path / f"source/lab{lab}/{source.name}.ipynb").read_text())
    found = submissions(source, solution, json.loads(release.read_text()), wrong)
    for name, (notebook, _) in found.items():
        written(notebook, tmp_path / f"submitted/{name}/lab{lab}/{source.name}.ipynb")
    run_tool("nbgrader", "autograde", f"lab{lab}", cwd=tmp_path)
    with Gradebook(f"sqlite:///{tmp_path}/gradebook.db", "wastedcores") as gradebook:
        for name, (_, points) in found.items():
            graded = gradebook.find_submission_notebook(source.name, f"lab{lab}", name)
            assert {
                g.name.removeprefix("task-").removesuffix("-check"): g.score
                for g in graded.grades
                if g.name.endswith("-check")
            } == points, name
            cells = json.loads(
                (tmp_path / f"autograded/{name}/lab{lab}/{source.name}.ipynb").read_text()
            )["cells"]
            messages = {}
            for cell in cells:
                errors = [
                    o["evalue"] for o in cell.get("outputs", ()) if o["output_type"] == "error"
                ]
                about = cell["metadata"].get("nbgrader", {})
                if about.get("grade_id", "").endswith("-check"):
                    messages[cell["metadata"]["task"]] = plain_text("".join(errors))
            expect_messages(source, name, messages)


@pytest.mark.slow
@pytest.mark.parametrize(("lab", "wrong"), FOR_OTTER)
def test_otter(lab, wrong, tmp_path):
    source = read_source(lab)
    (archive,) = write_otter([lab], tmp_path, run_tests=False)
    names = zipfile.ZipFile(archive).namelist()
    assert {f"task{name}.py" for name in judged_tasks(source)} <= {
        name.rpartition("/")[2] for name in names
    }
    # what Gradescope starts, and what it installs
    assert {"run_autograder", "setup.sh"} <= set(names)
    assert REQUIREMENT in zipfile.ZipFile(archive).read("environment.yml").decode()
    solution = json.loads((archive.parent / f"{source.name}.ipynb").read_text())
    student_copy = json.loads((tmp_path / f"lab{lab}/student/{source.name}.ipynb").read_text())
    for name, (notebook, points) in submissions(source, solution, student_copy, wrong).items():
        path = written(notebook, tmp_path / name / f"{source.name}.ipynb")
        run_tool(
            "otter", "run", "-a", str(archive), "-o", ".", "--no-logo", path.name, cwd=path.parent
        )
        results = json.loads((path.parent / "results.json").read_text())["tests"]
        by_task = {r["name"].removeprefix("task"): r for r in results if "score" in r}
        assert {n: r["score"] for n, r in by_task.items() if n in points} == points, name
        expect_messages(source, name, {n: r["output"] for n, r in by_task.items()})


def test_a_grader_that_is_not_installed_is_named(tmp_path):
    from wastedcores.errors import WastedCoresError

    with pytest.raises(
        WastedCoresError, match=r"nothing_like_it is not installed for .*wastedcores\[course\]"
    ):
        run_tool("nothing_like_it", "run", cwd=tmp_path)
