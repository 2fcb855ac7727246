"""A snapshot of all tasks of this machine: which CPUs each may use, and which control groups have a limit of CPU time.

A trace made by another tool does not tell these facts, and without them nobody knows whether a waiting thread could have run on
an idle CPU. Everything comes from ``/proc`` and the control group file systems, so no rights are needed.
"""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from wastedcores.errors import CollectorError, TraceFormatError, WastedCoresError
from wastedcores.files import written_whole
from wastedcores.topology.sysfs import live
from wastedcores.trace.header import TaskFacts

SCHEMA = "wastedcores.tasks/1"
PF_KTHREAD = 0x00200000  # include/linux/sched.h
POLICIES = {0: "other", 1: "fifo", 2: "rr", 3: "batch", 5: "idle", 6: "deadline", 7: "ext"}
#: inodes of the first namespaces (include/linux/proc_ns.h); elsewhere numbers and paths are not those of a trace
_FIRST_NAMESPACE = {"pid": 0xEFFFFFFC, "cgroup": 0xEFFFFFFB}


def snapshot() -> dict[str, Any]:
    """Describe all tasks that run or sleep now.

    Returns
    -------
    dict
        The object of ``wastedcores snapshot``: ``schema``, ``kernel``, ``machine``, ``monotonic_ns``, ``unix_ns``, ``tasks`` (one
        dict per thread) and ``quotas`` (us of CPU time per period by path of the control group; None if unknown).

    Raises
    ------
    CollectorError
        This process is in a container, where pids differ from those in a trace.
    """
    if not _in_first_namespace("pid"):
        raise CollectorError(
            "this process is in a pid namespace (a container), so it does not see the tasks of the machine under the numbers "
            "that a trace has. Take the snapshot on the host."
        )
    return {
        "schema": SCHEMA,
        "kernel": platform.release(),
        "machine": this_machine(),
        "monotonic_ns": time.monotonic_ns(),
        "unix_ns": time.time_ns(),
        "tasks": list(_tasks()),
        "quotas": quotas(),
    }


def write_snapshot(output: str | Path) -> int:
    """Write a snapshot as JSON.

    Parameters
    ----------
    output
        The file to write.

    Returns
    -------
    int
        Number of tasks.

    Raises
    ------
    WastedCoresError
        The file cannot be written.
    """
    taken = snapshot()
    try:
        with written_whole(Path(output)) as part:
            part.write_text(json.dumps(taken) + "\n")
    except OSError as e:
        raise WastedCoresError(
            f"{output}: cannot write there ({e.strerror}). -o chooses another place."
        ) from e
    return len(taken["tasks"])


def read_snapshot(source: str | Path) -> dict[str, Any]:
    """Read a snapshot; ``live`` takes one now.

    Raises
    ------
    TraceFormatError
        The file is not a snapshot.
    WastedCoresError
        The file cannot be read.
    """
    if str(source) == "live":
        return snapshot()
    try:
        found = json.loads(Path(source).read_bytes())
    except OSError as e:
        raise WastedCoresError(f"{source}: cannot be read ({e.strerror}).") from e
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or found.get("schema") != SCHEMA:
        raise TraceFormatError(
            f"{source}: not a snapshot of tasks; expected JSON with the schema {SCHEMA!r}. Make one: wastedcores snapshot -o "
            f"{source}"
        )
    return found


def quotas() -> dict[str, int] | None:
    """Return the CPU time per period in us of every control group that has a limit; None if they cannot be known.

    In a container the limits of the groups above are not visible.
    """
    root = _cpu_hierarchy()
    if root is None or not _in_first_namespace("cgroup"):
        return None
    found: dict[str, int] = {}
    for name in ("cpu.max", "cpu.cfs_quota_us"):
        for path in root.rglob(name):
            try:
                quota = path.read_text().split()[0]
            except (OSError, IndexError):
                continue  # the group is gone
            if quota not in ("max", "-1"):
                found["/" + "/".join(path.parent.relative_to(root).parts)] = int(quota)
    return found


def throttled() -> dict[str, tuple[int, int]]:
    """Return how often and for how many us each control group was throttled so far; empty if no group ever was."""
    root = _cpu_hierarchy()
    found = {}
    for path in root.rglob("cpu.stat") if root else ():
        try:
            counts = dict(line.split() for line in path.read_text().splitlines())
        except (OSError, ValueError):
            continue
        times = int(counts.get("nr_throttled", 0))
        us = int(counts.get("throttled_usec", int(counts.get("throttled_time", 0)) // 1000))
        if times:
            found["/" + "/".join(path.parent.relative_to(root or path).parts)] = (times, us)
    return found


def _in_first_namespace(kind: str) -> bool:
    try:
        return Path(f"/proc/self/ns/{kind}").stat().st_ino == _FIRST_NAMESPACE[kind]
    except OSError:
        return False


def this_machine() -> dict[str, Any] | None:
    """Return this machine for a trace's header, or None if it cannot be read: a trace without it is still a trace."""
    try:
        return live().to_dict()
    except (WastedCoresError, OSError):
        return None


def tasks() -> list[TaskFacts] | None:
    """Return all tasks for the header of a trace; None in a container, where they have other numbers."""
    if not _in_first_namespace("pid"):
        return None
    return [TaskFacts.model_validate(t) for t in _tasks()]


def _cpu_hierarchy() -> Path | None:
    """Return where the control groups with the CPU controller are mounted; version 1 has it under its own name."""
    unified = None
    try:
        mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    except OSError:
        return None
    for line in mounts:
        mount, _, source = line.partition(" - ")
        kind, _, options = source.split(maxsplit=2)
        if kind == "cgroup" and "cpu" in options.split(","):
            return Path(mount.split()[4])
        if kind == "cgroup2":
            unified = Path(mount.split()[4])
    return unified


def _tasks() -> Iterator[dict[str, Any]]:
    for folder in Path("/proc").glob("[0-9]*/task/[0-9]*"):
        try:
            yield _task(folder)
        except OSError:
            continue  # the task has ended


def _task(folder: Path) -> dict[str, Any]:
    head, _, rest = (folder / "stat").read_text(errors="replace").rpartition(") ")
    pid, _, comm = head.partition(" (")
    fields = rest.split()
    allowed = next(
        line.split()[1]
        for line in (folder / "status").read_text(errors="replace").splitlines()
        if line.startswith("Cpus_allowed_list:")
    )
    return {
        "pid": int(pid),
        "tgid": int(folder.parts[2]),
        "ppid": int(fields[1]),
        "comm": comm,
        "kthread": bool(int(fields[6]) & PF_KTHREAD),
        "policy": POLICIES.get(int(fields[38]), fields[38]),
        "nice": int(fields[16]),
        "rt_prio": int(fields[37]),
        "allowed": allowed,
        "cgroup": _cpu_group((folder / "cgroup").read_text(errors="replace")),
    }


def _cpu_group(text: str) -> str | None:
    """Return the group that limits the task's CPU time: of version 1's CPU controller, else of version 2."""
    unified = None
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        if "cpu" in controllers.split(","):
            return path
        if not controllers:
            unified = path
    return unified
