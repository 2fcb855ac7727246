"""Every input that ever broke something is read again: it gives an answer or one paragraph that says what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.fuzzing.targets import make_targets
from support.fuzzing.worker import CONFIDENT, judge

from wastedcores.trace.readers.text import scan

FOLDER = Path(__file__).parent / "regressions"
INPUTS = sorted(f for f in FOLDER.glob("*/*"))


@pytest.fixture(scope="module")
def targets(tmp_path_factory):
    return make_targets(tmp_path_factory.mktemp("valid"))


@pytest.mark.slow
@pytest.mark.parametrize("path", INPUTS, ids=lambda p: f"{p.parent.name}-{p.name}")
@pytest.mark.parametrize("scan_from", [0, 1 << 40])
@pytest.mark.parametrize("persist_ns", [20_000, 10**9])
def test_input(path, targets, monkeypatch, scan_from, persist_ns):
    monkeypatch.setattr(scan, "WORTHWHILE_BYTES", scan_from)
    outcome, failure, detail = judge(targets[path.parent.name], path, persist_ns)
    assert not failure, detail
    # inputs with these endings had been given a verdict that they do not deserve, at any length or at one
    lengths = {".flip": (20_000, 10**9), ".flip_1s": (10**9,), ".flip_20us": (20_000,)}
    if persist_ns in lengths.get(path.suffix, ()):
        assert outcome is None or outcome.verdict not in CONFIDENT
