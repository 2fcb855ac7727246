"""Recordings with sched_waking and without sched_wakeup.

``perf sched record`` prefers sched_waking (tools/perf/builtin-sched.c, 6.1 to 6.12). It comes when a task is woken, not
when it is on a runqueue, and its CPU is the one the task was on before; the placement follows in sched_migrate_task.
"""

from __future__ import annotations

import polars as pl

from wastedcores.limits import MAX_CPUS
from wastedcores.trace.readers.support.facts import Facts
from wastedcores.trace.readers.support.wakings_jit import place_wakings

NOTE = "sched_waking taken for sched_wakeup, which was not recorded; placed by sched_migrate_task"


def settle_wakings(events: pl.DataFrame, facts: Facts) -> pl.DataFrame:
    """Drop sched_waking events, or make wakeups of them where there are no others.

    Parameters
    ----------
    events
        In file order, with ``waking`` (true: a sched_waking under kind ``wakeup``) and ``ctx_cpu``.
    facts
        ``waking`` is decided by the first table that has either kind.

    Returns
    -------
    DataFrame
        Without ``waking`` and ``ctx_cpu``.
    """
    if "waking" not in events.columns:
        return events.drop("ctx_cpu", strict=False)
    n = int(events["waking"].sum())
    if facts.waking is None:
        real = events.select(((pl.col("kind") == "wakeup") & ~pl.col("waking")).any()).item()
        facts.waking = False if real else (True if n else None)
    if n and facts.waking:
        facts.notes["wakeups"] = NOTE
        cpu = events["cpu"].fill_null(-1).to_numpy().copy()
        place_wakings(
            events["ts_ns"].to_numpy(),
            _int32(events["ctx_cpu"]),
            _int32(events["pid"]),
            events["waking"].fill_null(False).to_numpy(),
            (events["kind"] == "migrate").to_numpy(),
            cpu,
            MAX_CPUS,
        )
        events = events.with_columns(cpu=pl.when(pl.col("cpu").is_not_null()).then(pl.Series(cpu)))
    elif n:
        facts.skipped["sched_waking"] += n
        events = events.filter(~pl.col("waking").fill_null(False))
    return events.drop("waking", "ctx_cpu")


def _int32(column: pl.Series):  # type: ignore[no-untyped-def]
    return column.fill_null(-1).cast(pl.Int32).to_numpy()
