"""The build of the whole kernel on the fork/wait paper's machine, whose CPUs change their speed: the time of a replay."""

from __future__ import annotations

import time

from wastedcores_studies.fork_wait import CFS, FIRST, SECOND
from wastedcores_studies.fork_wait_replays import build

JOBS = 320


def run() -> list[dict]:
    """Return the rows for RESULTS.md."""
    build(CFS, 1, "sched", 32)
    rows = []
    for name, kernel in (("CFS", CFS), ("strategy 1", FIRST), ("strategy 2", SECOND)):
        began, used = time.perf_counter(), time.process_time()
        built = build(kernel, 1, "full", JOBS)
        wall, cpu = time.perf_counter() - began, time.process_time() - used
        rows.append({
            "id": f"kbuild_{kernel.replace('.', '_').replace('+', '_').replace(':', '_')}",
            "name": f"kbuild of the whole kernel, {JOBS} jobs on 160 CPUs with frequencies, {name}",
            "value": round(wall, 2),
            "unit": "s",
            "goal": "< 20",
            "met": wall < 20,
            "note": f"{built['build_s']:.1f} simulated seconds with all measures; {built['wall_s']:.1f} s in the engine, "
            f"{cpu:.1f} s of CPU time",
        })  # fmt: skip
    return rows


if __name__ == "__main__":
    for row in run():
        print(row)
