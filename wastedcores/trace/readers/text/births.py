"""New threads, of which one or both of two events tell: task_newtask and, a moment later, sched_process_fork.

The kernel writes them in copy_process() and kernel_clone() (kernel/fork.c, v6.12). Recordings of phones have only the first.
"""

from __future__ import annotations

import polars as pl


class Births:
    """Keeps one event of each birth, whichever events the recording has."""

    def __init__(self) -> None:
        #: threads of which task_newtask told, and sched_process_fork did not tell yet
        self._told: set[int] = set()

    def once(self, events: pl.DataFrame) -> pl.DataFrame:
        """Leave out each sched_process_fork whose task_newtask came before it; ``newtask`` marks those and is dropped."""
        if "newtask" not in events.columns:
            if not self._told:
                return events
            events = events.with_columns(newtask=None)
        again = []
        forks = events.filter(pl.col("kind") == "fork").select("line", "pid", "newtask")
        for line, pid, new in forks.iter_rows():
            if new:
                self._told.add(pid)
            elif pid in self._told:
                self._told.remove(pid)
                again.append(line)
        return events.filter(~pl.col("line").is_in(again)).drop("newtask")
