"""Which CPUs each task may run on, as far as a trace tells.

The sources are affinity events, the snapshot at the start of a capture, and the names of bound kernel threads.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from wastedcores.cpulist import parse_cpulist
from wastedcores.runqueues import task_row
from wastedcores.runqueues.events import require_inside
from wastedcores.trace.header import Header, TaskFacts
from wastedcores.trace.trace import Trace

#: kernel threads bound to the CPU in their name (kernel/smpboot.c, workqueue.c, stop_machine.c, rcu/tree.c)
BOUND_KTHREADS = (
    r"^(?:migration|ksoftirqd|cpuhp|watchdog|rcuc|ktimers|irq_work|idle_inject|backlog_napi|kworker|stopper)"
    r"/(\d+)(?::.*)?$"
)

#: Names of programs that record. The wakeups of their own threads are not always recorded: an event wakes the thread that will
#: read it while this event is still being written.
RECORDERS = ("perf", "trace-cmd")


class Affinity(NamedTuple):
    """The distinct affinity masks of a trace and the mask of every task at its start."""

    masks: NDArray[np.uint64]  # (masks, words) allowed CPUs by mask id; id 0 stands for "anywhere"
    mask_ids: dict[bytes, int]  # the id of each mask, by the mask as the events write it
    of_task: NDArray[np.int32]  # (tasks,) mask id of each task at the start, see task_row
    #: (tasks,) 1 if the affinity is known at the start; a name like that of a bound kernel thread is no proof
    known: NDArray[np.int8]
    roles: dict[int, NDArray[np.int64]]  # tasks by the role that their name shows
    recorders: NDArray[np.int64]  # the threads that recorded the trace
    sources: tuple[str, ...]  # origin of the masks: "names of kernel threads", "snapshot", "events"
    follows: bool  # whether the trace has an event for each change of affinity, so that a child's affinity is known, too


def unrestricted(cpus: int, tasks: int) -> Affinity:
    """Return the affinity of a trace in which every task may run anywhere."""
    return Affinity(
        np.zeros((1, (cpus + 63) // 64), np.uint64),
        {},
        np.zeros(tasks, np.int32),
        np.ones(tasks, np.int8),
        {},
        np.zeros(0, np.int64),
        (),
        follows=True,
    )


def find_affinity(trace: Trace, kinds: Collection[str], cpus: int, tasks: int) -> Affinity:
    """Collect the affinity masks of a trace whose pids are the rows of its tasks and below ``tasks``."""
    masks, mask_ids, of_task, *_ = unrestricted(cpus, tasks)
    known = np.zeros(tasks, np.int8)
    follows = trace.header.follows_affinity
    if follows is None:
        follows = trace.header.source_format == "schedtrace"
    sources = []
    names = [(p, c) for p, c in trace.names.iter_rows() if c is not None and 0 < (p or 0) < tasks]
    bound = [(p, c) for p, c in names if re.match(BOUND_KTHREADS, c)]
    if bound:
        of_task[[p for p, _ in bound]] = task_row.PRESUMED_BOUND
        sources.append("names of kernel threads")
    rows = [masks[0]]
    for task in _told(trace, kinds, follows):
        if task.allowed is not None and 0 < task.pid < tasks:
            allowed = parse_cpulist(task.allowed)
            bits = sum(1 << c for c in allowed if c < cpus).to_bytes(masks.shape[1] * 8, "little")
            of_task[task.pid] = _mask_id(bits, rows, mask_ids, cpus)
            known[task.pid] = 1
    if trace.header.tasks:
        sources.append("snapshot")
    if "affinity" in kinds or "task_state" in kinds:
        told = trace.only("affinity", "task_state").select("kind", "pid", "cpu_mask")
        table = told.filter(pl.col("cpu_mask").is_not_null()).collect()
        for raw in table["cpu_mask"].unique(maintain_order=True):
            _mask_id(raw, rows, mask_ids, cpus)
        if table.height:
            sources.append("events")
        snapshot = table.filter(pl.col("kind") == "task_state").unique("pid", keep="first")
        pids = snapshot["pid"].fill_null(-1).to_numpy()
        require_inside(trace.name, [pids], tasks, "pid", low=0)
        of_task[pids] = [mask_ids[raw] for raw in snapshot["cpu_mask"]]
        known[pids] = 1
    if trace.header.source_format == "replay" and trace.header.follows_affinity:
        known[:] = 1  # a task without an event may run anywhere
    roles = {
        role: np.array([p for p, c in bound if c.startswith(name)], np.int64)
        for role, name in ((task_row.STOPPER, "migration/"), (task_row.HOTPLUGGER, "cpuhp/"))
    }
    recorders = np.array([p for p, c in names if c in RECORDERS], np.int64)
    return Affinity(
        np.stack(rows), mask_ids, of_task, known, roles, recorders, tuple(sources), follows
    )


def _told(trace: Trace, kinds: Collection[str], follows: bool) -> Iterator[TaskFacts]:
    """Yield the tasks of the trace's snapshots whose affinity never changed, or whose changes of affinity are events."""
    header = trace.header
    first = {task.pid: task for task in header.tasks or []}
    if follows or not first:
        late = header.source_format == "schedtrace" and "task_state" not in kinds
        if late and "affinity" in kinds:
            # the snapshot of a flight recording is taken at the end, so it does not tell the affinity before a change
            for pid in trace.only("affinity").select("pid").unique().collect()["pid"]:
                first.pop(pid, None)
        yield from first.values()
        return
    # a task that began within the trace may have changed its inherited affinity, and an earlier task may have had the same pid
    born: dict[int, list[int | None]] = {}
    if "fork" in kinds:
        forks = trace.only("fork").group_by("pid").agg("by_pid").collect()
        born = dict(forks.iter_rows())
    later = {task.pid: task for task in header.later_tasks or []}
    for task in first.values():
        alone = header.later_tasks is None
        if (task.pid in born and alone and _as_forked(task, born[task.pid], first)) or (
            task.pid not in born.keys() | later.keys() and "allowed" not in task.changed
        ):
            yield task
    everybody = {**first, **later}
    for task in later.values():
        parent, by = first.get(_parent(task)), born.get(task.pid)
        forked_by = everybody.get(by[0] or 0) if by else parent
        same = (
            parent is not None
            and parent.allowed == task.allowed
            and "allowed" not in parent.changed
            # a task whose parent has ended gets another parent, from which it did not inherit its affinity
            and forked_by is not None
            and forked_by.allowed == task.allowed
            and _process(forked_by) == parent.pid
        )
        if same and task.pid not in first and len(by or [None]) == 1:
            yield task


def _process(task: TaskFacts) -> int:
    """The number of a task's process; if this number is not known, the task is taken for the only task of its process."""
    return task.tgid or task.pid


def _parent(task: TaskFacts) -> int:
    """The process that forked a task, or to which it belongs as a thread; 0 if that is not known."""
    return (task.ppid if task.pid == task.tgid else task.tgid) or 0


def _as_forked(task: TaskFacts, by: list[int | None], tasks: dict[int, TaskFacts]) -> bool:
    """Whether a task of the only snapshot was forked once in the trace and has the affinity of its parent.

    This also holds if the snapshot shows an earlier task with the same number and the same parent.
    """
    parent, forked_by = tasks.get(_parent(task)), tasks.get(by[0] or 0)
    return (
        len(by) == 1
        and parent is not None
        and forked_by is not None
        and forked_by.tgid == parent.tgid
        and task.allowed == parent.allowed == forked_by.allowed
    )


def once(header: Header, follows: bool) -> bool:
    """Whether a trace tells the affinity of tasks at no more than one moment."""
    return header.later_tasks is None and not follows


def moves_unseen(trace: Trace) -> bool:
    """Whether a thread ran on two CPUs although the trace has no move of any thread."""
    if "migrate" in trace.kinds():
        return False
    of_thread = trace.only("switch").filter(pl.col("pid") > 0).group_by("pid")
    moved = of_thread.agg(places=pl.col("cpu").n_unique()).filter(pl.col("places") > 1)
    return moved.collect().height > 0


def not_exec(trace: Trace, affinity: Affinity, pids: list[int]) -> list[int]:
    """Return those of the threads that existed from the beginning and kept their name, so that no exec explains their move."""
    there = [p for p in pids if affinity.known[p]]
    if not there:
        return []
    own = trace.names.lazy().filter(pl.col("pid").is_in(there)).drop_nulls()
    execs = trace.only("exec").select("pid").unique()
    found = own.join(execs, on="pid", how="anti").group_by("pid").len()
    return found.filter(pl.col("len") == 1).collect()["pid"].to_list()


def outdated(header: Header, repinned: NDArray[np.int32], *, everybody: bool) -> NDArray[np.bool_]:
    """Tell for which tasks the only snapshot may be out of date: these tasks or their kin seem to have got another affinity.

    ``everybody``: affinities changed during the trace, and a thread with a new affinity need not have moved. Kernel threads
    that are bound to a CPU cannot get another affinity (PF_NO_SETAFFINITY, kernel/sched/syscalls.c, v6.12).
    """
    found = repinned.astype(np.bool_)
    tasks = [t for t in header.tasks or [] if 0 < t.pid < found.size]
    moved = {key for task in tasks if found[task.pid] for key in _kin(task)}
    for task in tasks:
        bound = task.kthread and re.match(BOUND_KTHREADS, task.comm or "")
        if (everybody and not bound) or not moved.isdisjoint(_kin(task)):
            found[task.pid] = True
    return found


def repinned(header: Header) -> tuple[list[int], list[int]]:
    """Tell which tasks got another affinity during the trace, as two snapshots show, and the parents of these tasks."""
    first = {task.pid: task for task in header.tasks or []}
    found = [t for t in first.values() if "allowed" in t.changed]
    for task in header.later_tasks or []:
        parent = first.get(_parent(task))
        if parent is not None and parent.allowed != task.allowed:
            found.append(task)
    return [t.pid for t in found], [t.ppid for t in found if t.ppid]


def _kin(task: TaskFacts) -> set[tuple[str, int | str]]:
    """Return the process, parent and cpuset of a task: the affinity of tasks that share one of them is often changed together."""
    keys: set[tuple[str, int | str]] = set()
    if task.tgid:
        keys.add(("process", task.tgid))
    if task.ppid and task.ppid > 2:
        keys.add(("parent", task.ppid))
    if task.cpuset and task.cpuset != "/":
        keys.add(("cpuset", task.cpuset))
    return keys


def _mask_id(
    raw: bytes, rows: list[NDArray[np.uint64]], mask_ids: dict[bytes, int], cpus: int
) -> int:
    """The id of a mask; a new mask is added to ``rows`` unless it allows every CPU."""
    if raw not in mask_ids:
        bits = np.zeros(rows[0].size * 8, np.uint8)
        data = np.frombuffer(raw, np.uint8)[: bits.size]
        bits[: data.size] = data
        everywhere = bool(np.unpackbits(bits, bitorder="little")[:cpus].all())
        mask_ids[raw] = task_row.FREE if everywhere else len(rows)
        if not everywhere:
            rows.append(bits.view(np.uint64))
    return mask_ids[raw]
