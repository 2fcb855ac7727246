"""Executes one submission in a sandbox, where its answers are measured; this process then judges the measurements.

So a student's code decides only about its own answers: it can neither read the right answers nor change what counts as right.
"""

from __future__ import annotations

import builtins
import json
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import wastedcores
from wastedcores_course import answers, inside
from wastedcores_course.lab import (
    HIDDEN,
    MEASURED,
    STUDENT,
    VARIATIONS,
    judge,
    module_of,
    variation,
    write_variations,
)
from wastedcores_course.nbgrader_tree import assignment_name
from wastedcores_course.sandbox import Limits, Outcome, isolated, unprotected
from wastedcores_course.source import Source
from wastedcores_course.submissions import notebook_student
from wastedcores_course.summary import Row
from wastedcores_course.task import Feedback, Manual, Task

#: a submission's file of measurements is read if it has at most this many bytes
_LONGEST = 16 << 20
_REASONS = {
    "time": "it ran longer than the limit of {wall_s:g} s",
    "memory": "it used more than the limit of {memory_mb} MB",
    "lost": "its sandbox ended without a result",
}


@dataclass(frozen=True)
class Grader:
    """A prepared grader of one lab."""

    source: Source  #: the lab's source notebook
    tool: str  #: ``nbgrader`` or ``otter``
    #: what the sandbox gets of the tool, nbgrader's gradebook or otter's autograder: name in the sandbox -> file
    material: dict[str, Path]
    solution: Path  #: a submission with all solutions, in the form of this tool
    cache: Path  #: folder of compiled code
    secret: bytes  #: the secret of hidden checks. It never enters a sandbox.
    limits: Limits  #: the limits of each submission
    sandboxed: bool  #: False: submissions run with the rights of this process

    def run(
        self, submission: Path, student: str, warm: bool = False, drawn: list[Any] | None = None
    ) -> Outcome:
        """Execute a submission with the variations drawn for its student."""
        drawn = drawn or self.variations(submission, student)
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            file.write(write_variations(self.source.lab, drawn))
            file.flush()
            return self._run(submission, student, Path(file.name), warm)

    def variations(self, submission: Path, student: str) -> list[Any]:
        """Draw the student's own numbers and, for hidden checks, numbers that no other submission has."""
        content = sha256(submission.read_bytes()).hexdigest()
        with _JUDGING:
            hidden = [
                variation(self.source.lab, f"{name} {student} {content}", self.secret)
                for name in HIDDEN
            ]
            return [variation(self.source.lab, student), *hidden]

    def _run(self, submission: Path, student: str, drawn: Path, warm: bool) -> Outcome:
        # an absolute path, because a notebook may change its working directory
        here = "/submission/" if self.sandboxed else ""
        files = {inside.SUBMISSION: submission, "variations.json": drawn, **self.material}
        environment = {STUDENT: student, MEASURED: f"{here}measured.jsonl"}
        environment[VARIATIONS] = f"{here}variations.json"
        words = [
            sys.executable, "-m", "wastedcores_course.inside", self.tool,
            assignment_name(self.source.lab), self.source.name, str(int(self.limits.wall_s * 2 / 3)),
        ]  # fmt: skip
        results = ("measured.jsonl", inside.REPORT)
        if not self.sandboxed:
            return unprotected(words, files, results, limits=self.limits, environment=environment)
        answers_folder = Path(answers.__file__).parent
        bundled = Path(wastedcores.__file__).parent / "_bundled"
        return isolated(
            words,
            files,
            results,
            limits=self.limits,
            environment=environment,
            hidden=(answers_folder, bundled / "notebooks/course"),
            cache=self.cache,
            cache_written=warm,
        )

    def graded(self, submission: Path, student: str, digest: str = "", warm: bool = False) -> Row:
        """Execute and judge a submission."""
        row = Row(student, digest)
        names = [name for name, task in self.source.tasks.items() if not isinstance(task, Manual)]
        try:
            named = notebook_student(submission)
        except (ValueError, KeyError, TypeError, AttributeError, OSError, RecursionError):
            row.points = dict.fromkeys(names, 0.0)
            row.feedback = dict.fromkeys(names, "The file is not a notebook.")
            row.note = "the file is not a notebook"
            return row
        drawn = self.variations(submission, student)
        outcome = self.run(submission, student, warm, drawn)
        row.seconds, row.cpu_s, row.memory = outcome.seconds, outcome.cpu_s, outcome.memory
        measured = _measurements(outcome)
        report = _report(outcome)
        own, *hidden = drawn
        for name in names:
            with _JUDGING:
                found = self._judged(name, [own], hidden, measured, report, outcome)
            row.points[name], row.feedback[name] = found.points, found.message
            if found.hint:
                row.hints[name] = found.hint
        row.timed_out = outcome.reason == "time" or inside.STOPPED in report
        row.note = _printable("; ".join(self._notes(outcome, named, student, measured, report)))
        row.feedback = {name: _printable(text) for name, text in row.feedback.items()}
        return row

    def _judged(
        self,
        name: str,
        own: list[Any],
        hidden: list[Any],
        measured: dict[tuple[str, bool], Any],
        report: dict[str, str],
        outcome: Outcome,
    ) -> Feedback:
        """Judge one task, which gives its points only if all its checks were run and found the answer right."""
        task = next(
            t for t in module_of(self.source.lab).TASKS if t.name == name and isinstance(t, Task)
        )

        def failed(message: str) -> Feedback:
            return Feedback(name, False, 0, task.points, message)

        for is_hidden in (False, True) if task.hidden else (False,):
            found = measured.get((name, is_hidden))
            variations = hidden if is_hidden else own
            if not isinstance(found, list) or len(found) != len(variations):
                why = self._broken(outcome, report)
                if not why and name in report:
                    why = f"it stopped with {_kind_of(report[name])}"
                return failed(
                    f"the check was not run to its end{f', because {why}' if why else ''}."
                )
            for v, one in zip(variations, found, strict=True):
                try:
                    feedback = judge(self.source.lab, name, v, one, is_hidden, quoted=False)
                except Exception:  # measurements come from students' processes and may be anything
                    return failed("the answer has another shape than the task asks for.")
                if not feedback.passed:
                    return feedback
        return Feedback(name, True, task.points, task.points, "right.")

    def _broken(self, outcome: Outcome, report: dict[str, str]) -> str:
        """Return why the submission was not run to its end, or an empty text."""
        if not outcome.reason:
            return report.get(inside.STOPPED, "")[:500]
        return _REASONS[outcome.reason].format(
            wall_s=self.limits.wall_s, memory_mb=self.limits.memory >> 20
        )

    def _notes(
        self,
        outcome: Outcome,
        named: str,
        student: str,
        measured: dict[tuple[str, bool], Any],
        report: dict[str, str],
    ) -> Iterator[str]:
        if broken := self._broken(outcome, report):
            yield broken
        elif not measured:
            last = outcome.log.strip().splitlines()[-1:] or ["no message"]
            yield f"no check was run ({last[0][:300]})"
        if outcome.tasks >= self.limits.tasks:
            yield f"it reached the limit of {self.limits.tasks} processes and threads"
        if named.strip().lower() not in ("", student.strip().lower()):
            yield f"the notebook names the student {named[:60]!r}; it was graded with the numbers of {student!r}"


def _kind_of(text: str) -> str:
    """Return the name of an exception if Python defines it; the rest of the text may contain anything, so it is left out."""
    name = text.partition(":")[0]
    known = isinstance(getattr(builtins, name, None), type)
    return name if known else "an exception"


def _printable(text: str) -> str:
    """Return a text without characters that control a terminal, because students' code writes parts of notes and feedback."""
    return "".join(c if c.isprintable() or c == "\n" else " " for c in text)


#: while an answer is judged, some functions of the package are disabled; drawing numbers may need these functions, so it has to
#: wait
_JUDGING = threading.Lock()


def _measurements(outcome: Outcome) -> dict[tuple[str, bool], Any]:
    """Return the last measurement of each task's public and hidden check; the grader's own checks take precedence."""
    text = outcome.files.get("measured.jsonl", b"")[:_LONGEST].decode(errors="replace")
    others: dict[tuple[str, bool], Any] = {}
    counting: dict[tuple[str, bool], Any] = {}
    for line in text.splitlines():
        try:
            row = json.loads(line)
            found = counting if row.get("counts") is True else others
            found[str(row["task"]), row["hidden"] is True] = row["measured"]
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            continue
    return others | counting


def _report(outcome: Outcome) -> dict[str, str]:
    try:
        found = json.loads(outcome.files.get(inside.REPORT, b"{}"))
        return {str(k): str(v) for k, v in found.items()}
    except (ValueError, AttributeError, RecursionError):
        return {}
