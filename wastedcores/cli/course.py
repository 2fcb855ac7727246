"""``wastedcores course``: the graded labs, from handing them out to the table of grades."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from wastedcores.cli._app import app, epilog
from wastedcores.cli._options import Quiet
from wastedcores.errors import UsageError

_NOTES = (
    """docs/teaching.md has the time plan, what students must know, and how to grade a class."""
)

course_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
app.add_typer(
    course_app,
    name="course",
    help="Hand out the graded labs of the course, and grade a class.",
    epilog=epilog(
        "course student 4 -o for-anna --student anna",
        "course nbgrader 3 4 -o os-course",
        "course grade submitted --lab 4 -o grades.csv",
        notes=_NOTES,
    ),
)


class Tool(StrEnum):
    """The graders."""

    NBGRADER = "nbgrader"
    OTTER = "otter"


Labs = Annotated[list[int], Argument(metavar="LAB", help="Numbers of labs, such as 4.")]
Folder = Annotated[Path, Option("-o", "--output", metavar="DIR", help="The folder to write to.")]
Students = Annotated[
    list[str] | None,
    Option(
        "--student",
        metavar="ID",
        help="Write a copy with the numbers of this student into a folder DIR/ID. Repeat the option for several.",
    ),
]
Class = Annotated[
    Path | None,
    Option(
        "--students",
        metavar="FILE",
        help="Write a copy for each student whose id is in this file, which has one id per line.",
    ),
]
Seed = Annotated[
    int | None,
    Option(
        "--seed",
        metavar="N",
        min=0,
        help="Write a copy with the id seed-N, for somebody who has no id.",
    ),
]


def _ids(students: list[str] | None, file: Path | None, seed: int | None) -> list[str]:
    found = list(students or [])
    if file:
        try:
            text = file.read_text("utf-8-sig")  # with the byte order mark of spreadsheets
        except UnicodeDecodeError as e:
            raise UsageError(f"{file}: expected ids in UTF-8, one in a line ({e}).") from e
        found += [line.strip() for line in text.splitlines() if line.strip()]
    if seed is not None:
        found.append(f"seed-{seed}")
    return list(dict.fromkeys(found))


def _say_written(paths: list[Path]) -> None:
    """Print the paths of at most ten written files, and how many more there are."""
    for path in paths[:10]:
        print(path)
    if len(paths) > 10:
        print(f"and {len(paths) - 10} more")


@course_app.command(
    epilog=epilog("course student 4 -o lab4", "course student 3 4 -o class --students ids.txt")
)
def student(
    labs: Labs,
    folder: Folder,
    students: Students = None,
    file: Class = None,
    seed: Seed = None,
) -> None:
    """Write notebooks for students.

    They have stubs instead of solutions, and no hidden checks.
    """
    from wastedcores_course.copies import write_copies

    _say_written(write_copies(labs, folder, _ids(students, file, seed)))


@course_app.command(
    epilog=epilog("course instructor 4 -o solutions", "course instructor 4 -o anna --student anna")
)
def instructor(
    labs: Labs, folder: Folder, students: Students = None, file: Class = None, seed: Seed = None
) -> None:
    """Write notebooks for the teacher.

    They have solutions, hidden checks and notes.
    """
    from wastedcores_course.copies import write_copies

    _say_written(write_copies(labs, folder, _ids(students, file, seed), instructor=True))


@course_app.command(epilog=epilog("course nbgrader 3 4 -o os-course"))
def nbgrader(labs: Labs, folder: Folder) -> None:
    """Write a course of nbgrader: its source and its release."""
    from wastedcores_course.nbgrader_tree import write_nbgrader

    _say_written(write_nbgrader(labs, folder))


@course_app.command(epilog=epilog("course otter 4 -o otter"))
def otter(
    labs: Labs,
    folder: Folder,
    requirement: Annotated[
        str | None,
        Option(
            metavar="TEXT",
            help="What pip installs in Gradescope's container. Default: this version of wastedcores.",
        ),
    ] = None,
) -> None:
    """Write assignments of otter-grader.

    Each assignment has a zip file with the autograder for Gradescope.
    """
    from wastedcores_course.otter_assignment import REQUIREMENT, write_otter

    _say_written(write_otter(labs, folder, requirement or REQUIREMENT))


_GRADE = """Each submission runs in a sandbox: it sees only Python, this package without the answers, and a folder of its own; it
has no network, and its time, memory and processes are limited. Its answers are measured there and judged outside. A submission
that breaks a limit keeps the points of the tasks that ended before.

Submissions are notebooks in DIR that have the names of students, or a folder for each student. Each submission is graded with the
numbers of the student of that name. A submission that has not changed since the last time is not graded again.

Beside grades.csv are grades.html (distribution, the hardest task, common mistakes) and the folder grades.rows with the
feedback for each student."""


@course_app.command(
    epilog=epilog(
        "course grade submitted --lab 4 -o grades.csv",
        "course grade submitted --lab 4 -o grades.csv --grader otter --secret secret.txt",
        notes=_GRADE,
    )
)
def grade(
    folder: Annotated[Path, Argument(metavar="DIR", help="The folder of submissions.")],
    lab: Annotated[int, Option(metavar="N", help="Number of the lab.")],
    output: Annotated[Path, Option("-o", "--output", metavar="FILE", help="The table of grades.")],
    grader: Annotated[
        Tool, Option(help="The grader; it must be the one for which the notebooks were handed out.")
    ] = Tool.NBGRADER,
    secret: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="The lecturer's secret, from which hidden checks draw their numbers. Default: random bytes, kept beside the "
            "grades.",
        ),
    ] = None,
    seconds: Annotated[
        float, Option(metavar="S", min=10, help="Time limit of each submission, in seconds.")
    ] = 120,
    memory: Annotated[
        int, Option(metavar="MB", min=500, help="Memory limit of each submission.")
    ] = 2048,
    jobs: Annotated[
        int,
        Option(
            "--jobs", "-j", metavar="N", min=0, help="Submissions at a time. Default: one per CPU."
        ),
    ] = 0,
    no_sandbox: Annotated[
        bool,
        Option(
            "--no-sandbox",
            help="Run the students' code without a sandbox, with your own rights. Then only its time is limited.",
        ),
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Grade a folder of submissions in a sandbox, in parallel.

    If a run was interrupted, the same command continues it.
    """
    from wastedcores_course.grading import grade as grade_all
    from wastedcores_course.sandbox import Limits
    from wastedcores_course.source import read_source
    from wastedcores_course.summary import hardest, write_feedback, write_page, write_table

    if not folder.is_dir():
        raise UsageError(f"{folder}: expected a folder of submissions.")
    if output.suffix in (".html", ".rows"):
        raise UsageError(
            f"-o {output}: the page and the rows have this ending; name the table .csv."
        )
    rows_folder = output.with_suffix(".rows")
    limits = Limits(wall_s=seconds, memory=memory << 20)
    rows = grade_all(
        folder,
        lab,
        rows_folder,
        tool=grader.value,
        secret=secret,
        limits=limits,
        jobs=jobs,
        sandboxed=not no_sandbox,
        quiet=quiet,
    )
    source = read_source(lab)
    write_table(rows, source, output)
    write_page(rows, source, output.with_suffix(".html"))
    write_feedback(rows, source, rows_folder)
    worst = hardest(rows, source)
    print(
        f"{len(rows)} submissions: {output}, {output.with_suffix('.html')}, feedback in {rows_folder}"
    )
    if worst:
        print(f"hardest task: {worst[0]} ({source.tasks[worst[0]].title}), solved by {worst[1]}")
    noted = [row for row in rows if row.note]
    for row in noted[:10]:
        print(f"{row.student}: {row.note}", file=sys.stderr)
    if len(noted) > 10:
        print(f"and {len(noted) - 10} more notes in {output}", file=sys.stderr)
