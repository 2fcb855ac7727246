"""Run the benchmarks and write RESULTS.md: ``python -m benchmarks [name ...]``.

A ``bench_<name>.py`` has ``run() -> list[dict]``. A row has ``id`` (stable and unique in its benchmark: the scorecard
finds rows by it), ``name`` (a label for readers), ``value``, ``unit``, ``goal`` and, where they apply, ``peer`` (what it
was compared with in the same run), ``note`` and ``met`` (bool). Rows of benchmarks that are not run keep their values, and
so do those of a benchmark that has none to tell, because this machine lacks a program for it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "RESULTS.md"
STORE = HERE / "results.json"


def machine() -> str:
    """Describe the machine on which the benchmarks run."""
    cpu = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        "unknown CPU",
    )
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    versions = ", ".join(f"{p} {version(p)}" for p in ("numba", "polars", "numpy"))
    return (
        f"{os.cpu_count()} x {cpu} (virtual), {pages / 2**30:.0f} GiB, Linux {platform.release()}, "
        f"Python {platform.python_version()}, {versions}"
    )


def commit() -> str:
    """Return the commit that is measured."""
    out = subprocess.run(
        ["git", "-C", str(HERE), "describe", "--always", "--dirty"],
        capture_output=True,
        text=True,
        check=False,
    )
    return out.stdout.strip() or "unknown"


def table(rows: list[dict]) -> list[str]:
    """Return the rows of a benchmark as a Markdown table."""
    lines = ["| what | measured | goal | met | against | note |", "|---|---|---|---|---|---|"]
    for r in rows:
        value = f"{r['value']:,.4g}" if isinstance(r["value"], float) else f"{r['value']}"
        met = {True: "yes", False: "**no**", None: "-"}[r.get("met")]
        cells = (
            r["name"],
            f"{value} {r['unit']}",
            r.get("goal", "-"),
            met,
            r.get("peer", "-"),
            r.get("note", ""),
        )
        lines.append("| " + " | ".join(c.replace("|", "\\|") for c in cells) + " |")
    return lines


def write(store: dict) -> None:
    """Write RESULTS.md from all results so far."""
    lines = [
        "# Benchmark results",
        "",
        "Written by `make bench`. The command above each table measured its numbers. Small shared machines are noisy, so ratios "
        "that were measured in one run say more than absolute figures.",
        "",
    ]
    for name, entry in sorted(store.items()):
        command = entry.get("command", f"python -m benchmarks {name}")
        lines += [
            f"## {name}",
            "",
            f"`{command}` on {entry['date']}, commit {entry['commit']}, load before {entry['load']}",
            "",
            f"{entry['machine']}",
            "",
            *table(entry["rows"]),
            "",
        ]
    RESULTS.write_text("\n".join(lines))


def main() -> int:
    """Run the named benchmarks, or all."""
    names = sorted(p.stem.removeprefix("bench_") for p in HERE.glob("bench_*.py"))
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("name", nargs="*", help=f"one of {', '.join(names)}; by default all")
    chosen = parser.parse_args().name or names
    unknown = set(chosen) - set(names)
    if unknown:
        print(
            f"There is no benchmark {sorted(unknown)[0]!r}; there are {', '.join(names)}.",
            file=sys.stderr,
        )
        return 2
    store = json.loads(STORE.read_text()) if STORE.exists() else {}
    measured = commit()  # the results that are written below make the tree dirty
    for name in chosen:
        load = f"{os.getloadavg()[0]:.1f}"
        print(f"{name} ...", file=sys.stderr)
        rows = import_module(f"benchmarks.bench_{name}").run()
        if not rows:
            print(
                f"{name}: this machine lacks a program for it; its rows stay as they are.",
                file=sys.stderr,
            )
            continue
        if len({row["id"] for row in rows}) != len(rows):
            raise ValueError(f"{name}: two rows have the same id")
        store[name] = {
            "date": time.strftime("%Y-%m-%d"),
            "commit": measured,
            "load": load,
            "machine": machine(),
            "rows": rows,
        }
        STORE.write_text(json.dumps(store, indent=1) + "\n")
        write(store)
        print("\n".join(table(rows)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
