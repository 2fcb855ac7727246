"""Right solutions get all points, however they are written."""

from __future__ import annotations

import nbformat
import pytest
from support.honest import KINDS

from wastedcores_course import LABS, Manual
from wastedcores_course.lab import module_of, source_of


@pytest.mark.slow
@pytest.mark.parametrize("student", ["ada", "s7654321"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lab", LABS)
def test_a_right_solution_passes_all_checks(lab, kind, student, capsys):
    """The cells of the source notebook are executed with other answers; a check that is not passed raises an exception."""
    answers = KINDS[kind][lab]
    assert set(answers) == {t.name for t in module_of(lab).TASKS if not isinstance(t, Manual)}
    names: dict[str, object] = {"__name__": "__main__"}
    for cell in nbformat.read(source_of(lab), as_version=4).cells:
        tags = cell.metadata.get("tags", [])
        if cell.cell_type != "code":
            continue
        text = f"student = {student!r}" if "parameters" in tags else cell.source
        if "solution" in tags:
            text = answers[cell.metadata.task]
        exec(compile(text, f"lab {lab}, {kind}", "exec"), names)
