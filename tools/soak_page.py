"""Write the summary of a soak into docs/soak.md: ``python tools/soak_page.py soak/soak.json``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from wastedcores.capture.soak import markdown

PAGE = Path(__file__).parents[1] / "docs/soak.md"
BEGIN, END = "<!-- begin of the run -->\n", "<!-- end of the run -->\n"


def main() -> None:
    """Replace what is between the two marks of the page."""
    found = json.loads(Path(sys.argv[1]).read_text())
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    run = markdown(found).partition("\n\n")[2]  # without its title
    PAGE.write_text(f"{before}{BEGIN}\n{run}\n{END}{after}")


if __name__ == "__main__":
    main()
