"""Predictions of recordings, from the traces and task files of other recordings alone."""

from __future__ import annotations

import pytest
from predict_recordings import (
    MODERN,
    PAIRS,
    compare_predictions,
    predict,
    predictions_report,
)
from support import RECORDINGS

from wastedcores_studies.recordings.recording import Recording


def test_every_recording_has_a_task_file():
    for name in {*PAIRS, *(o for others in PAIRS.values() for o in others)}:
        assert (RECORDINGS / name / "tasks.json").is_file(), name
    for name in MODERN:
        assert (RECORDINGS.with_name("recordings-modern") / name / "tasks.json").is_file(), name


@pytest.mark.slow
def test_the_fix_of_a_small_recording_is_predicted():
    fixed = Recording.read(RECORDINGS / "gc-sgclit-16cpu")
    found = predict(Recording.read(RECORDINGS / "gc-buggy-16cpu"), [fixed.kernel.name], 3)
    assert found.agrees
    assert found.trust == "high"
    assert found.variants[0].busy_cpus.median == pytest.approx(4.0, rel=0.1)


@pytest.mark.slow
def test_recordings_are_predicted():
    table = compare_predictions(seeds=20)
    own, pairs = table.filter(table["other"] == ""), table.filter(table["other"] != "")
    assert (own["error"] <= 0.05).all(), predictions_report(table)
    assert (pairs["error"] <= 0.1).mean() >= 0.9, predictions_report(table)
