"""Traces of Perfetto in which events have no names."""

from __future__ import annotations

import subprocess
import sys

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb


def test_a_trace_in_which_no_event_has_a_name_is_read(tmp_path):
    """As in a recording of a phone whose service took events for others (Shuang-Zi/perfetto_issue_file at faccbd8)."""
    trace = pb.Trace()
    packet = trace.packet.add()
    packet.trusted_packet_sequence_id = 2
    for i in range(4):
        event = packet.ftrace_events.event.add()
        event.timestamp, event.pid = 1000 * i, 504
        event.sched_switch.prev_prio = 2913
    path = tmp_path / "t.pftrace"
    path.write_bytes(trace.SerializeToString())
    # in a process of its own: here, other tests have left names behind
    code = f"from wastedcores.trace.io import open_trace; print(open_trace({str(path)!r}).kinds())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "{'switch': 4}"
