"""Births of threads. The kernel reports each birth with task_newtask and, a moment later, with sched_process_fork.

It writes these events in copy_process() and kernel_clone() (kernel/fork.c, v6.12). Recordings of phones have only task_newtask.
"""

from __future__ import annotations

import polars as pl


class Births:
    """Keeps one event of each birth, whichever events the recording has."""

    def __init__(self) -> None:
        #: threads whose task_newtask was seen, and whose sched_process_fork was not seen yet
        self._told = pl.DataFrame(schema={"line": pl.Int64, "pid": pl.Int64, "newtask": pl.Boolean})

    def once(self, events: pl.DataFrame) -> pl.DataFrame:
        """Leave out each sched_process_fork whose task_newtask came before it. ``newtask`` marks task_newtask, and is dropped."""
        if "newtask" not in events.columns:
            if not self._told.height:
                return events
            events = events.with_columns(newtask=None)
        told = pl.col("newtask").cast(pl.Boolean).fill_null(False)
        births = events.filter(pl.col("kind") == "fork").select(
            "line", pl.col("pid").cast(pl.Int64), newtask=told
        )
        births = pl.concat([self._told, births])
        self._told = births.unique("pid", keep="last").filter("newtask")
        before = pl.col("newtask").shift(fill_value=False).over("pid")
        again = births.filter(~pl.col("newtask") & before)["line"]
        return events.filter(~pl.col("line").is_in(again.implode())).drop("newtask")
