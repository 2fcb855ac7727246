"""Print how much each recording wastes chronically, for several lengths from which an overload counts (docs/verdict.md).

python tools/chronic_table.py [TRACE ...]      # default: all recordings of datasets/recordings and datasets/recordings-modern
python tools/chronic_table.py > datasets/recordings/chronic-waste.md
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from wastedcores.capture.snapshot import header_facts, read_snapshot
from wastedcores.files import datasets
from wastedcores.invariant import brief, sweep_jit
from wastedcores.invariant.checking import check_runqueues
from wastedcores.invariant.chronic import MACHINE_SHARE
from wastedcores.invariant.sweep import sweep
from wastedcores.limits import CHRONIC_SHARE
from wastedcores.runqueues.runqueues import runqueues
from wastedcores.trace.named import open as opened
from wastedcores.trace.trace import Trace
from wastedcores.trace.window import asked

HEAD = """\
# Chronic waste in recordings

Written by `python tools/chronic_table.py > datasets/recordings/chronic-waste.md`; docs/verdict.md explains the rule. Each cell is
the share of the used time, and of the machine's, in the fifth-worst of the worst ten slices, in per cent, if overloads count
that last so long. *Times the rule* is how many times as much as the rule asks for the fifth-worst slice wastes of both.
"""
FLOORS_NS = (500_000, 1_000_000, 1_500_000, 2_000_000)
#: the one that the rule has
RULE = FLOORS_NS.index(brief.FLOOR_NS)
SLICE_NS = 100_000_000


def told(path: Path) -> Trace:
    """Open a trace, with the task file that lies beside it."""
    facts = path.parent / "tasks.json"
    trace = opened(path)
    if not facts.is_file():
        return trace
    known = header_facts(read_snapshot(facts))
    return trace.with_header(**{name: value for name, value in known.items() if value is not None})


def shares(waste: np.ndarray, used: np.ndarray, machine: float) -> tuple[float, float, float]:
    """Return three numbers about the fifth-worst slice of the worst ten (of fewer slices, the one in the middle).

    The first two are what it wastes of the used time and of the machine's, in per cent, each where it is worst. The third is
    how many times as much as the rule asks for some slices waste of both.
    """
    window = min(10, waste.size)
    rank = window - (window + 1) // 2
    of_used = np.where(waste > 0, waste / np.maximum(used, 1), 0.0)
    of_machine = waste / machine
    both = np.minimum(of_used / CHRONIC_SHARE, of_machine / MACHINE_SHARE)
    middle = [
        float(np.partition(sliding_window_view(x, window), rank, axis=1)[:, rank].max())
        for x in (of_used, of_machine, both)
    ]
    return 100 * middle[0], 100 * middle[1], middle[2]


def row(path: Path) -> tuple[str, str, float]:
    """One line of the table, the verdict, and how many times as much as the rule asks for is wasted."""
    trace = told(path)
    rq = runqueues(trace, keep=True)
    window, cpus = asked(trace, None, None, whole=False)
    name = path.parent.name if path.name.startswith("trace.") else path.name
    result = check_runqueues(rq, window, cpus, persist_ns=SLICE_NS)
    verdict = result.kind if result.verdict == "violations" else result.verdict
    start, end = result.start_ns, result.end_ns
    counted = np.zeros(rq.cpus, np.uint8)
    counted[result.counted_cpus] = 1
    rule, cells = brief.FLOOR_NS, []
    try:
        for brief.FLOOR_NS in FLOORS_NS:
            state = sweep_jit.new_state(rq.cpus, counted, start, end, SLICE_NS)
            used, waste = np.diff(
                sweep(rq, state, end).firm_state.slices[:, :2], axis=0, prepend=0
            ).T
            if not waste.size:
                rest = " |" * (len(FLOORS_NS) + 1)
                return f"| {name} | {verdict} | shorter than a slice |{rest}", verdict, 0.0
            cells.append(shares(waste, used, float(SLICE_NS * counted.sum())))
    finally:
        brief.FLOOR_NS = rule
    busy = state.scalars[sweep_jit.BUSY_NS] / ((end - start) * counted.sum())
    shown = [f"{used:.2f} / {machine:.2f}" for used, machine, _ in cells]
    times = cells[RULE][2]
    return (
        f"| {name} | {verdict} | {busy:.0%} | {' | '.join(shown)} | {times:.2f} |",
        verdict,
        times,
    )


def main() -> None:
    """Print the table, and the factor by which it separates chronic waste from none."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("traces", nargs="*", type=Path, metavar="TRACE")
    paths = parser.parse_args().traces or [
        path
        for folder in ("recordings", "recordings-modern")
        for path in sorted(datasets().glob(f"{folder}/*/trace.txt.xz"))
    ]
    print(HEAD)
    floors = " | ".join(f"from {floor / 1e6:g} ms" for floor in FLOORS_NS)
    print(
        f"| recording | verdict | busy | {floors} | times the rule |\n|{'---|' * (len(FLOORS_NS) + 4)}"
    )
    found: dict[str, list[float]] = {}
    for path in paths:
        line, verdict, times = row(path)
        found.setdefault(verdict, []).append(times)
        print(line, flush=True)
    counts = ", ".join(f"{len(times)} {verdict}" for verdict, times in sorted(found.items()))
    print(f"\n{counts}.", end="")
    least, most = min(found.get("chronic", [0.0])), max(found.get("clean", [0.0]))
    if least and most:
        print(
            f" The least of the chronic is {least:.2f} times the rule, the most of the clean {most:.2f}: ",
            end="",
        )
        print(f"a factor of {least / most:.2f}.", end="")
    print()


if __name__ == "__main__":
    main()
