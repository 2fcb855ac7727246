"""Snapshots of this machine: all tasks, and the facts that decide whether a waiting thread could have run elsewhere.

A trace made by another tool does not tell these facts, and without them nobody knows whether a waiting thread could have run
on an idle CPU. Everything comes from ``/proc`` and ``/sys``, so no rights are needed; a few facts are shown to root only.
"""

from __future__ import annotations

import json
import platform
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from wastedcores.capture.system import (
    core_scheduling,
    cpu_counts,
    system_facts,
    tasks,
    this_machine,
)
from wastedcores.cpulist import parse_cpulist
from wastedcores.errors import CollectorError, TraceFormatError, UsageError, WastedCoresError
from wastedcores.files import written_whole
from wastedcores.trace.header import CpuCounts, CpusetFacts, SchedDomainFacts, TaskFacts
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
    #: None: the kernel does not count
    cpu_counts: dict[int, CpuCounts] | None = None
    #: what was true when the recorded command had ended; None: nobody looked again
    last: Snapshot | None = None


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
        cpu_counts=cpu_counts(),
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


def write_snapshot(
    output: str | Path, pseudonyms: Path | None = None, run: Sequence[str] | None = None
) -> tuple[int, int]:
    """Write a snapshot as JSON, and return its number of tasks and the exit code of the command.

    With a command there are two, one from before it runs and one from after. Names are pseudonyms if there is a file with a key.
    """
    names = None if pseudonyms is None else Pseudonyms.of_file(pseudonyms)
    taken, code = take_with_tasks(), 0
    if run:
        try:
            code = subprocess.run(list(run), check=False).returncode
        except OSError as e:
            raise UsageError(f"cannot run {run[0]!r}: {e.strerror}.") from e
        taken = taken.model_copy(update={"last": take_with_tasks()})
    if names:
        taken = names.facts(taken)
        if taken.last:
            taken = taken.model_copy(update={"last": names.facts(taken.last)})
    try:
        with written_whole(Path(output)) as part:
            part.write_text(taken.model_dump_json(by_alias=True, exclude_none=True) + "\n")
    except OSError as e:
        raise WastedCoresError(
            f"{output}: cannot write there ({e.strerror}). -o chooses another place."
        ) from e
    return len(taken.tasks or ()), code


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
        for allowed in {t.allowed for t in _all(found) if t.allowed is not None}:
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


def _all(taken: Snapshot) -> list[TaskFacts]:
    """All tasks of a snapshot and of the one after it; a task that is in both is twice."""
    return (taken.tasks or []) + ((taken.last.tasks if taken.last else None) or [])


def header_facts(first: Snapshot, last: Snapshot | None = None) -> dict[str, Any]:
    """Return what snapshots tell a trace's header."""
    last = last or first.last
    facts: dict[str, Any] = {name: getattr(first, name) for name in SYSTEM}
    facts["host"] = first.host
    for name in ("follows_affinity", "silent_is_idle"):
        if getattr(first, name) is not None:
            facts[name] = getattr(first, name)
    facts["tasks"] = first.tasks
    if last is None:
        return facts
    facts["unswitched"] = _unswitched(first, last)
    facts["changed"] = [n for n in SYSTEM if getattr(last, n) != getattr(first, n)]
    if first.tasks is not None and last.tasks is not None:
        ended = {(t.pid, t.start_ticks): t for t in last.tasks}
        began = {(t.pid, t.start_ticks) for t in first.tasks}
        facts["tasks"] = [_compared(t, ended.get((t.pid, t.start_ticks))) for t in first.tasks]
        facts["later_tasks"] = [t for key, t in ended.items() if key not in began]
    return facts


def _unswitched(first: Snapshot, last: Snapshot) -> dict[int, bool] | None:
    """Return the CPUs on which no task began or ceased to run between two snapshots, and whether one ran there."""
    if first.cpu_counts is None or last.cpu_counts is None:
        return None
    found = {}
    for cpu, before in first.cpu_counts.items():
        after = last.cpu_counts.get(cpu)
        if after and (after.slices, after.ran_ns) == (before.slices, before.ran_ns):
            busy_ns, idle_ns = after.busy_ns - before.busy_ns, after.idle_ns - before.idle_ns
            if busy_ns != idle_ns:
                found[cpu] = busy_ns > idle_ns
    return found


def _compared(first: TaskFacts, last: TaskFacts | None) -> TaskFacts:
    """Return a task with the names of the facts that were different at the end; a task that ended kept its facts."""
    changed = tuple(n for n in _CHANGING if last and getattr(last, n) != getattr(first, n))
    return first.model_copy(update={"changed": changed}) if changed else first
