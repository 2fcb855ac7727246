"""Words and small tables that show themselves in a notebook (HTML) and as plain text elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any

import polars as pl

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
