"""Says in sentences why a verdict is not certain, and what to record so that it is."""

from __future__ import annotations

from wastedcores.runqueues import task_row
from wastedcores.runqueues.runqueues import Runqueues
from wastedcores.runqueues.state import LISTED_NS
from wastedcores.units import human_ns

#: When certain waste is computed, a thread of which only sched_waking was recorded is taken to be queued at most this much later.
#: On a machine with 2 CPUs under load 99.9 % of 19,979 wakings were queued within 0.04 ms, on a virtual phone 99.4 % of 15,470
#: within 1 ms (docs/verdict.md).
QUEUED_WITHIN_NS = 1_000_000

NOT_DISPATCHED = (
    "threads were on the queue of an idle CPU for so long that it would be a violation, unless a limit of CPU time kept them "
    "from running. A snapshot tells the limits"
)


def cut_short(rq: Runqueues) -> list[str]:
    """Say that the file ends in the middle of something."""
    where = rq.trace.header.truncated_last_line
    return [f"the file was cut short: {where}"] if where else []


def left_open(cut: bool, unknown_cpus: bool, hidden: bool, short: bool) -> list[str]:
    """Say why a trace without a certain violation is not clean, apart from a file that was cut short, which has its own note."""
    notes = []
    if unknown_cpus and not cut:
        notes.append(
            "a CPU has no event, so nobody knows whether it was idle or ran one thread alone, or was not recorded"
        )
    elif hidden and not cut:
        notes.append("what the CPUs did is in doubt for so long that a violation may be hidden")
    if short:
        notes.append(
            "at least half of the window wastes as much as chronic waste does, but it is too short to say that it goes on"
        )
    return notes


def perhaps_new(rq: Runqueues) -> list[str]:
    """Say that threads whose wakeup nobody saw may be new ones, in a trace without an event that tells of births."""
    if rq.source != "tasks" or {"fork", "wakeup_new"} & set(rq.trace.kinds()):
        return []
    # a list tells which threads there were
    if rq.trace.header.tasks or rq.start.numbers[LISTED_NS] >= 0:
        return []
    n = int((rq.start.task[:, task_row.STATE] == task_row.WAITING).sum())
    said = (
        f"{n} of the threads began to run without a wakeup: each may have waited all the time before, or was new. Record "
        "sched_wakeup_new or sched_process_fork, which tell of new threads"
    )
    return [said] if n else []


_WAKINGS = (
    f", or waits of less than {human_ns(QUEUED_WITHIN_NS)} after a sched_waking: this trace has no sched_wakeup, so nobody knows "
    "when a woken thread was queued"
)


def rests_on(
    missing: int, chronic: bool, throttled: bool, affinity_matters: bool, rq: Runqueues
) -> list[str]:
    """Say why apparent violations are not certain."""
    notes = []
    header = rq.trace.header
    if throttled and "migrate" not in rq.trace.kinds() and "ran_elsewhere" in rq.oddities:
        notes.append(
            "CPUs went idle beside threads that could run: they had moved, of which this trace tells nothing, or control "
            "groups have limits of CPU time. So waits decide nothing. Record sched_migrate_task, too"
        )
    elif throttled:
        notes.append(
            "CPUs went idle beside threads that could run, so control groups have limits of CPU time: waits of threads "
            "whose limits are not known decide nothing"
            + (". Record a snapshot" if header.quotas is None else "")
        )
    if missing and affinity_matters:
        notes.append(
            f"{missing} persistent episodes rest on threads of which nothing says that they may use the idle CPUs: "
            "record a snapshot of the tasks"
        )
    elif missing:
        notes.append(
            f"{missing} persistent episodes rest on spans in which the trace contradicts itself, or in which a thread may have "
            "been throttled" + (_WAKINGS if header.wakings else "")
        )
    if chronic:
        notes.append(
            "the waste is chronic only if spans count in which the trace contradicts itself, or threads of which "
            "nothing says that they may use the idle CPUs, or if CPUs were not used of which nobody knows it"
            + (_WAKINGS if header.wakings else "")
        )
    return notes
