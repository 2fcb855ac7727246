"""Table 4 of Lozi et al. 2016 (the bugs, the kernels that have them, and what they cost) beside what this project finds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from wastedcores.kernels import FIXES
from wastedcores.kernels.generations import MAINLINE, NEWEST, OLDEST
from wastedcores_studies.attempts import CLAIMS
from wastedcores_studies.published import Tables, load

FILE = "table4.csv"
#: bug -> the row of the scorecard whose published number is this bug's impact in Table 4, and the program of this row
LARGEST = {
    "group_imbalance": ("claims.lu_r_speedup", "lu with 60 threads beside four R"),
    "group_construction": ("table1.lu.speedup", "lu, pinned to two nodes"),
    "overload_on_wakeup": ("table2.q18.overload_on_wakeup.change", "query 18 of TPC-H"),
    "missing_domains": ("table3.lu.speedup", "lu after CPU hotplug"),
}
#: bug -> the applications that Table 4 names
IMPACTED = dict.fromkeys(FIXES, "all") | {"overload_on_wakeup": "applications that sleep or wait"}

SCHEMA: dict[str, type[pl.DataType]] = {
    "bug": pl.String, "kernels_published": pl.String, "kernels_modelled": pl.String, "applications": pl.String,
    "measured_with": pl.String, "published": pl.Float64, "ours": pl.Float64, "low": pl.Float64, "high": pl.Float64,
    "unit": pl.String, "kind": pl.String, "seeds": pl.Int64,
}  # fmt: skip


def table_4(result: Mapping[str, Any], tables: Tables | None = None) -> pl.DataFrame:
    """Put the rows of a scorecard beside the numbers of Table 4 that they predict.

    Parameters
    ----------
    result
        What ``wastedcores reproduce`` wrote, see :func:`wastedcores_studies.scorecard.read`.
    tables
        The published tables; by default the bundled ones.

    Returns
    -------
    polars.DataFrame
        Columns of :data:`SCHEMA`, one row per bug. ``published``, ``ours``, ``low`` and ``high`` are in ``unit``, which is
        ``ratio`` (how many times as long a run takes with the bug) or ``percent`` (by how much the fix shortens a run).
        ``ours`` is null if the scorecard has no such row.
    """
    tables = tables or load()
    by_id = {row["id"]: row for row in result.get("rows", ())}
    rows = []
    for bug in FIXES:
        id_, workload = LARGEST[bug]
        row = by_id.get(id_, {})
        unit = tables.text(CLAIMS, f"impact_{bug}", "unit")
        # a change in percent is negative in the scorecard, but Table 4 prints it without the sign
        sign = -1 if unit == "percent" else 1
        found = (row.get(k) for k in ("ours", "low", "high"))  # None: its replays failed
        ours, low, high = (float("nan") if v is None else sign * v for v in found)
        low, high = min(low, high), max(low, high)
        rows.append(
            (
                bug, tables.text(CLAIMS, f"since_{bug}", "value"), kernels_modelled(bug), IMPACTED[bug], workload,
                tables.number(CLAIMS, f"impact_{bug}", "value"), ours, low, high, unit, row.get("kind"), result.get("seeds"),
            )
        )  # fmt: skip
    return pl.DataFrame(rows, schema=SCHEMA, orient="row").fill_nan(None)


def kernels_modelled(bug: str) -> str:
    """Return which of the releases whose domains are modelled have a bug, such as ``v3.19 to v4.12``."""
    major, minor = MAINLINE.get(bug, (NEWEST[0], NEWEST[1] + 1))
    last = f"{major}.{minor - 1}" if minor else {5: "4.20", 6: "5.19", 7: "6.19"}[major]
    return f"v{OLDEST[0]}.{OLDEST[1]} to v{last}"
