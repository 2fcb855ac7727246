"""The verdict stays right at the limits: where numbers are large, spans reach an end of the window, or CPUs are not known."""

from __future__ import annotations

import pytest
from support.builders import migrate, nr, switch, trace_of, wakeup

from wastedcores.invariant import check

S = 1_000_000_000
MS = 1_000_000


@pytest.mark.parametrize("cpus", [126, 127, 300])
def test_threads_may_wait_unseen_on_a_machine_of_any_size(cpus):
    """CPU 0 idles for a second and the others compute, but for the last one, which was not recorded."""
    rows = [switch(1 + c, c, 0, "S", 1000 + c) for c in range(1, cpus - 1)]
    rows = [switch(1, 0, 1000, "S", 0), *rows, wakeup(S - 1, 0, 1000), switch(S, 0, 0, "R", 1000)]
    result = check(trace_of(rows, cpus=cpus))
    assert result.verdict == "unknown"
    assert result.bound.waste_at_most_ns > 0.9 * S


def test_as_many_threads_may_wait_unseen_as_there_are_cpus():
    """Of 300 CPUs half idle, and of the others nothing is known: each idle one may be wasted."""
    rows = [switch(1 + c, c, 1000 + c, "S", 0) for c in range(150)]
    rows += [wakeup(S - 1, 0, 1000), switch(S, 0, 0, "R", 1000)]
    result = check(trace_of(rows, cpus=300))
    assert result.bound.waste_at_most_ns > 149 * S
