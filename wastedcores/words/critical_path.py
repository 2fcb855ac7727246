"""The critical path in a sentence and a table."""

from __future__ import annotations

import polars as pl

from wastedcores.analysis.critical_path import CriticalPath
from wastedcores.cpulist import format_cpulist
from wastedcores.units import human_ns
from wastedcores.words.rich_text import RichText, count, sentence, table


def path_cost(path: CriticalPath) -> RichText:
    """Say where the time of a critical path went."""
    t = path.totals
    return sentence(
        f"Of {human_ns(path.length_ns)}, {human_ns(t['avoidable'])} on the critical path were spent waiting beside an idle CPU. "
        f"The threads on it ran for {human_ns(t['running'])}, waited {human_ns(t['other_waiting'])} while no CPU that they may "
        f"use is known to have been idle, and slept {human_ns(t['sleeping'])}. The path leads to {path.end}; "
        f"{count(path.threads.height, 'thread')} took part in it."
    )


def path_threads(path: CriticalPath, most: int = 8) -> RichText:
    """List the threads on a critical path; the thread that spent most time on the path comes first.

    Parameters
    ----------
    path
        The path.
    most
        The table has at most this many rows.

    Returns
    -------
    RichText
        A table with one row per thread.
    """
    rows = [
        (
            r["comm"],
            r["pid"],
            *(
                human_ns(r[c])
                for c in ("running_ns", "avoidable_ns", "other_waiting_ns", "sleeping_ns")
            ),
            format_cpulist(r["cpus"]),
        )
        for r in path.threads.head(most).iter_rows(named=True)
    ]
    columns = [
        "thread",
        "pid",
        "ran",
        "waited beside an idle CPU",
        "waited otherwise",
        "slept",
        "CPUs",
    ]
    return table(pl.DataFrame(rows, schema=columns, orient="row"))
