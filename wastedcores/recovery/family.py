"""The events of one command: a task and all that it forked, directly or not, without the rest of the machine."""

from __future__ import annotations

import polars as pl

from wastedcores.errors import UsageError
from wastedcores.trace.header import Window
from wastedcores.trace.trace import Trace

#: the kinds of events that say who runs, and what a task does
_OF_A_TASK = ("wakeup", "wakeup_new", "migrate", "fork", "exec", "exit", "mark")


def family_of(trace: Trace, name: str) -> Trace:
    """Return the events of the first task of a name, and of all tasks that descend from it.

    While a CPU runs other tasks it counts as idle, and wakeups by other tasks have no waker. So the result says how much each
    task of the family computed and why it slept, but not who had to wait: a check of it means nothing.
    """
    events = trace.only("switch", *_OF_A_TASK).collect()
    named = events.filter(pl.col("comm") == name, pl.col("pid") > 0)
    if named.is_empty():
        raise UsageError(
            f"{trace.name}: no task is called {name!r}, so there is no family to find."
        )
    root = int(named["pid"][0])
    pids = {root}
    forks = events.filter(pl.col("kind") == "fork").select("pid", "by_pid")
    for child, parent in forks.iter_rows():
        if parent in pids:
            pids.add(child)
    mine, prev, by = (pl.col(c).is_in(sorted(pids)) for c in ("pid", "prev_pid", "by_pid"))
    switch = pl.col("kind") == "switch"
    birth = (pl.col("kind") == "fork") & (pl.col("pid") == root)
    kept = events.filter((mine & ~birth) | (switch & prev)).with_columns(
        pid=pl.when(mine).then("pid").otherwise(0),
        comm=pl.when(mine).then("comm"),
        prev_pid=pl.when(prev).then("prev_pid").when(switch).then(0),
        prev_comm=pl.when(prev).then("prev_comm"),
        by_pid=pl.when(by).then("by_pid"),
    )
    window = Window(start_ns=int(kept["ts_ns"][0]), end_ns=int(kept["ts_ns"][-1]))
    return Trace(kept.lazy(), trace.header).with_header(window=window)
