"""Words and small tables that show themselves in a notebook (HTML) and as plain text elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from typing import Any, TypeVar

import polars as pl

from wastedcores.errors import MissingEventsError

Figure = TypeVar("Figure")

#: under which a notebook keeps the numbers of its verdict
RESULTS_MIME = "application/vnd.wastedcores.results+json"


@dataclass(frozen=True)
class Shown:
    """Text with an HTML face, and what it states as data for programs."""

    text: str
    html: str
    data: dict[str, Any] | None = None

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, **_: object) -> dict[str, Any]:
        return {
            "text/plain": self.text,
            "text/html": self.html,
            **({RESULTS_MIME: self.data} if self.data else {}),
        }


def table(frame: pl.DataFrame) -> Shown:
    """A small table; floats are expected to be rounded already."""
    head = "".join(f"<th>{escape(c)}</th>" for c in frame.columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape('' if v is None else str(v))}</td>" for v in row) + "</tr>"
        for row in frame.iter_rows()
    )
    text = "\n".join(
        [
            "  ".join(frame.columns),
            *("  ".join("" if v is None else str(v) for v in r) for r in frame.iter_rows()),
        ]
    )
    return Shown(
        text, f'<div class="wc-scroll"><table class="wc-table"><tr>{head}</tr>{body}</table></div>'
    )


def sentence(text: str) -> Shown:
    """A paragraph."""
    return Shown(text, f'<p class="wc-reading">{escape(text)}</p>')


def figure_or_reason(
    draw: Callable[..., Figure], *arguments: Any, **options: Any
) -> Figure | Shown:
    """Draw a figure, or say why the trace cannot answer, so that a notebook runs on with any trace.

    Parameters
    ----------
    draw
        A function of :mod:`wastedcores.figures`.
    arguments, options
        What it is called with.

    Returns
    -------
    plotly.graph_objects.Figure or Shown
        The figure; or the message of the MissingEventsError that ``draw`` raised, as a sentence.
    """
    try:
        return draw(*arguments, **options)
    except MissingEventsError as e:
        return sentence(str(e))
