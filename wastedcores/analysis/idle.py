"""Idle intervals of CPUs, and what it costs to leave an idle state (Sites, Anomalies in Linux Processor Use, Figure 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from wastedcores.errors import MissingEventsError, UsageError
from wastedcores.topology.clocks import IdleState, check_idle_states
from wastedcores.trace.trace import Trace


def idle_intervals(trace: Trace) -> pl.DataFrame:
    """Return every interval in which a CPU was idle until a task came: cpu, start_ns, end_ns, idle_ns and the task's pid.

    The intervals are ordered by their ends. If a CPU was idle when the trace began, its interval starts at the trace's first
    event, although it may have been longer. An interval is left out if the end of the trace cuts it off, or if its beginning
    was lost.
    """
    switches = trace.only("switch").select("ts_ns", "cpu", "pid", "prev_pid").collect()
    if switches.is_empty():
        raise MissingEventsError("idle intervals need context switches; this trace has none.")
    begin = trace.events.select(pl.col("ts_ns").min()).collect().item()
    return (
        switches.with_columns(
            start_ns=pl.col("ts_ns").shift(1).over("cpu").fill_null(begin),
            before=pl.col("pid").shift(1).over("cpu").fill_null(0),
        )
        .filter(pl.col("prev_pid") == 0, pl.col("pid") != 0, pl.col("before") == 0)
        .select(
            "cpu",
            "start_ns",
            end_ns="ts_ns",
            idle_ns=pl.col("ts_ns") - pl.col("start_ns"),
            pid="pid",
        )
        .sort("end_ns", "cpu")
    )


def exits(intervals: pl.DataFrame, states: Sequence[IdleState]) -> pl.DataFrame:
    """Add to each interval the idle state that the CPU reached, and the time that leaving it took.

    Parameters
    ----------
    intervals
        From :func:`idle_intervals`.
    states
        Idle states from the shallowest to the deepest. A CPU reaches the deepest state whose residency is not longer than its
        idle interval.

    Returns
    -------
    polars.DataFrame
        The intervals with ``state`` (null: the interval was too short for any state) and ``exit_ns``.

    Raises
    ------
    TopologyError
        The states are impossible.
    """
    check_idle_states(tuple(states))
    name: pl.Expr = pl.lit(None, pl.String)
    exit_ns: pl.Expr = pl.lit(0, pl.Int64)
    for s in states:
        deep = pl.col("idle_ns") >= s.residency_ns
        name = pl.when(deep).then(pl.lit(s.name)).otherwise(name)
        exit_ns = pl.when(deep).then(pl.lit(s.exit_ns, pl.Int64)).otherwise(exit_ns)
    return intervals.with_columns(state=name, exit_ns=exit_ns)


def idle_costs(
    intervals: pl.DataFrame, exit_ns: int, policies: Mapping[str, int | None]
) -> pl.DataFrame:
    """Compare policies of spinning: for how long a CPU spins before it enters an idle state that takes a given time to leave.

    A CPU that spins for a time s before it sleeps pays the whole interval if a task comes before s is over, and s plus the exit
    otherwise. An oracle that knows the interval in advance pays the shorter of the interval and the exit. A CPU that spins for
    as long as the exit takes pays at most twice as much as the oracle, however long the interval is (the Half-Optimal Principle).

    Parameters
    ----------
    intervals
        From :func:`idle_intervals`.
    exit_ns
        Time to leave the state.
    policies
        Name -> how long to spin before sleeping, in ns; None never sleeps.

    Returns
    -------
    polars.DataFrame
        One row per policy, and ``oracle`` as the last: policy, spin_us, spun_s (time spent spinning), late_s (time for which
        tasks waited for exits), late_share (the share of intervals that ended with an exit), cost_s (spun_s plus late_s),
        times_oracle.

    Raises
    ------
    UsageError
        A time to spin is negative, or the exit takes no time.
    """
    if exit_ns <= 0 or any(s is not None and s < 0 for s in policies.values()):
        raise UsageError("Times to spin are 0 ns or more, and the exit takes more than 0 ns.")
    idle = intervals["idle_ns"].to_numpy()
    # the oracle sleeps at once if the interval is longer than the exit, and else spins through the interval
    short = idle <= exit_ns
    sums = {"oracle": (int(idle[short].sum()), int((~short).sum()))}
    for name, spin in policies.items():
        longer = idle > (np.inf if spin is None else spin)
        sums[name] = (
            int(idle[~longer].sum()) + (spin or 0) * int(longer.sum()),
            int(longer.sum()),
        )
    best = sums["oracle"][0] + exit_ns * sums["oracle"][1]
    rows = []
    for name in (*policies, "oracle"):
        spun, late = sums[name]
        cost = spun + exit_ns * late
        spin = policies.get(name)
        rows.append(
            {
                "policy": name,
                "spin_us": None if spin is None else spin / 1e3,
                "spun_s": spun / 1e9,
                "late_s": exit_ns * late / 1e9,
                "late_share": late / max(len(idle), 1),
                "cost_s": cost / 1e9,
                "times_oracle": cost / best if best else 1.0,
            }
        )
    return pl.DataFrame(rows, schema_overrides={"spin_us": pl.Float64})
