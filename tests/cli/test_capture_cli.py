"""`capture` and `watch` refuse bad use with a sentence, before anything runs as root."""

from __future__ import annotations

import subprocess
import sys

import pytest
from support.typed import typed

MAIN = [sys.executable, "-c", "from wastedcores.cli import main; main()"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["capture", "--seconds", "-1", "-o", "x.parquet"], "a number above 0"),
        (
            ["capture", "--events", "nonsense", "-o", "x.parquet"],
            "'nonsense' is none of nr_running",
        ),
        (["capture", "-o", "absent/x.parquet"], "Choose another place with -o"),
        (["capture", "--backend", "dtrace", "-o", "x.parquet"], "expected auto, bpf or tracefs"),
        (["watch", "-S", "soon"], "expected a time like"),
        (["watch", "-M", "1us"], "at least 1 ms"),
        (["watch", "trace.parquet"], "unexpected extra argument(s) (trace.parquet)"),
        (["check"], "no trace given"),
    ],
)
def test_bad_use_is_explained(tmp_path, arguments, says):
    done = subprocess.run(
        [*MAIN, *arguments], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.returncode == 2, done.stderr
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_refused_before_anything_is_recorded(tmp_path, monkeypatch):
    monkeypatch.setattr("wastedcores.capture.capture", lambda *_, **__: pytest.fail("it recorded"))
    done = typed("capture", "--pseudonyms", tmp_path / "key", "-o", tmp_path, "--seconds", "1")
    assert done.code == 2
    assert "this is a directory" in done.err
