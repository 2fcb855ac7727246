"""An exported trace decodes to the events of the trace."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import perfetto.protos.perfetto.trace.perfetto_trace_pb2 as pb
import pytest
from support import TRACE_GOLDEN as GOLDEN
from support.builders import nr, trace_of

from wastedcores.errors import WastedCoresError
from wastedcores.invariant import check
from wastedcores.reports.perfetto import export_perfetto
from wastedcores.runqueues.runqueues import runqueues
from wastedcores.trace.io import open_trace


def decode(path: Path) -> dict[str, list]:
    """Return switches, wakeups, counters, slices and tracks of an exported file."""
    kinds = ("switch", "wakeup", "counter", "slice", "other", "track")
    found: dict[str, list] = {kind: [] for kind in kinds}
    trace = pb.Trace()
    trace.ParseFromString(path.read_bytes())
    for packet in trace.packet:
        if packet.HasField("ftrace_events"):
            cpu, c = packet.ftrace_events.cpu, packet.ftrace_events.compact_sched
            comms = list(c.intern_table)
            ts = np.cumsum(c.switch_timestamp).tolist()
            rows = zip(
                ts, c.switch_next_pid, c.switch_next_prio, c.switch_next_comm_index,
                c.switch_prev_state, strict=True,
            )  # fmt: skip
            found["switch"] += [(t, cpu, p, q, comms[n], e) for t, p, q, n, e in rows]
            ts = np.cumsum(c.waking_timestamp).tolist()
            rows = zip(
                ts, c.waking_pid, c.waking_prio, c.waking_comm_index, c.waking_target_cpu,
                strict=True,
            )  # fmt: skip
            found["wakeup"] += [(t, cpu, p, q, comms[n], e) for t, p, q, n, e in rows]
        elif packet.HasField("track_event"):
            event = packet.track_event
            if event.type == pb.TrackEvent.TYPE_COUNTER:
                found["counter"].append(
                    (packet.timestamp, event.track_uuid - 1000, event.counter_value)
                )
            else:
                found["slice" if event.track_uuid == 1 else "other"].append(
                    (packet.timestamp, event.type, event.name)
                )
        elif packet.HasField("track_descriptor"):
            track = packet.track_descriptor
            found["track"].append((track.uuid, track.name))
    for rows in found.values():
        rows.sort()
    return found


@pytest.mark.parametrize("name", ["ftrace_4.1", "perf_script", "sched_profiler", "trace_cmd"])
def test_exported_trace_decodes_to_its_events(name, tmp_path):
    trace = open_trace(GOLDEN / f"{name}.txt")
    result = check(trace, persist_ns=1)
    got = decode(export_perfetto(runqueues(trace), tmp_path / "t.pftrace", result))
    events = trace.events.collect()
    switch = [r for r in events.iter_rows(named=True) if r["kind"] == "switch"]
    assert [(t, c, p, q, n) for t, c, p, q, n, _ in got["switch"]] == sorted(
        (r["ts_ns"], r["cpu"], r["pid"], r["prio"], r["comm"]) for r in switch
    )
    wakes = [r for r in events.iter_rows(named=True) if r["kind"] in ("wakeup", "wakeup_new")]
    assert got["wakeup"] == sorted(
        (r["ts_ns"], r["src_cpu"], r["pid"], r["prio"], r["comm"], r["cpu"]) for r in wakes
    )
    rq = runqueues(trace)
    changes = [
        (int(t), int(c), int(n))
        for b in rq.batches()
        for t, c, n in zip(*b.runqueues(), strict=True)
    ]
    ends = [(rq.end_ns, c, n) for c, n in {c: n for _, c, n in changes}.items()]
    assert got["counter"] == sorted(changes + ends)
    starts = [(t, name) for t, kind, name in got["slice"] if kind == 1]
    assert [t for t, _ in starts] == result.episodes["start_ns"].to_list()
    assert [t for t, kind, _ in got["slice"] if kind == 2] == result.episodes["end_ns"].to_list()


def test_counters_last_until_the_end_and_say_what_is_unknown(tmp_path):
    rows = [nr(0, 0, 0), nr(1_000_000, 0, 1), nr(10**9, 1, 0)]
    got = decode(export_perfetto(runqueues(trace_of(rows, cpus=2)), tmp_path / "t.pftrace"))
    mine = [(t, n) for t, cpu, n in got["counter"] if cpu == 0]
    assert mine == [(0, 0), (1_000_000, 1), (10**9, 1)]
    rows += [{"ts_ns": 2 * 10**9, "kind": "lost", "cpu": 0, "value": 1}, nr(3 * 10**9, 0, 1)]
    lost = trace_of(rows, cpus=2, lost={0: 3})
    got = decode(export_perfetto(runqueues(lost), tmp_path / "l.pftrace"))
    # the lengths that a CPU loses are those of any runqueue
    assert {cpu for _, cpu, n in got["counter"] if n == -1} == {0, 1}


def test_preempted_state_has_its_bit(tmp_path):
    got = decode(export_perfetto(runqueues(open_trace(GOLDEN / "ftrace_4.1.txt")), tmp_path / "t"))
    assert [s for *_, s in got["switch"]] == [0, 256, 1]


def test_nothing_is_left_where_it_cannot_be_written(tmp_path):
    with pytest.raises(WastedCoresError, match="cannot write there"):
        export_perfetto(runqueues(open_trace(GOLDEN / "perf_script.txt")), tmp_path / "no" / "t")
    assert list(tmp_path.iterdir()) == []


def test_nothing_of_perfetto_that_downloads_is_loaded():
    code = "import sys, wastedcores.reports.perfetto; print(*(m for m in sys.modules if m.startswith('perfetto')))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert all(
        "perfetto.protos".startswith(m) or m.startswith("perfetto.protos")
        for m in out.stdout.split()
    )
