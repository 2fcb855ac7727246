"""Write datasets/scorecard.json, and what README and docs/how-compared.md say about the published numbers, from a scorecard.

wastedcores reproduce all -o reports/reproduce
python tools/make_scorecard.py reports/reproduce
"""

from __future__ import annotations

import argparse
import json
import re
import textwrap
from pathlib import Path
from typing import Any

from wastedcores.words.rich_text import count
from wastedcores.words.scorecard import FIRM, GROUPS, MINUS, TIMES, missed_by, percent, predictions
from wastedcores_studies import scorecard

ROOT = Path(__file__).resolve().parents[1]
RESULT = ROOT / "datasets" / "scorecard.json"
#: the part of a document that this program writes
MADE = re.compile(r"(<!-- made by tools/make_scorecard.py -->\n).*?(\n<!-- end -->)", re.S)
#: what a row keeps; reasons and other readings are on the page that the command writes
KEPT = (
    "id", "group", "short", "quantity", "unit", "published", "ours", "low", "high", "ratio", "effect", "kind", "verdict",
    "reproduced", "restates", "afterwards", "seeds",
)  # fmt: skip


def score_sentence(result: dict[str, Any]) -> str:
    """What README says of the scorecard: how many predictions are reproduced, and how well."""
    s = result["summary"]
    said = (
        f"* **Published numbers.** Of {s['predicted']} predictions {s['predicted_reproduced']} are reproduced within a factor of "
        f"1.5, with a median error of {percent(s['predicted_median_error'])}, over {result['seeds']} seeds."
    )
    return said.replace(FIRM, " ")


def score_paragraph(result: dict[str, Any]) -> str:
    """What docs/how-compared.md says of the scorecard."""
    s = result["summary"]
    tested = predictions(result["rows"])
    missed = [r for r in tested if r["reproduced"] is False]
    known = {g.key: g.short for g in GROUPS}
    said = "; ".join(f"{known[r['group']]}, {missed_by(r)}" for r in missed)
    chosen = [r["short"] for r in result["rows"] if r["afterwards"]]
    lines = (
        f"Of {s['predicted']} predictions {s['predicted_reproduced']} are reproduced within a factor of 1.5, and the median "
        f"error is {percent(s['predicted_median_error'])}, over {result['seeds']} seeds. A prediction that is printed twice, as "
        f"seconds and as their change, counts once ({s['restated']} rows are such repetitions), and changes in percent are "
        f"compared with the published changes. The direction of {sum(r['verdict'] == 'opposite' for r in tested)} is wrong, and "
        f"{sum(r['verdict'] == 'no effect' for r in tested)} without an effect should have one. Not reproduced are: {said}. "
        f"{count(len(chosen), 'row')} compare words with a number or a reading that was chosen after a result had been seen "
        f"({', '.join(chosen)}); the table marks them with an asterisk."
    )
    return lines.replace(FIRM, " ").replace("\u202f", " ").replace(MINUS, "-").replace(TIMES, "x")


DOCUMENTS = {ROOT / "README.md": score_sentence, ROOT / "docs" / "how-compared.md": score_paragraph}


def kept(result: dict[str, Any]) -> dict[str, Any]:
    """The committed part of a result: numbers have four digits, which all machines agree in."""
    rows = [
        {k: row[k] if k == "published" else _rounded(row[k]) for k in KEPT}
        for row in result["rows"]
    ]
    about = {k: result[k] for k in ("schema", "version", "seeds", "replays")}
    # of the numbers that are kept, so that everybody can check it
    summary = scorecard.summary(rows)
    return about | {"summary": {k: _rounded(v) for k, v in summary.items()}, "rows": rows}


def _rounded(value: Any) -> Any:
    return float(f"{value:.4g}") if isinstance(value, float) else value


def wrapped(text: str) -> str:
    """A paragraph as a document has it."""
    indent = "  " if text.startswith("* ") else ""
    return textwrap.fill(text, 128, break_on_hyphens=False, subsequent_indent=indent)


def main() -> None:
    """Write both files."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="what `wastedcores reproduce all` wrote")
    folder = parser.parse_args().folder
    found = scorecard.read(folder)
    if not found:
        parser.error(
            f"{folder} has no scorecard.json; write it with `wastedcores reproduce all -o {folder}`"
        )
    for document in DOCUMENTS:
        assert MADE.search(document.read_text()), document
    result = kept(found)
    rows = (json.dumps(row, ensure_ascii=False) for row in result.pop("rows"))
    head = json.dumps(result, indent=1, ensure_ascii=False).removesuffix("\n}")
    RESULT.write_text(f'{head},\n "rows": [\n  ' + ",\n  ".join(rows) + "\n ]\n}\n")
    committed = json.loads(RESULT.read_text())
    for document, said in DOCUMENTS.items():
        new = wrapped(said(committed))
        text = document.read_text()
        document.write_text(MADE.sub(lambda m, new=new: f"{m[1]}{new}{m[2]}", text))


if __name__ == "__main__":
    main()
