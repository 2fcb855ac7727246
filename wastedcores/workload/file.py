"""Workloads as JSON files, which can be read, edited and replayed: schema ``wastedcores.workload/1``.

A task is an object; its ``script`` is a list of operations, each a list of a name and its numbers, such as
``["compute", 1000000, 1000000]``. docs/replay-semantics.md, section 2, explains the operations and their fields a to d. If the
last fields of an operation are 0, they are left out.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from wastedcores.cpulist import format_cpulist, parse_cpulist
from wastedcores.errors import WastedCoresError, WorkloadError
from wastedcores.files import written_whole
from wastedcores.workload import ops
from wastedcores.workload.builder import MOST_SPECS, Measure, Workload
from wastedcores.workload.program import whole
from wastedcores.workload.rows import NAMES, check_row
from wastedcores.workload.script import Script

SCHEMA = "wastedcores.workload/1"
_CODES = {name: code for code, name in NAMES.items()}
#: the fields of a task other than its name and script, with their defaults
_FIELDS = {"session": 0, "nice": 0, "allowed": None, "cpu": 0, "start_ns": 0, "daemon": False}
_TEMPLATE = {"comm", "script", "allowed", "daemon"}
_WORKLOAD = {
    "schema", "name", "measure", "counted_nodes", "random_phase", "notes", "sessions", "barriers", "locks", "semaphores",
    "hotplug", "templates", "tasks",
}  # fmt: skip


def write_workload(workload: Workload, path: Path | str) -> None:
    """Write a workload."""
    try:
        with written_whole(Path(path)) as part:
            part.write_text(json.dumps(to_dict(workload), separators=(",", ":")) + "\n")
    except OSError as e:
        raise WastedCoresError(
            f"{path}: cannot write there ({e.strerror}). -o chooses another place."
        ) from e


def read_workload(path: Path | str) -> Workload:
    """Read a workload."""
    try:
        found = json.loads(Path(path).read_bytes())
        return from_dict(found)
    except OSError as e:
        raise WorkloadError(f"{path}: cannot be read ({e.strerror}).") from e
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as e:
        raise WorkloadError(
            f"{path}: not a workload of the schema {SCHEMA!r}; expected what `wastedcores recover` writes, got "
            f"{type(e).__name__}: {e}."
        ) from e


def is_workload(path: Path | str) -> bool:
    """Tell whether a JSON file declares itself to be a workload."""
    try:
        return SCHEMA.encode() in Path(path).read_bytes()
    except OSError:
        return False


def to_dict(workload: Workload) -> dict[str, Any]:
    """Return a workload as plain values."""
    m = workload.measure
    return {
        "schema": SCHEMA,
        "name": workload.name,
        "measure": m and {"name": m.name, "start": m.start, "end": m.end, "of": m.of, "unit_ns": m.unit_ns},
        "counted_nodes": workload.counted_nodes and list(workload.counted_nodes),
        "random_phase": workload.random_phase,
        "notes": list(workload.notes),
        "sessions": workload._sessions,
        "barriers": workload._barriers,
        "locks": workload._locks,
        "semaphores": workload._semaphores,
        "hotplug": [list(step) for step in sorted(workload._hotplug)],
        "templates": [_task(t) for t in workload._templates],
        "tasks": [_task(t) for t in workload._tasks],
    }  # fmt: skip


def _task(task: Any) -> dict[str, Any]:
    out: dict[str, Any] = {"comm": task.comm}
    for name, default in _FIELDS.items():
        value = getattr(task, name)
        if value != default:
            out[name] = format_cpulist(value) if name == "allowed" else value
    out["script"] = [_row(row) for row in task.script.finished()[:-1]]
    return out


def _row(row: tuple[Any, ...]) -> list[Any]:
    op, *fields = row
    if op == ops.OP_AFFINITY:
        fields[0] = format_cpulist(fields[0])
    while fields and fields[-1] == 0 and not isinstance(fields[-1], str):
        fields.pop()
    return [NAMES[op], *fields]


def from_dict(found: dict[str, Any]) -> Workload:
    """Return the workload that :func:`to_dict` described."""
    if found["schema"] != SCHEMA:
        raise ValueError(f"the schema {found['schema']!r}")
    name, templates = found["name"], found.get("templates", ())
    if not isinstance(name, str):
        raise ValueError(f"the name {name!r}")
    _known("the workload", found, _WORKLOAD)
    for t in templates:
        _known(f"template {t['comm']!r}", t, _TEMPLATE)
    for t in found["tasks"]:
        _known(f"task {t['comm']!r}", t, {*_TEMPLATE, *_FIELDS})
    w = Workload(
        name,
        Measure(**found["measure"]) if found.get("measure") else None,
        tuple(whole(n, "counted node", 0) for n in found.get("counted_nodes") or ()) or None,
        random_phase=bool(found.get("random_phase", True)),
        notes=tuple(found.get("notes", ())),
    )
    for shares in found.get("sessions", [1024])[1:]:
        w.session(shares)
    for parties in found.get("barriers", ()):
        w.barrier(parties)
    locks = whole(found.get("locks", 0), "number of locks", 0)
    if locks > MOST_SPECS:
        raise WorkloadError(f"{locks} locks; a workload in a file has at most {MOST_SPECS}.")
    for _ in range(locks):
        w.lock()
    for value in found.get("semaphores", ()):
        w.semaphore(value)
    for time_ns, cpu, online in found.get("hotplug", ()):
        w.hotplug(time_ns, cpu, online)
    for t in templates:
        w.template(t["comm"], _script(t), _cpus(t), bool(t.get("daemon")))
    for t in found["tasks"]:
        given = {k: t.get(k, v) for k, v in _FIELDS.items() if k != "allowed"}
        given["daemon"] = bool(given["daemon"])
        w.task(t["comm"], _script(t), allowed=_cpus(t), **given)
    return w


def _known(where: str, found: dict[str, Any], names: set[str]) -> None:
    """Refuse a field that would have no effect."""
    if unknown := sorted(found.keys() - names):
        raise ValueError(
            f"the field {unknown[0]!r} of {where}; there are {', '.join(sorted(names))}"
        )


def _cpus(task: dict[str, Any]) -> frozenset[int] | None:
    return None if task.get("allowed") is None else frozenset(parse_cpulist(task["allowed"]))


def _script(task: dict[str, Any]) -> Script:
    script = Script()
    for name, *fields in task["script"]:
        if name not in _CODES:
            raise ValueError(f"the operation {name!r} of task {task['comm']!r}")
        row = [*fields, 0, 0, 0, 0][:4]
        if name == "affinity":
            row[0] = frozenset(parse_cpulist(row[0]))
        checked = (_CODES[name], *row)
        check_row(task["comm"], checked, len(script.rows))
        script.rows.append(checked)
    return script
