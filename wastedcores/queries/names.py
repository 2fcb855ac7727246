"""Follows the names of tasks through fork and exec, for events that do not name their tasks."""

from __future__ import annotations

import numpy as np
import polars as pl

from wastedcores.queries.lengths import numbered

#: columns that :func:`with_names` reads
NEEDED = ("kind", "pid", "comm", "prev_pid", "prev_comm", "by_pid", "by_comm", "text")
#: the length of a comm (TASK_COMM_LEN - 1, include/linux/sched.h)
_COMM = 15


def with_names(events: pl.DataFrame, known: dict[int, str] | None = None) -> pl.DataFrame:
    """Fill in the names that events leave out.

    A task has the name that the trace last told. A new task has its parent's name (``copy_process()``, kernel/fork.c), and an
    exec gives a task the name in the exec's event, or else the last part of the program's path (``begin_new_exec()``, fs/exec.c,
    v6.1).
    """
    from wastedcores.queries.names_jit import carry_names

    switch, run = pl.col("kind") == "switch", pl.col("kind") == "exec"
    comm = pl.col("comm")
    if events.select((run & comm.is_null()).any()).item():
        program = pl.col("text").str.extract(r"([^/]+)/*$").str.slice(0, _COMM)
        comm = pl.coalesce(comm, pl.when(run).then(program.cast(pl.Categorical())))
    # a switch has a second task, and other events a task that caused them; every CPU has an idle task with pid 0
    told = events.select(
        pl.col("pid").replace(0, None),
        comm=comm,
        other=pl.when(switch).then("prev_pid").otherwise("by_pid").replace(0, None),
        by=pl.when(switch).then("prev_comm").otherwise("by_comm"),
        what=pl.when(pl.col("kind") == "fork").then(1).when(run).then(2)
        .when(pl.col("kind") == "exit").then(3).otherwise(0).cast(pl.Int8),
    )  # fmt: skip
    before = known or {}
    pids = numbered((told["pid"], told["other"], pl.Series(list(before), dtype=pl.Int32)))
    first = pl.Series(list(before.values()), dtype=pl.String).cast(pl.Categorical())
    both = pl.concat([told["comm"].alias(""), told["by"].alias(""), first])
    n = told.height
    codes = both.to_physical().cast(pl.Int32).fill_null(-1).to_numpy().copy()
    names = np.full(1 + max(int(p.max(initial=-1)) for p in pids), -1, np.int32)
    names[pids[2]] = codes[2 * n :]
    carry_names(told["what"].to_numpy(), pids[0], codes[:n], pids[1], codes[n : 2 * n], names)
    text = _texts(both, codes)
    filled = events.with_columns(_comm=text[:n], _by=text[n : 2 * n])
    return filled.with_columns(
        comm=pl.col("_comm"),
        prev_comm=pl.when(switch).then("_by").otherwise(pl.col("prev_comm")),
        by_comm=pl.when(switch).then(pl.col("by_comm")).otherwise("_by"),
    ).drop("_comm", "_by")


def _texts(names: pl.Series, codes: np.ndarray) -> pl.Series:
    """Return the name of each code; the code -1 becomes null."""
    table = names.unique().drop_nulls()
    place = np.zeros(1 + int(codes.max(initial=-1)), np.uint32)
    place[table.to_physical().to_numpy()] = np.arange(table.len())
    at = pl.Series(place[codes] if place.size else np.zeros(codes.size, np.uint32))
    return table.gather(at.set(pl.Series(codes < 0), None))
