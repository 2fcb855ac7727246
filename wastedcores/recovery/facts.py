"""Facts about tasks that no scheduler event tells: session or control group, allowed CPUs, nice value.

The facts come from the trace's header, from a file that ``wastedcores snapshot`` writes (``wastedcores.tasks/1``), or from the
names of tasks that lead a session.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from wastedcores.cpulist import parse_cpulist
from wastedcores.errors import UsageError
from wastedcores.recovery import stretches_jit as sj
from wastedcores.recovery.task_tables import Seen
from wastedcores.runqueues.affinity import BOUND_KTHREADS
from wastedcores.trace.header import TaskFacts, Window
from wastedcores.trace.trace import Trace

I64 = NDArray[np.int64]

_STOPPER = re.compile(r"^(?:migration|stopper)/\d+")
_BOUND = re.compile(BOUND_KTHREADS)
#: policies whose tasks are replayed with nice -20; their own nice value has no effect
_REALTIME = ("fifo", "rr", "deadline")


@dataclass
class Facts:
    """What is known of the tasks in addition to their events."""

    #: int64 (tasks,): number of the session or control group of each task; 0 is the root group
    session: I64
    #: the CPUs on which each task may run; None: the CPUs of its parent, or all CPUs if the trace has no parent of it
    allowed: list[frozenset[int] | None]
    #: bool (tasks,): tasks whose affinity is known from a snapshot or from their name
    placed: NDArray[np.bool_]
    bound: NDArray[np.bool_]  #: bool (tasks,): kernel threads of one CPU
    #: bool (tasks,): the stopper threads, which a replay already has
    stopper: NDArray[np.bool_]
    idle: NDArray[np.bool_]  #: bool (tasks,): tasks of SCHED_IDLE, which a fork inherits
    #: the source of the sessions: "tasks", "names", or "" if there is none, so that all tasks share the root group
    told: str
    #: whether the sessions are autogroups that were switched off in the recording, so that only another kernel may use them
    switched_off: bool


def gather(
    seen: Seen,
    tasks: Sequence[TaskFacts | Mapping[str, Any]] | None,
    sessions: Iterable[str],
    task_groups: Collection[str] | None = None,
    autogroups: bool | None = None,
) -> Facts:
    """Collect what is known of the tasks; ``task_groups`` and ``autogroups`` are as in a trace's header.

    If autogroups are switched off and there are control groups, the autogroups are left out. Without control groups the
    autogroups are kept, because the kernel of a replay may have autogroups on. A model with ``+noautogroup`` puts all tasks into
    the root group.
    """
    count = len(seen.tasks)
    by_pid = {}
    for told in tasks or ():
        each = told if isinstance(told, TaskFacts) else TaskFacts.model_validate(told)
        by_pid[each.pid] = each
    sessions = tuple(sessions)
    known = None if task_groups is None else frozenset(task_groups)
    named = autogroups is not False or not in_task_groups(by_pid.values(), known)
    found = Facts(
        np.zeros(count, np.int64),
        [None] * count,
        np.zeros(count, np.bool_),
        np.zeros(count, np.bool_),
        np.array([bool(_STOPPER.match(c)) for c in seen.comms], np.bool_),
        np.zeros(count, np.bool_),
        "names" if sessions else "tasks" if by_pid else "",
        autogroups is False and named,
    )
    groups: dict[object, int] = {}
    pids = set()
    confined = np.zeros(count, np.bool_)
    for t, (pid, parent) in enumerate(seen.tasks[:, [sj.T_PID, sj.T_PARENT]].tolist()):
        fact = by_pid.get(pid) if pid not in pids else None
        pids.add(pid)
        group = _group(fact, groups, known, named)
        if sessions:
            leads = _leads(seen, t, parent, sessions)
            group = groups.setdefault(("session", t), len(groups) + 1) if leads else None
        inherited = int(found.session[parent]) if parent >= 0 else 0
        found.session[t] = inherited if group is None else group
        name = _BOUND.match(seen.comms[t])
        if fact is not None and fact.allowed is not None:
            cpus = frozenset(c for c in parse_cpulist(fact.allowed) if c < seen.cpus)
            inherits = len(cpus) == seen.cpus and not (parent >= 0 and confined[parent])
            found.allowed[t] = None if not cpus or inherits else cpus
            found.placed[t] = True
            found.bound[t] = len(cpus) == 1 and bool(fact.kthread or name)
        elif name and not seen.tasks[t, sj.T_MOVED] and int(name[1]) < seen.cpus:
            found.allowed[t], found.bound[t] = frozenset((int(name[1]),)), True
            found.placed[t] = True
        own = found.allowed[t]
        confined[t] = (parent >= 0 and confined[parent]) if own is None else len(own) < seen.cpus
        if fact is not None and fact.policy in _REALTIME:
            seen.nice[t], seen.realtime[t] = -20, True
        elif fact is not None and fact.nice is not None:
            seen.nice[t] = fact.nice
        elif parent >= 0 and not seen.told_nice[t]:
            seen.nice[t] = seen.nice[parent]
        policy = fact.policy if fact is not None else None
        found.idle[t] = policy == "idle" if policy else parent >= 0 and found.idle[parent]
        if found.idle[t]:
            seen.nice[t] = 19
    return found


def task_group(fact: TaskFacts, task_groups: Collection[str] | None) -> str | None:
    """Return the control group whose CPU time a task shares: the nearest one that is a task group; None if it is not known."""
    if task_groups is None or fact.cgroup is None:
        return None
    path = PurePosixPath(fact.cgroup)
    return next((str(p) for p in (path, *path.parents) if str(p) in task_groups), "/")


def in_task_groups(tasks: Iterable[TaskFacts] | None, task_groups: Collection[str] | None) -> bool:
    """Tell whether any task is in a control group of the scheduler other than the root."""
    known = frozenset(task_groups or ())
    return any(task_group(fact, known) not in (None, "/") for fact in tasks or ())


def _group(
    fact: TaskFacts | None,
    groups: dict[object, int],
    task_groups: Collection[str] | None,
    autogroups: bool = True,
) -> int | None:
    """Return the number of a task's group. None means that it is in the group of its parent.

    Only tasks of the root group have an autogroup (kernel/sched/autogroup.c: task_wants_autogroup(), v4.1 and v6.12).
    """
    if fact is None:
        return None
    name = task_group(fact, task_groups)
    if name in (None, "/") and autogroups:
        name = fact.autogroup or name or fact.cgroup
    if name is None:
        return None
    return 0 if name == "/" else groups.setdefault(name, len(groups) + 1)


def _leads(seen: Seen, task: int, parent: int, sessions: tuple[str, ...]) -> bool:
    """Tell whether a task leads a session: it has the name of a leader and did not inherit this name from its parent."""
    for name in sessions:
        if any(n.startswith(name) for n in seen.names[task]):
            return parent < 0 or not any(n.startswith(name) for n in seen.names[parent])
    return False


#: the kinds of events that say who runs, and what a task does
_OF_A_TASK = ("wakeup", "wakeup_new", "migrate", "fork", "exec", "exit", "mark")


def family_of(trace: Trace, name: str) -> Trace:
    """Return the events of the first task of a name, and of all tasks that descend from it.

    A CPU that runs other tasks counts as idle, and wakeups by other tasks have no waker. So the result shows how much each task
    of the family computed and why it slept, but not which tasks had to wait. A check of the result is meaningless.
    """
    events = trace.only("switch", *_OF_A_TASK).collect().with_row_index("row")
    named = events.filter(pl.col("comm") == name, pl.col("pid") > 0)
    if named.is_empty():
        raise UsageError(
            f"{trace.name}: no task is called {name!r}, so there is no family to find."
        )
    root, first = int(named["pid"][0]), int(named["row"][0])
    forks = events.filter(pl.col("kind") == "fork").select("row", "pid", "by_pid")
    births = forks.filter(pl.col("pid") == root, pl.col("row") <= first)["row"].to_list()
    born = births[-1] if births else -1
    # a fork whose child has a known pid begins another task with this pid
    inside, changes = {root}, [(max(born, 0), root, True)]
    for row, child, parent in forks.filter(pl.col("row") > born).iter_rows():
        if (parent in inside) != (child in inside):
            inside ^= {child}
            changes.append((row, child, child in inside))
    table = pl.DataFrame(changes, schema=["row", "pid", "mine"], orient="row")
    table = table.cast({"row": events.schema["row"], "pid": events.schema["pid"]})
    columns = {"mine": "pid", "prev": "prev_pid", "by": "by_pid"}
    events = events.with_columns(
        events.select("row", pid=column)
        .join_asof(table, on="row", by="pid", check_sortedness=False)["mine"]
        .fill_null(False)
        .alias(of)
        for of, column in columns.items()
    )
    mine, prev, by = (pl.col(of) for of in columns)
    switch = pl.col("kind") == "switch"
    birth = pl.col("row") == born
    kept = events.filter((mine & ~birth) | (switch & prev)).with_columns(
        pid=pl.when(mine).then("pid").otherwise(0),
        comm=pl.when(mine).then("comm"),
        prev_pid=pl.when(prev).then("prev_pid").when(switch).then(0),
        prev_comm=pl.when(prev).then("prev_comm"),
        by_pid=pl.when(by).then("by_pid"),
    )
    kept = kept.drop("row", *columns)
    window = Window(start_ns=int(kept["ts_ns"][0]), end_ns=int(kept["ts_ns"][-1]))
    return Trace(kept.lazy(), trace.header).with_header(window=window)
