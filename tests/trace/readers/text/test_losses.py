"""What the head of ftrace's text and its lines about losses say together."""

from __future__ import annotations

import pytest

from wastedcores.trace.io import open_trace

TEXT = """\
# tracer: nop
#
# entries-in-buffer/entries-written: 3/{written}   #P:2
#
              sh-7       [000] d..2.     1.000000: sched_switch: prev_comm=sh prev_pid=7 prev_prio=120 prev_state=S ==> \
next_comm=swapper/0 next_pid=0 next_prio=120
CPU:0 [LOST 3 EVENTS]
          <idle>-0       [000] d..2.     2.000000: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> \
next_comm=sh next_pid=7 next_prio=120
              sh-8       [001] d..2.     3.000000: sched_switch: prev_comm=sh prev_pid=8 prev_prio=120 prev_state=S ==> \
next_comm=swapper/1 next_pid=0 next_prio=120
"""


@pytest.mark.parametrize(
    ("written", "overwritten", "lost"), [(6, {}, {0: 3}), (10, {-1: 7}, {-1: 7, 0: 3})]
)
def test_events_that_lines_tell_lost_are_not_taken_for_overwritten_ones(
    tmp_path, written, overwritten, lost
):
    """Where the head misses more than the lines tell, the oldest events may have been overwritten."""
    (tmp_path / "t.txt").write_text(TEXT.format(written=written))
    header = open_trace(tmp_path / "t.txt").header
    assert (header.overwritten, header.lost) == (overwritten, lost)
