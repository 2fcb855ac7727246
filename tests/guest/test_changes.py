"""What whatif predicts for another kernel is what that kernel does when it is booted with the same work."""

from __future__ import annotations

import pytest
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
