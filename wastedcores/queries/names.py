"""The names of tasks through fork and exec, for events that do not name them."""

from __future__ import annotations

import numpy as np
import polars as pl

from wastedcores.queries.spans import numbered

#: columns that :func:`with_names` reads
NEEDED = ("kind", "pid", "comm", "prev_pid", "prev_comm", "by_pid", "by_comm", "text")
#: the length of a comm (TASK_COMM_LEN - 1, include/linux/sched.h)
_COMM = 15


def with_names(events: pl.DataFrame, known: dict[int, str] | None = None) -> pl.DataFrame:
    """Fill in the names that events leave out.

    A task has the name that the trace last told. A new task has its parent's name (``copy_process()``, kernel/fork.c), and an
    exec gives it the name of its event or else the last part of the program's path (``begin_new_exec()``, fs/exec.c, v6.1).

    Parameters
    ----------
    events
        Events with the columns of :data:`NEEDED`, ordered by time.
    known
        Names of tasks before the first event, by pid.

    Returns
    -------
    polars.DataFrame
        The events; ``comm``, ``prev_comm`` and ``by_comm`` have fewer nulls.
    """
    from wastedcores.queries.names_jit import carry_names

    switch = pl.col("kind") == "switch"
    program = pl.when(pl.col("kind") == "exec").then(
        pl.col("text").str.extract(r"([^/]+)/*$").str.slice(0, _COMM)
    )
    # a switch has a second task, and other events a task that caused them
    told = events.select(
        "pid",
        "kind",
        comm=pl.coalesce(pl.col("comm").cast(pl.String), program),
        other=pl.when(switch).then("prev_pid").otherwise("by_pid"),
        by=pl.when(switch).then(pl.col("prev_comm").cast(pl.String)).otherwise(
            pl.col("by_comm").cast(pl.String)
        ),
    )  # fmt: skip
    before = known or {}
    first = pl.DataFrame(
        {"pid": list(before), "comm": list(before.values())},
        schema={"pid": pl.Int32, "comm": pl.String},
    )
    # every CPU has an idle task of its own, and all of them have pid 0
    tasks = told.select(pl.col("pid", "other").replace(0, None))
    pids = numbered((tasks["pid"], tasks["other"], first["pid"]))
    both = pl.concat([told["comm"], told["by"], first["comm"]]).cast(pl.Categorical())
    n = told.height
    codes = both.to_physical().cast(pl.Int64).fill_null(-1).cast(pl.Int32).to_numpy().copy()
    names = np.full(1 + max(int(p.max(initial=-1)) for p in pids), -1, np.int32)
    names[pids[2]] = codes[2 * n :]
    what = told["kind"].cast(pl.String).replace_strict(
        {"fork": 1, "exec": 2, "exit": 3}, default=0, return_dtype=pl.Int8
    )  # fmt: skip
    carry_names(what.to_numpy(), pids[0], codes[:n], pids[1], codes[n : 2 * n], names)
    text = _texts(both, codes)
    filled = events.with_columns(_comm=text[:n], _by=text[n : 2 * n])
    return filled.with_columns(
        comm=pl.col("_comm"),
        prev_comm=pl.when(switch).then("_by").otherwise(pl.col("prev_comm")),
        by_comm=pl.when(switch).then(pl.col("by_comm")).otherwise("_by"),
    ).drop("_comm", "_by")


def _texts(names: pl.Series, codes: np.ndarray) -> pl.Series:
    """Return the names of codes; -1 is null."""
    pairs = pl.DataFrame({"code": names.to_physical(), "name": names}).unique("code").drop_nulls()
    table = pairs.sort("code")
    at = np.searchsorted(table["code"].to_numpy(), codes)
    return table["name"].gather(pl.Series(at).set(pl.Series(codes < 0), None))
