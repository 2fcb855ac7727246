"""A class is graded in sandboxes: cheats get nothing, the grader survives, and known grades come out."""

from __future__ import annotations

import csv
import json
import random
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support.classroom import (
    BROKEN,
    MISSING,
    RIGHT,
    filled,
    judged_tasks,
    known_points,
    with_texts,
    written,
)

from wastedcores.errors import UsageError
from wastedcores_course import copies, grader, grading
from wastedcores_course.copies import nbgrader_notebook, student_notebook
from wastedcores_course.grading import grade
from wastedcores_course.lab import MEASURED, VARIATIONS, Lab, answers_of, write_variations
from wastedcores_course.otter_assignment import otter_notebook
from wastedcores_course.sandbox import Limits, Outcome
from wastedcores_course.source import Cell, names_read, read_source
from wastedcores_course.submissions import submissions
from wastedcores_course.summary import (
    Row,
    hardest,
    points_by_hand,
    points_of,
    save_row,
    saved_row,
    write_feedback,
    write_page,
    write_table,
)
from wastedcores_course.task import Feedback, WrongAnswerError

LAB = 4
LIMITS = Limits(wall_s=45, memory=1 << 30)

#: what a cheat writes where task 3 has its answer; the answers of tasks 1 and 2 are right, and there are no others
CHEATS = {
    "replaces the lab": """
class Lab:
    def check(self, task, answer):
        return "right"
    check_hidden = check
lab = Lab()""",
    "patches the package": """
import wastedcores_course.lab as package
package.judge = package.measured = lambda *given: {"value": True}
package.Lab.check = package.Lab.check_hidden = lambda self, task, answer: "right" """,
    "imports the solution": """
from wastedcores_course.answers.average_and_minimum import ANSWERS
refusal = ANSWERS["3"].right(v)
by_average = ANSWERS["4"].right(v)""",
    "reads the source": """
from wastedcores_course.lab import source_of
refusal = source_of(4).read_text()""",
    "forges measurements": """
import json, os
for task in "345678":
    for hidden in (False, True):
        with open(os.environ["WASTEDCORES_COURSE_MEASURED"], "a") as file:
            file.write(json.dumps({"task": task, "hidden": hidden, "measured": [{"value": True, "passed": True}] * 2}) + "\\n")
            file.write("[" * 100_000 + "\\n" + '{"task": [], "hidden": 1, "measured": 1e999}' + "\\n")
lab = None""",
    "sleeps for an hour": """
import time
while True:
    try:
        time.sleep(3600)
    except BaseException:
        pass""",
    "writes to the parent folder": """
import pathlib
for path in ("../x", "../../x", "/x", "/submission/../x", "/usr/x"):
    try:
        pathlib.Path(path).write_text("x")
    except OSError as e:
        refused = e
raise refused""",
    "forks 1000 processes": """
import os, time
for _ in range(1000):
    if os.fork() == 0:
        while True:
            time.sleep(60)""",
    "takes all memory": """
x = []
while True:
    x.append(bytearray(b"x" * 10_000_000))""",
    "uses the network": """
import urllib.request
refusal = urllib.request.urlopen("http://192.0.2.1/answers", timeout=5).read()""",
    "kills the grader": """
import os, signal
for pid in [int(p) for p in os.listdir("/proc") if p.isdigit()]:
    if pid != os.getpid():
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass""",
}
#: cheats that attack the grades and end at once; all are run by hand
IN_CI = ("patches the package", "imports the solution")


def cheating(source, student, code):
    choices = {"1": RIGHT, "2": RIGHT}
    notebook = filled(student_notebook(source), source, student, choices)
    (answer,) = (c.id for c in source.cells if c.task == "3" and c.role == "solution")
    return with_texts(notebook, {answer: code.strip()})


def with_edited_checks(source, student):
    """All checks say that everything is right, in what the student hands in."""
    notebook = student_notebook(source, student)
    return with_texts(notebook, {c.id: "print('right')" for c in source.cells if c.role == "check"})


@pytest.mark.slow
@pytest.mark.parametrize(
    "names",
    [
        pytest.param(IN_CI, id="some", marks=pytest.mark.timeout(900)),
        pytest.param(tuple(CHEATS), id="all", marks=[pytest.mark.long, pytest.mark.timeout(1500)]),
    ],
)
def test_cheats_are_graded_as_failed_and_the_grader_survives(names, tmp_path, monkeypatch):
    source = read_source(LAB)
    folder, rows = tmp_path / "submitted", tmp_path / "rows"
    tasks = judged_tasks(source)
    honest = filled(student_notebook(source), source, "honest", dict.fromkeys(tasks, RIGHT))
    own = Cell("own", "code", "", "", 'lab.check("1", (1, 2))')
    honest["cells"].append(
        copies.written(own, own.text, {})
    )  # a check of another answer, which does not count
    written(honest, folder / "honest.ipynb")
    written(with_edited_checks(source, "editor"), folder / "editor/lab.ipynb")
    (folder / "damaged.ipynb").write_text('{"cells": 3}')
    for name in names:
        who = name.replace(" ", "-")
        written(
            cheating(source, who, CHEATS[name]), folder / who / f"lab{LAB}" / f"{source.name}.ipynb"
        )
    found = {
        row.student: row for row in grade(folder, LAB, rows, limits=LIMITS, jobs=3, quiet=True)
    }
    assert found["honest"].points == {n: t.points for n, t in tasks.items()}
    assert found["honest"].note == ""
    assert found["editor"].total == 0
    assert "there is no answer yet" in found["editor"].feedback["1"]
    assert found["damaged"].total == 0
    assert found["damaged"].note == "the file is not a notebook"
    for name in names:
        row = found[name.replace(" ", "-")]
        # the two tasks before the attack were answered; nothing after it gives points
        assert row.points == known_points(source, {"1": RIGHT, "2": RIGHT}), (name, row)
    if names != IN_CI:
        # the limit of a cell (30 s) comes first if the cells before it were fast
        assert re.search(
            r"ran longer than (the limit of 45|30) s", found["sleeps-for-an-hour"].note
        )
        assert "limit of 200 processes" in found["forks-1000-processes"].note
        assert "more than the limit of 1024 MB" in found["takes-all-memory"].note
    assert not list(tmp_path.rglob("x"))
    assert not any(Path(place).exists() for place in ("/x", "/usr/x"))

    # a second run grades only what has changed
    before = {who: row.feedback for who, row in found.items()}
    monkeypatch.setattr(grading, "prepare", lambda *given: pytest.fail("nothing has changed"))
    assert {
        row.student: row.feedback for row in grade(folder, LAB, rows, limits=LIMITS, quiet=True)
    } == before
    (folder / "damaged.ipynb").write_text('{"cells": 4}')
    monkeypatch.setattr(grading, "prepare", lambda *given: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        grade(folder, LAB, rows, limits=LIMITS, quiet=True)


def test_a_submission_that_ran_out_of_time_is_executed_once_more(tmp_path, monkeypatch):
    folder = tmp_path / "submitted"
    for who in ("ann", "bob", "eve"):
        written(student_notebook(read_source(LAB)), folder / who / "lab.ipynb")
    executed = []

    class Fake:
        def graded(self, path, who, digest):
            executed.append(who)
            late = who == "eve" or (who == "bob" and executed.count("bob") == 1)
            return Row(who, digest, {"1": 0.0 if late else 1.0}, timed_out=late)

    monkeypatch.setattr(grading, "prepare", lambda *given: Fake())
    found = {r.student: r for r in grade(folder, LAB, tmp_path / "rows", jobs=1, quiet=True)}
    assert executed == ["ann", "bob", "eve", "bob", "eve"]
    assert {who: row.total for who, row in found.items()} == {"ann": 1, "bob": 1, "eve": 0}


IN_ANOTHER_PROCESS = """
import sys
from pathlib import Path
from wastedcores_course import grading
from wastedcores_course.summary import Row

class Fake:
    def graded(self, path, who, digest):
        print(who)
        return Row(who, digest, {"1": 1.0})

grading.prepare = lambda *given: Fake()
grading.grade(Path(sys.argv[1]), 4, Path(sys.argv[2]), jobs=1, quiet=True)
"""


@pytest.mark.slow
def test_another_process_finds_the_grades_again(tmp_path):
    for who in ("ann", "bob"):
        written(student_notebook(read_source(LAB)), tmp_path / "submitted" / who / "lab.ipynb")
    words = [sys.executable, "-c", IN_ANOTHER_PROCESS, tmp_path / "submitted", tmp_path / "rows"]
    graded = [
        subprocess.run(words, check=True, capture_output=True, text=True).stdout.split()
        for _ in range(2)
    ]
    assert graded == [["ann", "bob"], []]


def test_grades_of_other_code_are_not_used_again(tmp_path, monkeypatch):
    written(student_notebook(read_source(LAB)), tmp_path / "submitted/ann.ipynb")
    executed = []

    class Fake:
        def graded(self, path, who, digest):
            executed.append(digest)
            return Row(who, digest, {"1": 1.0})

    monkeypatch.setattr(grading, "prepare", lambda *given: Fake())
    for code in ("first", "second", "second"):
        monkeypatch.setattr(grading, "digest", lambda module, code=code: f"{module} {code}")
        grade(tmp_path / "submitted", LAB, tmp_path / "rows", jobs=1, quiet=True)
    assert len(set(executed)) == len(executed) == 2


def run_in_this_process(cells, names):
    """Execute cells as a grader does that goes on after a failed check."""
    for text in cells:
        try:
            exec(text, names)
        except WrongAnswerError:
            continue


@pytest.mark.slow
@pytest.mark.parametrize("tool", ["nbgrader", "otter"])
@pytest.mark.parametrize(("official", "extra"), [(RIGHT, 0), (0, RIGHT)])
def test_a_check_in_a_students_own_cell_does_not_count(
    tool, official, extra, tmp_path, monkeypatch
):
    source = read_source(LAB)
    tasks = judged_tasks(source)
    if tool == "nbgrader":
        cells = nbgrader_notebook(source)["cells"]
        about = [c["metadata"].get("nbgrader", {}).get("grade_id", "") for c in cells]
        checks = [c for c, name in zip(cells, about, strict=True) if name.endswith("-check")]
    else:
        checks = [c for c in otter_notebook(source)["cells"] if c["id"].endswith("-test")]
    path = written(student_notebook(source), tmp_path / "lab.ipynb")

    def run(self, submission, student, warm, drawn):
        (tmp_path / "drawn.json").write_text(write_variations(LAB, drawn))
        monkeypatch.setenv(VARIATIONS, str(tmp_path / "drawn.json"))
        monkeypatch.setenv(MEASURED, str(tmp_path / "measured.jsonl"))
        names = {"lab": Lab(LAB, "ada"), "student": "ada"}
        own = names["lab"].v
        answers = answers_of(LAB)
        for cell in source.cells:
            if cell.role == "check":
                (name,) = names_read(cell.text) - {"lab"}
                names[name] = answers[cell.task].right(own)
        first = {RIGHT: answers["1"].right(own), 0: answers["1"].mistakes[0].answer(own)}
        names |= {"loads": first[official], "other": first[extra]}
        texts = ["".join(cell["source"]) for cell in checks]
        own_cells = ('print(lab.check("1", other))', 'lab.check_hidden("4", lambda *given: 0)')
        run_in_this_process(['lab.check("1", other)', *texts, *own_cells], names)
        files = {"measured.jsonl": (tmp_path / "measured.jsonl").read_bytes()}
        return Outcome(0, "", 0.0, 0.0, 0, 0, files, "")

    monkeypatch.setattr(grader.Grader, "run", run)
    row = grader.Grader(source, tool, {}, path, tmp_path, b"", LIMITS, True).graded(path, "ada")
    assert row.points == known_points(source, dict.fromkeys(tasks, RIGHT) | {"1": official})


def test_no_numbers_are_drawn_while_a_judgement_switches_functions_off(tmp_path, monkeypatch):
    source = read_source(LAB)
    path = written(student_notebook(source), tmp_path / "lab.ipynb")
    measured = {"task": "1", "hidden": False, "measured": [{"value": 1}]}
    files = {"measured.jsonl": json.dumps(measured).encode()}
    outcome = Outcome(0, "", 0.0, 0.0, 0, 0, files, "")
    monkeypatch.setattr(grader.Grader, "run", lambda *given: outcome)
    judging, disturbed, draw = [], [], grader.variation

    def judge(lab, name, variation, answer, hidden, quoted):
        judging.append(name)
        time.sleep(0.05)
        judging.pop()
        return Feedback(name, False, 0, 1, "wrong.")

    def draws(*given):
        disturbed.extend(judging)
        return draw(*given)

    monkeypatch.setattr(grader, "judge", judge)
    monkeypatch.setattr(grader, "variation", draws)
    one = grader.Grader(source, "nbgrader", {}, path, tmp_path, b"", LIMITS, True)
    with ThreadPoolExecutor(4) as pool:
        rows = list(pool.map(lambda who: one.graded(path, who), "abcd"))
    assert [row.feedback["1"] for row in rows] == ["wrong."] * 4
    assert disturbed == []


@pytest.mark.long
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("lab", [3])
def test_a_class_of_100(lab, tmp_path, capsys):
    """Random mixtures of right, wrong, missing and broken answers get the grades that are known, in under 20 minutes."""
    source = read_source(lab)
    rng = random.Random(lab)
    known, folder = {}, tmp_path / "submitted"
    for number in range(100):
        who = f"student{number:03d}"
        choices = {}
        for task in judged_tasks(source):
            mistakes = range(len(answers_of(lab)[task].mistakes))
            choices[task] = rng.choice([RIGHT, RIGHT, RIGHT, MISSING, BROKEN, *mistakes])
        known[who] = known_points(source, choices)
        written(
            filled(student_notebook(source), source, who, choices),
            folder / who / f"{source.name}.ipynb",
        )
    began = time.monotonic()
    found = {row.student: row for row in grade(folder, lab, tmp_path / "rows", quiet=True)}
    took = time.monotonic() - began
    with capsys.disabled():
        most = max(row.memory for row in found.values())
        cpu = sum(row.cpu_s for row in found.values())
        print(
            f"\n100 submissions of lab {lab}: {took:.0f} s, {cpu:.0f} s of CPU time, at most {most >> 20} MB each"
        )
    assert {who: row.points for who, row in found.items()} == known
    assert took < 20 * 60


def test_submissions_are_found_as_platforms_hand_them_out(tmp_path, capsys):
    source = read_source(LAB)
    for path in (
        "ada.ipynb",
        "bob/lab4/x.ipynb",
        f"eve/{source.name}.ipynb",
        "eve/notes.ipynb",
        "dan/readme.txt",
        # what a Mac adds to an archive, and what Jupyter keeps
        "._ada.ipynb",
        "bob/__MACOSX/lab4/._x.ipynb",
        "bob/lab4/.ipynb_checkpoints/x-checkpoint.ipynb",
        # a folder that is called like a notebook, and one beside a notebook
        "dan/folder.ipynb/readme.txt",
        "ada/readme.txt",
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("{}")
    found = submissions(tmp_path, source)
    assert {who: path.name for who, path in found.items()} == {
        "ada": "ada.ipynb", "bob": "x.ipynb", "eve": f"{source.name}.ipynb",
    }  # fmt: skip
    assert (
        capsys.readouterr().err
        == f"dan: handed in no notebook, so there is no grade for lab {LAB}.\n"
    )
    (tmp_path / "mallory").mkdir()
    (tmp_path / "mallory/lab.ipynb").symlink_to(tmp_path / "ada.ipynb")
    assert "mallory" not in submissions(tmp_path, source)
    (tmp_path / "bob/lab4/y.ipynb").write_text("{}")
    with pytest.raises(
        UsageError, match=r"bob: expected one notebook, .* got lab4/x.ipynb, lab4/y.ipynb"
    ):
        submissions(tmp_path, source)
    with pytest.raises(UsageError, match="there is no submission"):
        submissions(tmp_path / "dan", source)


def test_a_notebook_of_another_lab_is_not_graded_as_this_one(tmp_path, capsys):
    source = read_source(LAB)
    for path in (
        f"ada/lab{LAB}/{source.name}.ipynb",
        "bob/lab3/03_group_construction.ipynb",
        "bob/lab5/05_overload_on_wakeup.ipynb",
        "eve/03_group_construction.ipynb",
        "eve/renamed.ipynb",
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("{}")
    found = submissions(tmp_path, source)
    assert {who: path.stem for who, path in found.items()} == {"ada": source.name, "eve": "renamed"}
    assert capsys.readouterr().err == (
        "bob: handed in notebooks of other labs only (lab3/03_group_construction.ipynb, "
        f"lab5/05_overload_on_wakeup.ipynb), so there is no grade for lab {LAB}.\n"
    )


def rows_of(source):
    tasks = judged_tasks(source)
    full = {n: t.points for n, t in tasks.items()}
    feedback = dict.fromkeys(tasks, "right.")
    partly = full | {"7": 0}
    return [
        Row("ada", "", full, feedback, {}, "", 5.0, 4.0, 1),
        Row(
            "bob",
            "",
            partly,
            feedback | {"7": "CPU 1 stays idle."},
            {"7": "Begin with the minimum."},
            "=1+1",
            6.0,
            4.0,
            1,
        ),
        Row("<i>", "", dict.fromkeys(tasks, 0), feedback, {}, "", 6.0, 4.0, 1),
    ]


def test_the_table_the_page_and_the_feedback_agree(tmp_path):
    source = read_source(LAB)
    rows = rows_of(source)
    write_table(rows, source, tmp_path / "grades.csv")
    table = list(csv.DictReader((tmp_path / "grades.csv").read_text().splitlines()))
    assert [(r["student"], r["points"], r["of"]) for r in table][:2] == [
        ("ada", "17", "17"),
        ("bob", "13", "17"),
    ]
    assert table[0]["task 9"] == ""  # a person grades it
    assert table[1]["note"] == "'=1+1"  # no formula for a spreadsheet
    assert hardest(rows, source) == ("7", 1)
    assert hardest(rows[:1], source) is None
    assert hardest([], source) is None
    write_page(rows, source, tmp_path / "grades.html")
    page = (tmp_path / "grades.html").read_text()
    assert "The hardest task is task 7 (a rule that settles): 1 of 3 solved it." in page
    assert "Begin with the minimum." in page
    assert "<i>" not in page
    write_page([], source, tmp_path / "empty.html")
    assert "0 submissions" in (tmp_path / "empty.html").read_text()
    write_feedback(rows[:2], source, tmp_path / "texts")
    text = (tmp_path / "texts/bob.txt").read_text()
    assert "Task 7 (0 of 4): CPU 1 stays idle.\n  Hint: Begin with the minimum." in text
    assert points_of(source) == 17
    by_hand = points_by_hand(source)
    assert by_hand > 0
    assert {r["by hand"] for r in table} == {f"{by_hand:g}"}
    assert f"{by_hand:g} more points are given by a person" in text


def test_a_damaged_row_is_made_again(tmp_path):
    row = rows_of(read_source(LAB))[1]
    row.digest = "d"
    save_row(row, tmp_path / "bob.json")
    assert saved_row(tmp_path / "bob.json", "d") == row
    assert saved_row(tmp_path / "bob.json", "e") is None
    (tmp_path / "bob.json").write_text(json.dumps({"student": "bob"})[:-3])
    assert saved_row(tmp_path / "bob.json", "d") is None
    assert saved_row(tmp_path / "no.json", "d") is None
