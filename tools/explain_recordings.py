"""Explain all recordings, and write the table into docs/what-if.md.

    python tools/explain_recordings.py [--seeds 5] [-n] [NAME ...]

wastedcores/recordings/explanations.py says what is compared. With ``-n`` or names the table is only printed.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from wastedcores.recordings.explanations import compare_explanations, explanations_report

PAGE = Path(__file__).resolve().parents[1] / "docs" / "what-if.md"
#: the part of the page that this program writes
MADE = re.compile(r"(<!-- made by tools/explain_recordings.py -->\n).*?(<!-- end -->)", re.S)


def main() -> int:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("-n", "--dry-run", action="store_true")
    args = parser.parse_args()
    table = compare_explanations(
        args.names or None,
        seeds=args.seeds,
        note=lambda line: print(line, file=sys.stderr, flush=True),
    )
    text = explanations_report(table)
    print(text)
    if not args.dry_run and not args.names:
        PAGE.write_text(MADE.sub(lambda m: f"{m[1]}{text}{m[2]}", PAGE.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
