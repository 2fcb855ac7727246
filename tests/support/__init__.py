"""Helpers of the tests: oracles, random cases, builders of files, drivers of a browser."""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
ROOT = TESTS.parent
#: text traces and what must be read from them
TRACE_GOLDEN = TESTS / "trace" / "golden"
#: the recordings of real kernels, one folder each
RECORDINGS = ROOT / "datasets" / "recordings"
#: the same workloads under 6.12 and 7.2
MODERN = ROOT / "datasets" / "recordings-modern"
#: who ran where on booted kernels
BEHAVIOUR_GOLDEN = TESTS / "simulator" / "golden"
#: digests of what replays do
LOG_GOLDEN = TESTS / "simulator" / "logs"
