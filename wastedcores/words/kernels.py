"""Sentences and tables: some compare kernels under the same workloads, others compare recorded runs with their replays.

Functions that compare kernels take the table of :func:`wastedcores_studies.recordings.kernels.read_kernels`. Those that compare
recordings take the table of :func:`wastedcores_studies.recordings.agreement.compare_recordings` or ``read_agreement``.
"""

from __future__ import annotations

import polars as pl

from wastedcores.errors import UsageError
from wastedcores.words.rich_text import RichText, count, sentence, table


def recorded_verdict(rows: pl.DataFrame) -> RichText:
    """Say how many quantities of how many runs agree with replays, which quantities do not, and when the table was made."""
    if not rows.height:
        raise UsageError(
            "recorded_verdict: the table has no row. Name quantities that it has, such as 'busy CPUs', or leave them out."
        )
    off = rows.filter(~pl.col("agrees"))
    which = ", ".join(
        f"{run} ({quantity})" for run, quantity in off.select("run", "quantity").iter_rows()
    )
    when, version = rows.select("date", "version").row(0)
    words = [
        f"{rows.height - off.height} of {count(rows.height, 'quantity', 'quantities')} of "
        f"{count(rows['run'].n_unique(), 'recorded run')} agree with "
        f"{count(int(rows['seeds'].to_numpy().max()), 'replay')} each.",
        f"These do not agree: {which}." if which else "",
        f"The table was made on {when} with wastedcores {version}." if when else "",
    ]
    return sentence(" ".join(w for w in words if w))


def recorded_table(rows: pl.DataFrame) -> RichText:
    """Tabulate the comparison: run, quantity, recorded value, median and range of the replays, and whether they agree."""

    def text(column: str) -> pl.Expr:
        return pl.col(column).map_elements(lambda v: f"{v:.4g}", return_dtype=pl.String)

    return table(
        rows.select(
            "run",
            "quantity",
            text("recorded").alias("recorded"),
            text("median").alias("replayed, median"),
            pl.format("{} to {}", text("low"), text("high")).alias("5-95 %"),
            pl.when("agrees").then(pl.lit("yes")).otherwise(pl.lit("no")).alias("agrees"),
        )
    )


#: a kernel counts as slower if it takes at least this many times as long as the fastest one; two recordings of the same
#: kernel differ by less
SLOWER = 1.02


def kernels_verdict(rows: pl.DataFrame) -> RichText:
    """Say for each kernel in which workloads it was slower than the fastest one, and by how much."""
    if not rows.height:
        raise UsageError(
            "kernels_verdict: the table has no row. Choose a size of machine and workloads that read_kernels() has, such as "
            "64 CPUs and 'database workers'."
        )
    said = []
    for (kernel,), of in rows.group_by("kernel", maintain_order=True):
        slow = of.filter(pl.col("slowdown") >= SLOWER).sort("slowdown", descending=True)
        lost = "; ".join(
            f"{name}, {_longer(by)}" for name, by in slow.select("workload", "slowdown").iter_rows()
        )
        where = (
            f"in {slow.height} of {of.height} workloads ({lost})"
            if lost
            else f"in none of {of.height} workloads"
        )
        said.append(
            f"Linux {kernel} was at least {100 * SLOWER - 100:.0f} % slower than the fastest kernel {where}."
        )
    return RichText("\n".join(said), "".join(sentence(s).html for s in said))


def _longer(slowdown: float) -> str:
    """Write a slowdown in per cent, or as a multiple if the time is doubled or more."""
    return f"{slowdown:.1f} times as long" if slowdown >= 1.995 else f"{100 * slowdown - 100:.0f} %"


def kernels_table(rows: pl.DataFrame) -> RichText:
    """Tabulate the comparison: result, time relative to the fastest kernel, waste, longest episode, and replays."""
    return table(
        pl.DataFrame(
            [
                {
                    "workload": r["workload"],
                    "kernel": r["kernel"],
                    "result": _with_unit(r["result"], r["unit"]),
                    "time, fastest = 1": f"{r['slowdown']:.2f}",
                    "CPUs wasted": f"{r['wasted_cpus']:.2f}",
                    "idle beside waiting": f"{100 * r['idle_beside_share']:.1f} %",
                    "longest": f"{r['longest_ms']:.1f} ms",
                    "replayed, median": ""
                    if r["replayed"] is None
                    else _number(r["replayed"], r["unit"]),
                }
                for r in rows.iter_rows(named=True)
            ]
        )
    )


def kernels_markdown(rows: pl.DataFrame) -> str:
    """Return the comparison as a table in Markdown, one row per workload, size of machine and kernel."""
    lines = [
        "| workload | CPUs | kernel | result | time, fastest = 1 | CPUs wasted | idle beside waiting | longest | replayed |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for r in rows.iter_rows(named=True):
        median, low, high = (
            "" if r[c] is None else _number(r[c], r["unit"]) for c in ("replayed", "low", "high")
        )
        replayed = f"{median} [{low}, {high}]" if median else ""
        lines.append(
            f"| {r['workload']} | {r['cpus']} | {r['kernel']} | {_with_unit(r['result'], r['unit'])} | {r['slowdown']:.2f} | "
            f"{r['wasted_cpus']:.2f} | {100 * r['idle_beside_share']:.1f} % | {r['longest_ms']:.1f} ms | {replayed} |"
        )
    return "\n".join(lines) + "\n"


def _number(value: float, unit: str) -> str:
    """Write a result as a number: a round of a barrier in ms, everything else in its own unit."""
    return f"{1000 * value:.2f}" if unit == "s_per_iter" else f"{value:.2f}"


def _with_unit(value: float, unit: str) -> str:
    """Write a result with its unit in words."""
    words = {"s_per_iter": "ms/round", "cpus_of_work": "CPUs"}
    return f"{_number(value, unit)} {words.get(unit, 's')}"
