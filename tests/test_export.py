"""What is exported decodes to what was in the trace."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wastedcores import export
from wastedcores.errors import WastedCoresError
from wastedcores.export import export_perfetto
from wastedcores.invariant import check
from wastedcores.trace.io import open_trace
from wastedcores.trace.runqueues import runqueues

GOLDEN = Path(__file__).parent / "trace" / "golden"


def messages(data: bytes) -> list[tuple[int, object]]:
    """A plain protobuf reader: (field, number or bytes), in order."""
    out: list[tuple[int, object]] = []
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        tag = varint()
        if tag & 7 == 0:
            out.append((tag >> 3, varint()))
        else:
            assert tag & 7 == 2
            size = varint()
            out.append((tag >> 3, data[at : at + size]))
            at += size
    return out


def numbers(packed: bytes) -> list[int]:
    out, value, shift = [], 0, 0
    for byte in packed:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            out.append(value)
            value = shift = 0
    return out


def decode(path: Path) -> dict[str, list]:
    """Switches, wakeups, counters and slices of an exported file."""
    found: dict[str, list] = {"switch": [], "wakeup": [], "counter": [], "slice": [], "track": []}
    for field, packet in messages(path.read_bytes()):
        assert field == 1
        fields = dict(messages(packet))
        if 1 in fields:
            bundle = dict(messages(fields[1]))
            parts = messages(bundle[4])
            comms = [v.decode() for f, v in parts if f == 5]
            columns = {f: numbers(v) for f, v in parts if f != 5}
            for stamp, what, names in ((1, "switch", (3, 4, 6)), (7, "wakeup", (8, 10, 11))):
                if stamp in columns:
                    pid, prio, comm = (columns[n] for n in names)
                    ts = np.cumsum(columns[stamp]).tolist()
                    extra = columns[2 if what == "switch" else 9]
                    found[what] += [
                        (t, bundle[1], p, q, comms[c], e)
                        for t, p, q, c, e in zip(ts, pid, prio, comm, extra, strict=True)
                    ]
        elif 11 in fields:
            event = dict(messages(fields[11]))
            if event[9] == 4:
                found["counter"].append((fields[8], event[11] - 1000, event[30]))
            else:
                found["slice"].append((fields[8], event[9], event.get(23, b"").decode()))
        elif 60 in fields:
            track = dict(messages(fields[60]))
            found["track"].append((track[1], track[2].decode()))
    for rows in found.values():
        rows.sort()
    return found


@pytest.mark.parametrize("name", ["ftrace_4.1", "perf_script", "sched_profiler", "trace_cmd"])
def test_exported_trace_decodes_to_its_events(name, tmp_path):
    trace = open_trace(GOLDEN / f"{name}.txt")
    result = check(trace, persist_ns=1)
    got = decode(export_perfetto(trace, tmp_path / "t.pftrace", result))
    events = trace.events.collect()
    switch = [r for r in events.iter_rows(named=True) if r["kind"] == "switch"]
    assert [(t, c, p, q, n) for t, c, p, q, n, _ in got["switch"]] == sorted(
        (r["ts_ns"], r["cpu"], r["pid"], r["prio"], r["comm"]) for r in switch
    )
    wakes = [r for r in events.iter_rows(named=True) if r["kind"] in ("wakeup", "wakeup_new")]
    assert got["wakeup"] == sorted(
        (r["ts_ns"], r["src_cpu"], r["pid"], r["prio"], r["comm"], r["cpu"]) for r in wakes
    )
    changes = [
        (int(t), int(c), int(n))
        for b in runqueues(trace).batches()
        for t, c, n in zip(*b.runqueues(), strict=True)
        if n >= 0
    ]
    assert got["counter"] == sorted(changes)
    starts = [(t, name) for t, kind, name in got["slice"] if kind == 1]
    assert [t for t, _ in starts] == result.episodes["start_ns"].to_list()
    assert [t for t, kind, _ in got["slice"] if kind == 2] == result.episodes["end_ns"].to_list()


def test_preempted_state_has_its_bit(tmp_path):
    got = decode(export_perfetto(open_trace(GOLDEN / "ftrace_4.1.txt"), tmp_path / "t"))
    assert [s for *_, s in got["switch"]] == [0, 256, 1]


@given(st.lists(st.integers(0, 2**63 - 1), min_size=1, max_size=40))
def test_packed_numbers_are_plain_varints(values):
    ((field, packed),) = messages(export._packed(3, np.array(values, np.int64)))
    assert field == 3
    assert packed == b"".join(export._varint(v) for v in values)
    assert numbers(packed) == values


def test_nothing_is_left_where_it_cannot_be_written(tmp_path):
    with pytest.raises(WastedCoresError, match="cannot write there"):
        export_perfetto(open_trace(GOLDEN / "perf_script.txt"), tmp_path / "no" / "t")
    assert list(tmp_path.iterdir()) == []


def test_perfettos_own_classes_read_it(tmp_path):
    proto = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    path = export_perfetto(open_trace(GOLDEN / "perf_script.txt"), tmp_path / "t")
    trace = proto.Trace()
    trace.ParseFromString(path.read_bytes())
    bundles = [p.ftrace_events for p in trace.packet if p.HasField("ftrace_events")]
    assert sum(len(b.compact_sched.switch_timestamp) for b in bundles) == 2
    assert sum(len(b.compact_sched.waking_timestamp) for b in bundles) == 1
