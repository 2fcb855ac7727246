"""Workloads as jobs: the text that the runner inside of the guest reads.

The programs are those of the replay. Parts that stand for a kernel's work are left out, because the guest has its own kernel.
These parts are tasks that are kernel threads, and stretches of computing that stand for a fork or for the page faults of a new
thread. The random lengths of these stretches are drawn nevertheless, so that all other stretches have the same lengths as in the
replay.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from wastedcores.cpulist import format_cpulist
from wastedcores.errors import UsageError
from wastedcores.guest.machines import GuestMachine
from wastedcores.workload import ops
from wastedcores.workload.program import Program, Row, TaskSpec
from wastedcores.workload.scenarios import SCENARIOS, scenario

#: a stretch of computing before a fork that is longer than this is work of the program and does not stand for the fork
MOST_FORK_NS = 200_000
#: operations that occur only in kernel threads
_OF_KERNEL_THREADS = (ops.OP_FLUSH, ops.OP_SHEPHERD)
_KERNEL_THREADS = ("kworker/", "rcu_sched")


@dataclass(frozen=True)
class Work:
    """What a guest runs in one job."""

    name: str  #: the name of the scenario or of the file
    #: the files of the job by name; ``JOB`` in a name stands for the job's number
    files: Mapping[str, bytes]
    #: whether this is a program of the replay, of which all changes of affinity are known
    is_program: bool = True
    window: tuple[str, str] | None = None  #: texts of the marks around the measured part
    seed: int = 0  #: the seed of its random draws
    notes: tuple[str, ...] = ()  #: how this work differs from what was asked for


def scenario_work(
    name: str,
    on: GuestMachine,
    seed: int = 1,
    given: Mapping[str, Any] | None = None,
    limit_ns: int | None = None,
) -> Work:
    """Make the work of a scenario, or of a file that `wastedcores replay` takes, on the guest's machine."""
    workload = scenario(name).workload(on.machine, seed, given)
    program, measure = workload.program(), workload.measure
    if name not in SCENARIOS:
        program = renumbered(program, on)
    window = (measure.start, measure.end) if measure else None
    work = program_work(name, program, seed, limit_ns)
    return replace(work, window=window, notes=(*workload.notes, *work.notes))


def program_work(name: str, program: Program, seed: int, limit_ns: int | None = None) -> Work:
    """Make the work of a program in which CPUs have the guest's numbers."""
    notes = []
    if any(row[0] == ops.OP_EXEC for s in (*program.tasks, *program.templates) for row in s.rows):
        notes.append("the guest does not execute new programs (exec) where the workload does")
    kept = (*(t for t in program.tasks if not _is_kernel_thread(t)), *program.templates)
    if any(row[0] == ops.OP_SLEEP_JIFFIES for s in kept for row in s.rows):
        notes.append("the guest does not sleep in ticks (sleep_jiffies) where the workload does")
    if any(shares != 1024 for shares in program.shares):
        notes.append("all sessions of the guest have the same weight")
    files = {"JOB": job_text(program, seed, limit_ns).encode()}
    return Work(name, files, seed=seed, notes=tuple(notes))


def renumbered(program: Program, on: GuestMachine) -> Program:
    """Return a program with the guest's CPU numbers in place of those in the machine's description."""
    new = {old: number for number, old in enumerate(on.numbers)}
    if asked := sorted({c for c in _named_cpus(program) if c not in new}):
        raise UsageError(
            f"the workload names CPU {asked[0]}, and the machine {on.machine.name!r} has CPUs 0 to {on.machine.cpus - 1}. "
            "--machine chooses the one for which the workload was made."
        )

    def there(cpus: frozenset[int] | None) -> frozenset[int] | None:
        return None if cpus is None else frozenset(new[c] for c in cpus)

    def moved(s: TaskSpec) -> TaskSpec:
        return replace(s, allowed=there(s.allowed), start_cpu=new[s.start_cpu])

    return replace(
        program,
        tasks=tuple(map(moved, program.tasks)),
        templates=tuple(map(moved, program.templates)),
        masks=tuple(frozenset(new[c] for c in mask) for mask in program.masks),
        hotplug=tuple((at, new[cpu], online) for at, cpu, online in program.hotplug),
    )


def _named_cpus(program: Program) -> Iterable[int]:
    specs = (*program.tasks, *program.templates)
    sets = (*program.masks, *(s.allowed for s in specs if s.allowed is not None))
    return (
        *(c for mask in sets for c in mask),
        *(s.start_cpu for s in specs),
        *(cpu for _, cpu, _ in program.hotplug),
    )


def file_work(path: Path, arguments: Iterable[str] = ()) -> Work:
    """Make the work of a shell script, or of a static program with its arguments."""
    import shlex

    try:
        content = path.read_bytes()
    except OSError as e:
        raise UsageError(f"{path}: cannot be read ({e.strerror}).") from e
    window = ("workload start", "workload end")
    quoted = " ".join(shlex.quote(a) for a in arguments)
    if content.startswith(b"\x7fELF"):
        if b"/ld-linux" in content[:4096] or b"/ld-musl" in content[:4096]:
            raise UsageError(
                f"{path}: this program needs shared libraries, and the guest has none. Link it statically (gcc -static), or "
                "write a shell script of busybox's commands."
            )
        script = f"exec /job/JOB.program {quoted}\n".encode()
        return Work(path.name, {"JOB.sh": script, "JOB.program": content}, False, window)
    if b"\0" in content[:4096]:
        raise UsageError(f"{path}: neither a shell script nor a static program for x86-64.")
    script = f"set -- {quoted}\n".encode() + content
    return Work(path.name, {"JOB.sh": script}, False, window)


def is_file_work(name: str) -> bool:
    """Tell whether this is the name of a script or a program, and not of a scenario or a file that the replay takes."""
    path = Path(name)
    return path.is_file() and path.suffix != ".json"


def job_text(program: Program, seed: int, limit_ns: int | None = None) -> str:
    """Return a program as the runner reads it (``inside/read.c``)."""
    shared = {
        row[1]
        for s in (*program.tasks, *program.templates)
        for row in s.rows
        if row[0] == ops.OP_LOCK and row[4]
    }
    masks = {mask: number for number, mask in enumerate(program.masks)}
    kept = [(i, t) for i, t in enumerate(program.tasks) if not _is_kernel_thread(t)]
    for s in (*program.templates, *(t for _, t in kept)):
        if s.allowed is not None:
            masks.setdefault(s.allowed, len(masks))
    lines = [
        f"{seed} {limit_ns or 0} {len(program.tasks)} {len(program.shares)}",
        f"{len(program.barriers)} {program.locks} {len(program.semaphores)}",
        " ".join(map(str, (*program.barriers, *program.semaphores))),
        str(len(program.hotplug)),
        *(f"{at} {cpu} {int(online)}" for at, cpu, online in program.hotplug),
        str(len(masks)),
        *(format_cpulist(sorted(mask)) for mask in masks),
        str(len(program.texts)),
        *(text.replace("\n", " ") for text in program.texts),
    ]
    for specs in (list(enumerate(program.templates)), kept):
        lines.append(str(len(specs)))
        for number, s in specs:
            rows = without_kernel(s.rows, shared)
            mask = -1 if s.allowed is None else masks[s.allowed]
            lines.append(
                f"{number} {s.group} {s.nice} {s.start_cpu} {s.start_ns} {int(s.daemon)} {mask} {len(rows)} {s.comm}"
            )
            lines += (" ".join(map(str, row)) for row in rows)
    return "\n".join(lines) + "\n"


def _is_kernel_thread(task: TaskSpec) -> bool:
    return task.comm.startswith(_KERNEL_THREADS) or any(
        row[0] in _OF_KERNEL_THREADS for row in task.rows
    )


def without_kernel(rows: tuple[Row, ...], shared_locks: set[int]) -> list[Row]:
    """Mark the rows that stand for the kernel's own work with d = 1; the runner draws their lengths and does nothing else.

    One of these rows is the stretch of computing right before a fork. The others belong to a lock that tasks share (the semaphore
    of a process's memory map, ``workload/builder.py``): the rows that take and release the lock, the stretches during which it is
    held, and the stretch after its release.
    """
    out = [list(row) for row in rows]
    under = after = False
    for i, row in enumerate(out):
        op = row[0]
        if op in (ops.OP_LOCK, ops.OP_UNLOCK) and row[1] in shared_locks:
            row[4] = 1
            under, after = op == ops.OP_LOCK, op == ops.OP_UNLOCK
        elif op == ops.OP_COMPUTE:
            following = [r[0] for r in out[i + 1 : i + 3] if r[0] != ops.OP_TOUCH][:1]
            if under or after or (following == [ops.OP_FORK] and row[2] <= MOST_FORK_NS):
                row[4] = 1
            after = False
        elif op != ops.OP_TOUCH:
            after = False
    return [tuple(row) for row in out]  # type: ignore[misc]


def numbered(works: Iterable[Work]) -> dict[str, bytes]:
    """Return the files of all jobs under the names that the runner expects."""
    files = {}
    for number, work in enumerate(works):
        for name, content in work.files.items():
            files[name.replace("JOB", str(number))] = content.replace(
                b"/job/JOB", f"/job/{number}".encode()
            )
    return files
