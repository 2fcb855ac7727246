"""What replay and check answer, as text to compare: once compiled, once as plain Python in a process of its own.

Run as a program (with ``NUMBA_DISABLE_JIT=1``) it reads cases from a pickle and prints the answers, and asserts that the
replay never leaves its table: compiled code has no bounds checks.
"""

from __future__ import annotations

import hashlib
import json
import pickle
import sys
from pathlib import Path

import numpy as np

from support.random_runs import Case, by_engine
from wastedcores.invariant import check
from wastedcores.simulator import replay_scenario
from wastedcores.simulator.engine.world import table

FIXED = "v4.1+group_imbalance:patch+group_construction:patch+overload_on_wakeup+missing_domains"
SCENARIOS = (
    ("recorded-gi", "v4.1", {"jobs": 40, "J": 16}),
    ("recorded-gc", FIXED, {"limit_s": 0.05}),
    ("recorded-ms", FIXED, {"limit_s": 0.05, "n": 8}),
    ("recorded-db", "v4.1", {"iterations": 10}),
    ("recorded-lu", "v4.1+group_imbalance", {"iterations": 10, "hogs": 2}),
)


class Guarded(np.ndarray):
    """A table that refuses what a pointer would take: negative rows, rows and columns behind the end."""

    def _in_table(self, index):
        row, column = index
        assert 0 <= row < len(self), f"row {row} of {len(self)}"
        assert 0 <= column < table.WIDTH, f"column {column}"

    def __getitem__(self, index):
        self._in_table(index)
        return super().__getitem__(index)

    def __setitem__(self, index, value):
        self._in_table(index)
        super().__setitem__(index, value)


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:20]


def replayed(name: str, kernel: str, given: dict) -> list[str]:
    """Log, tasks and counts of one scenario, and what the invariant check says of its trace."""
    r = replay_scenario(name, kernel, "bd-paper-16", 5, given)
    found = check(r.trace, persist_ns=1_000_000)
    said = json.dumps(found.to_json(), sort_keys=True, default=str)
    return [
        f"{name} {r.raw.events} events",
        digest(r.raw.log.tobytes()),
        digest(r.raw.tasks.tobytes()),
        digest(r.raw.counts.tobytes()),
        digest(said.encode()),
    ]


def answers(cases: list[Case]) -> list[str]:
    """Of the scenarios and of random cases."""
    out = [line for s in SCENARIOS for line in replayed(*s)]
    for i, case in enumerate(cases):
        rows, calls, error = by_engine(case)
        out.append(f"case {i} {digest(repr((rows, sorted(calls.items()), error)).encode())}")
    return out


def main() -> None:
    from wastedcores.simulator.engine import run_jit

    run = run_jit.run
    run_jit.run = lambda m: run(m.view(Guarded))
    print("\n".join(answers(pickle.loads(Path(sys.argv[1]).read_bytes()))))


if __name__ == "__main__":
    main()
