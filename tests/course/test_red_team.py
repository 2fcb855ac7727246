"""Dishonest and wrong submissions to all labs gain no point, no message tells what is hidden, and right ones get all points."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from support.classroom import judged_tasks, with_texts, written
from support.honest import KINDS
from support.red_team import ATTEMPTS, OTHER

from wastedcores.errors import UsageError
from wastedcores_course import LABS, Lab, judge, variation
from wastedcores_course.copies import student_notebook
from wastedcores_course.grading import grade
from wastedcores_course.lab import MEASURED, answers_of, read_variations, write_variations
from wastedcores_course.measuring import measured
from wastedcores_course.sandbox import Limits
from wastedcores_course.source import read_source
from wastedcores_course.submissions import submissions
from wastedcores_course.summary import Row, write_table

TABLE = Path(__file__).with_name("red_team.md")
LIMITS = Limits(wall_s=60, memory=1 << 30)
SECRET = b"of the lecturer"


def answered(source, student, texts):
    """A student's notebook with code in the solution cells of some tasks."""
    cells = {c.task: c.id for c in source.cells if c.role == "solution"}
    own = {c.id: f"student = {student!r}" for c in source.cells if c.role == "parameters"}
    return with_texts(
        student_notebook(source), own | {cells[t]: text.strip() for t, text in texts.items()}
    )


def of_another_student(lab, task, tmp_path, monkeypatch):
    """What a right answer of Ada is measured as, for the public and for the hidden check."""
    path = tmp_path / f"measured-{lab}-{task}"
    monkeypatch.setenv(MEASURED, str(path))
    own = Lab(lab, "ada")
    answer = answers_of(lab)[task].right(own.v)
    own.check(task, answer)
    own.check_hidden(task, answer)
    monkeypatch.delenv(MEASURED)
    return path.read_text()


def labelled(name):
    return name.replace(" ", "-").replace("'", "")


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("lab", LABS)
def test_no_attempt_gains_a_point(lab, tmp_path, monkeypatch):
    source = read_source(lab)
    folder = tmp_path / "submitted"
    (tmp_path / "secret").write_bytes(SECRET)
    mine = {name: about[1:] for name, about in ATTEMPTS.items() if about[0] == lab}
    for name, (task, code) in mine.items():
        if OTHER in code:
            measured_of_ada = of_another_student(lab, task, tmp_path, monkeypatch)
            mine[name] = task, code.replace(OTHER, repr(measured_of_ada))
        who = labelled(name)
        written(answered(source, who, {task: mine[name][1]}), folder / who / "lab.ipynb")
    for kind, answers in KINDS.items():
        written(answered(source, kind, answers[lab]), folder / f"{kind}.ipynb")
    rows = grade(
        folder, lab, tmp_path / "rows", secret=tmp_path / "secret", limits=LIMITS, quiet=True
    )
    found = {row.student: row for row in rows}
    most = {n: t.points for n, t in judged_tasks(source).items()}
    for kind in KINDS:
        assert found[kind].points == most, (kind, found[kind].feedback, found[kind].note)
    lines = {}
    for name, (task, _) in mine.items():
        row = found[labelled(name)]
        assert row.total == 0, (name, row)
        said = json.dumps([row.feedback, row.note])
        assert SECRET.decode() not in said
        assert SECRET.hex() not in said
        assert "variations" not in said.replace("WASTEDCORES_COURSE_VARIATIONS", ""), (name, said)
        lines[name] = (task, row.note or row.feedback[task])
    _table(lab, lines)


def _table(lab, lines):
    """Write what became of the attempts on a lab; those on other labs stay as they are."""
    head = (
        "# The red team\n\nWritten by `WASTEDCORES_SLOW=1 pytest tests/course/test_red_team.py`. Each line is a submission "
        "in `tests/support/red_team.py`.\nNone of them gains a point.\n\n"
        "| lab | task | a student who | reads |\n|---|---|---|---|\n"
    )
    old = TABLE.read_text().splitlines() if TABLE.exists() else []
    kept = [x for x in old if x[:3] in {f"| {n}" for n in LABS if n != lab}]
    new = [
        f"| {lab} | {task} | {name} | {' '.join(said.split()).replace('|', '/')[:160]} |"
        for name, (task, said) in lines.items()
    ]
    TABLE.write_text(head + "\n".join(sorted(kept + new)) + "\n")


def test_the_table_has_a_line_for_each_attempt():
    assert len(ATTEMPTS) >= 40
    assert {about[0] for about in ATTEMPTS.values()} == set(LABS)
    text = TABLE.read_text()
    for name, (lab, task, _) in ATTEMPTS.items():
        assert f"| {lab} | {task} | {name} | " in text


#: what a patched package could say was measured; each got all points when the numbers themselves were judged
FORGED = {
    "queues and moves": (4, "7", {"queues": [1, 1, 1, 1], "late moves": 0}),
    "no question at all": (4, "7", []),
    "a makespan of 0": (5, "5", 0.0),
    "no choice at all": (5, "5", []),
    "a forbidden CPU at each wakeup": (5, "5", [99] * 1000),
    "numbers of a module": (
        6,
        "7",
        {"makespan_ms": 0, "wasted_ms": 0, "taken": 10**6, "refused": 0},
    ),
    "CPU 0 for everything": (6, "7", {"suggest_cpu": [0] * 10_000}),
    "another method": (6, "7", {"__init__": [0]}),
    "threads on two nodes": (3, "6", [4, 4]),
    "groups of CPUs that are not there": (3, "6", [[[10**9]]] * 1000),
    "text": (4, "7", "settled"),
    "a table of another shape": (4, "7", [[1, 2], [3]]),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FORGED)
def test_measurements_that_no_right_solution_can_have_are_refused(name):
    lab, task, value = FORGED[name]
    assert not judge(lab, task, variation(lab, "ada"), {"value": value}).passed


@pytest.mark.parametrize("lab", LABS)
def test_no_exception_is_quoted_where_numbers_are_hidden(lab):
    found = {"error": "ValueError: the secret"}
    for name, task in judged_tasks(read_source(lab)).items():
        told = [judge(lab, name, variation(lab, "ada"), found, hidden=True)]
        told += [judge(lab, name, variation(lab, "ada"), found, quoted=False)]
        assert not any(x.passed or "secret" in str(x) for x in told), task
        assert "secret" in str(judge(lab, name, variation(lab, "ada"), found))


@pytest.mark.parametrize("more", [-1, 1])
def test_a_load_divided_by_another_number_of_threads_is_refused(more):
    """164 and 153 were both accepted once: 2300 divided by 14 and by 15."""
    for i in range(200):
        v = variation(4, f"student {i}")
        lone, each = v.weight * 100, v.weight * 100 / (v.threads + more)
        assert not judge(4, "1", v, {"value": [lone, each]}).passed
        wrong = [lone / 2, each * v.threads / 2]
        assert not judge(4, "2", v, {"value": wrong if v.lone_cpu < 2 else wrong[::-1]}).passed
        exact = [lone, lone / v.threads]
        for rounded in (float, int):
            assert judge(4, "1", v, {"value": [rounded(x) for x in exact]}).passed
        assert judge(4, "2", v, {"value": [lone / 2, lone / 2]}).passed


@pytest.mark.slow
def test_a_rule_that_compares_averages_the_wrong_way_round_is_refused_for_everybody():
    for i in range(20):
        v = variation(4, f"student {i}")
        task = judged_tasks(read_source(4))["7"]
        for rule in (lambda a, b: a.avg_load < b.avg_load, lambda a, b: False, lambda a, b: True):
            assert not judge(4, "7", v, measured(task, v, rule)).passed


def test_hidden_numbers_are_those_of_one_submission(tmp_path):
    from wastedcores_course.grader import Grader

    one = Grader(read_source(4), "nbgrader", {}, tmp_path, tmp_path, SECRET, LIMITS, True)
    for name in "ab":
        (tmp_path / name).write_text(name)
    own, *first = one.variations(tmp_path / "a", "ada")
    assert [own, *first] == one.variations(tmp_path / "a", "ada")
    assert own == variation(4, "ada") == one.variations(tmp_path / "b", "ada")[0]
    others = one.variations(tmp_path / "b", "ada")[1:] + one.variations(tmp_path / "a", "bob")[1:]
    assert not {*first} & {*others}
    assert read_variations(4, write_variations(4, [own, *first])) == [own, *first]
    assert read_variations(3, write_variations(4, [own])) == []


def test_two_notebooks_of_one_student_are_named(tmp_path):
    for path in ("bob.ipynb", "bob/lab.ipynb"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text("{}")
    with pytest.raises(
        UsageError, match=r"bob handed in two notebooks; .* bob.ipynb and bob/lab.ipynb"
    ):
        submissions(tmp_path, read_source(4))


def test_no_name_is_a_formula_in_the_table_of_grades(tmp_path):
    source = read_source(4)
    names = ['=HYPERLINK("http://192.0.2.1")', "+1", "-1", "@x", "\tx", "anna"]
    write_table(
        [Row(n, "", {"1": 1.0}, {}, {}, "") for n in names], source, tmp_path / "grades.csv"
    )
    with (tmp_path / "grades.csv").open(newline="") as file:
        table = [row[0] for row in csv.reader(file)][1:]
    assert table == [f"'{n}" for n in names[:-1]] + ["anna"]


def test_a_function_is_asked_the_same_where_the_numbers_were_not_drawn():
    """In a sandbox they come from a file; once the pair of nodes was then looked for with the student's own construction."""
    from wastedcores_course.labs import group_construction

    own = variation(3, "ada")
    task, right = judged_tasks(read_source(3))["6"], answers_of(3)["6"].right(own)
    group_construction._pair.cache_clear()
    (v,) = read_variations(3, write_variations(3, [own]))
    assert judge(3, "6", own, measured(task, v, right)).passed
