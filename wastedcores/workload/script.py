"""What a task does, one operation after the other."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from wastedcores.errors import WorkloadError
from wastedcores.limits import LONGEST_NS
from wastedcores.workload import ops

_MODES = {"spin": ops.MODE_SPIN, "block": ops.MODE_BLOCK, "spin_block": ops.MODE_SPIN_BLOCK}
_MOST_NESTED = 4

#: rounds of a loop, units of a semaphore, shares: what fits with room to spare
MOST = 1_000_000_000_000


def whole_ns(value: Any, what: str) -> int:
    """The nanoseconds, or an error that names ``what`` they are."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= LONGEST_NS:
        raise WorkloadError(
            f"{what} is {value!r}; expected a whole number of nanoseconds from 0 to 10^15 (11 days)"
        )
    return value


def whole(value: Any, what: str, least: int = 1) -> int:
    """The number, or an error that names ``what`` it is."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= MOST:
        raise WorkloadError(f"{what} is {value!r}; expected a whole number from {least} to 10^12")
    return value


def _mode(name: str, limit_ns: int) -> int:
    if name not in _MODES:
        raise WorkloadError(f"waiting {name!r} is unknown; write one of {', '.join(_MODES)}")
    if name == "spin_block" and whole_ns(limit_ns, "spin limit") == 0:
        return ops.MODE_BLOCK  # no time to spin
    return _MODES[name]


class Script:
    """One task's program; every method adds an operation and returns the script."""

    def __init__(self) -> None:
        self.rows: list[tuple[Any, ...]] = []
        self._open: list[tuple[int, int, int, Any]] = []

    def _add(self, op: int, a: Any = 0, b: Any = 0, c: Any = 0, d: Any = 0) -> Script:
        self.rows.append((op, a, b, c, d))
        return self

    def _drawn(self, op: int, what: str, low_ns: int, high_ns: int | None) -> Script:
        high_ns = low_ns if high_ns is None else high_ns
        if whole_ns(high_ns, f"{what} time") < whole_ns(low_ns, f"{what} time"):
            raise WorkloadError(
                f"{what} between {low_ns} and {high_ns} ns: the second must not be smaller"
            )
        return self._add(op, low_ns, high_ns)

    def _exponential(self, op: int, mean_ns: int, cap_ns: int, floor_ns: int) -> Script:
        return self._add(
            op, whole_ns(mean_ns, "mean"), whole_ns(cap_ns, "cap"), whole_ns(floor_ns, "floor")
        )

    def compute(self, low_ns: int, high_ns: int | None = None) -> Script:
        """Use the CPU for a time, drawn uniformly if two are given."""
        return self._drawn(ops.OP_COMPUTE, "compute", low_ns, high_ns)

    def compute_exponential(self, mean_ns: int, cap_ns: int, floor_ns: int = 0) -> Script:
        """Use the CPU for an exponentially distributed time, cut at both ends."""
        return self._exponential(ops.OP_COMPUTE_EXP, mean_ns, cap_ns, floor_ns)

    def sleep(self, low_ns: int, high_ns: int | None = None) -> Script:
        """Sleep for a time, drawn uniformly if two are given."""
        return self._drawn(ops.OP_SLEEP, "sleep", low_ns, high_ns)

    def sleep_exponential(self, mean_ns: int, cap_ns: int, floor_ns: int = 0) -> Script:
        """Sleep for an exponentially distributed time, cut at both ends."""
        return self._exponential(ops.OP_SLEEP_EXP, mean_ns, cap_ns, floor_ns)

    def loop(
        self, count: int | None = None, until_ns: int | None = None, stopped_by: int | None = None
    ) -> Script:
        """Begin a loop that :meth:`end` closes.

        Parameters
        ----------
        count
            Rounds; None: no limit.
        until_ns
            No new round after this time since the task began.
        stopped_by
            A barrier whose deadline ends the loop.
        """
        if len(self._open) == _MOST_NESTED:
            raise WorkloadError(f"more than {_MOST_NESTED} loops inside each other")
        if count is not None and (
            isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MOST
        ):
            raise WorkloadError(
                f"a loop of {count!r} rounds; expected 1 or more, or None for no limit"
            )
        if until_ns is not None and stopped_by is not None:
            raise WorkloadError("a loop ends at a time or by a barrier, not both")
        limit = until_ns if until_ns is None else whole_ns(until_ns, "until")
        self._open.append(
            (
                len(self.rows),
                -1 if count is None else count,
                -1 if limit is None else limit,
                stopped_by,
            )
        )
        return self

    def end(self) -> Script:
        """Close the innermost loop."""
        if not self._open:
            raise WorkloadError("end() without a loop()")
        start, count, until, barrier = self._open.pop()
        if start == len(self.rows):
            raise WorkloadError("an empty loop; give it something to compute or to wait for")
        slot = len(self._open)
        if barrier is None:
            return self._add(ops.OP_LOOP, start, slot, count, until)
        return self._add(ops.OP_LOOP_BARRIER, start, slot, count, barrier)

    def barrier(
        self, number: int, how: str, limit_ns: int = 0, deadline_ns: int | None = None
    ) -> Script:
        """Wait for the others; after ``deadline_ns`` the barrier tells loops to stop."""
        return self._add(
            ops.OP_BARRIER,
            number,
            _mode(how, limit_ns),
            whole_ns(limit_ns, "spin limit"),
            -1 if deadline_ns is None else whole_ns(deadline_ns, "deadline of a barrier"),
        )

    def lock(self, number: int, how: str, limit_ns: int = 0, shared: bool = False) -> Script:
        """Take a lock; those who share it only wait for who holds it alone (a reader of a rw_semaphore)."""
        if shared and how != "block":
            raise WorkloadError(
                f"a shared lock with waiting {how!r}; who shares a lock can only block"
            )
        return self._add(
            ops.OP_LOCK,
            number,
            _mode(how, limit_ns),
            whole_ns(limit_ns, "spin limit"),
            int(shared),
        )

    def unlock(self, number: int, shared: bool = False) -> Script:
        """Release a lock, as it was taken."""
        return self._add(ops.OP_UNLOCK, number, 0, 0, int(shared))

    def post(self, number: int, units: int = 1) -> Script:
        """Raise a semaphore."""
        return self._add(ops.OP_POST, number, whole(units, "units of a post"))

    def wait(self, number: int, how: str = "block", limit_ns: int = 0) -> Script:
        """Lower a semaphore, waiting until that is possible."""
        return self._add(
            ops.OP_WAIT, number, _mode(how, limit_ns), whole_ns(limit_ns, "spin limit")
        )

    def signal(self, number: int, everybody: bool = False) -> Script:
        """Wake who waits for a condition now: the first, or everybody; forgotten if nobody does."""
        return self._add(ops.OP_SIGNAL, number, int(everybody))

    def wait_signal(
        self, number: int, how: str = "block", limit_ns: int = 0, lock: int = -1
    ) -> Script:
        """Wait for the next signal of a condition; a lock (if one is given) is free meanwhile, as in pthread_cond_wait()."""
        self._add(ops.OP_CATCH, number)
        if lock >= 0:
            self.unlock(lock)
        self._add(
            ops.OP_WAIT_SIGNAL, number, _mode(how, limit_ns), whole_ns(limit_ns, "spin limit")
        )
        return self.lock(lock, how, limit_ns) if lock >= 0 else self

    def timer(self, number: int, period_ns: int, absolute: bool = False) -> Script:
        """Sleep until a period after the timer's last time; the first time is when it is first used.

        A time that is over already is not waited for; unless ``absolute``, the next period counts from now then. A
        period of 0 sets the timer to now if nobody used it yet.
        """
        return self._add(ops.OP_TIMER, number, whole_ns(period_ns, "period"), int(absolute))

    def fork(self, template: int, session: int | None = None, thread: bool = False) -> Script:
        """Create a child from a template, in this session or another; a thread leaves nothing to do for RCU."""
        return self._add(ops.OP_FORK, template, -1 if session is None else session, int(thread))

    def wait_children(self, most: int = 0) -> Script:
        """Wait until at most so many children live."""
        return self._add(ops.OP_WAIT_CHILDREN, whole(most, "children to wait for", 0))

    def affinity(self, cpus: Iterable[int]) -> Script:
        """Bind to CPUs from here on."""
        return self._add(ops.OP_AFFINITY, frozenset(cpus))

    def session(self, number: int) -> Script:
        """setsid(): go on in this session."""
        return self._add(ops.OP_SESSION, number)

    def nice(self, value: int) -> Script:
        """Change the priority."""
        if not -20 <= value <= 19:
            raise WorkloadError(f"nice {value}; it goes from -20 to 19")
        return self._add(ops.OP_NICE, value)

    def yield_(self) -> Script:
        """sched_yield()."""
        return self._add(ops.OP_YIELD)

    def exec(self) -> Script:
        """Run a new program: the scheduler may move the task (sched_exec())."""
        return self._add(ops.OP_EXEC)

    def sleep_jiffies(self, ticks: int, wheel: int | None = None) -> Script:
        """Sleep on the timer wheel: until the tick of this CPU, or of the CPU ``wheel``, ``ticks`` from now.

        A softirq of the wheel's CPU wakes the task, as the task that runs there would.
        """
        at = 0 if wheel is None else 1 + whole(wheel, "CPU of a timer wheel", 0)
        return self._add(ops.OP_SLEEP_JIFFIES, whole(ticks, "sleep in ticks"), d=at)

    def sleep_round(self, period: int, offset: int = 0) -> Script:
        """Sleep for about ``period`` ticks, to a round number of them (round_jiffies_relative()).

        Parameters
        ----------
        period
            Ticks, 1 or more.
        offset
            What jiffies were at the start of the replay, modulo ``period``.
        """
        return self._add(ops.OP_SLEEP_JIFFIES, 0, offset, whole(period, "period"))

    def touch(self, rcu: bool = False) -> Script:
        """Take or give back pages: this CPU's page counters change.

        With ``rcu`` something is freed after a grace period (call_rcu()): until then the CPU ticks although it is idle.
        """
        return self._add(ops.OP_TOUCH, int(rcu))

    def flush(self, semaphore: int, period: int, offset: int = 0) -> Script:
        """What vmstat_update() does (mm/vmstat.c, v4.1), for a kworker bound to one CPU.

        If the counters of this CPU changed: fold them and sleep as :meth:`sleep_round` does; else wait for the
        shepherd at the semaphore.
        """
        return self._add(ops.OP_FLUSH, semaphore, offset, whole(period, "period"))

    def shepherd(self, first_semaphore: int) -> Script:
        """What vmstat_shepherd() does: wake the flushers that wait, one semaphore a CPU, where counters changed."""
        return self._add(ops.OP_SHEPHERD, first_semaphore)

    def mark(self, text: str) -> Script:
        """Write a mark into the trace."""
        return self._add(ops.OP_MARK, text)

    def finished(self) -> list[tuple[Any, ...]]:
        """The rows with the final exit."""
        if self._open:
            raise WorkloadError("a loop() is not closed by end()")
        return [*self.rows, (ops.OP_EXIT, 0, 0, 0, 0)]
