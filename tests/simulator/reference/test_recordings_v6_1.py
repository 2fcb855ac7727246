"""Whole replays of the five recordings of 6.1.192 by the reference agree with them; nothing was fitted.

``pytest -s`` prints the recorded figures, and medians and ranges of the replays.
"""

from __future__ import annotations

import numpy as np
import pytest
from support import RECORDINGS
from support.reference_replays import replayed

from wastedcores.kernels import KernelModel
from wastedcores.recordings.agreement import FLOORS, RANGE, agrees
from wastedcores.recordings.recording import Recording

V6_1 = KernelModel.named("v6.1.192+noautogroup")  # as Debian 12 boots


def agreeing(name: str, seeds: range) -> list[bool]:
    """Return for each figure of a recording whether it agrees, by the criterion of 4.1."""
    recording = Recording.read(RECORDINGS / name)
    replays = [replayed(recording, V6_1, seed) for seed in seeds]
    out = []
    for figure, (value, unit) in recording.quantities().items():
        values = [q[figure].value for q in replays]
        low, high = np.percentile(values, RANGE)
        out.append(agrees(value, values, FLOORS.get(unit, 0.0)))
        print(f"{name} {figure}: {value:.4f} {np.median(values):.4f} [{low:.4f}, {high:.4f}]")
    return out


def test_a_barrier_takes_as_long_as_recorded():
    assert all(agreeing("lu10ms-6.1-64cpu", range(1, 2)))


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_nine_of_ten_figures_agree():
    names = ("db64", "gc", "gi", "lu10ms", "ms")
    found = {name: agreeing(f"{name}-6.1-64cpu", range(1, 21)) for name in names}
    assert [len(figures) for figures in found.values()] == [6, 5, 8, 6, 6]
    assert np.concatenate(list(found.values())).mean() >= 0.9
    assert all(figures[0] for figures in found.values())  # what the guest measured itself
