"""How long ``check`` and ``explain`` of a bundled recording take in a process of their own, right after ``warmup`` and later."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

RECORDING = "live-balancing-off"
RUNS = 5


def command(*arguments: str, cache: str) -> tuple[float, float]:
    """Return the wall time and the CPU time in s of a command of wastedcores that uses the compiled code in ``cache``.

    Raises
    ------
    RuntimeError
        The command failed; ``check`` of a recording with violations exits with 1.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "wastedcores", *arguments],
        env=os.environ | {"WASTEDCORES_CACHE_DIR": cache},
        capture_output=True,
        check=False,
        text=True,
    )
    wall = time.perf_counter() - start
    if done.returncode > 1:
        raise RuntimeError(
            f"wastedcores {' '.join(arguments)} exited with {done.returncode}: {done.stderr}"
        )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall, used


def run() -> list[dict]:
    """Return the rows for RESULTS.md."""
    with tempfile.TemporaryDirectory(prefix="wastedcores-bench-") as cache:
        warmup = command("warmup", cache=cache)
        first = {v: command(v, RECORDING, cache=cache) for v in ("check", "explain")}
        later = {v: [command(v, RECORDING, cache=cache) for _ in range(RUNS)] for v in first}
    rows = []
    for verb, (wall, used) in first.items():
        again, again_used = (statistics.median(t) for t in zip(*later[verb], strict=True))
        for id, what, value, cpu, goal, note in (
            (
                "first",
                "the first time after warmup",
                wall,
                used,
                3.0,
                f"warmup took {warmup[0]:.1f} s",
            ),
            ("later", "later", again, again_used, 1.0, f"median of {RUNS}"),
        ):
            rows.append(
                {
                    "id": f"{verb}_{id}",
                    "name": f"wastedcores {verb} {RECORDING}, {what}",
                    "value": value,
                    "unit": "s",
                    "goal": f"< {goal:.0f}",
                    "met": value < goal,
                    "note": f"from the start of the process to its end; {cpu:.2f} s of CPU time; {note}",
                }
            )
    return rows
