"""The doubts that the compiled state machine wrote down, as a table with names."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from wastedcores.runqueues import state as st

#: by reason of :mod:`wastedcores.runqueues.state`
REASONS = (
    "wakeup_of_queued",
    "in_without_wakeup",
    "out_without_in",
    "ran_elsewhere",
    "left_unseen",
    "idle_beside_waiting",
    "starved",
    "count_differs",
    "bound_by_name",
)
NO_DOUBTS = pl.DataFrame(
    schema={"cpu": pl.Int32, "start_ns": pl.Int64, "end_ns": pl.Int64, "reason": pl.String}
)

#: a task that waits this long may be throttled: the default period of CPU quotas (kernel/sched/core.c, v6.12)
STARVED_NS = 100_000_000

#: where more than this share of a CPU's switches contradicts the state, nothing between them is believed either: such a
#: trace mixes two recordings, or lost events all along
_OFTEN = 0.05


def doubt_table(out: st.Output, n: int) -> pl.DataFrame:
    """Return the first doubts as a table.

    Parameters
    ----------
    out
        Arrays that the compiled state machine filled.
    n
        How many doubts are valid.

    Returns
    -------
    polars.DataFrame
        Columns cpu (-1: all), start_ns, end_ns, reason.
    """
    rows = out.doubt[:, :n]
    return pl.DataFrame(
        {
            "cpu": rows[st.DOUBT_CPU].astype(np.int32),
            "start_ns": rows[st.START].copy(),
            "end_ns": rows[st.END].copy(),
            "reason": pl.Series([REASONS[r] for r in rows[st.REASON]], dtype=pl.String),
        },
        schema=NO_DOUBTS.schema,
    )


def widened(doubts: pl.DataFrame, switches: NDArray[np.int64]) -> pl.DataFrame:
    """Add a doubt about all the time between the first and the last contradiction of a CPU that has many of them.

    Parameters
    ----------
    doubts
        Table cpu, start_ns, end_ns, reason.
    switches
        (cpus,) number of switches of each CPU.

    Returns
    -------
    polars.DataFrame
        The table with the doubts added.
    """
    by_cpu = doubts.filter(pl.col("reason").is_in(REASONS[: st.ODD_PARKED]), pl.col("cpu") >= 0)
    many = (
        by_cpu.group_by("cpu")
        .agg(pl.len(), pl.col("start_ns").min(), pl.col("end_ns").max())
        .filter(pl.col("len") >= 10)
        .sort("cpu")
    )
    often = many["len"].to_numpy() > _OFTEN * switches[many["cpu"].to_numpy()]
    return pl.concat(
        [
            doubts,
            many.filter(often).select(
                "cpu", "start_ns", "end_ns", reason=pl.lit("contradicted_often")
            ),
        ]
    )
