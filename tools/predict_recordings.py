"""Predict recordings from the traces of others, and write the table into docs/what-if.md.

    python tools/predict_recordings.py [--seeds 20] [-n]

wastedcores/recordings/predictions.py says what is compared. With ``-n`` the table is only printed.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from wastedcores.recordings.predictions import compare_predictions, predictions_report

PAGE = Path(__file__).resolve().parents[1] / "docs" / "what-if.md"
#: the part of the page that this program writes
MADE = re.compile(r"(<!-- made by tools/predict_recordings.py -->\n).*?(<!-- end -->)", re.S)


def main() -> int:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("-n", "--dry-run", action="store_true")
    args = parser.parse_args()
    table = compare_predictions(
        seeds=args.seeds, note=lambda line: print(line, file=sys.stderr, flush=True)
    )
    text = predictions_report(table)
    print(text)
    if not args.dry_run:
        PAGE.write_text(MADE.sub(lambda m: f"{m[1]}{text}{m[2]}", PAGE.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
