"""Grades the submissions of a class: each in a sandbox of its own, where its answers are measured and not judged.

The judgement happens in this process, from the measurements. So a student's code decides nothing but its own answers: it can
neither read the right ones nor change what counts as right.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from wastedcores.course import answers, inside
from wastedcores.course.feedback import Feedback
from wastedcores.course.lab import MEASURED, SECRET, STUDENT, Lab, judge
from wastedcores.course.nbgrader_tree import assignment_name, write_nbgrader
from wastedcores.course.otter_assignment import write_otter
from wastedcores.course.sandbox import Limits, Outcome, isolated, unprotected
from wastedcores.course.source import Source, read_source
from wastedcores.course.task import Manual
from wastedcores.errors import UsageError, WastedCoresError
from wastedcores.files import written_whole

#: the longest measurements of a submission that are read
_LONGEST = 16 << 20
_REASONS = {
    "time": "it ran longer than the limit of {wall_s:g} s",
    "memory": "it used more than the limit of {memory_mb} MB",
    "lost": "its sandbox ended without a result",
}


@dataclass
class Row:
    """The grades of one submission.

    Attributes
    ----------
    student
        The name of the submission's folder or file.
    digest
        Of the submission, the lab and the settings; a row with the same digest need not be made again.
    points
        Task -> points; tasks that a person grades are not in it.
    feedback
        Task -> what the student gets to read.
    hints
        Task -> the hint for a common mistake.
    note
        A sentence for the lecturer, or an empty text.
    seconds, cpu_s, memory
        What the submission took: time, CPU time of all its processes, and bytes.
    """

    student: str
    digest: str
    points: dict[str, float] = field(default_factory=dict)
    feedback: dict[str, str] = field(default_factory=dict)
    hints: dict[str, str] = field(default_factory=dict)
    note: str = ""
    seconds: float = 0.0
    cpu_s: float = 0.0
    memory: int = 0

    @property
    def total(self) -> float:
        """The sum of the points."""
        return sum(self.points.values())


@dataclass(frozen=True)
class Grader:
    """A prepared grader of one lab.

    Attributes
    ----------
    source
        The lab's source notebook.
    tool
        ``nbgrader`` or ``otter``.
    material
        nbgrader's gradebook or otter's autograder, as the sandbox gets it: name -> file.
    solution
        A submission with all solutions, in the form of this tool.
    cache
        Folder of compiled code.
    secret
        File with the secret of hidden checks, or None.
    limits
        The limits of each submission.
    sandboxed
        False: submissions run with the rights of this process.
    """

    source: Source
    tool: str
    material: dict[str, Path]
    solution: Path
    cache: Path
    secret: Path | None
    limits: Limits
    sandboxed: bool

    def run(self, submission: Path, student: str, warm: bool = False) -> Outcome:
        """Execute a submission.

        Parameters
        ----------
        submission
            The notebook.
        student
            Whose numbers it is measured with.
        warm
            True for the solution, whose compiled code is kept.

        Returns
        -------
        Outcome
            With the files of measurements and of messages.
        """
        files = {inside.SUBMISSION: submission, **self.material}
        environment = {STUDENT: student, MEASURED: "measured.jsonl"}
        if self.secret:
            files["secret"] = self.secret
            environment[SECRET] = "secret"
        # a path must hold in every folder into which a notebook changes
        here = "/submission/" if self.sandboxed else ""
        environment |= {k: here + environment[k] for k in (MEASURED, SECRET) if k in environment}
        words = [
            sys.executable, "-m", "wastedcores.course.inside", self.tool,
            assignment_name(self.source.lab), self.source.name, str(int(self.limits.wall_s * 2 / 3)),
        ]  # fmt: skip
        results = ("measured.jsonl", inside.REPORT)
        if not self.sandboxed:
            return unprotected(words, files, results, limits=self.limits, environment=environment)
        package = Path(answers.__file__).parent
        return isolated(
            words,
            files,
            results,
            limits=self.limits,
            environment=environment,
            hidden=(package, package.parents[1] / "_bundled/notebooks/course"),
            cache=self.cache,
            cache_written=warm,
        )

    def graded(self, submission: Path, student: str, digest: str = "", warm: bool = False) -> Row:
        """Execute and judge a submission.

        Parameters
        ----------
        submission, student
            As for :meth:`run`.
        digest
            For the row.
        warm
            As for :meth:`run`.

        Returns
        -------
        Row
            Its grades.
        """
        row = Row(student, digest)
        names = [name for name, task in self.source.tasks.items() if not isinstance(task, Manual)]
        try:
            named = notebook_student(submission)
        except (ValueError, KeyError, TypeError, AttributeError, OSError, RecursionError):
            row.points = dict.fromkeys(names, 0.0)
            row.feedback = dict.fromkeys(names, "The file is not a notebook.")
            row.note = "the file is not a notebook"
            return row
        outcome = self.run(submission, student, warm)
        row.seconds, row.cpu_s, row.memory = outcome.seconds, outcome.cpu_s, outcome.memory
        measured = _measurements(outcome)
        report = _report(outcome)
        for name in names:
            found = self._judged(name, student, measured, report, outcome)
            row.points[name], row.feedback[name] = found.points, found.message
            if found.hint:
                row.hints[name] = found.hint
        row.note = _printable("; ".join(self._notes(outcome, named, student, measured)))
        row.feedback = {name: _printable(text) for name, text in row.feedback.items()}
        return row

    def _judged(
        self,
        name: str,
        student: str,
        measured: dict[tuple[str, bool], Any],
        report: dict[str, str],
        outcome: Outcome,
    ) -> Feedback:
        """Judge one task; a task gives its points only if all its checks were run and are right."""
        task = Lab(self.source.lab, student).task(name)

        def failed(message: str) -> Feedback:
            return Feedback(name, False, 0, task.points, message)

        for hidden in (False, True) if task.hidden else (False,):
            found = measured.get((name, hidden))
            variations = _variations(self.source.lab, student, hidden, self.secret)
            if not isinstance(found, list) or len(found) != len(variations):
                why = outcome.reason and self._broken(outcome)
                if not why and name in report:
                    why = f"it stopped with {report[name][:500].rstrip('.')}"
                return failed(
                    f"the check was not run to its end{f', because {why}' if why else ''}."
                )
            for v, one in zip(variations, found, strict=True):
                with _JUDGING:
                    try:
                        feedback = judge(self.source.lab, name, v, one)
                    except (
                        Exception
                    ):  # measurements come from students' processes and may be anything
                        return failed("the answer has another shape than the task asks for.")
                if not feedback.passed:
                    return feedback
        return Feedback(name, True, task.points, task.points, "right.")

    def _broken(self, outcome: Outcome) -> str:
        return _REASONS[outcome.reason].format(
            wall_s=self.limits.wall_s, memory_mb=self.limits.memory >> 20
        )

    def _notes(
        self, outcome: Outcome, named: str, student: str, measured: dict[tuple[str, bool], Any]
    ) -> Iterator[str]:
        if outcome.reason:
            yield self._broken(outcome)
        elif not measured:
            last = outcome.log.strip().splitlines()[-1:] or ["no message"]
            yield f"no check was run ({last[0][:300]})"
        if outcome.tasks >= self.limits.tasks:
            yield f"it reached the limit of {self.limits.tasks} processes and threads"
        if named.strip().lower() not in ("", student.strip().lower()):
            yield f"the notebook names the student {named[:60]!r}; it was graded with the numbers of {student!r}"


def _printable(text: str) -> str:
    """Return a text without what would control a terminal; students' code writes parts of notes and feedback."""
    return "".join(c if c.isprintable() or c == "\n" else " " for c in text)


#: a judgement switches functions of the package off for a moment
_JUDGING = threading.Lock()


def _variations(lab: int, student: str, hidden: bool, secret: Path | None) -> list[Any]:
    """Return the numbers of the public or of the hidden check of a student, with the grader's secret."""
    from wastedcores.course.lab import HIDDEN
    from wastedcores.course.vary import variation

    if not hidden:
        return [variation(lab, student)]
    key = secret.read_bytes() if secret else b""
    return [variation(lab, name, key) for name in HIDDEN]


def _measurements(outcome: Outcome) -> dict[tuple[str, bool], Any]:
    """Return what was measured last for each task's public and hidden check."""
    text = outcome.files.get("measured.jsonl", b"")[:_LONGEST].decode(errors="replace")
    found = {}
    for line in text.splitlines():
        try:
            row = json.loads(line)
            found[str(row["task"]), row["hidden"] is True] = row["measured"]
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
    return found


def _report(outcome: Outcome) -> dict[str, str]:
    try:
        found = json.loads(outcome.files.get(inside.REPORT, b"{}"))
        return {str(k): str(v) for k, v in found.items()}
    except (ValueError, AttributeError, RecursionError):
        return {}


def notebook_student(path: Path) -> str:
    """Return the student's id in a notebook's parameters cell, or an empty text.

    Raises
    ------
    ValueError, KeyError, TypeError, AttributeError
        The file is not a notebook.
    """
    if path.stat().st_size > _LONGEST:
        raise ValueError("too big")
    content = json.loads(path.read_bytes())
    for cell in content["cells"]:
        if "parameters" in cell["metadata"].get("tags", ()):
            found = re.search(
                r'^student(?:: str)? *= *["\'](.*?)["\']', "".join(cell["source"]), re.MULTILINE
            )
            return found[1] if found else ""
    return ""


def submissions(folder: Path, source: Source) -> dict[str, Path]:
    """Find the submissions of a lab, as nbgrader collects them or as learning platforms hand them out.

    A student has a notebook with the student's name, or a folder with one notebook, or with several of which one has the lab's
    name.

    Parameters
    ----------
    folder
        The folder of the class.
    source
        The lab's source notebook.

    Returns
    -------
    dict
        Student -> notebook.

    Raises
    ------
    UsageError
        There is no submission, or it is not clear which notebook is meant.
    """
    # a link could lead to what another student handed in
    found = {p.stem: p for p in sorted(folder.glob("[!.]*.ipynb")) if not p.is_symlink()}
    for student in sorted(p for p in folder.iterdir() if p.is_dir() and not p.name.startswith(".")):
        candidates = [
            p
            for p in sorted(student.rglob("*.ipynb"))
            if ".ipynb_checkpoints" not in p.parts and not p.is_symlink()
        ]
        named = [p for p in candidates if p.stem == source.name] or candidates
        if len(named) > 1:
            raise UsageError(
                f"{student}: expected one notebook, or one with the name {source.name}.ipynb; got "
                f"{', '.join(str(p.relative_to(student)) for p in named)}."
            )
        if named:
            found[student.name] = named[0]
    if not found:
        raise UsageError(
            f"{folder}: there is no submission; expected notebooks with the names of students, or a folder for each student."
        )
    return found


def prepare(
    lab: int,
    work: Path,
    tool: str,
    cache: Path,
    secret: Path | None,
    limits: Limits,
    sandboxed: bool,
) -> Grader:
    """Make what a grader needs, and grade the solution, which must get all points; its code is compiled on the way.

    Parameters
    ----------
    lab
        Number of the lab.
    work
        An empty folder, which must stay while the grader is used.
    tool
        ``nbgrader`` or ``otter``.
    cache, secret, limits, sandboxed
        As in :class:`Grader`.

    Returns
    -------
    Grader
        The grader.

    Raises
    ------
    WastedCoresError
        The solution does not get all points here, so grades would not be right.
    """
    source = read_source(lab)
    if tool == "nbgrader":
        write_nbgrader([lab], work)
        material = {inside.GRADEBOOK: work / "gradebook.db"}
        solution = work / "source" / assignment_name(lab) / f"{source.name}.ipynb"
    else:
        (archive,) = write_otter([lab], work, run_tests=False)
        material = {inside.AUTOGRADER: archive}
        solution = archive.parent / f"{source.name}.ipynb"
    cache.mkdir(parents=True, exist_ok=True)
    grader = Grader(source, tool, material, solution, cache, secret, limits, sandboxed)
    patient = Grader(source, tool, material, solution, cache, secret, Limits(wall_s=600), sandboxed)
    row = patient.graded(solution, "the solution", warm=True)
    missing = [
        f"task {name}: {row.feedback[name]}" for name, points in row.points.items() if not points
    ]
    if missing:
        raise WastedCoresError(
            f"lab {lab}: the solution does not get all points on this machine, so no submission was graded. {row.note} "
            f"{' '.join(missing)}"
        )
    return grader


def grade(
    folder: Path,
    lab: int,
    rows: Path,
    *,
    tool: str = "nbgrader",
    secret: Path | None = None,
    limits: Limits = Limits(),
    jobs: int = 0,
    sandboxed: bool = True,
    quiet: bool = False,
) -> list[Row]:
    """Grade all submissions of a folder; what was graded before and has not changed is not graded again.

    Parameters
    ----------
    folder
        The submissions, see :func:`submissions`.
    lab
        Number of the lab.
    rows
        Folder of the results, one file per student.
    tool
        ``nbgrader`` or ``otter``.
    secret
        File with the secret of hidden checks.
    limits
        The limits of each submission.
    jobs
        Submissions at the same time; 0: one for each CPU.
    sandboxed
        False: run students' code with the rights of this process.
    quiet
        Show no progress bar.

    Returns
    -------
    list of Row
        The grades in the order of the students.

    Raises
    ------
    WastedCoresError
        There is nothing to grade, no sandbox, or the solution does not get all points.
    """
    from tqdm import tqdm

    source = read_source(lab)
    found = submissions(folder, source)
    rows.mkdir(parents=True, exist_ok=True)
    settings = repr((source, tool, secret and secret.read_bytes(), limits, sandboxed)).encode()
    digests = {who: sha256(settings + path.read_bytes()).hexdigest() for who, path in found.items()}
    done = {who: row for who in found if (row := _saved(rows / f"{who}.json", digests[who]))}
    todo = [who for who in found if who not in done]
    if todo:
        with tempfile.TemporaryDirectory() as work:
            grader = prepare(lab, Path(work), tool, rows / ".compiled", secret, limits, sandboxed)
            workers = jobs or len(os.sched_getaffinity(0))
            with ThreadPoolExecutor(workers) as pool:
                pending = [
                    pool.submit(grader.graded, found[who], who, digests[who]) for who in todo
                ]
                try:
                    bar = tqdm(
                        as_completed(pending), total=len(found), initial=len(done), desc=f"lab {lab}", unit="submission",
                        file=sys.stderr, disable=quiet,
                    )  # fmt: skip
                    for future in bar:
                        row = future.result()
                        _save(row, rows / f"{row.student}.json")
                        done[row.student] = row
                except BaseException:
                    pool.shutdown(wait=True, cancel_futures=True)
                    raise
    return [done[who] for who in sorted(done)]


def _save(row: Row, path: Path) -> None:
    with written_whole(path) as part:
        part.write_text(json.dumps(asdict(row), indent=1, ensure_ascii=False))


def _saved(path: Path, digest: str) -> Row | None:
    try:
        row = Row(**json.loads(path.read_text()))
    except (OSError, ValueError, TypeError):
        return None
    return row if row.digest == digest else None
