"""Sleeps that another task ends: it releases a lock, sends a message, signals a condition, starts a step of a pipeline.

If sched_waking is recorded with the interrupt flag, it names the waker. The rest of this text is about other recordings.

A wakeup is recorded on the CPU that decides it. Before Linux 4.3 (sched_waking), the wakeup of a task that is put on the queue of
a far CPU is recorded on the far CPU instead. A wakeup by an interrupt is recorded under the task that was interrupted. So the
task that ran where a wakeup was recorded is sometimes the waker and sometimes a bystander. It counts as the waker if the wakeup
was decided on another CPU than the sleeper's, and if task and sleeper have a common ancestor or coincide too often for chance.
For a wakeup on the sleeper's own CPU, the task must also have woken the sleeper from another CPU, or the sleeper must have woken
the task. If the trace tells that an interrupt ran, the interrupted task is not the waker. If no task ran, the waker is inferred
from coincidence: a task that falls asleep right after the wakeups of the sleeper again and again is its waker.

Synchronous wakeups carry the hint that the waker will sleep soon (WF_SYNC). A write to a pipe or a Unix socket wakes in this way.
No event shows the hint, but the CPU that the kernel chooses can show it. Suppose that the sleeper's last CPU is idle and has
another last-level cache than the waker, and that the waker is alone on its CPU. Then an ordinary wakeup leaves the sleeper where
it was, but a synchronous wakeup pulls it to the waker's cache (wake_affine_idle() in kernel/sched/fair.c of v6.1 and v6.12).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from wastedcores.recovery import stretches_jit as sj
from wastedcores.recovery.classes import LIKELY, MESSAGE, UNKNOWN
from wastedcores.recovery.task_tables import Seen
from wastedcores.recovery.wakers_by_exclusion import wakers_by_alibi

I64 = NDArray[np.int64]

#: at least this many wakeups of a pair must show whether they are synchronous; then the majority decides
ENOUGH = 3


def synchronous(seen: Seen, sleeps: I64, pair: I64, llc_of_cpu: I64 | None) -> NDArray[np.bool_]:
    """Return for each pair of a waker and a sleeper whether the waker wakes the sleeper synchronously.

    If too few wakeups of a pair show this, all wakeups of the waker's family that show it are counted, and the majority decides.
    """
    pairs = int(pair.max(initial=-1)) + 1
    if llc_of_cpu is None or len(llc_of_cpu) < seen.cpus or not pairs:
        return np.zeros(pairs, np.bool_)
    when, before, after = sleeps[:, [sj.S_WAKER_NS, sj.S_FROM_CPU, sj.S_WAKE_CPU]].T
    waker = seen.cpu(sleeps[:, sj.S_WAKER], when)
    telling = (waker >= 0) & (llc_of_cpu[waker] != llc_of_cpu[before])
    telling &= (seen.runnable(waker, when) == 1) & (seen.runnable(before, when) == 0)
    pulled = telling & (llc_of_cpu[waker] == llc_of_cpu[after])
    kin = family(seen)[sleeps[:, sj.S_WAKER]]
    all_of, of_those = (np.bincount(pair[told], minlength=pairs) for told in (telling, pulled))
    all_kin, kin_of_those = (
        np.bincount(kin[told], minlength=len(seen.tasks)) for told in (telling, pulled)
    )
    family_of = np.zeros(pairs, np.int64)
    family_of[pair] = kin
    few = all_of < ENOUGH
    all_of[few], of_those[few] = all_kin[family_of[few]], kin_of_those[family_of[few]]
    sync: NDArray[np.bool_] = (all_of >= ENOUGH) & (2 * of_those > all_of)
    return sync


Bool = NDArray[np.bool_]

#: a waker that waits right after it woke a task falls asleep at most BEFORE_NS before, or AFTER_NS after, the recorded wakeup
BEFORE_NS, AFTER_NS = 5_000, 30_000
#: a waker is inferred from at least TIMES coincidences, if they are at least the share SHARE of the sleeps and at least LIFT
#: times as many as chance would give
TIMES, SHARE, LIFT = 3, 0.5, 5.0
#: a task that ends at least this share of another task's explained sleeps is taken for that task's only waker
ONLY = 0.8
#: if another task ran at no more than this many wakeups of a task, the wakeups on far CPUs among them are not doubted
FEW = 3


def find_messages(seen: Seen, bound: Bool) -> None:
    """Find the wakers of sleeps, and give these sleeps the class MESSAGE or LIKELY."""
    sleeps = seen.sleeps
    free = (sleeps[:, sj.S_CLASS] == UNKNOWN) & (sleeps[:, sj.S_WAKE_NS] >= 0)
    free &= ~bound[sleeps[:, sj.S_TASK]] & (sleeps[:, sj.S_BY] != sj.INTERRUPT)
    told = np.flatnonzero(free & (sleeps[:, sj.S_BY] >= 0))
    told = told[sleeps[told, sj.S_BY] != sleeps[told, sj.S_TASK]]
    sure = told[_believed(seen, sleeps[told])]
    sleeps[sure, sj.S_CLASS] = MESSAGE
    sleeps[sure, sj.S_WAKER] = sleeps[sure, sj.S_BY]
    sleeps[sure, sj.S_WAKER_AT] = sleeps[sure, sj.S_BY_AT]
    # some recorders write a wakeup when the sleeper is queued, and the waker may have left its CPU before this
    told_ns = sleeps[sure, sj.S_TOLD_NS]
    sleeps[sure, sj.S_WAKER_NS] = seen.ran_until(sleeps[sure, sj.S_WAKER], told_ns)
    free[sure] = False
    sleep, waker = wakers_by_alibi(seen, np.flatnonzero(free), family(seen))
    when = seen.ran_until(waker, sleeps[sleep, sj.S_WAKE_NS])
    _conclude_that(seen, sleep, waker, seen.clock(waker, when)[0], when)
    free[sleep] = False
    _conclude(seen, np.flatnonzero(free))
    _complete(seen, np.flatnonzero(free & (sleeps[:, sj.S_CLASS] == UNKNOWN)))


def _believed(seen: Seen, told: I64) -> Bool:
    """Tell which sleeps were ended by the task that ran where the wakeup was decided, and not by an interrupt there."""
    count = len(seen.tasks)
    task, by, far = told[:, sj.S_TASK], told[:, sj.S_BY], told[:, sj.S_FAR] > 0
    codes, pair = np.unique(task * count + by, return_inverse=True)
    from_far = np.bincount(pair, far, len(codes))
    mutual = np.isin(codes % count * count + codes // count, codes)  # each wakes the other
    ran = seen.tasks[:, sj.T_RAN]
    woken = np.bincount(task, minlength=count)
    chance = woken[codes // count] * ran[codes % count] / max(int(ran.sum()), 1)
    often = (from_far >= TIMES) & (from_far >= LIFT * chance)
    eldest = family(seen)
    related = eldest[task] == eldest[by]
    few = woken[task] <= FEW
    near = ~far & (often | mutual)[pair] | (~far & related & (from_far > 0)[pair])
    believed: Bool = far & (related | often[pair] | few) | near | (told[:, sj.S_FAR] == sj.NAMED)
    return believed


def family(seen: Seen) -> I64:
    """Return the oldest ancestor of each task in the trace, int64 (tasks,)."""
    parent = seen.tasks[:, sj.T_PARENT]
    eldest = np.where(parent >= 0, parent, np.arange(len(parent)))
    while True:
        older = eldest[eldest]
        if (older == eldest).all():
            return eldest
        eldest = older


def _conclude(seen: Seen, free: I64) -> None:
    """Find tasks that fall asleep whenever another task wakes up, and take them for the wakers of that other task."""
    sleeps = seen.sleeps
    if not len(free):
        return
    order = np.argsort(sleeps[:, sj.S_OUT_NS], kind="stable")
    outs = sleeps[order, sj.S_OUT_NS]
    wake = sleeps[free, sj.S_WAKE_NS]
    first = np.searchsorted(outs, wake - BEFORE_NS)
    last = np.searchsorted(outs, wake + AFTER_NS, "right")
    reach = np.minimum(last - first, 8)
    near = np.repeat(np.arange(len(free)), reach)
    step = np.arange(reach.sum()) - np.repeat(np.cumsum(reach) - reach, reach)
    other = order[first[near] + step]
    task, waker = sleeps[free[near], sj.S_TASK], sleeps[other, sj.S_TASK]
    keep = task != waker
    near, other, task, waker = near[keep], other[keep], task[keep], waker[keep]
    if not len(near):
        return
    codes, inverse, hits = np.unique(
        task * len(seen.tasks) + waker, return_inverse=True, return_counts=True
    )
    many = np.bincount(sleeps[free, sj.S_TASK], minlength=len(seen.tasks))
    outs_of = np.bincount(sleeps[:, sj.S_TASK], minlength=len(seen.tasks))
    b, a = codes // len(seen.tasks), codes % len(seen.tasks)
    length = max(seen.end_ns - seen.start_ns, 1)
    chance = many[b] * outs_of[a] * (BEFORE_NS + AFTER_NS) / length
    good = (hits >= TIMES) & (hits >= SHARE * many[b]) & (hits >= LIFT * chance)
    chosen = good[inverse]
    near, other = near[chosen], other[chosen]
    near, one = np.unique(near, return_index=True)
    other = other[one]
    _conclude_that(
        seen,
        free[near],
        sleeps[other, sj.S_TASK],
        sleeps[other, sj.S_AT],
        sleeps[other, sj.S_OUT_NS],
    )


def _conclude_that(seen: Seen, sleep: I64, waker: I64, latest_at: I64, latest_ns: I64) -> None:
    """Note the inferred wakers of some sleeps. Each waker woke the sleeper before the waker itself fell asleep."""
    s = seen.sleeps
    clock, _ = seen.clock(waker, s[sleep, sj.S_WAKE_NS])
    s[sleep, sj.S_CLASS] = LIKELY
    s[sleep, sj.S_WAKER] = waker
    s[sleep, sj.S_WAKER_AT] = np.minimum(clock, latest_at)
    s[sleep, sj.S_WAKER_NS] = np.minimum(s[sleep, sj.S_WAKE_NS], latest_ns)


def _complete(seen: Seen, free: I64) -> None:
    """If a task ended nearly all explained sleeps of another, make it the waker of the unexplained ones at whose end it ran."""
    s = seen.sleeps
    known = s[np.isin(s[:, sj.S_CLASS], (MESSAGE, LIKELY))]
    if not len(free) or not len(known):
        return
    count = len(seen.tasks)
    codes, hits = np.unique(known[:, sj.S_TASK] * count + known[:, sj.S_WAKER], return_counts=True)
    total = np.bincount(known[:, sj.S_TASK], minlength=count)
    partner = np.full(count, -1, np.int64)
    only = (hits >= TIMES) & (hits >= ONLY * total[codes // count])
    partner[codes[only] // count] = codes[only] % count
    free = free[partner[s[free, sj.S_TASK]] >= 0]
    waker, when = partner[s[free, sj.S_TASK]], s[free, sj.S_WAKE_NS]
    clock, running = seen.clock(waker, when)
    free, waker, clock, when = free[running], waker[running], clock[running], when[running]
    _conclude_that(seen, free, waker, clock, when)
