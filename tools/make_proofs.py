"""Check work conservation on all states of small machines, and write docs/proofs.md's tables and figure from the result.

python tools/make_proofs.py                  # takes three minutes: datasets/proofs.json, then the page
python tools/make_proofs.py --page           # the page from datasets/proofs.json
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
from pathlib import Path
from typing import Any

from wastedcores.figures.proofs import fates
from wastedcores.reports.html import write_figure
from wastedcores_studies.proofs import checking

ROOT = Path(__file__).resolve().parents[1]
RESULT, PAGE, PICTURE = (
    ROOT / p for p in ("datasets/proofs.json", "docs/proofs.md", "docs/proofs.png")
)
#: the part of the page that this program writes, by its name
MADE = r"(<!-- {}: made by tools/make_proofs.py -->\n).*?(<!-- end -->)"


def effort(rows: list[dict[str, Any]]) -> str:
    """The states and the time of each check, over all its machines."""
    lines = [
        "| what happens | machines | CPUs, threads | runs | states | seconds |",
        "|---|---|---|---|---|---|",
    ]
    for name in dict.fromkeys(r["check"] for r in rows):
        mine = [r for r in rows if r["check"] == name]
        total = [sum(r[k] for r in mine) for k in ("runs", "states", "seconds")]
        lines.append(
            f"| {name} | {len(mine)} | {mine[0]['cpus']}, {mine[0]['threads']} | {total[0]:,} | {total[1]:,} | {total[2]:.0f} |"
        )
    runs, states, seconds = (sum(r[k] for r in rows) for k in ("runs", "states", "seconds"))
    return "\n".join([*lines, f"| all | | | {runs:,} | {states:,} | {seconds:.0f} |"])


def claims(rows: list[dict[str, Any]]) -> str:
    """What is claimed, where it holds, and in how many states it does not."""
    lines = ["| what happens | claim | holds | fails in |", "|---|---|---|---|"]
    for name in dict.fromkeys(r["check"] for r in rows):
        mine = [r for r in rows if r["check"] == name]
        for claim in mine[0]["claims"]:
            bad = {
                r["machine"]: 100 * r["claims"][claim] / r["states"]
                for r in mine
                if r["claims"][claim]
            }
            good = [r["machine"] for r in mine if r["machine"] not in bad]
            where = "everywhere" if not bad else ", ".join(good) or "nowhere"
            fails = ", ".join(f"{m}: {share:.1f} %" for m, share in bad.items()) or "-"
            lines.append(f"| {name} | {claim} | {where} | {fails} |")
    return "\n".join(lines)


def smallest(rows: list[dict[str, Any]]) -> str:
    """The smallest state of every outcome that contradicts a claim, on the first machine that has it."""
    lines = ["| what happens | outcome | machine | the smallest state |", "|---|---|---|---|"]
    known = set()
    for row in rows:
        bad = next(c.claims for c in checking.CHECKS if c.name == row["check"])
        for outcome, found in row["outcomes"].items():
            if (row["check"], outcome) not in known and any(
                outcome.startswith(b) for b in bad.values()
            ):
                known.add((row["check"], outcome))
                lines.append(
                    f"| {row['check']} | {outcome.replace('_', ' ')} | {row['machine']} | {found['smallest']} |"
                )
    return "\n".join(lines)


def page(text: str, rows: list[dict[str, Any]]) -> str:
    """The page with the tables of these rows."""
    for make in (effort, claims, smallest):
        pattern = re.compile(MADE.format(make.__name__), re.S)
        assert pattern.search(text), make.__name__
        text = pattern.sub(lambda m, table=make(rows): f"{m[1]}{table}\n{m[2]}", text)  # type: ignore[misc]
    return text


def main() -> None:
    """Check and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--page", action="store_true", help="only write the page again, from datasets/proofs.json"
    )
    if not parser.parse_args().page:
        rows = []
        for row in checking.check_all(checking.FULL):
            rows.append(row)
            print("\n".join(checking.told(row)), flush=True)
        write(rows)
    rows = json.loads(RESULT.read_text())["rows"]
    PAGE.write_text(page(PAGE.read_text(), rows))
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "proofs.png"
        write_figure(fates(rows), made, width=1000)
        PICTURE.write_bytes(made.read_bytes())


def write(rows: list[dict[str, Any]]) -> None:
    """Write the committed result."""
    lines = ",\n  ".join(json.dumps(row) for row in rows)
    RESULT.write_text(f'{{"schema": "{checking.SCHEMA}",\n "rows": [\n  {lines}\n ]\n}}\n')


if __name__ == "__main__":
    main()
