"""What the head of ftrace's text and its lines about losses say together."""

from __future__ import annotations

import pytest

from wastedcores.invariant import check
from wastedcores.trace.header import TaskFacts
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


def test_an_excerpt_of_ftraces_file_still_tells_that_oldest_events_were_overwritten(tmp_path):
    """The kernel writes the line only where a buffer overwrote events (trace.c: test_cpu_buff_start(), 6.12)."""
    excerpt = TEXT.partition("#P:2\n#\n")[2].replace("LOST 3 EVENTS", "buffer started")
    lines = excerpt.replace("CPU:0 [buffer started]", "##### CPU 1 buffer started ####")
    (tmp_path / "t.txt").write_text(lines)
    header = open_trace(tmp_path / "t.txt").header
    assert (header.overwritten, header.lost) == ({-1: -1}, {-1: -1})


SHARED = """\
# tracer: nop
#
# entries-in-buffer/entries-written: {kept}/{written}   #P:2
#
               c-11      [001] d..2.     1.000000: sched_switch: prev_comm=c prev_pid=11 prev_prio=120 prev_state=S ==> \
next_comm=swapper/1 next_pid=0 next_prio=120
{line}
               a-10      [000] d..2.     1.300000: sched_switch: prev_comm=a prev_pid=10 prev_prio=120 prev_state=R ==> \
next_comm=b next_pid=12 next_prio=120
               b-12      [000] d..2.     1.600000: sched_switch: prev_comm=b prev_pid=12 prev_prio=120 prev_state=S ==> \
next_comm=a next_pid=10 next_prio=120
          <idle>-0       [001] d..2.     1.699000: sched_wakeup: comm=c pid=11 prio=120 target_cpu=001
          <idle>-0       [001] d..2.     1.700000: sched_switch: prev_comm=swapper/1 prev_pid=0 prev_prio=120 prev_state=R ==> \
next_comm=c next_pid=11 next_prio=120
"""


def test_the_line_where_the_buffer_of_a_cpu_starts_is_no_loss_in_the_window(tmp_path):
    """The window begins at that moment, so what CPU 0 did before is gone, and what it does is known: thread 10 waits there."""
    seen = []
    for line in ("##### CPU 0 buffer started ####", ""):
        (tmp_path / "t.txt").write_text(SHARED.format(kept=4, written=9, line=line))
        trace = open_trace(tmp_path / "t.txt")
        tasks = [TaskFacts(pid=p, allowed="0-1") for p in (10, 11, 12)]
        known = trace.with_header(tasks=tasks, later_tasks=[], quotas={})
        seen.append((check(known).verdict, check(known).episodes.rows()))
    assert seen[0] == seen[1]
    assert seen[0][0] == "violations"


BRIEF = """\
# tracer: nop
#
# entries-in-buffer/entries-written: 4/4   #P:2
#
          <idle>-0       [000] d..2.     1.000000: sched_wakeup: comm=b pid=12 prio=120 target_cpu=000
          <idle>-0       [000] d..2.     1.000005: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> \
next_comm=b next_pid=12 next_prio=120
               b-12      [000] d..2.     1.001000: sched_switch: prev_comm=b prev_pid=12 prev_prio=120 prev_state=S ==> \
next_comm=swapper/0 next_pid=0 next_prio=120
CPU:1 [LOST 523 EVENTS]
               c-11      [001] d..2.     1.700000: sched_switch: prev_comm=c prev_pid=11 prev_prio=120 prev_state=S ==> \
next_comm=swapper/1 next_pid=0 next_prio=120
"""


@pytest.mark.parametrize(("some", "verdict"), [(True, "unknown"), (False, "clean")])
def test_a_loss_before_the_first_event_of_a_cpu_may_have_begun_with_the_trace(
    tmp_path, some, verdict
):
    """The reader of trace_pipe came too late for CPU 1's buffer: a thread may have waited there for 0.7 s."""
    text = BRIEF if some else BRIEF.replace("CPU:1 [LOST 523 EVENTS]\n", "")
    (tmp_path / "t.txt").write_text(text)
    assert check(open_trace(tmp_path / "t.txt")).verdict == verdict
