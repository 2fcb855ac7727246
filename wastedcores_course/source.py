"""Reads the source notebook of a lab, which has the solutions and from which all other copies of the lab are made."""

from __future__ import annotations

import ast
import builtins
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wastedcores.errors import UsageError
from wastedcores_course.lab import module_of, source_of
from wastedcores_course.task import Manual, Task

#: tags that say what a cell is for; a cell without one of them is text or code for everybody
ROLES = ("solution", "check", "hidden", "instructor", "parameters")
#: the line of a solution below which students write
MARK = "# your answer"
_MANUAL_PROMPT = "*Your answer:*"


@dataclass(frozen=True)
class Cell:
    """A cell of a source notebook."""

    id: str  #: its id in the notebook, which is the same in all copies
    kind: str  #: ``code`` or ``markdown``
    role: str  #: one of :data:`ROLES`, or an empty text
    task: str  #: name of the task that it belongs to, or an empty text
    text: str


@dataclass(frozen=True)
class Source:
    """A source notebook."""

    lab: int
    name: str  #: the notebook's file name without its ending
    cells: tuple[Cell, ...]
    tasks: dict[str, Task | Manual]
    metadata: dict[str, Any]  #: the notebook's own metadata

    def hidden(self, task: str) -> Cell | None:
        """Return the hidden check of a task, if it has one."""
        return next((c for c in self.cells if c.task == task and c.role == "hidden"), None)


def read_source(lab: int) -> Source:
    """Read the source notebook of a lab."""
    path = source_of(lab)
    content = json.loads(path.read_text())
    cells = tuple(_cell(c, path) for c in content["cells"])
    tasks = {t.name: t for t in module_of(lab).TASKS}
    source = Source(lab, path.stem, cells, tasks, content["metadata"])
    _validate(source, path)
    return source


def _cell(cell: dict[str, Any], path: Path) -> Cell:
    text = cell["source"] if isinstance(cell["source"], str) else "".join(cell["source"])
    roles = [tag for tag in cell["metadata"].get("tags", []) if tag in ROLES]
    if len(roles) > 1:
        raise UsageError(
            f"{path.name}, cell {cell['id']}: expected one of its tags {', '.join(roles)}."
        )
    role = roles[0] if roles else ""
    return Cell(cell["id"], cell["cell_type"], role, cell["metadata"].get("task", ""), text)


def _validate(source: Source, path: Path) -> None:
    """Refuse a notebook from which no gradable form can be made."""

    def refuse(cell: Cell, why: str) -> None:
        raise UsageError(f"{path.name}, cell {cell.id}: {why}")

    seen: list[tuple[str, str]] = []
    for cell in source.cells:
        if cell.role in ("solution", "check", "hidden"):
            if cell.task not in source.tasks:
                refuse(
                    cell,
                    f"task {cell.task!r} is not one of the lab's tasks, {', '.join(source.tasks)}.",
                )
            if (cell.task, cell.role) in seen:
                refuse(cell, f"task {cell.task} has a second cell with the tag {cell.role}.")
            if cell.role != "solution" and (cell.task, "solution") not in seen:
                refuse(
                    cell, f"the solution of task {cell.task} must come before its {cell.role} cell."
                )
            if cell.role == "solution" and cell.kind == "code" and MARK not in cell.text:
                refuse(cell, f"expected a line `{MARK}`, below which students write.")
            seen.append((cell.task, cell.role))
        elif cell.task:
            refuse(
                cell, f"it names task {cell.task}, so it needs the tag solution, check or hidden."
            )
    for name, task in source.tasks.items():
        wanted = {"solution"} if isinstance(task, Manual) else {"solution", "check"}
        wanted |= {"hidden"} if getattr(task, "hidden", False) else set()
        found = {role for n, role in seen if n == name}
        if found != wanted:
            expected = ", ".join(sorted(wanted))
            raise UsageError(
                f"{path.name}: task {name} has cells with the tags {', '.join(sorted(found)) or 'none'}; expected {expected}."
            )


def stub(source: Source, cell: Cell) -> str:
    """Return what a student gets instead of a solution.

    The first line of a function or a class stays, and its body only names the task. A value becomes ``...``, which a check treats
    as a missing answer.
    """
    if cell.kind == "markdown":
        return _MANUAL_PROMPT
    head, _, body = cell.text.partition(MARK)
    return f"{head}{MARK}\n{stub_body(source, cell, body)}"


def stub_body(source: Source, cell: Cell, body: str) -> str:
    """Return the text below the mark in a student's cell."""
    indent = re.search(r"^( *)\S", body, re.MULTILINE)
    spaces = indent[1] if indent else ""
    if spaces:
        what = f"task {cell.task}: {source.tasks[cell.task].title}"
        return f"{spaces}raise NotImplementedError({json.dumps(what, ensure_ascii=False)})"
    check = next(c for c in source.cells if c.task == cell.task and c.role == "check")
    wanted = names_read(check.text) & _names_assigned(body)
    return "\n".join(f"{name} = ..." for name in sorted(wanted, key=body.index))


def names_read(text: str) -> set[str]:
    """Return the names that code uses but does not define."""
    nodes = list(ast.walk(ast.parse(text)))
    names = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    return names - _names_assigned(text) - set(dir(builtins))


def _names_assigned(text: str) -> set[str]:
    nodes = ast.walk(ast.parse(text))
    return {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
