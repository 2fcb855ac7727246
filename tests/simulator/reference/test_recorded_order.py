"""At every decision of a real 6.12.107 about who runs next on a CPU, the reference chooses the same thread.

Recorded times are whole us, and a deadline is the sum of all turns of a thread. Threads of equal weight come in the order of
deadlines that differ by a few us. Where two deadlines are closer than the rounding of all turns, a recording cannot tell.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from support.recorded_cpu import RecordedCpu

RECORDINGS = Path(__file__).parents[1] / "recordings"
#: the limit of a lag: kworkers wait behind the running thread until the next tick, work for some us and sleep
LAG_NS = 4_000_000
#: each turn of a thread is known to 1 us, and its fork to some us
TURN_NS, FORK_NS = 1_000, 10_000


def choices(name: str) -> list:
    return RecordedCpu(RECORDINGS / f"{name}.txt.xz", LAG_NS).choices


@pytest.mark.parametrize(("name", "decisions"), [("nice2-6.12", 505), ("nice5-6.12", 760)])
def test_the_same_thread_is_chosen(name, decisions):
    found = choices(name)
    assert len(found) >= decisions
    assert sum(c.recorded == c.chosen for c in found) >= 0.99 * len(found)


def test_eight_equal_threads_differ_only_where_deadlines_are_equal():
    turns = Counter()
    found = choices("nice8-6.12")
    assert len(found) >= 760
    for c in found:
        turns[c.recorded] += 1
        if c.recorded != c.chosen:
            assert 0 <= c.deadline_gap_ns <= FORK_NS + TURN_NS * turns[c.recorded]
    assert sum(c.recorded == c.chosen for c in found) >= 0.85 * len(found)
