"""Snapshots of this machine: all tasks, and the facts that decide whether a waiting thread could have run elsewhere.

A trace made by another tool does not tell these facts, and without them nobody knows whether a waiting thread could have run
on an idle CPU. All facts come from ``/proc`` and ``/sys``, so no rights are needed; a few facts are shown to root only.

A snapshot can be attached to a trace that another tool recorded, if both come from the same machine and boot. Facts about the
tasks of another boot could make a verdict wrong that looks certain. A trace seldom says in which boot it was recorded, so
everything that it does say is compared: the boot's number, the host, the kernel, the CPUs, the time, and names of tasks.
"""

from __future__ import annotations

import json
import platform
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

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
from wastedcores.trace.header import CpuCounts, CpusetFacts, Header, SchedDomainFacts, TaskFacts
from wastedcores.trace.pseudonyms import Pseudonyms

if TYPE_CHECKING:
    from wastedcores.trace.trace import Trace

#: clocks that count from boot, with or without suspended time. perf.data names no clock if perf's own clock was used
_SINCE_BOOT = (
    "monotonic", "monotonic_raw", "boottime", "mono", "mono_raw", "boot", "local", "perf",
)  # fmt: skip
#: the largest difference between two clocks of the same boot
_SLACK_NS = 60_000_000_000


def with_snapshot(
    trace: Trace, snapshot: Snapshot, source: str | Path, recorded: Path | None = None
) -> Trace:
    """Return a trace with the facts of a snapshot in its header."""
    header, names, name = trace.header, _names(trace), (recorded or trace).name
    if header.tasks is not None:
        raise UsageError(
            f"--snapshot {source}: {name} has facts about its tasks already, from when it was recorded. Leave the option out."
        )
    last = snapshot.last.tasks if snapshot.last else None
    tasks = list({t.pid: t for t in (snapshot.tasks or []) + (last or [])}.values())
    different = (
        _difference(header, snapshot)
        or another_time(header, snapshot, recorded or trace.path)
        or _other_tasks(tasks, names)
        or _nothing_common(header, tasks, names, live=str(source) == "live")
    )
    if different:
        raise UsageError(
            f"--snapshot {source}: this is not known to be the machine and boot of {name}: {different}. "
            "Take a snapshot where and while the trace is recorded: wastedcores snapshot -o tasks.json"
        )
    facts = header_facts(snapshot)
    for key in ("tasks", "later_tasks"):
        if found := facts.get(key):
            facts[key] = [t for t in found if t.pid not in names or _named_alike(t, names[t.pid])]
    return trace.with_header(**_kept(header, snapshot, facts, source))


def _difference(header: Header, snapshot: Snapshot) -> str | None:
    """Return the first contradiction between the snapshot and what the trace states about its machine; None if there is none."""
    for name, theirs, ours in (
        ("the boot", header.boot_id, snapshot.boot_id),
        ("the kernel", header.kernel_release, snapshot.kernel),
        ("the host", header.host, snapshot.host),
    ):
        if theirs and ours and theirs != ours:
            return f"{name} of the trace is {theirs}, that of the snapshot {ours}"
    cpus, up = (snapshot.machine or {}).get("cpus"), _online(snapshot)
    highest = max(header.highest_cpu or 0, *(header.cpus_online or [0]))
    if cpus is not None and highest >= cpus:
        return f"the trace has CPU {highest}, the snapshot's machine has {cpus} CPUs"
    count = cpus if up is None else len(up)
    # some recorders (trace-cmd) state how many CPUs the machine has, including offline CPUs
    if count and header.cpus_online and len(header.cpus_online) not in (count, cpus):
        return f"{len(header.cpus_online)} CPUs were online in the trace, {count} in the snapshot"
    return None


def _online(snapshot: Snapshot) -> list[int] | None:
    """Return the CPUs that were online; None if the snapshot does not know them."""
    machine = snapshot.machine or {}
    online = machine.get("boot_online", machine.get("online"))
    return sorted(parse_cpulist(online)) if isinstance(online, str) else online


def another_time(header: Header, snapshot: Snapshot, file: Path | None) -> str | None:
    """Return why the trace cannot have been recorded in the snapshot's boot; None if it may have been recorded in it."""
    uptime = header.clock in _SINCE_BOOT or (
        header.clock is None and header.source_format == "perf.data"
    )
    end_ns = header.end_ns if uptime and header.end_ns is not None else 0
    booted_ns = snapshot.unix_ns - snapshot.boottime_ns
    if file is None or header.source_format == "replay":
        return None
    changed_ns = file.stat().st_mtime_ns
    if booted_ns + end_ns > changed_ns + _SLACK_NS:
        return (
            f"{file.name} was written at {_clock_time(changed_ns)}, and a trace that ends {end_ns / 1e9:.0f} s after the "
            f"snapshot's boot would end at {_clock_time(booted_ns + end_ns)}"
        )
    return None


def _clock_time(unix_ns: int) -> str:
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(unix_ns / 1e9))
    except (OverflowError, ValueError, OSError):  # the calendar has no such time
        return f"{unix_ns} ns after 1970"


def _names(trace: Trace) -> dict[int, set[str]]:
    """Return all names that each task has in the trace; a task without a name is left out."""
    names: dict[int, set[str]] = {}
    for pid, comm in trace.names.iter_rows():
        if (pid or 0) > 0 and comm not in (None, "<...>"):
            names.setdefault(pid, set()).add(comm)
    return names


def _named_alike(task: TaskFacts, names: set[str]) -> bool:
    """Return whether a task has one of these names; for a kernel thread, /proc shows more than the first 15 characters of it."""
    comm = task.comm or ""
    return comm in names or (bool(task.kthread) and any(n and comm.startswith(n) for n in names))


def _other_tasks(tasks: list[TaskFacts], names: dict[int, set[str]]) -> str | None:
    """Return a sentence if the tasks of the snapshot differ from those of the trace; None if they may be the same."""
    common = _common(tasks, names)
    others = sum(not _named_alike(t, names[t.pid]) for t in common)
    if 2 * others <= len(common):
        return None
    return f"of {len(common)} tasks with the same number, {others} have another name"


def _nothing_common(
    header: Header, tasks: list[TaskFacts], names: dict[int, set[str]], live: bool
) -> str | None:
    """Return a sentence if nothing proves that the trace and the snapshot are of one machine; None if something proves it."""
    if header.boot_id or (header.host and header.kernel_release):
        return None
    if live:
        return "the trace does not name its host, so it may be of another machine than this one"
    return (
        None
        if _common(tasks, names)
        else "the trace does not name its host, and no task is in both"
    )


def _common(tasks: list[TaskFacts], names: dict[int, set[str]]) -> list[TaskFacts]:
    # init and kernel threads do not count, because they have the same numbers and names in every boot of many machines
    return [t for t in tasks if not t.kthread and t.pid > 1 and t.pid in names]


def _kept(
    header: Header, snapshot: Snapshot, facts: dict[str, Any], source: str | Path
) -> dict[str, Any]:
    """Return the fields of the new header. If the trace and the snapshot both state a fact, the trace's is kept."""
    kept = {name: value for name, value in facts.items() if getattr(header, name) is None}
    # these two fields of a header are never None
    kept["changed"] = sorted({*header.changed, *facts.get("changed", [])})
    kept["silent_is_idle"] = header.silent_is_idle or bool(facts.get("silent_is_idle"))
    if header.machine is None:
        kept["machine"] = snapshot.machine
    online = _online(snapshot) or sorted(snapshot.cpu_counts or ())
    last = snapshot.last
    same = last is None or online == (_online(last) or sorted(last.cpu_counts or ()))
    # many formats do not list the online CPUs; at most they tell how many there are
    counted = header.cpus_online in (None, list(range(len(online))))
    if online and same and counted and (header.highest_cpu or 0) <= max(online):
        kept["cpus_online"] = online
    seen = {*online, *((last.cpu_counts or ()) if last else ())}
    if seen:
        kept["cpus"] = max(header.cpus or 0, max(seen) + 1)
    taken = _clock_time(snapshot.unix_ns)
    kept["provenance"] = header.provenance | {"snapshot": f"{source}, taken at {taken}"}
    return kept


SCHEMA: Final = "wastedcores.tasks/1"
#: facts of a task that can change while it lives
_CHANGING = (
    "allowed", "policy", "nice", "rt_prio", "cgroup", "cpuset", "autogroup", "core_cookie",
)  # fmt: skip


class Snapshot(BaseModel):
    """The object that ``wastedcores snapshot`` writes."""

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)

    schema_: Literal["wastedcores.tasks/1"] = Field(SCHEMA, alias="schema")
    #: release, host name, and topology as ``Machine.to_dict()`` gives it
    kernel: str
    host: str | None = None
    machine: dict[str, Any] | None = None
    #: when the snapshot was taken, in ns since boot and in ns since 1970
    boottime_ns: int
    unix_ns: int
    #: all tasks; None: this process could not see them (it was in a container)
    tasks: list[TaskFacts] | None = None
    #: True: it is known that no task got another affinity while the trace was recorded, except by a fork
    follows_affinity: bool | None = None
    #: True: it is known that a CPU without any event was idle, because the trace began before the work began
    silent_is_idle: bool | None = None
    #: as in :class:`wastedcores.trace.header.Header`
    quotas: dict[str, int] | None = None
    task_groups: list[str] | None = None
    boot_id: str | None = None
    boot_parameters: str | None = None
    isolated_cpus: list[int] | None = None
    nohz_full_cpus: list[int] | None = None
    cpusets: list[CpusetFacts] | None = None
    sched_domains: list[SchedDomainFacts] | None = None
    sched_features: list[str] | None = None
    core_scheduling: bool | None = None
    autogroups: bool | None = None
    #: the kernel's counts for each CPU; None: the kernel does not count
    cpu_counts: dict[int, CpuCounts] | None = None
    #: the snapshot that was taken when the recorded command had ended; None: there was no command
    last: Snapshot | None = None


#: the fields of a snapshot that are fields of a trace's header, too
SYSTEM = (
    "quotas", "task_groups", "boot_id", "boot_parameters", "isolated_cpus", "nohz_full_cpus", "cpusets", "sched_domains",
    "sched_features", "core_scheduling", "autogroups",
)  # fmt: skip


def take() -> Snapshot:
    """Take a snapshot of this machine now. In a container the snapshot has no tasks, because they have other numbers there."""
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
    """Take a snapshot of this machine now; fail if this process cannot see the machine's tasks."""
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

    If there is a command to run, two snapshots are written: one is taken before it runs, and one after it has ended. If
    ``pseudonyms`` names a file with a key, names are replaced by pseudonyms.
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
    """Return all tasks of a snapshot and of the snapshot after the command; a task that is in both appears twice."""
    return (taken.tasks or []) + ((taken.last.tasks if taken.last else None) or [])


def header_facts(first: Snapshot, last: Snapshot | None = None) -> dict[str, Any]:
    """Return the fields of a trace's header that snapshots before and after the recording tell."""
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
    """Return the CPUs on which no task began or stopped running between two snapshots, and for each whether a task ran on it."""
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
    """Return a task with the names of the facts that were different at the end; a task that ended counts as unchanged."""
    if last is None:
        return first
    changed = tuple(n for n in _CHANGING if getattr(last, n) != getattr(first, n))
    runnable = first.runnable or last.runnable
    if not changed and runnable == first.runnable:
        return first
    return first.model_copy(update={"changed": changed, "runnable": runnable})
