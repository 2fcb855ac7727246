"""``check --json`` of every trace in the repository is small enough for a log line of a fleet."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support import RECORDINGS

import wastedcores
from wastedcores.errors import WastedCoresError

MOST_BYTES = 25_000
TESTS = Path(__file__).parents[1]
DATA = RECORDINGS.parent
TRACES = sorted(
    path
    for folder, pattern in (
        (DATA, "recordings*/*/trace.txt.xz"),
        (DATA / "small", "*"),
        (TESTS / "trace" / "golden", "*"),
        (TESTS / "trace" / "foreign" / "files", "*"),
        (TESTS / "invariant" / "guest", "*.xz"),
        (TESTS / "simulator" / "recordings", "*"),
    )
    for path in folder.glob(pattern)
    if path.suffix not in (".json", ".md", ".py", ".csv")
)


@pytest.mark.slow
def test_json_of_every_trace_is_small():
    checked, large = 0, {}
    for path in TRACES:
        try:
            result = wastedcores.check(path)
        except WastedCoresError:
            continue  # a file that is refused on purpose
        checked += 1
        size = len(json.dumps(result.to_json(), separators=(",", ":")))
        if size > MOST_BYTES:
            large[str(path)] = size
    assert not large
    assert checked >= 130
