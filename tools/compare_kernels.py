"""Compare kernels by their recordings of the same workloads.

It writes datasets/recorded_kernels.csv and the table of docs/ten-years-later.md.

python tools/compare_kernels.py
"""

from __future__ import annotations

import re
from pathlib import Path

from wastedcores.recordings.kernels import FILE, compare_kernels
from wastedcores.words import kernels_markdown

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "ten-years-later.md"
#: the part of the page that this program writes
MADE = re.compile(r"(<!-- made by tools/compare_kernels.py -->\n).*?(<!-- end -->)", re.S)


def main() -> None:
    """Write the table and the page."""
    table = compare_kernels()
    table.write_csv(ROOT / "datasets" / FILE, float_precision=6)
    made = MADE.sub(lambda m: f"{m[1]}{kernels_markdown(table)}{m[2]}", PAGE.read_text())
    PAGE.write_text(made)


if __name__ == "__main__":
    main()
