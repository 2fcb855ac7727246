"""Facts about this machine that decide whether a waiting thread could have run on an idle CPU: limits, cpusets, domains."""

from __future__ import annotations

import ctypes
import errno
import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from wastedcores.cpulist import format_cpulist, parse_cpulist
from wastedcores.errors import WastedCoresError
from wastedcores.files import text_of
from wastedcores.topology.sysfs import kernel_domains, live
from wastedcores.trace.header import CpuCounts, CpusetFacts, SchedDomainFacts, TaskFacts

PF_KTHREAD = 0x00200000  # include/linux/sched.h
POLICIES = {0: "other", 1: "fifo", 2: "rr", 3: "batch", 5: "idle", 6: "deadline", 7: "ext"}
#: inodes of the first namespaces (include/linux/proc_ns.h); in other namespaces, pids and paths differ from those in a trace
_FIRST_NAMESPACE = {"pid": 0xEFFFFFFC, "cgroup": 0xEFFFFFFB}
# include/uapi/linux/prctl.h
_PR_SCHED_CORE, _PR_SCHED_CORE_GET = 62, 0

_read = partial(text_of, errors="replace")


def in_first_namespace(kind: str) -> bool:
    """Return whether this process is in the first ``pid`` or ``cgroup`` namespace, that is, outside of containers."""
    try:
        return Path(f"/proc/self/ns/{kind}").stat().st_ino == _FIRST_NAMESPACE[kind]
    except OSError:
        return False


def tasks() -> list[TaskFacts] | None:
    """Return all tasks that exist now; None in a container, where tasks have other numbers."""
    if not in_first_namespace("pid"):
        return None
    none_has_a_cookie = _core_cookie(os.getpid())[1] in (errno.EINVAL, errno.ENODEV)
    return list(
        tasks_below(Path("/"), lambda pid: 0 if none_has_a_cookie else _core_cookie(pid)[0])
    )


def core_scheduling(found: list[TaskFacts] | None) -> bool | None:
    """Return whether any of these tasks has a cookie of core scheduling; None if this is not known."""
    cookies = {t.core_cookie for t in found or ()}
    if any(cookies - {None}):
        return True
    return False if cookies == {0} else None


def tasks_below(
    root: Path, cookie: Callable[[int], int | None] = lambda pid: None
) -> Iterator[TaskFacts]:
    """Yield the tasks that the files in ``/proc`` below ``root`` show; ``cookie`` returns a task's cookie of core scheduling."""
    for folder in (root / "proc").glob("[0-9]*/task"):
        with suppress(OSError):  # the process has ended
            for thread in os.listdir(folder):
                with suppress(OSError):  # the task has ended
                    yield _task(folder / thread, cookie)


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
        cgroup=_cpu_group((folder / "cgroup").read_text(errors="backslashreplace")),
        cpuset=_optional(folder / "cpuset"),
        # only the folder of a process has this file, for example with "/autogroup-25 nice 0"
        autogroup=(_optional(folder.parents[1] / "autogroup") or "").partition(" ")[0] or None,
        core_cookie=cookie(int(pid)),
        # this process runs only because it takes the snapshot
        runnable=fields[0] == "R" and int(folder.parts[-3]) != os.getpid(),
    )


def _optional(path: Path) -> str | None:
    """Read a file that not every kernel or task has."""
    try:
        return path.read_text(errors="backslashreplace").strip() or None
    except FileNotFoundError:
        return None
    except OSError as e:
        if e.errno == errno.ESRCH:
            raise
        return None


def _core_cookie(pid: int) -> tuple[int | None, int]:
    """Return a task's cookie and 0; if it cannot be read, return None and the error's number.

    EINVAL: the kernel has no core scheduling; ENODEV: the machine has no SMT; EPERM: the task belongs to another user.
    """
    cookie = ctypes.c_ulong()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SCHED_CORE, _PR_SCHED_CORE_GET, pid, 0, ctypes.byref(cookie)) == 0:
        return int(cookie.value), 0
    return None, ctypes.get_errno()


def _cpu_group(text: str) -> str | None:
    """Return the group that limits the task's CPU time: its group in version 1's cpu hierarchy, or else that in version 2."""
    unified = None
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        if "cpu" in controllers.split(","):
            return path
        if not controllers:
            unified = path
    return unified


#: where kernels show their scheduler features, newer ones first
_FEATURES = ("sys/kernel/debug/sched/features", "sys/kernel/debug/sched_features")


def system_facts(root: Path = Path("/")) -> dict[str, Any]:
    """Return the facts about the whole machine."""
    features = next((text for f in _FEATURES if (text := _read(root / f)) is not None), None)
    isolated = _cpus(root / "sys/devices/system/cpu/isolated")
    without_tick = _cpus(root / "sys/devices/system/cpu/nohz_full")
    if without_tick is None and isolated is not None:
        without_tick = []  # the file is absent because the kernel lacks CONFIG_NO_HZ_FULL
    autogroups = _read(root / "proc/sys/kernel/sched_autogroup_enabled")
    return {
        "quotas": quotas(root),
        "task_groups": task_groups(root),
        "boot_id": _read(root / "proc/sys/kernel/random/boot_id"),
        "boot_parameters": _read(root / "proc/cmdline"),
        "isolated_cpus": isolated,
        "nohz_full_cpus": without_tick,
        "cpusets": cpusets(root),
        "sched_domains": sched_domains(root),
        "sched_features": None if features is None else features.split(),
        "autogroups": None if autogroups is None else autogroups != "0",
    }


def this_machine() -> dict[str, Any] | None:
    """Return this machine's topology for a trace's header; None if it cannot be read: a trace without it is still useful."""
    try:
        return live().to_dict()
    except (WastedCoresError, OSError):
        return None


def quotas(root: Path = Path("/")) -> dict[str, int] | None:
    """Return the CPU time per period, in us, of every control group that has a limit; None if not all limits can be known.

    In a container, limits of groups outside of the container are not visible. If the root is the only control group, no group has
    a limit: for the root, tg_set_cfs_bandwidth() refuses one (kernel/sched/core.c, v6.12).
    """
    if _only_root_group(root):
        return {}
    folder = hierarchy("cpu", root)
    if folder is None or not in_first_namespace("cgroup"):
        return None
    found: dict[str, int] = {}
    for group in _groups(folder):
        for name in ("cpu.max", "cpu.cfs_quota_us"):
            try:
                quota = (group / name).read_text().split()[0]
            except OSError as e:
                if e.errno in (errno.ENOENT, errno.ENODEV):
                    continue  # the other version, or the group is gone
                return None
            if quota not in ("max", "-1"):
                found[_name(group, folder)] = int(quota)
    return found


def task_groups(root: Path = Path("/")) -> list[str] | None:
    """Return the paths of the control groups among which CPU time is shared, without the root; None if they cannot be known.

    A group of version 2 without the cpu controller is no group of the scheduler: its tasks belong to the nearest group above it
    that has the controller.
    """
    if _only_root_group(root):
        return []
    if hierarchy("cpu", root) is None or not in_first_namespace("cgroup"):
        return None
    return sorted(
        path
        for path, folder in cpu_groups(root).values()
        if path != "/" and any((folder / name).exists() for name in ("cpu.weight", "cpu.shares"))
    )


def _groups(folder: Path) -> Iterator[Path]:
    """Yield a control group and all groups below it. A group that ends meanwhile may be left out (Path.rglob() would fail)."""
    return (Path(path) for path, _, _ in os.walk(folder))


def _only_root_group(root: Path) -> bool:
    """Tell whether the kernel counts only one group with the cpu controller, the root (proc_cgroupstats_show(), v6.12)."""
    for line in (_read(root / "proc/cgroups") or "").splitlines():
        name, *numbers = line.split()
        if name == "cpu" and len(numbers) == 3:
            return int(numbers[1]) == 1
    return False


def throttled(root: Path = Path("/")) -> dict[str, tuple[int, int]]:
    """Return how often and for how many us each control group was throttled so far; empty if no group was ever throttled."""
    folder = hierarchy("cpu", root)
    found = {}
    for group in _groups(folder) if folder else ():
        try:
            counts = dict(line.split() for line in (group / "cpu.stat").read_text().splitlines())
        except (OSError, ValueError):
            continue  # the group is gone, or it is the root of version 1
        times = int(counts.get("nr_throttled", 0))
        us = int(counts.get("throttled_usec", int(counts.get("throttled_time", 0)) // 1000))
        if times:
            found[_name(group, folder or group)] = (times, us)
    return found


def cpu_groups(root: Path = Path("/")) -> dict[int, tuple[str, Path]]:
    """Return the path and the folder of every control group with the cpu controller, by the inode of its folder."""
    folder = hierarchy("cpu", root)
    found = {}
    for path in _groups(folder) if folder else ():
        with suppress(OSError):  # the group is gone
            found[path.stat().st_ino] = _name(path, folder or path), path
    return found


def stolen(root: Path = Path("/")) -> dict[int, int] | None:
    """Return for how many ns a hypervisor has run something else on each CPU of this machine since it booted.

    None: not known. On a virtual machine, this includes counts that are all 0, because not every hypervisor reports the time.
    """
    tick_ns = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    lines = _cpu_lines(root / "proc/stat")
    found = {int(f[0][3:]): int(f[8]) * tick_ns for f in lines if len(f) > 8}
    virtual = " hypervisor" in (_read(root / "proc/cpuinfo") or " hypervisor")
    return found if found and (any(found.values()) or not virtual) else None


def cpu_counts(root: Path = Path("/")) -> dict[int, CpuCounts] | None:
    """Return the kernel's counts for each online CPU; None if the kernel does not count how often a task begins to run.

    ``/proc/schedstat`` has rq_cpu_time and pcount, which change only when a task begins or stops running on the CPU
    (kernel/sched/stats.h: rq_sched_info_depart(), rq_sched_info_arrive(), v6.12).
    """
    tick_ns = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    times = {f[0]: [int(x) * tick_ns for x in f[1:9]] for f in _cpu_lines(root / "proc/stat")}
    found = {}
    for name, *fields in _cpu_lines(root / "proc/schedstat"):
        if name in times and len(fields) >= 9:
            user, nice, system, idle, iowait, *interrupts = times[name]
            found[int(name[3:])] = CpuCounts(
                ran_ns=int(fields[6]),
                slices=int(fields[8]),
                busy_ns=user + nice + system + sum(interrupts),
                idle_ns=idle + iowait,
            )
    return found or None


def _cpu_lines(path: Path) -> Iterator[list[str]]:
    """Yield the lines of a file that are about a single CPU, split into words."""
    for line in (_read(path) or "").splitlines():
        if re.match(r"cpu\d", line):
            yield line.split()


def throttled_since(before: dict[str, tuple[int, int]], now: dict[str, tuple[int, int]]) -> str:
    """Say which control groups were throttled between two calls of :func:`throttled`."""
    said = []
    for group, (times, us) in sorted(now.items()):
        old_times, old_us = before.get(group, (0, 0))
        if times > old_times:
            said.append(f"{group} {times - old_times} times, {(us - old_us) / 1000:.0f} ms")
    return "; ".join(said) or "no control group"


def cpusets(root: Path = Path("/")) -> list[CpusetFacts] | None:
    """Return the cpusets that have CPUs of their own, sorted by path; None if the cpusets cannot be known."""
    folder = hierarchy("cpuset", root)
    if folder is None or not in_first_namespace("cgroup"):
        return None
    return sorted(_cpusets(folder), key=lambda c: c.path)


def _cpusets(folder: Path) -> Iterator[CpusetFacts]:
    for path in _groups(folder):
        effective = _read(path / "cpuset.cpus.effective") or _read(path / "cpuset.effective_cpus")
        own = _read(path / "cpuset.cpus")
        cpus = effective or own
        if not cpus or (path != folder and not own):
            continue
        flag, partition = _read(path / "cpuset.sched_load_balance"), None
        balanced = None if flag is None else flag == "1"
        if flag is None:  # version 2; there the root is a partition, but no file says so
            partition = _read(path / "cpuset.cpus.partition") or (
                "root" if path == folder else None
            )
            balanced = None if partition is None else partition != "isolated"
        yield CpusetFacts(
            path=_name(path, folder), cpus=cpus, load_balance=balanced, partition=partition
        )


def sched_domains(root: Path = Path("/")) -> list[SchedDomainFacts] | None:
    """Return the scheduling domains that the kernel shows; CPUs with the same domain share an entry. None: none are shown."""
    shown = kernel_domains(root)
    if shown is None:
        return None
    sharing: dict[tuple[Any, ...], list[int]] = {}
    for cpu, domains in shown[1].items():
        for level, d in enumerate(domains):
            span = format_cpulist(d["span"]) if "span" in d else None
            key = (level, d.get("level"), span, d.get("flags"))
            sharing.setdefault(key, []).append(cpu)
    return [
        SchedDomainFacts(cpus=format_cpulist(cpus), level=level, name=name, span=span, flags=flags)
        for (level, name, span, flags), cpus in sharing.items()
    ]


def hierarchy(controller: str, root: Path) -> Path | None:
    """Return where the control groups with a controller are mounted; in version 1, the options of the mount name it."""
    unified = None
    for line in (_read(root / "proc/self/mountinfo") or "").splitlines():
        mount, _, source = line.partition(" - ")
        kind, _, options = source.split(" ", 2)  # a source can be empty
        where = root / mount.split()[4].lstrip("/")
        if kind == "cgroup" and controller in options.split(","):
            return where
        if kind == "cgroup2" and controller in (_read(where / "cgroup.controllers") or "").split():
            unified = where
    return unified


def _name(group: Path, root: Path) -> str:
    """Return the path of a control group as ``/proc`` gives it for its tasks; bytes that are not text are escaped."""
    name = os.fsencode("/" + "/".join(group.relative_to(root).parts))
    return name.decode(errors="backslashreplace")


def _cpus(path: Path) -> list[int] | None:
    text = _read(path)
    # nohz_full reads "(null)" if no CPU was asked for
    return None if text is None else [] if text == "(null)" else parse_cpulist(text, str(path))
