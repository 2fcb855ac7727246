"""Runs one submission with nbgrader or otter-grader. This is the command that ``grader.py`` starts in the sandbox.

Checks only measure here, because the answers are not in the sandbox. Their measurements go to the file that an environment
variable names. The file ``report.json`` that this command writes is only used for messages, because students' code could have
changed it.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

#: names in the sandbox's folder
SUBMISSION, GRADEBOOK, AUTOGRADER = "submission", "gradebook.db", "autograder.zip"
REPORT = "report.json"
#: key in a report: why the whole run stopped; no task has this name
STOPPED = "stopped"
_STUDENT = "student"


def run_nbgrader(assignment: str, name: str, cell_s: int) -> dict[str, str]:
    """Let nbgrader restore the locked cells of a submission and execute it."""
    from nbgrader.apps import NbGraderAPI
    from traitlets.config import Config

    folder = Path("submitted", _STUDENT, assignment)
    folder.mkdir(parents=True)
    shutil.copy(SUBMISSION, folder / f"{name}.ipynb")
    config = Config()
    config.CourseDirectory.course_id = "wastedcores"
    config.CourseDirectory.root = os.getcwd()
    config.Execute.timeout = cell_s
    api = NbGraderAPI(config=config)
    outcome = api.autograde(assignment, _STUDENT)
    graded = Path("autograded", _STUDENT, assignment, f"{name}.ipynb")
    found = _errors(json.loads(graded.read_text())) if graded.exists() else {}
    if not outcome["success"]:
        print(outcome["log"], outcome["error"])
        if "CellTimeoutError" in f"{outcome['log']} {outcome['error']}":
            found[STOPPED] = f"one of its cells ran longer than {cell_s} s"
    return found


def _errors(content: dict[str, Any]) -> dict[str, str]:
    found = {}
    for cell in content["cells"]:
        about = cell["metadata"].get("nbgrader", {})
        if about.get("grade") and about["grade_id"].endswith("-check"):
            for output in cell.get("outputs", ()):
                if output["output_type"] == "error":
                    task = about["grade_id"].removeprefix("task-").removesuffix("-check")
                    found[task] = f"{output['ename']}: {output['evalue']}"
    return found


def run_otter(name: str) -> dict[str, str]:
    """Let otter-grader execute a submission with the tests of its zip; the result is as in :func:`run_nbgrader`."""
    from otter.run import main as otter_run

    shutil.copy(SUBMISSION, f"{name}.ipynb")
    results = otter_run(f"{name}.ipynb", autograder=AUTOGRADER, output_dir=".", no_logo=True)
    found = {}
    for question, result in results.results.items():
        failed = [r.message for r in result.test_case_results if not r.passed]
        if failed:
            found[question.removeprefix("task")] = failed[0].strip().splitlines()[-1]
    return found


def main() -> None:
    """Run the grader that the first argument names."""
    grader, assignment, name, cell_s = sys.argv[1:]
    found = run_nbgrader(assignment, name, int(cell_s)) if grader == "nbgrader" else run_otter(name)
    Path(REPORT).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
