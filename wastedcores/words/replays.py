"""Tables about replays: the paper's statements and its Table 4 beside replayed results, and refused suggestions of a design.

The functions for Table 4 take the table of :func:`wastedcores_studies.table4.table_4`.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from wastedcores.analysis.compare import Comparison
from wastedcores.trace.trace import Trace
from wastedcores.units import number
from wastedcores.words.rich_text import RichText, count, sentence, table

_HEADS = (
    "bug", "kernels, in the paper", "kernels, in the model", "impacted applications", "largest impact", "of", "replayed",
)  # fmt: skip


def bugs_table(rows: pl.DataFrame) -> RichText:
    """Tabulate the bugs: kernels, impacted applications, and the largest impact as published and as replayed."""
    return table(pl.DataFrame([dict(zip(_HEADS, cells, strict=True)) for cells in _cells(rows)]))


def bugs_markdown(rows: pl.DataFrame) -> str:
    """Return the table of :func:`bugs_table` in Markdown."""
    lines = [f"| {' | '.join(_HEADS)} |", "|---" * len(_HEADS) + "|"]
    return "\n".join([*lines, *(f"| {' | '.join(cells)} |" for cells in _cells(rows))]) + "\n"


def _cells(rows: pl.DataFrame) -> list[tuple[str, ...]]:
    return [
        (
            r["bug"].replace("_", " "), r["kernels_published"], r["kernels_modelled"], r["applications"],
            _impact(r["published"], r["unit"]), r["measured_with"], _replayed(r),
        )
        for r in rows.iter_rows(named=True)
    ]  # fmt: skip


def _replayed(r: dict[str, object]) -> str:
    if r["ours"] is None:
        return "not replayed"
    ours, low, high = (_impact(float(str(r[k])), str(r["unit"])) for k in ("ours", "low", "high"))
    return f"{ours} [{low}, {high}], {r['kind']}"


def _impact(value: float, unit: str) -> str:
    return f"{value:.0f} %" if unit == "percent" else f"{value:.3g}x"


def claims(rows: Sequence[tuple[str, str, str]]) -> RichText:
    """Tabulate what is measured, what the paper says, and what this replay gives; each row of ``rows`` has these three texts."""
    columns = ["measured", "the paper", "this replay"]
    return table(pl.DataFrame(list(rows), schema=columns, orient="row"))


def runs_compared(found: Comparison) -> RichText:
    """Tabulate what replays of one workload cost, one column per kernel, and the change from the first kernel to the last."""
    runs = found.table.to_dicts()
    result = next((r["result_name"] for r in runs if r["result_name"]), "result")
    lines = (
        ("verdict", "verdict", ""),
        ("makespan_s", "makespan", " s"),
        ("result", result, ""),
        ("wasted_core_s", "core time wasted", " s"),
        ("persistent_episodes", "persistent episodes", ""),
        ("wait_p50_ms", "wait, median", " ms"),
        ("wait_p99_ms", "wait, 99 %", " ms"),
        ("migrations", "migrations", ""),
        ("moves_across_caches_per_s", "to another cache, a second", ""),
        ("moves_across_nodes_per_s", "to another node, a second", ""),
    )
    rows = []
    for key, name, unit in lines:
        values = [r[key] for r in runs]
        if any(v is None for v in values):
            continue
        cells = [v if isinstance(v, str) else number(v) + unit for v in values]
        rows.append((name, *cells, _change(values[0], values[-1])))
    columns = ["measured", *(r["run"] for r in runs), "change"]
    return table(pl.DataFrame(rows, schema=columns, orient="row"))


def _change(first: float | str, last: float | str) -> str:
    """Say how a number changed; empty if one of the values is a word or the first one is 0."""
    if isinstance(first, str) or isinstance(last, str) or not first:
        return ""
    if not last:
        return "none left"
    if last / first < 0.01:
        return f"{number(first / last)} times less"
    return f"{last / first - 1:+.0%}"


def refused(trace: Trace, most: int = 12) -> RichText:
    """Tabulate the first suggestions that the core of a design refused.

    Parameters
    ----------
    trace
        The replay of a design.
    most
        The table has at most this many rows.

    Returns
    -------
    RichText
        A sentence that counts the refused suggestions, and a table with one row per suggestion.
    """
    log = trace.only("balance").filter(pl.col("op").cast(pl.String) == "refused").collect()
    if not log.height:
        return sentence("The core refused no suggestion.")
    first = log.head(most)
    rows = [
        (f"{ts / 1e6:.3f}", text, comm or "-", source, target)
        for ts, text, comm, source, target in first.select(
            "ts_ns", "text", pl.col("comm").cast(pl.String), "src_cpu", "cpu"
        ).iter_rows()
    ]
    columns = ["time (ms)", "module: moment, reason", "thread", "was on CPU", "suggested CPU"]
    said = f"The core refused {count(log.height, 'suggestion')}"
    words = sentence(f"{said}. The first {first.height} are:" if log.height > most else f"{said}:")
    listed = table(pl.DataFrame(rows, schema=columns, orient="row"))
    return RichText(f"{words.text}\n{listed.text}", words.html + listed.html)
