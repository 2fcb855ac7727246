"""The registry of event kinds and columns: the one place that answers "what is this column?".

A trace is one table with one row per event, ordered by (``ts_ns``, file order). Every kind fills ``ts_ns``, ``kind`` and the
columns that its :class:`EventSpec` requires; the other columns are null and cost next to nothing in Parquet.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from wastedcores.errors import TraceFormatError
from wastedcores.trace.header import SCHEMA_VERSION

#: Masks of CPUs are little-endian bit strings of whole bytes: CPU c is bit ``c % 8`` of byte ``c // 8``.
MASK_DTYPE = pl.Binary


@dataclass(frozen=True)
class ColumnSpec:
    """One column: its name, polars type, unit, and a sentence about it."""

    name: str
    dtype: pl.DataType
    unit: str
    doc: str


@dataclass(frozen=True)
class EventSpec:
    """One event kind: the columns that it must fill or may fill, where the kernel emits it, and what it says."""

    kind: str
    required: tuple[str, ...]
    optional: tuple[str, ...]
    source: str
    doc: str


EVENTS: dict[str, EventSpec] = {
    e.kind: e
    for e in (
        EventSpec("nr_running", ("cpu",), ("nr_running",),
            "add_nr_running/sub_nr_running (v4.1, paper 4.2); sched_update_nr_running_tp (5.9+)",
            "The runqueue of `cpu` now holds `nr_running` tasks, the running one included; null: nobody knows how many."),
        EventSpec("load", ("cpu", "value"), (),
            "account_entity_enqueue/dequeue (v4.1: rq.load.weight); pelt_cfs_tp on the root queue (5.4+)",
            "The load of the runqueue of `cpu` is now `value`."),
        EventSpec("switch", ("cpu", "pid", "prev_pid", "prev_state"), ("comm", "prio", "prev_comm", "prev_prio"),
            "sched_switch", "`cpu` stopped `prev_pid`, which it left in `prev_state`, and runs `pid`; 0 is the idle task."),
        EventSpec("wakeup", ("cpu", "pid"), ("comm", "prio", "src_cpu", "by_pid", "by_comm", "in_irq"),
            "sched_wakeup (not sched_waking, whose CPU is the previous one)",
            "`pid` was put on the runqueue of `cpu`; the event happened on `src_cpu`, in the context of `by_pid`."),
        EventSpec("wakeup_new", ("cpu", "pid"), ("comm", "prio", "src_cpu", "by_pid", "by_comm", "in_irq"),
            "sched_wakeup_new", "As wakeup, for a task just forked."),
        EventSpec("migrate", ("cpu", "src_cpu", "pid"), ("comm", "prio", "by_pid", "by_comm", "op", "in_irq"),
            "sched_migrate_task", "`pid` moves from `src_cpu` to `cpu` (running nowhere: queued there, or asleep)."),
        EventSpec("fork", ("pid", "by_pid"), ("cpu", "comm", "by_comm"),
            "sched_process_fork", "`by_pid` created `pid`; `cpu` is where the parent ran."),
        EventSpec("exec", ("pid",), ("cpu", "comm", "by_pid", "text"),
            "sched_process_exec",
            "`pid` runs a new program `text`; `by_pid` is its pid before, where a thread took over the leader's."),
        EventSpec("exit", ("pid",), ("cpu", "comm", "prio"),
            "sched_process_exit", "`pid` is ending; it leaves its runqueue at its last switch."),
        EventSpec("considered", ("cpu", "cpu_mask"), ("src_cpu", "op", "pid", "value"),
            "select_idle_sibling, update_sg_lb_stats, find_busiest_queue, find_idlest_group/cpu (paper 4.2)",
            "`op` for `cpu`, running on `src_cpu`, looked at the CPUs of `cpu_mask` (at domain level `value`)."),
        EventSpec("balance", ("cpu", "op"), ("src_cpu", "pid", "value", "text"),
            "load_balance and its steps; scheduling events of sched_profiler",
            "`op` moved or tried to move `value` tasks from `src_cpu` to `cpu`. In replays of designs `op` can be `refused`: the "
            "core refused a module's suggestion, and `text` says which."),
        EventSpec("cpu_idle", ("cpu", "value"), (),
            "power:cpu_idle", "`cpu` entered idle state `value`; -1: left it."),
        EventSpec("frequency", ("cpu", "value"), (),
            "power:cpu_frequency", "`cpu` runs at `value` kHz."),
        EventSpec("affinity", ("pid", "cpu_mask"), ("cpu", "comm"),
            "set_cpus_allowed_ptr and friends", "From now on `pid` may run on the CPUs of `cpu_mask` only."),
        EventSpec("mark", ("text",), ("cpu", "pid", "comm"),
            "tracing_mark_write (trace_marker)", "A person or a program wrote `text` into the trace."),
        EventSpec("task_state", ("cpu", "pid", "prev_state"), ("comm", "prio", "cpu_mask"),
            "snapshot by the collector when a capture starts",
            "At this moment `pid` is on `cpu`: it is `running`, `waiting` on its runqueue, or `sleeping`."),
        EventSpec("lost", ("value",), ("cpu",),
            "ring buffer overrun markers",
            "`value` events of `cpu` (null: unknown CPU; -1: unknown number) were lost just before this point."),
        # files store the position of a kind in this list, so new kinds are added at the end
        EventSpec("cpu_online", ("cpu", "value"), (),
            "cpuhp:cpuhp_exit of the state sched:active", "`cpu` may run tasks from now on (`value` 1), or may not (0)."),
        EventSpec("throttle", ("cpu", "pid"), ("comm", "value"),
            "task_struct.throttled at sched_switch (6.18+)",
            "`pid` is off the runqueue of `cpu`, because the control group `value` has used up its limit of CPU time."),
        EventSpec("unthrottle", ("cpu", "pid"), ("comm",),
            "task_struct.throttled at sched_update_nr_running_tp (6.18+)", "`pid` is back on the runqueue of `cpu`."),
        EventSpec("tick", ("cpu",), ("pid", "comm", "value"),
            "scheduler_tick (fork/wait paper, 3.1)",
            "The timer tick of `cpu` interrupted `pid`; the CPU runs at `value` kHz. Idle CPUs have no ticks."),
        EventSpec("decision", ("cpu", "op", "text"), ("src_cpu", "value"),
            "load_balance (paper, 4.1: what the sanity checker profiles)",
            "`cpu` asked at one level whether to pull tasks. `op` says how that ended, `value` tasks moved from `src_cpu`, and "
            "`text` has in JSON what the call saw: docs/events.md."),
        EventSpec("kernel_entry", ("cpu", "op"), ("pid", "comm", "value", "text"),
            "raw_syscalls:sys_enter, irq, irq_vectors, exceptions (Sites: kernel/user transitions)",
            "`cpu` enters the kernel while `pid` runs: `op` is syscall, irq, softirq, vector or fault, `value` its number and "
            "`text` its name."),
        EventSpec("kernel_exit", ("cpu", "op"), ("pid", "comm", "value", "text"),
            "raw_syscalls:sys_exit, irq, irq_vectors; perf's count of handled page faults",
            "`cpu` leaves what the latest kernel_entry of this `op` entered; `value` is what a system call returned."),
        EventSpec("waking", ("cpu", "pid"), ("comm", "prio", "src_cpu", "by_pid", "by_comm", "in_irq"),
            "sched_waking, beside sched_wakeup",
            "`pid`, which was on `cpu`, is woken on `src_cpu`, in the context of `by_pid`; its wakeup follows."),
    )
}  # fmt: skip

TRANSITIONS = ("kernel_entry", "kernel_exit")
#: Events that tell nothing about runqueues. The range, the gaps and the CPUs of a trace are found without these events, so that a
#: check gives the same answer whether a trace has them or not.
UNCOUNTED = (*TRANSITIONS, "waking")

#: Events that do not state who ran or waited where. A file that has only such events is not a trace of the scheduler.
ASIDE = (*UNCOUNTED, "mark", "frequency", "cpu_idle", "cpu_online", "lost", "exec", "fork", "exit")

KINDS: tuple[str, ...] = tuple(EVENTS)
KIND_DTYPE = pl.Enum(KINDS)

#: ``prev_state`` holds the kernel's letters as printed ("+" only in `R+`); in a ``task_state`` event it is one of three words.
STATE_DTYPE = pl.Categorical()

COLUMNS: dict[str, ColumnSpec] = {
    c.name: c
    for c in (
        ColumnSpec("ts_ns", pl.Int64(), "ns", "The time of the event on the trace's clock."),
        ColumnSpec("kind", KIND_DTYPE, "", "The kind of event, one of EVENTS."),
        ColumnSpec("cpu", pl.Int32(), "cpu", "The CPU whose state the event changes."),
        ColumnSpec("nr_running", pl.Int32(), "tasks", "Tasks on the runqueue after the event."),
        ColumnSpec("pid", pl.Int32(), "", "The task; for a switch the one that starts to run."),
        ColumnSpec("comm", pl.Categorical(), "", "Name of `pid`."),
        ColumnSpec("prio", pl.Int16(), "", "Kernel priority of `pid`: 120 is nice 0."),
        ColumnSpec("prev_pid", pl.Int32(), "", "The task a switch stops; -1: not known."),
        ColumnSpec("prev_comm", pl.Categorical(), "", "Name of `prev_pid`."),
        ColumnSpec("prev_prio", pl.Int16(), "", "Kernel priority of `prev_pid`."),
        ColumnSpec("prev_state", STATE_DTYPE, "", "State letters of the task that was left: `R`, `R+`, `S`, `D`, ..."),
        ColumnSpec("src_cpu", pl.Int32(), "cpu", "The CPU it came from, or where the event happened."),
        ColumnSpec("by_pid", pl.Int32(), "", "The task that caused it: the waker, the parent, or the balancing task."),
        ColumnSpec("by_comm", pl.Categorical(), "", "Name of `by_pid`."),
        ColumnSpec("op", pl.Categorical(), "", "The kernel function or the reason of a considered, balance or migrate event."),
        ColumnSpec("value", pl.Int64(), "by kind", "Load, idle state, kHz, tasks moved, events lost."),
        ColumnSpec("cpu_mask", MASK_DTYPE(), "bits", "A set of CPUs as a little-endian bit string."),
        ColumnSpec("text", pl.String(), "", "The text of a mark, or the file name of an exec."),
        ColumnSpec("in_irq", pl.Boolean(), "",
                   "Whether a hardware interrupt caused it, so that `by_pid` was only interrupted; null: not told."),
    )
}  # fmt: skip

#: Columns that older files lack, because the schema did not have them yet; they are null when an older file is read.
ADDED = ("in_irq",)

SCHEMA = pl.Schema({c.name: c.dtype for c in COLUMNS.values()})

#: column -> the kinds that must fill it
_REQUIRED_BY = {
    column: [e.kind for e in EVENTS.values() if column in e.required]
    for column in COLUMNS
    if any(column in e.required for e in EVENTS.values())
}


def empty() -> pl.DataFrame:
    """Return an event table without rows."""
    return pl.DataFrame(schema=SCHEMA)


def conform(frame: pl.DataFrame, where: str) -> pl.DataFrame:
    """Return a table in the full schema; columns that it lacks become null."""
    unknown = [c for c in frame.columns if c not in COLUMNS]
    if unknown:
        raise TraceFormatError(
            f"{where}: column {unknown[0]!r} is not in the trace schema (version {SCHEMA_VERSION}); "
            f"expected some of {', '.join(COLUMNS)}."
        )
    for name in ("ts_ns", "kind"):
        if name not in frame.columns:
            raise TraceFormatError(f"{where}: column {name!r} is missing; every event needs it.")
    try:
        out = frame.select(
            [
                (pl.col(c.name) if c.name in frame.columns else pl.lit(None))
                .cast(c.dtype)
                .alias(c.name)
                for c in COLUMNS.values()
            ]
        )
    except pl.exceptions.PolarsError as e:
        raise TraceFormatError(f"{where}: a value does not fit the trace schema: {e}") from e
    for name in ("ts_ns", "kind"):
        if out[name].null_count():
            row = out[name].is_null().arg_max()
            raise TraceFormatError(f"{where}, row {row}: {name!r} is empty; every event needs it.")
    check_required(out, where)
    return out


def check_required(frame: pl.DataFrame, where: str) -> None:
    """Refuse events that lack a column that their kind must fill."""
    lacking = {
        column: pl.col(column).is_null() & pl.col("kind").is_in(kinds)
        for column, kinds in _REQUIRED_BY.items()
        if frame[column].null_count()
    }
    # one query for all columns, so that polars looks at them in several threads
    found = frame.select(bad.any().alias(column) for column, bad in lacking.items())
    for column in found.columns:
        if found[column][0]:
            row = int(frame.select(lacking[column].arg_max()).item())
            kind = frame["kind"][row]
            raise TraceFormatError(
                f"{where}, row {row}: a {kind!r} event without {column!r}; "
                f"it needs {', '.join(EVENTS[kind].required)}."
            )
