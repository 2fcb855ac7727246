"""User mode, kernel mode and idle time of every CPU, and why threads waited (Sites: transitions between user and kernel)."""

from __future__ import annotations

import polars as pl

from wastedcores.errors import MissingEventsError
from wastedcores.trace.schema import TRANSITIONS
from wastedcores.trace.trace import Trace

#: kinds that belong to a CPU and not to the thread that it runs; they never outlast a context switch
INTERRUPTS = ("irq", "softirq", "vector", "sched")
#: events up to this long before and after a window are read to find the state inside it
BEFORE_NS, AFTER_NS = 1_000_000_000, 100_000_000
_COLUMNS = ("ts_ns", "kind", "cpu", "pid", "comm", "prev_pid", "prev_comm", "prev_state", "op", "value", "text",
            "src_cpu", "by_pid", "by_comm")  # fmt: skip
_ENTRY = pl.col("kind") == "kernel_entry"
_SWITCH = pl.col("kind") == "switch"


def modes(trace: Trace, start_ns: int, end_ns: int) -> pl.DataFrame:
    """Tell for every CPU when it was idle, ran user code, or ran the kernel.

    The state before the first event of a CPU or thread follows from that event: a thread that returns from the kernel was in the
    kernel. Kernel code between the end of an interrupt and a context switch has no event, so its time counts as the mode that
    the thread had.

    Parameters
    ----------
    trace
        A trace with transitions (``capture --events ...,transitions``, or KUtrace's JSON).
    start_ns, end_ns
        The window.

    Returns
    -------
    polars.DataFrame
        cpu, start_ns, end_ns, pid, comm, mode (``idle``, ``user``, ``kernel`` or ``unknown``), op and text (what the kernel does,
        such as ``syscall`` and ``futex``), ordered by cpu and start_ns. It covers each CPU from its first event to ``end_ns``.

    Raises
    ------
    MissingEventsError
        The trace has no transitions or no context switches.
    """
    events = _events(trace, start_ns, end_ns, "switch", *TRANSITIONS)
    mine = events.filter(~_SWITCH, ~pl.col("op").is_in(INTERRUPTS))
    segments = _overlaid(_running(events), end_ns)
    segments = _of_threads(segments, _thread_states(mine))
    kernel_threads = _kernel_threads(trace)
    interrupted = pl.col("depth") > 0
    idle = pl.col("pid") == 0
    always = pl.col("pid").is_in(kernel_threads)
    mode = (
        pl.when(interrupted | (always & ~idle))
        .then(pl.lit("kernel"))
        .when(idle)
        .then(pl.lit("idle"))
        .otherwise(pl.col("state").fill_null("unknown"))
    )
    inside = pl.when(interrupted)
    segments = segments.with_columns(
        mode=mode,
        op=inside.then("over_op").when(~idle & ~always).then("state_op"),
        text=inside.then("over_text").when(~idle & ~always).then("state_text"),
    )
    clipped = segments.with_columns(
        start_ns=pl.col("start_ns").clip(lower_bound=start_ns),
        end_ns=pl.col("end_ns").clip(upper_bound=end_ns),
    )
    return _joined(clipped.filter(pl.col("end_ns") > pl.col("start_ns")))


def waits(trace: Trace, start_ns: int, end_ns: int) -> pl.DataFrame:
    """Tell why threads did not run: what they did when they fell asleep, who woke them, and how long they then waited for a CPU.

    Parameters
    ----------
    trace, start_ns, end_ns
        As for :func:`modes`.

    Returns
    -------
    polars.DataFrame
        pid, comm, start_ns (the thread stopped), woken_ns (null: it was preempted), end_ns (it ran again), left_cpu,
        cpu (where it ran again), why (``futex``, ``page_fault``, ``preempted``, or ``unknown``), by_pid, by_comm and by_cpu
        (the waker).
    """
    events = _events(trace, start_ns, end_ns, "switch", "wakeup", *TRANSITIONS)
    states = _thread_states(events.filter(~_SWITCH, ~pl.col("op").is_in(INTERRUPTS)))
    switches = events.filter(_SWITCH)
    dead = pl.col("prev_state").is_in(["X", "Z"])
    left = switches.filter(pl.col("prev_pid") > 0, ~dead).select(
        "i", "prev_state", pid="prev_pid", comm="prev_comm", start_ns="ts_ns", left_cpu="cpu"
    )
    back = switches.filter(pl.col("pid") > 0).select(
        "i", "pid", end_i="i", end_ns="ts_ns", cpu="cpu"
    )
    out = left.join_asof(back, on="i", by="pid", strategy="forward", check_sortedness=False)
    out = _of_threads(out.drop_nulls("end_ns"), states)
    wakeups = events.filter(pl.col("kind") == "wakeup").select(
        "i", "pid", "by_pid", "by_comm", woken_i="i", woken_ns="ts_ns", by_cpu="src_cpu"
    )
    out = out.join_asof(wakeups, on="i", by="pid", strategy="forward", check_sortedness=False)
    woken = (pl.col("woken_i") < pl.col("end_i")).fill_null(False)
    slept = ~pl.col("prev_state").cast(pl.String).str.starts_with("R")
    why = (
        pl.when(~slept)
        .then(pl.lit("preempted"))
        .otherwise(pl.coalesce("state_text", "state_op", pl.lit("unknown")))
    )
    told = ("woken_ns", "by_pid", "by_comm", "by_cpu")
    out = out.with_columns(
        why.alias("why"), *(pl.when(slept & woken).then(c).alias(c) for c in told)
    )
    out = out.filter(pl.col("end_ns").is_between(start_ns, end_ns))
    return out.select(
        "pid", "comm", "start_ns", "woken_ns", "end_ns", "left_cpu", "cpu", "why", *told[1:]
    )


def shares(segments: pl.DataFrame) -> pl.DataFrame:
    """Add up the time of each mode on each CPU, longest first. Columns: cpu, mode, op, ns and spans (how many)."""
    length = (pl.col("end_ns") - pl.col("start_ns")).sum()
    return (
        segments.group_by("cpu", "mode", "op")
        .agg(ns=length, spans=pl.len())
        .sort("cpu", "ns", "mode", "op", descending=[False, True, False, False])
    )


def _events(trace: Trace, start_ns: int, end_ns: int, *kinds: str) -> pl.DataFrame:
    missing = {"switch", "kernel_entry"} - trace.kinds().keys()
    if missing:
        raise MissingEventsError(
            f"{trace.name}: has no {' and no '.join(sorted(missing))} events. Record transitions between user and kernel mode: "
            "wastedcores capture --transitions -o trace.parquet."
        )
    inside = pl.col("ts_ns").is_between(start_ns - BEFORE_NS, end_ns + AFTER_NS)
    text = [pl.col(c).cast(pl.String) for c in ("comm", "prev_comm", "by_comm", "op", "prev_state")]
    found = trace.only(*kinds).filter(inside).select(_COLUMNS).with_columns(*text)
    return found.collect(engine="streaming").with_row_index("i")


def _running(events: pl.DataFrame) -> pl.DataFrame:
    """Return the switches and transitions with the thread that runs from then on."""
    own = events.filter(pl.col("kind") != "wakeup")
    # a transition names its thread; before a CPU's first switch, the thread is the one that this switch stops
    runs = pl.when(_SWITCH).then("pid").forward_fill().over("cpu")
    name = pl.when(_SWITCH).then("comm").forward_fill().over("cpu")
    stopped = pl.when(_SWITCH).then("prev_pid").backward_fill().over("cpu")
    called = pl.when(_SWITCH).then("prev_comm").backward_fill().over("cpu")
    return own.with_columns(
        now=pl.coalesce(runs, "pid", stopped),
        now_comm=pl.coalesce(name, "comm", called),
    )


def _overlaid(events: pl.DataFrame, end_ns: int) -> pl.DataFrame:
    """Return the spans between the events of each CPU, with the depth of nested interrupts and the name of the innermost one."""
    of_cpu = pl.col("op").is_in(INTERRUPTS).fill_null(False)
    step = pl.when(of_cpu & _ENTRY).then(1).when(of_cpu & ~_SWITCH).then(-1).otherwise(0)
    stay = _SWITCH.cast(pl.Int32).cum_sum().over("cpu")
    return (
        events.with_columns(step=step, stay=stay)
        # an exit without its entry (the recording began in between) makes the total negative; depth counts from the lowest total
        .with_columns(total=pl.col("step").cum_sum().over("cpu", "stay"))
        .with_columns(
            depth=pl.col("total") - pl.min_horizontal(0, pl.col("total").cum_min().over("cpu", "stay")),
        )
        .with_columns(
            over_op=pl.when(of_cpu & _ENTRY).then("op").forward_fill().over("cpu", "stay", "depth"),
            over_text=pl.when(of_cpu & _ENTRY).then("text").forward_fill().over("cpu", "stay", "depth"),
            until=pl.col("ts_ns").shift(-1).over("cpu").fill_null(end_ns),
        )
        .select(
            "i", "cpu", "depth", "over_op", "over_text", start_ns="ts_ns", end_ns="until", pid="now", comm="now_comm"
        )
    )  # fmt: skip


def _thread_states(mine: pl.DataFrame) -> pl.DataFrame:
    """Return the state of a thread before and after each transition: user or kernel mode, and what it executes in the kernel."""
    last_op, last_text = (pl.col(c).shift(1).over("pid") for c in ("op", "text"))
    entered = pl.col("kind").shift(1).over("pid") == "kernel_entry"
    # a fault of kernel code (X86_PF_USER is not set) returns into the kernel
    in_kernel = (
        (pl.col("op") == "fault") & entered & (pl.col("value").shift(1).over("pid") & 4 == 0)
    )
    inside = _ENTRY | in_kernel.fill_null(False)
    call = pl.col("op") == "syscall"
    # the system call to which a fault of kernel code returns; empty after the system call has ended
    around = (
        pl.when(call & _ENTRY).then(pl.col("text").fill_null("unnamed")).when(call).then(pl.lit(""))
    )
    outer = around.forward_fill().over("pid").replace("", None)
    return mine.sort("i").select(
        "i",
        "pid",
        state=pl.when(inside).then(pl.lit("kernel")).otherwise(pl.lit("user")),
        state_op=pl.when(_ENTRY)
        .then("op")
        .when(inside & outer.is_not_null())
        .then(pl.lit("syscall")),
        state_text=pl.when(_ENTRY).then("text").when(inside).then(outer),
        before=pl.when(_ENTRY & ~((pl.col("op") == "fault") & (pl.col("value") & 4 == 0)))
        .then(pl.lit("user"))
        .otherwise(pl.lit("kernel")),
        before_op=pl.when(~_ENTRY).then(pl.coalesce(last_op, "op")),
        before_text=pl.when(~_ENTRY).then(last_text),
    )


def _of_threads(table: pl.DataFrame, states: pl.DataFrame) -> pl.DataFrame:
    """Add the state of each row's thread: after its last transition or, if it has none, before its next transition."""
    after = states.select("i", "pid", "state", "state_op", "state_text")
    coming = states.select("i", "pid", "before", "before_op", "before_text")
    out = table.sort("i").join_asof(after, on="i", by="pid", check_sortedness=False)
    out = out.join_asof(coming, on="i", by="pid", strategy="forward", check_sortedness=False)
    first = pl.col("state").is_null()
    return out.with_columns(
        pl.when(first).then(f"before{end}").otherwise(f"state{end}").alias(f"state{end}")
        for end in ("", "_op", "_text")
    )


def _kernel_threads(trace: Trace) -> list[int]:
    """Return the kernel threads: those of the snapshot, and the children of kthreadd."""
    known = {t.pid for t in trace.header.tasks or () if t.kthread}
    forks = trace.only("fork").filter(pl.col("by_pid") == 2).select("pid").collect()
    return sorted(known | set(forks["pid"].to_list()))


def _joined(segments: pl.DataFrame) -> pl.DataFrame:
    """Join neighbouring spans that have the same thread, mode, op and text."""
    same = ("pid", "mode", "op", "text")
    changed = pl.any_horizontal(pl.col(c).ne_missing(pl.col(c).shift(1).over("cpu")) for c in same)
    stays = segments.sort("cpu", "i").with_columns(run=changed.cum_sum().over("cpu"))
    return (
        stays.group_by("cpu", "run", maintain_order=True)
        .agg(pl.col("start_ns").first(), pl.col("end_ns").last(), pl.col("pid", "comm", "mode", "op", "text").first())
        .drop("run")
    )  # fmt: skip
