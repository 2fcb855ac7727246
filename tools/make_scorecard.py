"""Write datasets/scorecard.json, and what README and docs/how-compared.md say about the published numbers, from a scorecard.

wastedcores reproduce all -o reports/reproduce
python tools/make_scorecard.py reports/reproduce
"""

from __future__ import annotations

import json
import re
import sys
import textwrap
from pathlib import Path
from typing import Any

from wastedcores.studies import scorecard
from wastedcores.words.scorecard import score_paragraph, score_sentence

ROOT = Path(__file__).resolve().parents[1]
RESULT = ROOT / "datasets" / "scorecard.json"
DOCUMENTS = {ROOT / "README.md": score_sentence, ROOT / "docs" / "how-compared.md": score_paragraph}
#: the part of a document that this program writes
MADE = re.compile(r"(<!-- made by tools/make_scorecard.py -->\n).*?(\n<!-- end -->)", re.S)
#: what a row keeps; reasons and other readings are on the page that the command writes
KEPT = (
    "id", "group", "short", "quantity", "unit", "published", "ours", "low", "high", "ratio", "effect", "kind", "verdict",
    "reproduced", "restates", "afterwards", "seeds",
)  # fmt: skip


def kept(result: dict[str, Any]) -> dict[str, Any]:
    """The committed part of a result: numbers have four digits, which all machines agree in."""
    rows = [
        {k: row[k] if k == "published" else _rounded(row[k]) for k in KEPT}
        for row in result["rows"]
    ]
    about = {k: result[k] for k in ("schema", "version", "seeds", "replays")}
    return about | {"summary": {k: _rounded(v) for k, v in result["summary"].items()}, "rows": rows}


def _rounded(value: Any) -> Any:
    return float(f"{value:.4g}") if isinstance(value, float) else value


def wrapped(text: str) -> str:
    """A paragraph as a document has it."""
    indent = "  " if text.startswith("* ") else ""
    return textwrap.fill(text, 128, break_on_hyphens=False, subsequent_indent=indent)


def main() -> None:
    """Write both files."""
    result = kept(scorecard.read(sys.argv[1]))
    rows = (json.dumps(row, ensure_ascii=False) for row in result.pop("rows"))
    head = json.dumps(result, indent=1, ensure_ascii=False).removesuffix("\n}")
    RESULT.write_text(f'{head},\n "rows": [\n  ' + ",\n  ".join(rows) + "\n ]\n}\n")
    committed = json.loads(RESULT.read_text())
    for document, said in DOCUMENTS.items():
        text = document.read_text()
        assert MADE.search(text), document
        new = wrapped(said(committed))
        document.write_text(MADE.sub(lambda m, new=new: f"{m[1]}{new}{m[2]}", text))


if __name__ == "__main__":
    main()
