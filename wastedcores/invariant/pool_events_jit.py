"""What events mean for :mod:`wastedcores.invariant.pool_jit`: who waits, who may wait unseen, and which CPUs may be idle."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from wastedcores.invariant import pool_jit as po
from wastedcores.invariant.pool_jit import Changes, Pool
from wastedcores.jit.compile import callee, lean, rare
from wastedcores.runqueues import state as se
from wastedcores.runqueues import task_row
from wastedcores.runqueues.state import Events


@lean
def at_first(p: Pool) -> tuple[int, int]:
    """Return two counts for the beginning: threads that wait and could run on an idle CPU, and threads that may wait unseen."""
    return po.useful(p), po.haunting(p)


@callee
def _unseen(out: Changes, start_ns: int, end_ns: int) -> None:
    k = out.n[1]
    out.span[k, 0], out.span[k, 1] = start_ns, end_ns
    out.n[1] = k + 1


@rare
def _lose(p: Pool, out: Changes, t: int, c: int) -> None:
    """Events of CPU ``c`` are lost: any thread may have been woken, put on another queue, or stopped."""
    nowhere = p.nr.size
    for d in range(nowhere):
        if p.idle[d] != 0:
            po.blocked(p, d, 1)
    for k in range(p.waiting.size):
        p.waiting[k] = 0
        for d in range(nowhere):
            p.queued[nowhere, k] += p.queued[d, k]
            p.queued[d, k] = 0
        p.waiting[k] = p.queued[nowhere, k]
    p.cpu[:] = nowhere
    p.was_idle[:] = 0
    if p.since_ns[0] < 0:
        p.since_ns[0] = t
    q = p.curr[c]
    p.curr[c] = -1
    po.set_cpu(p, out, t, c, 0, 0)
    if q > 0 and p.task[q, po.STATE] == task_row.RUNNING:
        po.wait(p, out, t, q)
    po.pool_row(p, out, t)


@callee
def _went_idle(p: Pool, out: Changes, t: int, c: int) -> None:
    """Note that CPU ``c`` was idle; once every online CPU has been idle, no thread waits unseen any longer."""
    if p.since_ns[0] < 0:
        return
    p.was_idle[c] = 1
    for d in range(p.was_idle.size):
        if p.was_idle[d] == 0 and p.nr[d] >= 0:
            return
    p.since_ns[0] = -1
    po.pool_row(p, out, t)


@rare
def _settle(p: Pool, out: Changes, q: int) -> None:
    """Note that the wakeup of thread ``q`` is missing: it may have waited since it went to sleep."""
    if p.task[q, po.LATE] != 0:
        p.task[q, po.LATE] = 0
        since_ns = p.task_ns[q, po.FROM]
        k = np.searchsorted(p.lost_ns, since_ns)
        if k < p.lost_ns.size and p.lost_ns[k] < p.task_ns[q, po.BEGAN]:
            since_ns = p.lost_ns[k]
        _unseen(out, since_ns, p.task_ns[q, po.BEGAN])


@callee
def _unseen_from(p: Pool, t: int, c: int) -> int:
    """Return since when a thread may have waited unseen on the queue of CPU ``c`` until ``t``: only while the CPU was busy."""
    return t if p.curr[c] == 0 else p.busy_ns[c]


@callee
def _recorder_since(p: Pool, t: int, c: int, q: int) -> int:
    """Return since when thread ``q``, which is on CPU ``c``'s queue at ``t``, may have waited, if its wakeup is missing."""
    if po.some_idle_ns(p, t) <= p.task_ns[q, po.IDLE]:
        return t
    if p.placed == 0 or c == p.nr.size:
        return p.task_ns[q, po.SINCE]
    moved_ns = p.task_ns[q, po.MOVED]
    return max(p.task_ns[q, po.SINCE], moved_ns if moved_ns >= 0 else _unseen_from(p, t, c))


@callee
def _begin(p: Pool, out: Changes, t: int, c: int, q: int, recorder: bool) -> None:
    """Thread ``q`` begins to run on CPU ``c``. If all CPUs were busy since it fell asleep, it does not matter whether it waited.

    The trace has no wakeup of a ``recorder`` (perf, for example, is woken by an interrupt of its own events), but it has the
    moves after that wakeup.
    """
    matters = po.some_idle_ns(p, t) > p.task_ns[q, po.IDLE]
    if p.task[q, po.STATE] == task_row.WAITING:
        po.count(p, out, t, q, -1)
    elif p.task[q, po.LATE] == po.PERHAPS:
        _settle(p, out, q)  # if its last wakeup made it wait, the wakeup before that is missing
        if matters:
            _unseen(out, p.task_ns[q, po.SINCE], t)
    elif p.task[q, po.STATE] != task_row.RUNNING and matters:
        _settle(p, out, q)
        p.task[q, po.LATE] = po.UNWOKEN
        from_ns = _recorder_since(p, t, c, q) if recorder else p.task_ns[q, po.SINCE]
        p.task_ns[q, po.FROM], p.task_ns[q, po.BEGAN] = from_ns, t
        k = np.searchsorted(p.lost_ns, p.task_ns[q, po.SINCE])
        lost = k < p.lost_ns.size
        if p.task[q, po.STATE] == task_row.UNKNOWN and lost and p.lost_ns[k] < t:
            _unseen(out, p.task_ns[q, po.SINCE], t)  # it may have waited before the loss, too
            p.task[q, po.LATE] = 0
        elif p.since_ns[0] >= 0 and lost and p.lost_ns[k] + 1 >= p.since_ns[0]:
            p.task_ns[q, po.FROM] = t  # it is one of the threads that count as waiting unseen
    p.task[q, po.STATE] = task_row.RUNNING
    p.task[q, po.WOKEN] = 0


@callee
def _stop(p: Pool, out: Changes, t: int, q: int, keeps: bool, idle: bool) -> None:
    """Thread ``q`` stops. Where the queues are not known and the CPU goes idle although ``q`` could run, ``q`` is throttled."""
    if p.all_seen == 0:
        _settle(p, out, q)
    if (keeps and (not idle or p.placed != 0)) or (p.task[q, po.WOKEN] != 0 and not keeps):
        po.wait(p, out, t, q)
    else:
        po.sleep(p, out, t, q)
        if t - p.task_ns[q, po.EARLY] <= se.SKEW_NS:  # it may have been woken right after
            _settle(p, out, q)
            p.task[q, po.LATE] = po.PERHAPS
            p.task_ns[q, po.FROM], p.task_ns[q, po.BEGAN] = t, t
    p.task[q, po.WOKEN] = 0


@rare
def _left(p: Pool, out: Changes, t: int, q: int, c: int) -> None:
    """Thread ``q`` begins to run on CPU ``c`` although it seemed to run on another CPU, which may be idle since."""
    for d in range(p.curr.size):
        if d != c and p.curr[d] == q:
            p.curr[d] = -1
            po.set_cpu(p, out, t, d, 0, 0)


@lean
def pool(e: Events, wakings: bool, recorder: NDArray[np.bool_], p: Pool, out: Changes) -> None:
    """Apply events; ``out`` has room for ten rows and two spans per event."""
    out.n[:] = 0
    for i in range(e.code.size):
        k, t, c, q = e.code[i], e.ts_ns[i], e.cpu[i], e.pid[i]
        if k == se.SWITCH:
            x = e.prev_pid[i]
            if x > 0:
                if p.task[x, po.STATE] != task_row.RUNNING or t - p.task_ns[x, po.AT] > se.SKEW_NS:
                    po.move(p, out, t, x, c)
                _stop(p, out, t, x, e.aux[i] == se.STAYS, q == 0)
            if q > 0:
                if p.task[q, po.STATE] == task_row.RUNNING:
                    _left(p, out, t, q, c)
                _begin(p, out, t, c, q, recorder[q])
            po.set_cpu(p, out, t, c, 1 if q > 0 else 0, 1 if q == 0 else 0)
            if p.curr[c] == 0:
                p.busy_ns[c] = t
            p.curr[c] = q
            if q == 0:
                _went_idle(p, out, t, c)
        elif k == se.HOTPLUG:
            po.set_cpu(p, out, t, c, 0 if e.aux[i] != 0 else -1, 0)
        elif k == se.FORGET:
            _lose(p, out, t, c)
        elif q <= 0:
            continue
        elif k == se.MIGRATE:
            if p.task[q, po.STATE] != task_row.WAITING and p.task[q, po.STATE] != task_row.RUNNING:
                # the thread may have waited unseen elsewhere, and may wait here now
                p.was_idle[c] = 0
                if p.task_ns[q, po.MOVED] < 0:
                    src = e.src_cpu[i]
                    p.task_ns[q, po.MOVED] = (
                        p.task_ns[q, po.SINCE] if src < 0 else _unseen_from(p, t, src)
                    )
            p.task_ns[q, po.AT] = t
            po.move(p, out, t, q, c)
        elif k == se.WAKEUP or k == se.WAKEUP_NEW or k == se.UNTHROTTLE:
            if k != se.UNTHROTTLE and p.cpu[q] != c and t - p.task_ns[q, po.AT] <= se.SKEW_NS:
                po.move(p, out, t, q, p.nr.size)  # it may have been moved after this wakeup
            elif k != se.UNTHROTTLE:
                po.move(p, out, t, q, c)
            late = p.task[q, po.LATE] == po.UNWOKEN and t - p.task_ns[q, po.BEGAN] <= se.SKEW_NS
            if late and p.task[q, po.STATE] == task_row.RUNNING:
                p.task[q, po.LATE] = 0
            elif late and p.task[q, po.STATE] != task_row.WAITING:
                p.task[q, po.LATE] = po.PERHAPS
            elif p.task[q, po.STATE] != task_row.RUNNING:
                if p.task[q, po.LATE] == po.PERHAPS:  # it has slept since
                    p.task[q, po.LATE] = 0
                po.wait(p, out, t, q)
            elif wakings:
                p.task[q, po.WOKEN] = 1
            else:
                p.task_ns[q, po.EARLY] = t
        elif k == se.THROTTLE:
            if p.task[q, po.STATE] == task_row.WAITING:
                po.sleep(p, out, t, q)
        elif k == se.FORK:
            if p.task[q, po.STATE] == task_row.RUNNING or p.task[q, po.STATE] == task_row.WAITING:
                continue
            po.sleep(p, out, t, q)
            if p.wakes_at_fork != 0:
                po.move(p, out, t, q, p.nr.size)
                po.wait(p, out, t, q)
        elif k == se.SNAPSHOT and p.task[q, po.STATE] == task_row.UNKNOWN:
            if e.aux[i] == task_row.WAITING:
                po.wait(p, out, t, q)
            elif e.aux[i] == task_row.ASLEEP:
                po.sleep(p, out, t, q)


@lean
def finish(p: Pool, end_ns: int, recorder: NDArray[np.bool_], out: Changes) -> None:
    """Write the spans that are in doubt when the trace ends; ``out`` has room for three per task."""
    out.n[:] = 0
    for q in range(recorder.size):
        late = p.task[q, po.LATE]
        if late != 0:
            _unseen(out, p.task_ns[q, po.FROM], p.task_ns[q, po.BEGAN])
        if late == po.PERHAPS and po.some_idle_ns(p, end_ns) > p.task_ns[q, po.IDLE]:
            _unseen(out, p.task_ns[q, po.SINCE], end_ns)
        if recorder[q] and p.task[q, po.STATE] == task_row.ASLEEP:
            _unseen(out, _recorder_since(p, end_ns, p.cpu[q], q), end_ns)
