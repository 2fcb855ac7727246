"""Results do not depend on ``NUMBA_DISABLE_JIT``: the same sources as plain Python give the same bytes."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import plain_runs
from support.balancing_runs import balancing_cases
from support.random_runs import Case, cases


def some_cases(number: int, kind: st.SearchStrategy[Case]) -> list[Case]:
    """Return the same random cases every time."""
    out: list[Case] = []

    @settings(
        max_examples=number,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(kind)
    def collect(case):
        out.append(case)

    collect()
    return out


@pytest.mark.slow
def test_replay_and_check_give_the_same_bytes_uncompiled(tmp_path):
    chosen = [*some_cases(40, cases()), *some_cases(6, balancing_cases())]
    file = tmp_path / "cases.pickle"
    file.write_bytes(pickle.dumps(chosen))
    child = subprocess.run(
        [sys.executable, Path(plain_runs.__file__), file],
        env=os.environ | {"NUMBA_DISABLE_JIT": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert child.returncode == 0, child.stderr[-2000:]
    assert child.stdout.splitlines() == plain_runs.answers(chosen)
