"""Text that a notebook shows as HTML and that is plain text everywhere else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, TypeVar

import polars as pl

from wastedcores.errors import MissingEventsError


def written_for(**parameters: tuple[Any, Any]) -> RichText | None:
    """Say for which parameters the text of a notebook was written, if other values were chosen.

    Each argument is a pair: the chosen value, and the value for which the text was written. The result is None if the values of
    every pair are equal.
    """
    other = {name: pair for name, pair in parameters.items() if pair[0] != pair[1]}
    if not other:
        return None
    written = " and ".join(f"{name} = {before!r}" for name, (_, before) in other.items())
    chosen = " and ".join(f"{name} = {value!r}" for name, (value, _) in other.items())
    return sentence(
        f"The explanations in this notebook were written for {written}. You chose {chosen}: figures, tables and numbers in them "
        "are of your choice, and causes that the text names may be others here."
    )


#: the MIME type under which the output of a cell carries the numbers of the verdict; a report's manifest collects them from there
RESULTS_MIME = "application/vnd.wastedcores.results+json"

#: the class of short cells of a table, such as a number with its unit, which are not broken into lines
_SHORT = " class='wc-short'"

Figure = TypeVar("Figure")


@dataclass(frozen=True)
class RichText:
    """Text in two forms, and optionally the numbers that it states."""

    text: str  #: plain text
    html: str  #: the same as HTML
    data: dict[str, Any] | None = None  #: the numbers that the text states, for programs

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, **_: object) -> dict[str, Any]:
        return {
            "text/plain": self.text,
            "text/html": self.html,
            **({RESULTS_MIME: self.data} if self.data else {}),
        }


def table(frame: pl.DataFrame) -> RichText:
    """Return a small table; its floats are expected to be rounded already."""
    head = "".join(f"<th>{escape(c)}</th>" for c in frame.columns)
    rows = [["" if v is None else str(v) for v in row] for row in frame.iter_rows()]
    body = "".join(
        "<tr>" + "".join(f"<td{_SHORT * (len(c) <= 16)}>{escape(c)}</td>" for c in row) + "</tr>"
        for row in rows
    )
    return RichText(
        "\n".join("  ".join(row) for row in [frame.columns, *rows]),
        f'<div class="wc-scroll"><table class="wc-table"><tr>{head}</tr>{body}</table></div>',
    )


def sentence(text: str) -> RichText:
    """Return a paragraph."""
    return RichText(text, f'<p class="wc-reading">{escape(text)}</p>')


def count(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun: ``1 episode``, ``2,000 episodes``."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def enumerated(items: Sequence[str]) -> str:
    """Return a list in a sentence: ``a``, ``a and b``, ``a, b and c``."""
    return " and ".join(part for part in (", ".join(items[:-1]), *items[-1:]) if part)


def figure_or_reason(
    draw: Callable[..., Figure], *arguments: Any, **options: Any
) -> Figure | RichText:
    """Draw a figure, or say why the trace cannot answer, so that a notebook runs to its end with any trace.

    Parameters
    ----------
    draw
        A function of :mod:`wastedcores.figures`.
    *arguments, **options
        The arguments of ``draw``.

    Returns
    -------
    plotly.graph_objects.Figure or RichText
        The figure, or the message of the MissingEventsError that ``draw`` raised.
    """
    try:
        return draw(*arguments, **options)
    except MissingEventsError as e:
        return sentence(str(e))
