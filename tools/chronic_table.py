"""Print how much each recording wastes chronically, for several lengths from which an overload counts (docs/verdict.md).

python tools/chronic_table.py [TRACE ...]      # default: all recordings of datasets/recordings*
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from wastedcores.capture.snapshot import header_facts, read_snapshot
from wastedcores.files import datasets
from wastedcores.invariant import brief, sweep_jit
from wastedcores.invariant.sweep import sweep
from wastedcores.runqueues.runqueues import runqueues
from wastedcores.trace.named import open as opened
from wastedcores.trace.trace import Trace
from wastedcores.trace.window import asked

FLOORS_NS = (500_000, 1_000_000, 1_500_000, 2_000_000)
SLICE_NS = 100_000_000


def told(path: Path) -> Trace:
    """Open a trace, with the task file that lies beside it."""
    facts = path.parent / "tasks.json"
    trace = opened(path)
    if not facts.is_file():
        return trace
    known = header_facts(read_snapshot(facts))
    return trace.with_header(**{name: value for name, value in known.items() if value is not None})


def middle(waste: np.ndarray, of: np.ndarray | float) -> float:
    """The share, in per cent, of the fifth-worst slice of the worst ten (of fewer slices, the one in the middle)."""
    shares = np.where(waste > 0, waste / np.maximum(of, 1), 0.0)
    window = min(10, shares.size)
    rank = window - (window + 1) // 2
    return 100 * float(
        np.partition(sliding_window_view(shares, window), rank, axis=1)[:, rank].max()
    )


def row(path: Path) -> str:
    """One line of the table."""
    trace = told(path)
    rq = runqueues(trace, keep=True)
    window, cpus = asked(trace, None, None, whole=False)
    start, end = rq.start_ns, rq.end_ns
    if window:
        start, end = max(start, window.start_ns), min(end, window.end_ns)
    counted = np.zeros(rq.cpus, np.uint8)
    counted[cpus if cpus is not None else slice(None)] = 1
    cells = []
    for brief.FLOOR_NS in FLOORS_NS:
        state = sweep_jit.new_state(rq.cpus, counted, start, end, SLICE_NS)
        found = sweep(rq, state, end).firm_state
        used, waste = np.diff(found.slices, axis=0, prepend=0).T
        if not waste.size:
            return f"| {path} | shorter than a slice |"
        machine = float(SLICE_NS * counted.sum())
        cells.append(f"{middle(waste, used):.2f} / {middle(waste, machine):.2f}")
    busy = state.scalars[sweep_jit.BUSY_NS] / ((end - start) * counted.sum())
    name = path.parent.name if path.name.startswith("trace.") else path.name
    return f"| {name} | {busy:.0%} | {' | '.join(cells)} |"


def main() -> None:
    """Print the table."""
    given = [Path(a) for a in sys.argv[1:]]
    for path in given or sorted(datasets().glob("recordings*/*/trace.txt.xz")):
        print(row(path), flush=True)


if __name__ == "__main__":
    main()
