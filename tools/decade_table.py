"""Write the tables of ten years: datasets/decade.csv and its part of docs/ten-years-later.md.

    python tools/decade_table.py [--seeds 3]

The repository's recordings are checked, and what was not recorded is replayed.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from wastedcores.recordings.decade import decade, decade_markdown

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "ten-years-later.md"
MADE = re.compile(r"(<!-- made by tools/decade_table.py -->\n).*?(<!-- end -->)", re.S)


def main() -> int:
    """Write the table and the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    table = decade(parser.parse_args().seeds)
    table.write_csv(ROOT / "datasets" / "decade.csv", float_precision=6)
    made = decade_markdown(table)
    print(made)
    PAGE.write_text(MADE.sub(lambda m: f"{m[1]}{made}{m[2]}", PAGE.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
