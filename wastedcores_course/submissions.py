"""Finds the notebooks that a class handed in, and the students whose names they carry."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from wastedcores.errors import UsageError
from wastedcores_course.lab import LABS, source_of
from wastedcores_course.source import Source

#: the longest notebook that is read
_LONGEST = 16 << 20


def notebook_student(path: Path) -> str:
    """Return the student's id in a notebook's parameters cell, or an empty text."""
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


def _is_handed_in(path: Path, folder: Path) -> bool:
    """Tell whether a path is a student's own file.

    It must not be a folder, a hidden copy that a program made (such as ``.ipynb_checkpoints`` or ``._lab.ipynb`` of macOS), or a
    link, because a link could lead to another student's submission.
    """
    hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
    return path.is_file() and not path.is_symlink() and not hidden


def submissions(folder: Path, source: Source) -> dict[str, Path]:
    """Find the submissions of a lab, as nbgrader collects them or as learning platforms hand them out.

    Each student has a notebook with the student's name, or a folder with this name. The folder has one notebook, or several of
    which one has the lab's name. A notebook with the name of another lab is not a submission. Folders without a submission are
    named on standard error.
    """
    elsewhere = {source_of(lab).stem for lab in LABS} - {source.name}
    found = {p.stem: p for p in sorted(folder.glob("*.ipynb")) if _is_handed_in(p, folder)}
    for student in sorted(p for p in folder.iterdir() if p.is_dir() and not p.name.startswith(".")):
        candidates = [p for p in sorted(student.rglob("*.ipynb")) if _is_handed_in(p, student)]
        named = [p for p in candidates if p.stem == source.name]
        named = named or [p for p in candidates if p.stem not in elsewhere]
        if len(named) > 1:
            raise UsageError(
                f"{student}: expected one notebook, or one with the name {source.name}.ipynb; got "
                f"{', '.join(str(p.relative_to(student)) for p in named)}."
            )
        if not named and student.name not in found:
            others = ", ".join(str(p.relative_to(student)) for p in candidates)
            what = f"notebooks of other labs only ({others})" if candidates else "no notebook"
            print(
                f"{student.name}: handed in {what}, so there is no grade for lab {source.lab}.",
                file=sys.stderr,
            )
        if named and student.name in found:
            raise UsageError(
                f"{folder}: the student {student.name} handed in two notebooks; expected one, got {student.name}.ipynb and "
                f"{named[0].relative_to(folder)}. Move one of them away."
            )
        if named:
            found[student.name] = named[0]
    if not found:
        raise UsageError(
            f"{folder}: there is no submission; expected notebooks with the names of students, or a folder for each student."
        )
    return found
