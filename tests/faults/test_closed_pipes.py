"""A reader that goes away costs nothing: the work is finished, and the exit code stays."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from support.builders import nr, trace_of

from wastedcores.trace.io import open_trace
from wastedcores.trace.parquet import write_parquet

MAIN = "from wastedcores.cli import main; main()"


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    rows = [nr(t, c, 1) for t in range(0, 200_000_000, 1_000_000) for c in (0, 1)]
    return write_parquet(trace_of(rows, cpus=2), tmp_path_factory.mktemp("t") / "t.parquet")


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ("info", "{trace}"),
        ("info", "{trace}", "--json"),
        ("import", "{trace}", "-o", "{out}", "--json"),
        ("domains", "--machine", "bulldozer8x8"),
        ("--help",),
    ],
    ids=" ".join,
)
def test_a_closed_pipe(words, trace, tmp_path):
    reading, writing = os.pipe()
    os.close(reading)
    out = tmp_path / "out.parquet"
    command = [w.format(trace=trace, out=out) for w in words]
    done = subprocess.run(
        [sys.executable, "-c", MAIN, *command], stdout=writing, stderr=subprocess.PIPE, check=False
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")
    if "import" in words:
        assert open_trace(out).header.events == 400
        assert list(tmp_path.iterdir()) == [out]
