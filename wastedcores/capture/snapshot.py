"""Snapshots of this machine: all tasks, and the facts that decide whether a waiting thread could have run elsewhere.

A trace made by another tool does not tell these facts, and without them nobody knows whether a waiting thread could have run
on an idle CPU. Everything comes from ``/proc`` and ``/sys``, so no rights are needed; a few facts are shown to root only.
"""

from __future__ import annotations

import json
import platform
import time
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from wastedcores.capture.system import system_facts, this_machine
from wastedcores.capture.tasks import core_scheduling, tasks
from wastedcores.cpulist import parse_cpulist
from wastedcores.errors import CollectorError, TraceFormatError, UsageError, WastedCoresError
from wastedcores.files import written_whole
from wastedcores.trace.header import CpusetFacts, SchedDomainFacts, TaskFacts
from wastedcores.trace.pseudonyms import Pseudonyms

SCHEMA: Final = "wastedcores.tasks/1"
#: facts of a task that can change while it lives
_CHANGING = (
    "allowed",
    "policy",
    "nice",
    "rt_prio",
    "cgroup",
    "cpuset",
    "autogroup",
    "core_cookie",
)


class Snapshot(BaseModel):
    """The object that ``wastedcores snapshot`` writes."""

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)

    schema_: Literal["wastedcores.tasks/1"] = Field(SCHEMA, alias="schema")
    #: release, host name, and topology as ``Machine.to_dict()`` gives it
    kernel: str
    host: str | None = None
    machine: dict[str, Any] | None = None
    #: when it was taken: since boot, and since 1970
    boottime_ns: int
    unix_ns: int
    #: all tasks; None: this process could not see them (it was in a container)
    tasks: list[TaskFacts] | None = None
    #: True: somebody knows that no task got another affinity while the trace was recorded, except by a fork
    follows_affinity: bool | None = None
    #: True: somebody knows that a CPU without any event ran nothing, because the trace began before the work did
    silent_is_idle: bool | None = None
    #: as in :class:`wastedcores.trace.header.Header`
    quotas: dict[str, int] | None = None
    boot_id: str | None = None
    boot_parameters: str | None = None
    isolated_cpus: list[int] | None = None
    nohz_full_cpus: list[int] | None = None
    cpusets: list[CpusetFacts] | None = None
    sched_domains: list[SchedDomainFacts] | None = None
    sched_features: list[str] | None = None
    core_scheduling: bool | None = None


#: the fields of a snapshot that are fields of a trace's header, too
SYSTEM = (
    "quotas",
    "boot_id",
    "boot_parameters",
    "isolated_cpus",
    "nohz_full_cpus",
    "cpusets",
    "sched_domains",
    "sched_features",
    "core_scheduling",
)


def take() -> Snapshot:
    """Take a snapshot of this machine now; it has no tasks in a container, where they have other numbers."""
    found = tasks()
    return Snapshot(
        kernel=platform.release(),
        host=platform.node() or None,
        machine=this_machine(),
        boottime_ns=time.clock_gettime_ns(time.CLOCK_BOOTTIME),
        unix_ns=time.time_ns(),
        tasks=found,
        core_scheduling=core_scheduling(found),
        **system_facts(),
    )


def take_with_tasks() -> Snapshot:
    """Take a snapshot of this machine now."""
    taken = take()
    if taken.tasks is None:
        raise CollectorError(
            "this process is in a pid namespace (a container), so it does not see the tasks of the machine under the numbers "
            "that a trace has. Take the snapshot on the host."
        )
    return taken


def write_snapshot(output: str | Path, pseudonyms: Path | None = None) -> int:
    """Take a snapshot and write it as JSON; its names are pseudonyms if there is a file with a key for them."""
    names = None if pseudonyms is None else Pseudonyms.of_file(pseudonyms)
    taken = take_with_tasks()
    if names:
        taken = names.facts(taken)
    try:
        with written_whole(Path(output)) as part:
            part.write_text(taken.model_dump_json(by_alias=True, exclude_none=True) + "\n")
    except OSError as e:
        raise WastedCoresError(
            f"{output}: cannot write there ({e.strerror}). -o chooses another place."
        ) from e
    return len(taken.tasks or ())


def read_snapshot(source: str | Path) -> Snapshot:
    """Read a snapshot; ``live`` takes one now."""
    if str(source) == "live":
        return take_with_tasks()
    try:
        data = json.loads(Path(source).read_bytes())
    except OSError as e:
        raise WastedCoresError(f"{source}: cannot be read ({e.strerror}).") from e
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        raise TraceFormatError(
            f"{source}: not a snapshot of tasks; expected JSON with the schema {SCHEMA!r}. Make one: wastedcores snapshot -o "
            f"{source}"
        )
    try:
        found = Snapshot.model_validate(data)
        for allowed in {t.allowed for t in found.tasks or () if t.allowed is not None}:
            parse_cpulist(allowed)
    except ValidationError as e:
        wrong = e.errors()[0]
        where = ".".join(str(part) for part in wrong["loc"])
        raise TraceFormatError(
            f"{source}: a damaged snapshot: {where}: {wrong['msg']}. Take it again: wastedcores snapshot -o {source}"
        ) from e
    except UsageError as e:
        raise TraceFormatError(f"{source}: a damaged snapshot: {e}") from e
    return found


def header_facts(first: Snapshot, last: Snapshot | None = None) -> dict[str, Any]:
    """Return what snapshots tell a trace's header."""
    facts: dict[str, Any] = {name: getattr(first, name) for name in SYSTEM}
    facts["host"] = first.host
    for name in ("follows_affinity", "silent_is_idle"):
        if getattr(first, name) is not None:
            facts[name] = getattr(first, name)
    facts["tasks"] = first.tasks
    if last is None:
        return facts
    facts["changed"] = [n for n in SYSTEM if getattr(last, n) != getattr(first, n)]
    if first.tasks is not None and last.tasks is not None:
        ended = {(t.pid, t.start_ticks): t for t in last.tasks}
        began = {(t.pid, t.start_ticks) for t in first.tasks}
        facts["tasks"] = [_compared(t, ended.get((t.pid, t.start_ticks))) for t in first.tasks]
        facts["later_tasks"] = [t for key, t in ended.items() if key not in began]
    return facts


def _compared(first: TaskFacts, last: TaskFacts | None) -> TaskFacts:
    """Return a task with the names of the facts that were different at the end; a task that ended kept its facts."""
    changed = tuple(n for n in _CHANGING if last and getattr(last, n) != getattr(first, n))
    return first.model_copy(update={"changed": changed}) if changed else first
