"""Tables about replays: what the paper says beside what they show, and what the core of a design refused."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from wastedcores.trace.trace import Trace
from wastedcores.words.rich_text import RichText, count, sentence, table


def claims(rows: Sequence[tuple[str, str, str]]) -> RichText:
    """Tabulate what is measured, what the paper says, and what this replay gives; ``rows`` has these three texts."""
    columns = ["measured", "the paper", "this replay"]
    return table(pl.DataFrame(list(rows), schema=columns, orient="row"))


def refused(trace: Trace, most: int = 12) -> RichText:
    """Tabulate the first suggestions that the core of a design refused.

    Parameters
    ----------
    trace
        Replay of a design.
    most
        Rows of the table at most.

    Returns
    -------
    RichText
        A sentence that counts them, and a table with one row per suggestion.
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
