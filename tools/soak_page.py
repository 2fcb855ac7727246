"""Write the summary of a soak into docs/soak.md and benchmarks/RESULTS.md.

``python tools/soak_page.py soak/soak.json COMMIT``
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

from soak.summary import LIMITS_MB, SCRAPE_P99_MS, markdown, summary

from benchmarks.__main__ import STORE, write

PAGE = Path(__file__).parents[1] / "docs/soak.md"
BEGIN, END = "<!-- begin of the run -->\n", "<!-- end of the run -->\n"


def rows(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of RESULTS.md."""
    made = []

    def row(name: str, what: str, value: float, unit: str, most: float, note: str) -> None:
        goal = f"{most:g}" if most == 0 else f"below {most:g}"
        met = value <= most if most == 0 else value < most
        made.append(
            {
                "id": name,
                "name": what,
                "value": value,
                "unit": unit,
                "goal": goal,
                "met": met,
                "note": note,
            }
        )

    for name, w in found["summary"]["watchers"].items():
        how, late = found["watchers"][name]["how"], w["found"] - w["in_time"]
        row(f"{name}_crashes", f"ended by itself ({how})", w["crashes"], "times", 0, "")
        looked = f"looked for {w['looked_s'] / 60:.0f} minutes"
        judged = f"{looked}; {w['true']} true, {w['unexplained'] + w['pending']} unexplained"
        row(f"{name}_false", f"false alarms ({how})", w["false"], f"of {w['alarms']}", 0, judged)
        longest = f"; the longest took {max(w['after_s']):.2f} s" if w["after_s"] else ""
        seen = f"{w['found']} were found, {late} of them after more than S + M{longest}"
        row(
            f"{name}_missed",
            f"established violations that were missed ({how})",
            w["missed"],
            f"of {w['established']}",
            0,
            seen,
        )
        if w["turns"]:
            undecided = f"{w['undecided_turns']} undecided"
            row(
                f"{name}_turns",
                "turns that alarmed without a provocation",
                w["alarming_turns"],
                f"of {w['turns']}",
                0,
                undecided,
            )
            continue
        for part, most in LIMITS_MB.items():
            cpu = f"its CPU time was {w['cost']['cpu_percent'].get(part, 0):.2f} % of one CPU (median)"
            row(
                f"{name}_{part}",
                f"memory of the {part} at most ({how})",
                w["cost"]["memory_mb"][part],
                "MB",
                most,
                cpu,
            )
        row(
            f"{name}_disk",
            f"files at most ({how})",
            w["cost"]["disk_mb"],
            "MB",
            found["keep_mb"],
            "",
        )
    scraped = found["summary"]["scrapes"]
    for key in ("all", "apart_from_provocations"):
        its = scraped[key]
        note = f"{its['number']} scrapes, one per second; the longest took {its['most_ms']:.0f} ms"
        note += f"; {scraped['failed']} of all failed"
        what = "scrape, 99 %, " + key.replace("_", " ")
        row(f"scrape_{key}", what, its["p99_ms"], "ms", SCRAPE_P99_MS, note)
    return made


def main() -> None:
    """Replace what is between the two marks of the page, and the rows of the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path, help="soak.json, which tools/soak wrote")
    parser.add_argument("commit", help="the commit that ran")
    given = parser.parse_args()
    found = json.loads(given.file.read_text())
    found["summary"] = summary(found)
    made = rows(found)
    before, _, rest = PAGE.read_text().partition(BEGIN)
    assert END in rest, PAGE
    _, _, after = rest.partition(END)
    run = markdown(found).partition("\n\n")[2]  # without its title
    PAGE.write_text(f"{before}{BEGIN}\n{run}\n{END}{after}")
    store = json.loads(STORE.read_text())
    store["soak"] = {
        "command": f"tools/soak, {found['plan']['seconds'] / 60:g} minutes",
        "date": time.strftime("%Y-%m-%d", time.gmtime(found["started_unix"])),
        "commit": given.commit,
        "load": f"{found['load_before']:.1f}",
        "machine": f"{found['cpus']} x {found['machine']} (virtual), Linux {found['kernel']}",
        "rows": made,
    }
    STORE.write_text(json.dumps(store, indent=1) + "\n")
    write(store)


if __name__ == "__main__":
    main()
