"""Write datasets/table4.csv and the table of docs/table-4.md from a scorecard.

wastedcores reproduce all -o reports/reproduce
python tools/make_table_4.py reports/reproduce
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from wastedcores.words import bugs_markdown
from wastedcores_studies import scorecard
from wastedcores_studies.table4 import FILE, table_4

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "table-4.md"
#: the part of the page that this program writes
MADE = re.compile(r"(<!-- made by tools/make_table_4.py -->\n).*?(<!-- end -->)", re.S)


def main() -> None:
    """Write the table and the page."""
    assert MADE.search(PAGE.read_text()), PAGE
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="what `wastedcores reproduce all` wrote")
    folder = parser.parse_args().folder
    table = table_4(scorecard.read(folder))
    missing = table.filter(table["ours"].is_null())["bug"].to_list()
    if missing:
        parser.error(
            f"{folder}: the scorecard has no row for {', '.join(missing)}; run all parts first"
        )
    table.write_csv(ROOT / "datasets" / FILE, float_precision=4)
    PAGE.write_text(MADE.sub(lambda m: f"{m[1]}{bugs_markdown(table)}{m[2]}", PAGE.read_text()))


if __name__ == "__main__":
    main()
