"""The table of control groups as text: who took the CPU of each."""

from __future__ import annotations

import polars as pl

from wastedcores.invariant.who import PARTS
from wastedcores.units import human_ns

_HEADS = ("ran", "waited", "wasted", "throttled", "stolen")


def describe_groups(table: pl.DataFrame, most: int = 10) -> str:
    """Return the table that :func:`wastedcores.invariant.who_took` makes as lines of text, with the first ``most`` rows."""
    if not table.height:
        return "  Who took the CPU of each group is unknown: the trace has no switch events."
    kinds = set(table["kind"])
    whose = (
        "control group" if kinds == {"cgroup"} else "process" if kinds == {"process"} else "group"
    )
    rows = [
        (row["name"], *("?" if row[p] is None else human_ns(row[p]) for p in PARTS))
        for row in table.head(most).iter_rows(named=True)
    ]
    width = max(len(whose), *(len(r[0]) for r in rows))
    lines = [f"  {whose:<{width}}  " + "  ".join(f"{h:>9}" for h in _HEADS)]
    lines += [f"  {r[0]:<{width}}  " + "  ".join(f"{c:>9}" for c in r[1:]) for r in rows]
    more = table.height - most
    lines += [f"  and {more} more; --json --limit all has them"] if more > 0 else []
    lines.append(
        "  waited: no CPU that the task may use was idle; wasted: one was; throttled: by the group's own limit;"
    )
    lines.append("  stolen: by the hypervisor (estimated for each group); ?: unknown")
    return "\n".join(lines)
