"""Write the lists of formats in README and docs/trace-formats.md from the registry, wastedcores/trace/formats.py.

python tools/write_formats.py
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path

from wastedcores.trace.formats import FOREIGN, listed


def table() -> str:
    """Return the table of formats in Markdown."""
    head = ("name", "content", "tells beside who ran when", "needs", "tested on")
    own = (
        "`parquet`",
        "the native file, written by `import` and `capture`",
        "all that its source told",
        "",
        "",
    )
    rows = [head, ("---",) * len(head), own]
    rows += [(f"`{f.name}`", f.content, f.answers, f.needs, f.tested) for f in FOREIGN.values()]
    return "".join("| " + " | ".join(row).replace("|  |", "| |") + " |\n" for row in rows)


#: What stands before and after a list that is written from the registry.
BEGIN, END = (
    "<!-- formats: written by python tools/write_formats.py -->\n",
    "<!-- /formats -->",
)
#: Documents with such a list -> the list.
DOCUMENTS: dict[str, Callable[[], str]] = {
    "docs/trace-formats.md": table,
    "README.md": lambda: (
        f"{textwrap.fill(f'The format is detected from the content. Known are {listed()}.', 130)}\n"
    ),
}


def written(text: str, content: str) -> str:
    """Return a document with a new list."""
    before, _, rest = text.partition(BEGIN)
    assert END in rest, (BEGIN, END)
    return f"{before}{BEGIN}{content}{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    for name, content in DOCUMENTS.items():
        document = Path(__file__).parents[1] / name
        document.write_text(written(document.read_text(), content()))
