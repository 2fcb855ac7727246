"""Turns the timelines of tasks into a workload that can be replayed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wastedcores.recovery import stretches_jit as sj
from wastedcores.recovery import timeline as tl
from wastedcores.recovery.barriers import Rounds
from wastedcores.recovery.facts import Facts
from wastedcores.recovery.predicted_part import Span
from wastedcores.recovery.task_tables import Seen
from wastedcores.recovery.timeline import Timeline
from wastedcores.workload import ops
from wastedcores.workload.builder import Workload
from wastedcores.workload.script import Script

I64 = NDArray[np.int64]
Row = tuple[Any, ...]

#: in the replay, tasks that were asleep when the trace began are started within this time before the trace, one by one
LEAD_NS = 20_000_000
#: tasks that always computed are started this long before the trace, so that their load is known when the trace begins
WARM_NS = 200_000_000
#: until the trace begins, tasks that always computed do so in pieces of this length; the last piece may last into the trace
WARM_PIECE_NS = 100_000
#: the text of the mark that a task writes if its exit may end the span
END_MARK = "recorded work ends"
#: an endless task computes in pieces of this length
PIECE_NS = 1_000_000_000


def build(
    name: str, seen: Seen, facts: Facts, rounds: Rounds, plan: Timeline, span: Span
) -> Workload:
    """Make the workload."""
    w = Workload(name)
    for _ in range(int(facts.session.max(initial=0))):
        w.session()
    for parties in rounds.parties.tolist():
        w.barrier(parties)
    for _ in range(plan.semaphores + 1):  # one more semaphore for sleeps that never end
        w.semaphore()
    for _ in np.unique(plan.actions[plan.actions[:, tl.A_WHAT] == tl.LOCK, tl.A_WITH]):
        w.lock()
    for _ in np.unique(plan.actions[plan.actions[:, tl.A_WHAT] == tl.UNTIL, tl.A_TASK]):
        w.timer()
    # the parents of the tasks that end the span must exist until the last of these tasks is born
    ends = {*span.ending, *_forebears(seen, span.ending)}
    plan = replace(plan, actions=_until(seen, plan.actions, ends, span.end_ns))
    templates = _templates(seen)
    scripts = _scripts(seen, plan, templates, facts, span.spinning)
    if span.marks is None:
        for t in span.ending:
            scripts[t].append((ops.OP_MARK, END_MARK, 0, 0, 0))
    old = [t for t in np.flatnonzero(templates < 0).tolist() if not facts.stopper[t]]
    for t in np.flatnonzero(templates >= 0).tolist():
        script, nice = Script(), int(seen.nice[t])
        if nice != seen.nice[seen.tasks[t, sj.T_PARENT]]:
            script.nice(nice)
        _append(script, scripts[t])
        w.template(seen.comms[t], script, facts.allowed[t], daemon=t not in ends)
    if not ends:  # a replay ends when all its tasks are daemons
        length = WARM_NS + seen.end_ns - seen.start_ns
        w.task("recorded time", Script().sleep(length + PIECE_NS))
    for place, t in enumerate(old):
        _add_old(w, seen, facts, t, scripts[t], t not in ends, place / len(old))
    return w


def _forebears(seen: Seen, tasks: Iterable[int]) -> set[int]:
    """Return the parents of some tasks, the parents of these parents, and so on."""
    found: set[int] = set()
    for t in tasks:
        parent = int(seen.tasks[t, sj.T_PARENT])
        while parent >= 0 and parent not in found:
            found.add(parent)
            parent = int(seen.tasks[parent, sj.T_PARENT])
    return found


def _until(seen: Seen, actions: I64, tasks: set[int], end_ns: int) -> I64:
    """Let ``tasks`` exit at the end of the span at the latest, so that a replay, which waits for them, does not outlast the span.

    An action before that moment depends only on earlier actions, unless it is a wait that lasts beyond that moment: the task that
    would end the wait may have exited. Therefore such waits are left out, too.
    """
    mine = np.isin(actions[:, tl.A_TASK], list(tasks))
    late = mine & (actions[:, tl.A_NS] > end_ns)
    late |= mine & (actions[:, tl.A_WHAT] == tl.STOP)
    s = seen.sleeps[seen.sleeps[:, sj.S_WAKE_NS] > end_ns]
    asleep_ns = np.full(len(seen.tasks), np.iinfo(np.int64).max)
    np.minimum.at(asleep_ns, s[:, sj.S_TASK], s[:, sj.S_OUT_NS])
    waits = np.isin(actions[:, tl.A_WHAT], (tl.WAIT, tl.MEET))
    late |= mine & waits & (actions[:, tl.A_NS] >= asleep_ns[actions[:, tl.A_TASK]])
    cut = np.unique(actions[late, tl.A_TASK])
    held = np.flatnonzero(np.isin(actions[:, tl.A_WHAT], (tl.LOCK, tl.UNLOCK)))
    late[held[::2]] |= late[held[1::2]]  # no task ends while it holds a lock
    clock, _ = seen.clock(cut, np.full(len(cut), end_ns))
    exits = tl.rows(cut, clock, np.full(len(cut), end_ns), tl.END, 1)
    return tl.in_order(np.concatenate([actions[~late], exits]))


def _templates(seen: Seen) -> I64:
    """Return the number of each task's template; -1 for tasks whose birth was not seen."""
    born = seen.tasks[:, sj.T_PARENT] >= 0
    return np.where(born, np.cumsum(born) - 1, -1)


def _add_old(
    w: Workload, seen: Seen, facts: Facts, t: int, rows: list[Row], daemon: bool, place: float
) -> None:
    """Add a task that no known task forked. It starts on the CPU where it was seen first."""
    state = int(seen.tasks[t, sj.T_FIRST_STATE])
    endless = state != sj.ASLEEP and not seen.tasks[t, sj.T_NUMBER]
    start = WARM_NS if state != sj.ASLEEP else WARM_NS - LEAD_NS + int(place * LEAD_NS)
    born = int(seen.tasks[t, sj.T_BORN_NS])
    if born >= 0:  # forked in the trace, by a task that is not known
        start = WARM_NS + born - seen.start_ns
    elif endless:
        start = 0
    cpu = int(seen.tasks[t, sj.T_FIRST_CPU])
    allowed = facts.allowed[t] or frozenset(range(seen.cpus))
    script = Script()
    if allowed != {cpu}:
        script.affinity(allowed)
    if state == sj.ASLEEP and born < 0:
        script.sleep(WARM_NS - start)
    if endless and born < 0:
        # when the trace begins, the task continues as in the trace, however much CPU time it got before
        script.loop(until_ns=WARM_NS).compute(WARM_PIECE_NS).end()
    _append(script, rows)
    w.task(
        seen.comms[t],
        script,
        session=int(facts.session[t]),
        nice=int(seen.nice[t]),
        allowed=[cpu],
        cpu=cpu,
        start_ns=start,
        daemon=daemon,
    )


def _append(script: Script, rows: list[Row]) -> None:
    """Append rows to a script, and let their loops jump to the new places of the rows."""
    offset = len(script.rows)
    script.rows += [
        (op, a + offset if op == ops.OP_LOOP else a, b, c, d) for op, a, b, c, d in rows
    ]


def _scripts(
    seen: Seen, plan: Timeline, templates: I64, facts: Facts, spinning: frozenset[int]
) -> list[list[Row]]:
    """Return the rows of each task's script."""
    actions = plan.actions
    work, rows = _computed(actions), _operations(seen, plan, templates, facts)
    both = np.empty((2 * len(actions), 5), np.int64)
    both[0::2] = 0
    both[0::2, 0] = ops.OP_COMPUTE
    both[0::2, 1] = both[0::2, 2] = work
    both[1::2] = rows
    keep = np.ones(len(both), np.bool_)
    keep[0::2] = work > 0
    keep[1::2] = rows[:, 0] >= 0
    owner = np.repeat(actions[:, tl.A_TASK], 2)[keep]
    flat = list(zip(*(column.tolist() for column in both[keep].T), strict=True))
    cuts = np.searchsorted(owner, np.arange(len(seen.tasks) + 1)).tolist()
    scripts = [flat[a:b] for a, b in pairwise(cuts)]
    for t, script in enumerate(scripts):
        for i, row in enumerate(script):
            if row[0] == ops.OP_MARK:
                script[i] = (ops.OP_MARK, seen.texts[row[1]], 0, 0, 0)
        if script and script[-1][0] == ops.OP_EXIT:
            script.pop()  # a Script ends with an exit by itself
            if t in spinning:
                script.extend(_computing(len(script)))
        else:
            script.extend(_endless(seen, t, len(script), plan.semaphores))
    return scripts


def _endless(seen: Seen, t: int, length: int, never: int) -> list[Row]:
    """Return the last rows of a task whose exit was not seen: it computes for ever if it always computed, else it sleeps."""
    if seen.tasks[t, sj.T_STATE] in (sj.RUNNING, sj.WAITING) and not _slept_lately(seen, t):
        return _computing(length)
    return [(ops.OP_WAIT, never, ops.MODE_BLOCK, 0, 0)]  # no task ends this wait


def _computing(length: int) -> list[Row]:
    """Return the rows of an endless loop that computes; ``length`` other rows precede them."""
    return [(ops.OP_COMPUTE, PIECE_NS, PIECE_NS, 0, 0), (ops.OP_LOOP, length, 0, -1, -1)]


def _slept_lately(seen: Seen, t: int) -> bool:
    """Tell whether a task slept in the second half of its time in the trace."""
    task = seen.tasks[t]
    half = (int(task[sj.T_FIRST_NS]) + seen.end_ns) // 2
    mine = seen.sleeps[seen.sleeps[:, sj.S_TASK] == t]
    ended_ns = mine[:, [sj.S_OUT_NS, sj.S_WAKE_NS]].max(axis=1)
    return bool((ended_ns > half).any())


def _computed(actions: I64) -> I64:
    """Return the CPU time before each action, without the cost of the scheduler's own work."""
    task, at, cost = actions[:, tl.A_TASK], actions[:, tl.A_AT], actions[:, tl.A_COST]
    cost = np.where(np.isin(actions[:, tl.A_WHAT], (tl.POST, tl.LAST, tl.UNLOCK)), cost, 0)
    same = np.append(False, task[1:] == task[:-1])[: len(task)]
    before = np.append(0, at[:-1])[: len(at)]
    paid = np.append(0, cost[:-1])[: len(at)]
    return np.maximum(at - np.where(same, before + paid, 0), 0)


def _timers(plan: Timeline) -> I64:
    """Return the operations of periodic sleeps. Each sleep ends one period after the end of the sleep before it."""
    until = plan.actions[plan.actions[:, tl.A_WHAT] == tl.UNTIL]
    _, number = np.unique(until[:, tl.A_TASK], return_inverse=True)
    first = np.append(True, number[1:] != number[:-1])[: len(number)]
    apart = np.diff(until[:, tl.A_COST], prepend=0)
    rows = np.zeros((len(until), 5), np.int64)
    rows[:, 0], rows[:, 1] = ops.OP_TIMER, plan.semaphores + 1 + number
    rows[:, 2], rows[:, 3] = np.where(first, until[:, tl.A_WITH], apart), 1
    return rows


def _operations(seen: Seen, plan: Timeline, templates: I64, facts: Facts) -> I64:
    """Return the operation of each action, int64 (actions, 5); -1 in the first column stands for no operation."""
    what, arg = plan.actions[:, tl.A_WHAT], plan.actions[:, tl.A_WITH]
    rows = np.zeros((len(what), 5), np.int64)
    rows[:, 0] = -1
    for action, op in (
        (tl.POST, ops.OP_POST),
        (tl.MEET, ops.OP_BARRIER),
        (tl.LAST, ops.OP_BARRIER),
        (tl.FORK, ops.OP_FORK),
        (tl.MARK, ops.OP_MARK),
        (tl.WAIT, ops.OP_WAIT),
        (tl.SLEEP, ops.OP_SLEEP),
        (tl.CHILDREN, ops.OP_WAIT_CHILDREN),
        (tl.STOP, ops.OP_WAIT),
        (tl.LOCK, ops.OP_LOCK),
        (tl.UNLOCK, ops.OP_UNLOCK),
    ):
        mine = what == action
        rows[mine, 0] = op
        rows[mine, 1] = arg[mine]
    post = what == tl.POST
    rows[post, 2], rows[post, 3] = 1, plan.sync[arg[post]]
    meet = np.isin(what, (tl.MEET, tl.LAST))
    rows[meet, 2], rows[meet, 4] = ops.MODE_BLOCK, -1
    rows[np.isin(what, (tl.WAIT, tl.STOP, tl.LOCK)), 2] = ops.MODE_BLOCK
    rows[what == tl.STOP, 1] = plan.semaphores
    rows[what == tl.SLEEP, 2] = rows[what == tl.SLEEP, 1]
    rows[what == tl.UNTIL] = _timers(plan)
    fork = what == tl.FORK
    child = arg[fork]
    own = facts.session[child]
    same = own == facts.session[plan.actions[fork, tl.A_TASK]]
    rows[fork, 1], rows[fork, 2] = templates[child], np.where(same, -1, own)
    rows[(what == tl.END) & (arg == 1), 0] = ops.OP_EXIT
    return rows
