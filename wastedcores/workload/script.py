"""Scripts: the programs of tasks, written as one operation after the other."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from wastedcores.errors import WorkloadError
from wastedcores.workload import ops
from wastedcores.workload.program import MOST, whole, whole_ns

_MODES = {"spin": ops.MODE_SPIN, "block": ops.MODE_BLOCK, "spin_block": ops.MODE_SPIN_BLOCK}
_MOST_NESTED = 4


def _mode(name: str, limit_ns: int) -> int:
    """Return the code of a way to wait."""
    if name not in _MODES:
        raise WorkloadError(f"waiting {name!r} is unknown; write one of {', '.join(_MODES)}.")
    if name == "spin_block" and whole_ns(limit_ns, "spin limit") == 0:
        return ops.MODE_BLOCK
    return _MODES[name]


class Script:
    """The program of a task. Each method adds an operation and returns the script, so calls can be chained."""

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
                f"{what} between {low_ns} and {high_ns} ns: the second must not be smaller."
            )
        return self._add(op, low_ns, high_ns)

    def _exponential(self, op: int, mean_ns: int, cap_ns: int, floor_ns: int) -> Script:
        return self._add(
            op, whole_ns(mean_ns, "mean"), whole_ns(cap_ns, "cap"), whole_ns(floor_ns, "floor")
        )

    def compute(self, low_ns: int, high_ns: int | None = None) -> Script:
        """Use the CPU for a time.

        Parameters
        ----------
        low_ns, high_ns
            The time in ns, drawn uniformly from this range if both are given.
        """
        return self._drawn(ops.OP_COMPUTE, "compute", low_ns, high_ns)

    def compute_exponential(self, mean_ns: int, cap_ns: int, floor_ns: int = 0) -> Script:
        """Use the CPU for an exponentially distributed time.

        Parameters
        ----------
        mean_ns
            The mean in ns.
        cap_ns, floor_ns
            The largest and the smallest time in ns.
        """
        return self._exponential(ops.OP_COMPUTE_EXP, mean_ns, cap_ns, floor_ns)

    def sleep(self, low_ns: int, high_ns: int | None = None) -> Script:
        """Sleep for a time.

        Parameters
        ----------
        low_ns, high_ns
            The time in ns, drawn uniformly from this range if both are given.
        """
        return self._drawn(ops.OP_SLEEP, "sleep", low_ns, high_ns)

    def sleep_exponential(self, mean_ns: int, cap_ns: int, floor_ns: int = 0) -> Script:
        """Sleep for an exponentially distributed time.

        Parameters
        ----------
        mean_ns
            The mean in ns.
        cap_ns, floor_ns
            The largest and the smallest time in ns.
        """
        return self._exponential(ops.OP_SLEEP_EXP, mean_ns, cap_ns, floor_ns)

    def loop(
        self, count: int | None = None, until_ns: int | None = None, stopped_by: int | None = None
    ) -> Script:
        """Begin a loop that :meth:`end` closes.

        Parameters
        ----------
        count
            Number of rounds; None for no limit.
        until_ns
            No round begins later than this many ns after the start of the task.
        stopped_by
            A barrier whose deadline ends the loop.
        """
        if len(self._open) == _MOST_NESTED:
            raise WorkloadError(
                f"more than {_MOST_NESTED} loops inside each other; fork a task for the inner ones."
            )
        if count is not None and (
            isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MOST
        ):
            raise WorkloadError(
                f"a loop of {count!r} rounds; expected 1 or more, or None for no limit."
            )
        if until_ns is not None and stopped_by is not None:
            raise WorkloadError("a loop ends at a time or by a barrier, not both.")
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
            raise WorkloadError("end() without a loop().")
        start, count, until, barrier = self._open.pop()
        if start == len(self.rows):
            raise WorkloadError("an empty loop; give it something to compute or to wait for.")
        slot = len(self._open)
        if barrier is None:
            return self._add(ops.OP_LOOP, start, slot, count, until)
        return self._add(ops.OP_LOOP_BARRIER, start, slot, count, barrier)

    def barrier(
        self, number: int, how: str, limit_ns: int = 0, deadline_ns: int | None = None
    ) -> Script:
        """Wait at a barrier until all parties have arrived.

        Parameters
        ----------
        number
            The barrier.
        how, limit_ns
            ``spin``, ``block``, or ``spin_block``: spin for ``limit_ns`` ns and then block.
        deadline_ns
            When this many ns have passed since the start of the workload, the barrier stops the loops that name it.
        """
        return self._add(
            ops.OP_BARRIER,
            number,
            _mode(how, limit_ns),
            whole_ns(limit_ns, "spin limit"),
            -1 if deadline_ns is None else whole_ns(deadline_ns, "deadline of a barrier"),
        )

    def lock(self, number: int, how: str, limit_ns: int = 0, shared: bool = False) -> Script:
        """Take a lock.

        Parameters
        ----------
        number
            The lock.
        how, limit_ns
            ``spin``, ``block``, or ``spin_block``: spin for ``limit_ns`` ns and then block.
        shared
            Share the lock with other tasks, as a reader of an rw_semaphore does; a task that shares a lock can only block.
        """
        if shared and how != "block":
            raise WorkloadError(
                f"a shared lock with waiting {how!r}; a task that shares a lock can only block."
            )
        return self._add(
            ops.OP_LOCK,
            number,
            _mode(how, limit_ns),
            whole_ns(limit_ns, "spin limit"),
            int(shared),
        )

    def unlock(self, number: int, shared: bool = False) -> Script:
        """Release a lock.

        Parameters
        ----------
        number
            The lock.
        shared
            As in :meth:`lock`.
        """
        return self._add(ops.OP_UNLOCK, number, 0, 0, int(shared))

    def post(self, number: int, units: int = 1, sync: bool = False) -> Script:
        """Raise a semaphore.

        Parameters
        ----------
        number
            The semaphore.
        units
            By how much.
        sync
            Wake as a write to a pipe or a Unix socket does: the kernel expects the writer to sleep soon (WF_SYNC), and tends
            to place the reader beside it. A futex, as behind ``sem_post()``, wakes without this hint.
        """
        return self._add(ops.OP_POST, number, whole(units, "units of a post"), int(sync))

    def wait(self, number: int, how: str = "block", limit_ns: int = 0) -> Script:
        """Lower a semaphore by one unit; if it has no unit, wait for one.

        Parameters
        ----------
        number
            The semaphore.
        how, limit_ns
            ``spin``, ``block``, or ``spin_block``: spin for ``limit_ns`` ns and then block.
        """
        return self._add(
            ops.OP_WAIT, number, _mode(how, limit_ns), whole_ns(limit_ns, "spin limit")
        )

    def signal(self, number: int, everybody: bool = False) -> Script:
        """Wake the first task that waits for a condition. Without a waiter the signal is lost.

        Parameters
        ----------
        number
            The condition.
        everybody
            Wake all waiters.
        """
        return self._add(ops.OP_SIGNAL, number, int(everybody))

    def wait_signal(
        self, number: int, how: str = "block", limit_ns: int = 0, lock: int = -1
    ) -> Script:
        """Wait for the next signal of a condition.

        Parameters
        ----------
        number
            The condition.
        how, limit_ns
            ``spin``, ``block``, or ``spin_block``: spin for ``limit_ns`` ns and then block.
        lock
            A lock that is released while the task waits, as in pthread_cond_wait(); -1 for none.
        """
        self._add(ops.OP_CATCH, number)
        if lock >= 0:
            self.unlock(lock)
        self._add(
            ops.OP_WAIT_SIGNAL, number, _mode(how, limit_ns), whole_ns(limit_ns, "spin limit")
        )
        return self.lock(lock, how, limit_ns) if lock >= 0 else self

    def timer(self, number: int, period_ns: int, absolute: bool = False) -> Script:
        """Sleep until the timer's next time, which is one period after its last time.

        At the first use of a timer, the present counts as its last time. If the next time is over, the task does not sleep.

        Parameters
        ----------
        number
            The timer.
        period_ns
            The period in ns. 0 sets a timer that was not used yet to the present time, and does nothing to a used timer.
        absolute
            True: each period begins at the end of the last period, even if the next time is already over. False: if it is over,
            the following period begins now.
        """
        return self._add(ops.OP_TIMER, number, whole_ns(period_ns, "period"), int(absolute))

    def fork(self, template: int, session: int | None = None, thread: bool = False) -> Script:
        """Create a child.

        Parameters
        ----------
        template
            The template, from :meth:`Workload.template`.
        session
            Session of the child; None for the session of the parent.
        thread
            Whether the child is a thread. The creation of a thread leaves no work for RCU.
        """
        return self._add(ops.OP_FORK, template, -1 if session is None else session, int(thread))

    def wait_children(self, most: int = 0) -> Script:
        """Wait until at most ``most`` children are alive."""
        return self._add(ops.OP_WAIT_CHILDREN, whole(most, "children to wait for", 0))

    def affinity(self, cpus: Iterable[int]) -> Script:
        """Bind the task to these CPUs from here on."""
        return self._add(ops.OP_AFFINITY, frozenset(cpus))

    def session(self, number: int) -> Script:
        """Continue in another session (setsid())."""
        return self._add(ops.OP_SESSION, number)

    def nice(self, value: int) -> Script:
        """Change the nice value."""
        if not -20 <= value <= 19:
            raise WorkloadError(f"nice {value}; expected a value from -20 to 19.")
        return self._add(ops.OP_NICE, value)

    def policy(self, name: str, priority: int = 0) -> Script:
        """Change the scheduling policy (sched_setscheduler()). Tasks that are forked from here on inherit it.

        Parameters
        ----------
        name
            ``other``, ``batch`` or ``idle``, which belong to CFS, or ``fifo`` or ``rr``.
        priority
            1 to 99 for ``fifo`` and ``rr``, where a greater priority is more urgent; 0 for the other policies.
        """
        if name not in ops.POLICIES:
            raise WorkloadError(
                f"policy {name!r} is unknown; write one of {', '.join(ops.POLICIES)}."
            )
        lowest, most = (1, 99) if name in ("fifo", "rr") else (0, 0)
        if (
            isinstance(priority, bool)
            or not isinstance(priority, int)
            or not lowest <= priority <= most
        ):
            expected = "a whole number from 1 to 99" if most else "0"
            raise WorkloadError(f"policy {name} with priority {priority!r}; expected {expected}.")
        return self._add(ops.OP_POLICY, ops.POLICIES[name], priority)

    def yield_(self) -> Script:
        """Give way to the other tasks of the run queue (sched_yield())."""
        return self._add(ops.OP_YIELD)

    def exec(self) -> Script:
        """Execute a new program. The scheduler may then move the task (sched_exec())."""
        return self._add(ops.OP_EXEC)

    def sleep_jiffies(self, ticks: int, wheel: int | None = None) -> Script:
        """Sleep on a CPU's timer wheel. A softirq on this CPU wakes the task, in the context of the task that runs then.

        Parameters
        ----------
        ticks
            Length of the sleep in ticks.
        wheel
            CPU of the timer wheel; None for the CPU on which the task runs.
        """
        at = 0 if wheel is None else 1 + whole(wheel, "CPU of a timer wheel", 0)
        return self._add(ops.OP_SLEEP_JIFFIES, whole(ticks, "sleep in ticks"), d=at)

    def sleep_round(self, period: int, offset: int = 0) -> Script:
        """Sleep for about ``period`` ticks, until a round number of ticks (round_jiffies_relative()).

        Parameters
        ----------
        period
            The period in ticks, 1 or more.
        offset
            The jiffies at the start of the replay, modulo ``period``.
        """
        return self._add(ops.OP_SLEEP_JIFFIES, 0, offset, whole(period, "period"))

    def touch(self, rcu: bool = False) -> Script:
        """Take or give back pages, which changes the page counters of this CPU.

        With ``rcu``, memory is freed after a grace period (call_rcu()). Until then the CPU keeps its tick even if it is idle.
        """
        return self._add(ops.OP_TOUCH, int(rcu))

    def flush(self, semaphore: int, period: int, offset: int = 0) -> Script:
        """Do the work of vmstat_update() (mm/vmstat.c, v4.1), in a kworker bound to one CPU.

        If the page counters of this CPU changed, fold them and sleep as :meth:`sleep_round` does. Otherwise wait for the
        shepherd at the semaphore.

        Parameters
        ----------
        semaphore
            The semaphore of this CPU.
        period, offset
            As for :meth:`sleep_round`.
        """
        return self._add(ops.OP_FLUSH, semaphore, offset, whole(period, "period"))

    def shepherd(self, first_semaphore: int) -> Script:
        """Wake the waiting kworker (:meth:`flush`) of each CPU whose page counters changed (vmstat_shepherd()).

        The kworker of CPU c waits at the semaphore ``first_semaphore`` + c.
        """
        return self._add(ops.OP_SHEPHERD, first_semaphore)

    def mark(self, text: str) -> Script:
        """Write a text into the trace, as a mark."""
        return self._add(ops.OP_MARK, text)

    def finished(self) -> list[tuple[Any, ...]]:
        """Return the rows, ending with an exit; all loops must be closed."""
        if self._open:
            raise WorkloadError("a loop() is not closed by end().")
        return [*self.rows, (ops.OP_EXIT, 0, 0, 0, 0)]
