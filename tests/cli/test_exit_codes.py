"""Only a verdict exits with 1: not an internal error, not an encoding, not a reader that goes away."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from support.builders import nr, trace_of
from support.typed import typed

import wastedcores.cli._input as resolving
from wastedcores.trace.parquet import write_parquet

MAIN = [sys.executable, "-c", "from wastedcores.cli import main; main()"]
MS = 1_000_000


@pytest.fixture
def clean(tmp_path):
    rows = [nr(0, 0, 1), nr(0, 1, 1), nr(200 * MS, 0, 1)]
    return write_parquet(trace_of(rows, cpus=2), tmp_path / "clean.parquet")


@pytest.fixture
def wasting(tmp_path):
    # more idle CPUs than a line of the table shows, so that it is clipped with an ellipsis
    rows = [nr(0, c, 0 if c % 2 else 3) for c in range(64)] + [nr(200 * MS, 0, 3)]
    return write_parquet(trace_of(rows, cpus=64), tmp_path / "wasting.parquet")


@pytest.mark.slow
@pytest.mark.parametrize(
    "error",
    [
        IndexError("index 5 is out of bounds"),
        MemoryError(),
        RecursionError("maximum recursion depth exceeded"),
        KeyError("x"),
        AssertionError(),
        ZeroDivisionError("division by zero"),
        BrokenPipeError(32, "Broken pipe"),
        SystemExit(1),
        UnicodeEncodeError("latin-1", "…", 0, 1, "ordinal not in range(256)"),
    ],
    ids=lambda e: type(e).__name__,
)
def test_an_unexpected_error_is_a_paragraph_and_2(error, clean, monkeypatch):
    def failing(*_):
        raise error

    monkeypatch.setattr(resolving, "open_input", failing)
    done = typed("check", clean)
    assert done.code == 2
    assert done.out == ""
    assert done.err.startswith("wastedcores: ")
    assert done.err.count("\n") == 1
    debugged = typed("--debug", "check", clean)
    assert debugged.code == 2
    assert "Traceback" in debugged.err
    assert debugged.err.endswith(done.err)
    assert "Traceback" not in typed("check", clean).err


@pytest.mark.parametrize(
    "locale",
    [
        pytest.param({"PYTHONIOENCODING": "latin-1"}, marks=pytest.mark.slow),
        {"PYTHONIOENCODING": "ascii:strict"},
        pytest.param(
            {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, marks=pytest.mark.slow
        ),
    ],
    ids=["latin-1", "ascii", "C"],
)
def test_no_encoding_changes_the_exit_code(locale, wasting):
    environment = os.environ | locale
    done = subprocess.run(
        [*MAIN, "check", wasting], capture_output=True, env=environment, check=False
    )
    assert done.returncode == 1, done.stderr
    assert rb"\u2026" in done.stdout
    assert done.stderr == b""
    # a name outside of the locale cannot be opened, see below
    odd = wasting.with_name("a.parquet" if "LC_ALL" in locale else "ü….parquet")
    wasting.rename(odd)
    done = subprocess.run(
        [*MAIN, "info", odd, "--json"], capture_output=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    json.loads(done.stdout.decode("latin-1"))
    odd.rename(bad := odd.with_name("\udcff.parquet"))
    done = subprocess.run([*MAIN, "check", bad], capture_output=True, env=environment, check=False)
    assert done.returncode == 2, done
    assert b"not UTF-8" in done.stderr


@pytest.mark.parametrize("stream", ["stdout", pytest.param("stderr", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("verdict", "code"), [("clean", 0), pytest.param("wasting", 1, marks=pytest.mark.slow)]
)
def test_a_reader_that_goes_away_leaves_the_verdict(stream, verdict, code, request):
    path = request.getfixturevalue(verdict)
    reading, writing = os.pipe()
    os.close(reading)
    other = {"stdout": "stderr", "stderr": "stdout"}[stream]
    try:
        for arguments in ([], ["--json"], ["--cpus", "x"]):
            done = subprocess.run(
                [*MAIN, "check", path, *arguments],
                **{stream: writing, other: subprocess.PIPE},
                check=False,
            )
            expected = 2 if arguments[-1:] == ["x"] else code
            assert done.returncode == expected, (arguments, done)
            assert b"Traceback" not in (getattr(done, other) or b"")
            assert b"BrokenPipe" not in (getattr(done, other) or b"")
    finally:
        os.close(writing)


@pytest.mark.parametrize(
    "closed",
    [*(pytest.param(c, marks=pytest.mark.slow) for c in ("<&-", ">&-", "2>&-")), "<&- >&- 2>&-"],
)
def test_streams_that_the_caller_closed(closed, wasting):
    command = ["sh", "-c", f'"$@" {closed}', "sh", *MAIN, "check", wasting]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 1


def test_a_full_disk_behind_standard_output_is_no_verdict(clean):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*MAIN, "check", clean], stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert done.returncode == 2
    assert b"No space left" in done.stderr
    assert done.stderr.count(b"\n") == 1
