"""Attach a snapshot to a trace that another tool recorded, if both are of the same machine and boot.

Facts about the tasks of another boot would make a confident verdict wrong. A trace seldom says in which boot it was recorded,
so everything that it does say is compared: the boot's number, the host, the kernel, the CPUs, the time, and names of tasks.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from wastedcores.capture.snapshot import Snapshot, header_facts
from wastedcores.errors import UsageError
from wastedcores.trace.header import Header, TaskFacts
from wastedcores.trace.trace import Trace

#: clocks that count from boot, suspended time left out or not; perf.data names none if it used perf's own
_SINCE_BOOT = (
    "monotonic",
    "monotonic_raw",
    "boottime",
    "mono",
    "mono_raw",
    "boot",
    "local",
    "perf",
)
#: how far clocks of one boot may be apart
_SLACK_NS = 60_000_000_000


def with_snapshot(
    trace: Trace, snapshot: Snapshot, source: str | Path, recorded: Path | None = None
) -> Trace:
    """Return a trace with the facts of a snapshot in its header."""
    header, file = trace.header, recorded or trace.path
    name = file.name if file else trace.name
    names = _names(trace)
    last = snapshot.last.tasks if snapshot.last else None
    tasks = list({t.pid: t for t in (snapshot.tasks or []) + (last or [])}.values())
    if header.tasks is not None:
        raise UsageError(
            f"--snapshot {source}: {name} has facts about its tasks already, from when it was recorded. Leave the option out."
        )
    different = (
        _difference(header, snapshot)
        or another_time(header, snapshot, file)
        or _other_tasks(tasks, names)
        or _nothing_common(header, tasks, names, live=str(source) == "live")
    )
    if different:
        raise UsageError(
            f"--snapshot {source}: this is not known to be the machine and boot of {name}: {different}. Take a snapshot where "
            "and while the trace is recorded: wastedcores snapshot -o tasks.json"
        )
    facts = header_facts(snapshot)
    for name in ("tasks", "later_tasks"):
        if found := facts.get(name):
            facts[name] = [t for t in found if t.pid not in names or _named_alike(t, names[t.pid])]
    return trace.with_header(**_kept(header, snapshot, facts, source))


def _difference(header: Header, snapshot: Snapshot) -> str | None:
    """Return the first contradiction between what the trace states about its machine and the snapshot; None if there is none."""
    for name, theirs, ours in (
        ("the boot", header.boot_id, snapshot.boot_id),
        ("the kernel", header.kernel_release, snapshot.kernel),
        ("the host", header.host, snapshot.host),
    ):
        if theirs and ours and theirs != ours:
            return f"{name} of the trace is {theirs}, that of the snapshot {ours}"
    machine = snapshot.machine or {}
    cpus, online = machine.get("cpus"), machine.get("online")
    highest = max(header.highest_cpu or 0, *(header.cpus_online or [0]))
    if cpus is not None and highest >= cpus:
        return f"the trace has CPU {highest}, the snapshot's machine has {cpus} CPUs"
    count = len(online) if online is not None else cpus
    if count is not None and header.cpus_online and len(header.cpus_online) != count:
        return f"{len(header.cpus_online)} CPUs were online in the trace, {count} in the snapshot"
    return None


def another_time(header: Header, snapshot: Snapshot, file: Path | None) -> str | None:
    """Return why the trace cannot have been recorded in the snapshot's boot; None if it can."""
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
    except (OverflowError, ValueError, OSError):  # no calendar has it
        return f"{unix_ns} ns after 1970"


def _names(trace: Trace) -> dict[int, set[str]]:
    """Return all names that each task has in the trace; a task without any is left out."""
    names: dict[int, set[str]] = {}
    for pid, comm in trace.names.iter_rows():
        if (pid or 0) > 0 and comm not in (None, "<...>"):
            names.setdefault(pid, set()).add(comm)
    return names


def _named_alike(task: TaskFacts, names: set[str]) -> bool:
    """Return whether a task has one of these names; /proc shows more of a kernel thread's than its 15 characters."""
    comm = task.comm or ""
    return comm in names or (bool(task.kthread) and any(n and comm.startswith(n) for n in names))


def _other_tasks(tasks: list[TaskFacts], names: dict[int, set[str]]) -> str | None:
    """Return that the tasks of the snapshot are others than those of the trace; None if they may be the same."""
    common = _common(tasks, names)
    others = sum(not _named_alike(t, names[t.pid]) for t in common)
    if 2 * others <= len(common):
        return None
    return f"of {len(common)} tasks with the same number, {others} have another name"


def _nothing_common(
    header: Header, tasks: list[TaskFacts], names: dict[int, set[str]], live: bool
) -> str | None:
    """Return that nothing proves the trace and the snapshot to be of one machine; None if something does."""
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
    # init and kernel threads have the same numbers and names in every boot of many machines
    return [t for t in tasks if not t.kthread and t.pid > 1 and t.pid in names]


def _kept(
    header: Header, snapshot: Snapshot, facts: dict[str, Any], source: str | Path
) -> dict[str, Any]:
    """Return the fields of the new header: what the trace itself states stays."""
    kept = {name: value for name, value in facts.items() if getattr(header, name) is None}
    if header.machine is None:
        kept["machine"] = snapshot.machine
    taken = _clock_time(snapshot.unix_ns)
    kept["provenance"] = header.provenance | {"snapshot": f"{source}, taken at {taken}"}
    return kept
