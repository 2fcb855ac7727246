"""Facts about every task of this machine, from ``/proc``: where it may run, how it is scheduled, and in which groups it is."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from wastedcores.trace.header import TaskFacts

PF_KTHREAD = 0x00200000  # include/linux/sched.h
POLICIES = {0: "other", 1: "fifo", 2: "rr", 3: "batch", 5: "idle", 6: "deadline", 7: "ext"}
#: inodes of the first namespaces (include/linux/proc_ns.h); elsewhere numbers and paths are not those of a trace
_FIRST_NAMESPACE = {"pid": 0xEFFFFFFC, "cgroup": 0xEFFFFFFB}
# include/uapi/linux/prctl.h
_PR_SCHED_CORE, _PR_SCHED_CORE_GET = 62, 0


def in_first_namespace(kind: str) -> bool:
    """Return whether this process is in the first ``pid`` or ``cgroup`` namespace, so outside of containers."""
    try:
        return Path(f"/proc/self/ns/{kind}").stat().st_ino == _FIRST_NAMESPACE[kind]
    except OSError:
        return False


def tasks() -> list[TaskFacts] | None:
    """Return all tasks that run or sleep now; None in a container, where they have other numbers."""
    if not in_first_namespace("pid"):
        return None
    none_has_a_cookie = _core_cookie(os.getpid())[1] in (errno.EINVAL, errno.ENODEV)
    return list(
        tasks_below(Path("/"), lambda pid: 0 if none_has_a_cookie else _core_cookie(pid)[0])
    )


def core_scheduling(found: list[TaskFacts] | None) -> bool | None:
    """Return whether any of these tasks has a cookie of core scheduling; None if that is not known."""
    cookies = {t.core_cookie for t in found or ()}
    if any(cookies - {None}):
        return True
    return False if cookies == {0} else None


def tasks_below(
    root: Path, cookie: Callable[[int], int | None] = lambda pid: None
) -> Iterator[TaskFacts]:
    """Yield the tasks that the files of a ``/proc`` below ``root`` show; ``cookie`` tells a task's cookie of core scheduling."""
    for folder in (root / "proc").glob("[0-9]*/task/[0-9]*"):
        try:
            yield _task(folder, cookie)
        except OSError:
            continue  # the task has ended


def _task(folder: Path, cookie: Callable[[int], int | None]) -> TaskFacts:
    head, _, rest = (folder / "stat").read_text(errors="replace").rpartition(") ")
    pid, _, comm = head.partition(" (")
    fields = rest.split()
    allowed = next(
        line.split()[1]
        for line in (folder / "status").read_text(errors="replace").splitlines()
        if line.startswith("Cpus_allowed_list:")
    )
    return TaskFacts(
        pid=int(pid),
        tgid=int(folder.parts[-3]),
        ppid=int(fields[1]),
        start_ticks=int(fields[19]),
        comm=comm,
        kthread=bool(int(fields[6]) & PF_KTHREAD),
        policy=POLICIES.get(int(fields[38]), fields[38]),
        nice=int(fields[16]),
        rt_prio=int(fields[37]),
        allowed=allowed,
        cgroup=_cpu_group((folder / "cgroup").read_text(errors="replace")),
        cpuset=_optional(folder / "cpuset"),
        # only the folder of a process has it; "/autogroup-25 nice 0"
        autogroup=(_optional(folder.parents[1] / "autogroup") or "").partition(" ")[0] or None,
        core_cookie=cookie(int(pid)),
    )


def _optional(path: Path) -> str | None:
    """Read a file that not every kernel or task has."""
    try:
        return path.read_text(errors="replace").strip() or None
    except FileNotFoundError:
        return None
    except OSError as e:
        if e.errno == errno.ESRCH:
            raise
        return None


def _core_cookie(pid: int) -> tuple[int | None, int]:
    """Return a task's cookie and 0, or None and the error's number.

    EINVAL: the kernel has no core scheduling; ENODEV: the machine has no SMT; EPERM: the task belongs to somebody else.
    """
    cookie = ctypes.c_ulong()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SCHED_CORE, _PR_SCHED_CORE_GET, pid, 0, ctypes.byref(cookie)) == 0:
        return int(cookie.value), 0
    return None, ctypes.get_errno()


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
