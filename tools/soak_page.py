"""Write the summary of a soak into docs/soak.md and benchmarks/RESULTS.md.

``python tools/soak_page.py soak/soak.json COMMIT``
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.__main__ import STORE, write
from wastedcores.capture.soak import markdown

PAGE = Path(__file__).parents[1] / "docs/soak.md"
BEGIN, END = "<!-- begin of the run -->\n", "<!-- end of the run -->\n"


def rows(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of RESULTS.md."""
    alarms, provoked, cost = found["alarms"], found["provocations"], found["cost"]
    minutes = f"{found['seconds'] / 60:.0f} minutes"
    shares = [100 * c["collector_cpu"] for c in cost]
    memory = [c["collector_rss_kib"] / 1024 for c in cost]
    return [
        {
            "id": "false_alarms",
            "name": f"false alarms of the online checker in {minutes} of mixed loads",
            "value": alarms["false"],
            "unit": f"of {alarms['all']}",
            "goal": "0",
            "met": alarms["false"] == 0,
            "note": f"{alarms['true']} true, {alarms['unexplained'] + alarms['pending']} unexplained",
        },
        {
            "id": "missed",
            "name": "provoked violations that the independent reading established and the checker missed",
            "value": provoked["missed"],
            "unit": f"of {provoked['established']}",
            "goal": "0",
            "met": provoked["missed"] == 0,
            "note": f"{provoked['found']} of all {provoked['all']} provocations were found; docs/soak.md",
        },
        {
            "id": "collector_cpu",
            "name": "CPU time of the collector",
            "value": round(median(shares), 2),
            "unit": "% of one CPU",
            "note": f"median of {len(cost)} times 10 s, {max(shares):.2f} at most",
        },
        {
            "id": "collector_memory",
            "name": "memory of the collector at the end",
            "value": round(memory[-1], 1),
            "unit": "MiB",
            "note": f"{memory[0]:.1f} MiB at first, {max(memory):.1f} at most",
        },
    ]


def main() -> None:
    """Replace what is between the two marks of the page, and the rows of the results."""
    found, commit = json.loads(Path(sys.argv[1]).read_text()), sys.argv[2]
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    run = markdown(found).partition("\n\n")[2]  # without its title
    PAGE.write_text(f"{before}{BEGIN}\n{run}\n{END}{after}")
    store = json.loads(STORE.read_text())
    store["soak"] = {
        "command": f"wastedcores soak --hours {found['planned_seconds'] / 3600:g}",
        "date": time.strftime("%Y-%m-%d", time.gmtime(found["started_unix"])),
        "commit": commit,
        "load": f"{found['cost'][0]['load']:.1f}",
        "machine": f"{found['cpus']} x {found['machine']} (virtual), Linux {found['kernel']}",
        "rows": rows(found),
    }
    STORE.write_text(json.dumps(store, indent=1) + "\n")
    write(store)


if __name__ == "__main__":
    main()
