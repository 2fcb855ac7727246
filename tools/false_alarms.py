"""Counts the online checker's alarms while pairs of threads wake each other on this idle machine, and under four loads.

    sudo .venv/bin/python tools/false_alarms.py -o alarms                     # 30 minutes each, two and a half hours
    sudo .venv/bin/python tools/false_alarms.py -o alarms --seconds 20        # a try

The kernel balances as always and the threads are free, so an alarm is false unless other work of the machine explains it; its
recording is kept beside the table, for ``wastedcores explain``. Use a machine on which nothing else runs.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from wastedcores.capture.live import live_check
from wastedcores.capture.live_result import LiveOptions
from wastedcores.capture.soak.loads import running

#: a client wakes its server over a pipe, 30 times a second, and both work for 0.2 ms, as programs of a desktop do
PAIRS = """
import os, time
def work(us):
    until = time.monotonic_ns() + us * 1000
    while time.monotonic_ns() < until: pass
for _ in range(3):
    there, back = os.pipe(), os.pipe()
    if not os.fork():
        os.close(there[1])
        while os.read(there[0], 1): work(200); os.write(back[1], b"x")
        os._exit(0)
    if not os.fork():
        while True: time.sleep(1 / 30); work(200); os.write(there[1], b"x"); os.read(back[0], 1)
time.sleep(1e9)
"""
LOADS = ("wake-up pairs", "half", "forks", "pipes", "real-time")


@contextmanager
def load(name: str, seconds: float) -> Iterator[None]:
    """Run a load inside the block."""
    if name != "wake-up pairs":
        with running(name, seconds):
            yield
        return
    child = subprocess.Popen([sys.executable, "-I", "-S", "-c", PAIRS], start_new_session=True)
    try:
        yield
    finally:
        os.killpg(child.pid, 9)
        child.wait()


def table(rows: list[dict[str, object]]) -> str:
    """Return the rows as Markdown."""
    lines = [
        f"{os.cpu_count()} CPUs, Linux {platform.release()}",
        "",
        "| load | seconds | backend | verdict | violations | chronic |",
        "|---|---|---|---|---|---|",
    ]
    lines += ["| " + " | ".join(str(v) for v in row.values()) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Run all loads one after the other; returns 1 if there was an alarm."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-o", "--output", type=Path, default=Path("alarms"))
    parser.add_argument("--seconds", type=float, default=1800.0, help="for each load")
    parser.add_argument("--backend", choices=("auto", "bpf", "tracefs"), default="auto")
    parser.add_argument("--loads", default=",".join(LOADS), help="names, separated by commas")
    asked = parser.parse_args()
    rows: list[dict[str, object]] = []
    asked.output.mkdir(parents=True, exist_ok=True)
    for name in asked.loads.split(","):
        with load(name, asked.seconds + 60):
            found = live_check(
                LiveOptions(before_s=1.0),
                seconds=asked.seconds,
                output=asked.output / name.replace(" ", "-"),
                backend=asked.backend,
                progress=lambda line: print(line, file=sys.stderr),
            )
        rows.append(
            {
                "load": name,
                "seconds": round(asked.seconds),
                "backend": asked.backend,
                "verdict": found.verdict,
                "violations": len(found.violations),
                "chronic": len(found.chronic),
            }
        )
        (asked.output / "alarms.json").write_text(json.dumps(rows, indent=1) + "\n")
        (asked.output / "alarms").with_suffix(".md").write_text(table(rows))
    print(table(rows), end="")
    return int(any(row["verdict"] == "violations" for row in rows))


if __name__ == "__main__":
    sys.exit(main())
