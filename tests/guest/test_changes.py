"""What whatif predicts for another kernel is what that kernel does when it is booted with the same work."""

from __future__ import annotations

import pytest
from support.kept_back.anew import judge, kept
from support.kept_back.judging import FOLDER
from support.predicted_changes import NEW, OLD, changes

from wastedcores.guest.kernels import fetched_kernels

pytestmark = pytest.mark.slow


@pytest.fixture
def kernels(kernel):
    """Both kernels; without one of them the test is skipped with the command that fetches it."""
    here = {k.release for k in fetched_kernels()}
    for release in (OLD, NEW):
        if release not in here:
            pytest.skip(f"there is no kernel: wastedcores guest kernels --fetch debian:{release}")


def test_a_fork_storm_is_slower_under_6_12_and_a_barrier_of_all_cpus_is_not(kernels):
    """The seed is none of those in the table of docs/what-if.md."""
    for c in changes("fork storm, 8 CPUs", range(11, 12)):
        assert abs(c.recorded) > 0.05
        assert 0.5 < c.predicted / c.recorded < 1.2, c
    for c in changes("barrier of 8 threads, 8 CPUs", range(11, 12)):
        assert abs(c.recorded) < 0.01
        assert abs(c.predicted) < 0.01


@pytest.mark.parametrize("name", ["bar8-two4-6.1", "bar8-two4-6.12"])
def test_a_new_recording_of_a_kind_of_work_is_like_its_replays(kernels, name):
    """The seed is not among those of the table in docs/kept-back.md, where all quantities of these two recordings agree."""
    folder = FOLDER / name
    found = judge(folder, kept(folder, range(201, 202), None), replays=10)
    assert sum(row["near"] or row["inside"] for row in found) >= 0.9 * len(found)


def test_a_ring_over_pipes_takes_as_long_in_a_guest_as_in_its_replays(kernels):
    """With semaphores that wake asynchronously it takes half as long."""
    folder = FOLDER / "chainp-llc2-6.1"
    found = judge(folder, kept(folder, range(201, 202), None), replays=10)
    (took,) = (row for row in found if row["quantity"] == "seconds")
    assert 0.75 < took["recorded"] / took["median"] < 1.33
