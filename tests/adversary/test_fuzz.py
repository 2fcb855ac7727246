"""A short run of ``make fuzz`` with a fixed seed: the same number of inputs of every format, and the mutations that make them."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
from support.fuzzing.mutators import mutate
from support.fuzzing.targets import Outcome, Target
from support.fuzzing.worker import judge

from wastedcores.errors import TraceFormatError

FUZZ = Path(__file__).parent / "fuzz.py"


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_mutated_files_of_every_format(tmp_path):
    """No traceback, no hang, bounded memory, and no confident verdict that differs while a contradiction is visible."""
    results = tmp_path / "results.json"
    options = ("--inputs", "800", "--evenly", "--seed", "7", "--folder", str(tmp_path / "run"))
    run = subprocess.run(
        [sys.executable, FUZZ, *options, "--results", str(results)],
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-3000:]
    (found,) = json.loads(results.read_text())
    assert found["inputs"] == 800
    # a mutator that destroys everything tests little
    accepted = {name: n["read"] for name, n in found["formats"].items()}
    assert all(n > 0 for name, n in accepted.items() if name not in ("parquet", "unsealed")), (
        accepted
    )


def test_mutations_are_many_and_repeatable():
    data, other = b"a 1 22\n" * 20, b"PAR1" + bytes(range(256))
    first = [mutate(data, other, random.Random(seed), text=True)[0] for seed in range(500)]
    again = [mutate(data, other, random.Random(seed), text=True)[0] for seed in range(500)]
    assert first == again
    assert len(set(first)) > 400
    assert mutate(b"", b"", random.Random(3), text=True)[1] >= 1


def test_what_counts_as_a_failure(tmp_path):
    def read(action):
        return judge(Target("x", [], action), tmp_path, 1)

    def refuse(message):
        def action(path, persist_ns):
            raise TraceFormatError(message)

        return action

    def fail(path, persist_ns):
        raise IndexError

    assert read(lambda path, persist_ns: Outcome("clean"))[1] == ""
    assert read(refuse("one paragraph"))[:2] == (None, "")
    assert read(refuse("two\nlines"))[1] == "message"
    assert read(refuse("a" * 100_000))[1] == ""  # it is shortened
    assert read(fail)[1] == "traceback"
