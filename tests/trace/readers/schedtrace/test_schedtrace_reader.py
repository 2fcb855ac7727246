"""The collectors' file, constructed by hand: every field of every kind, order, losses, and damage."""

from __future__ import annotations

import json
import struct

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import wastedcores
from wastedcores.errors import TraceFormatError, WastedCoresError
from wastedcores.trace.readers.schedtrace import reader

T0 = 1_000_000_000


def header(**more):
    meta = {
        "format": reader.FORMAT, "version": 1, "record_bytes": 16, "t0_ns": T0, "clock": "mono",
        "kernel": "6.1.0-test", "cpus": 4, "cpus_online": [0, 1, 2, 3], "mask_words": 1,
        "events": ["nr_running", "switch", "wakeup"], "snapshot": "bpf_iter", **more,
    }  # fmt: skip
    return (json.dumps(meta) + "\n").encode()


def record(ts, kind, w1=0, x=0):
    return struct.pack("<QQ", ts | reader.KINDS[kind] << 48 | x << 53, w1)


def block(kind, payload, cpu=0, round_=1, now=10**9, seq=0, lost=0):
    head = (reader.BLOCK_MAGIC, kind, cpu, len(payload), round_, now, seq, lost)
    return struct.pack("<IHHIIQQQ", *head) + payload


def task(ts, pid, cpu, state, nr=1, prio=120, allowed=4, comm=b"t", mask=15):
    return struct.pack("<QIIIIHHI16sQ", ts, pid, pid, cpu, nr, state, prio, allowed, comm, mask)


def name(text):
    raw = text.encode().ljust(16, b"\0")
    return [int.from_bytes(raw[i : i + 8], "little") for i in (0, 8)]


END = block(reader.END_BLOCK, b'{"why": "time is up"}')


def events_of(tmp_path, *blocks, **more):
    file = tmp_path / "t.wct"
    file.write_bytes(header(**more) + b"".join(blocks))
    return wastedcores.open_trace(file)


def test_every_kind_decodes_to_its_fields(tmp_path):
    a, b = name("a-name-of-15-by")
    records = b"".join(
        [
            record(1, "nr_running", 3 | 7 << 16 | (2**24 - 1) << 40),
            record(2, "switch", 11 | 12 << 22 | 100 << 44 | 120 << 52, x=1),
            record(3, "switch", 12 | 11 << 22 | 120 << 44 | 100 << 52, x=1024),
            record(4, "wakeup", 12 | 11 << 22 | 5 << 44 | (300 & 127) << 57, x=300 >> 7),
            record(5, "wakeup_new", 13 | 11 << 22 | 1 << 44 | 2 << 57),
            record(6, "migrate", 4194303 | 8000 << 22 | 1 << 35 | (70000 & 0xFFFF) << 48, x=70000 >> 16 | 3 << 6),
            record(7, "fork", 13 | 11 << 22),
            record(8, "exec", 13 | 13 << 22), record(8, "name", a), record(8, "name", b, x=1),
            record(9, "exit", 13 | 120 << 22),
            record(10, "cpu_idle", 2 | (2**32 - 1) << 16),
            record(11, "frequency", 2 | 3_400_000 << 16),
            record(12, "load", 1 | 123456 << 16),
            record(13, "affinity", 13 | 1 << 22), record(13, "mask", 0b0110),
            record(14, "lost", 41),
            record(15, "considered", 3 | 1 << 13 | 13 << 26 | 2 << 48 | 5 << 56, x=1), record(15, "mask", 0b1100),
            record(16, "cpu_online", 300 | 1 << 16),
            record(17, "throttle", 13 | (2677 & (2**42 - 1)) << 22, x=5),
            record(18, "unthrottle", 13 | 300 << 22),
            record(19, "kernel_entry", 13 | 0 << 22 | 202 << 27),
            record(20, "kernel_entry", 13 | 4 << 22 | 7 << 27),
            record(21, "tick", 13 | 2_100_000 << 22),
            record(22, "tick", 13),
            record(21, "kernel_exit", 13 | 0 << 22 | (2**32 - 11) << 27),
        ]
    )  # fmt: skip
    events = block(reader.EVENTS_BLOCK, records, cpu=1, lost=41)
    trace = events_of(tmp_path, events, END, machine="x86_64")
    rows = {
        (str(r["kind"]), r["ts_ns"] - T0): r for r in trace.events.collect().iter_rows(named=True)
    }

    def has(kind, ts, **wanted):
        row = rows[kind, ts]
        assert {k: row[k] for k in wanted} == wanted

    has("nr_running", 1, cpu=3, nr_running=7)
    has("switch", 2, cpu=1, pid=12, prev_pid=11, prio=100, prev_prio=120, prev_state="S")
    has("switch", 3, pid=11, prev_pid=12, prev_state="R+")
    has("wakeup", 4, pid=12, by_pid=11, cpu=5, src_cpu=300)
    has("wakeup_new", 5, pid=13, by_pid=11, cpu=1, src_cpu=2)
    has("migrate", 6, pid=4194303, src_cpu=8000, cpu=1, by_pid=70000, op="balance")
    has("fork", 7, pid=13, by_pid=11, cpu=1)
    has("exec", 8, pid=13, comm="a-name-of-15-by")
    has("exit", 9, pid=13, prio=120, comm="a-name-of-15-by")
    has("cpu_idle", 10, cpu=2, value=-1)
    has("frequency", 11, cpu=2, value=3_400_000)
    has("load", 12, cpu=1, value=123456)
    has("affinity", 13, pid=13, cpu_mask=(6).to_bytes(8, "little"))
    has("lost", 14, cpu=1, value=41)
    has("considered", 15, cpu=3, src_cpu=1, pid=13, op="find_busiest_queue", value=5)
    has("cpu_online", 16, cpu=300, value=1)
    has("throttle", 17, cpu=1, pid=13, value=2677 + (5 << 42))
    has("unthrottle", 18, cpu=300, pid=13)
    has("kernel_entry", 19, cpu=1, pid=13, op="syscall", value=202, text="futex")
    has("kernel_entry", 20, op="fault", value=7, text="page_fault")
    has("tick", 21, cpu=1, pid=13, value=2_100_000)
    has("tick", 22, cpu=1, pid=13, value=None)
    has("kernel_exit", 21, op="syscall", value=-11, text=None)
    assert trace.header.lost == {1: 41}
    assert trace.header.every_switch
    assert trace.header.kernel_release == "6.1.0-test"


def test_cpus_are_merged_in_order_of_time(tmp_path):
    one = b"".join(record(t, "nr_running", 0 | 1 << 16) for t in range(0, 100, 2))
    two = b"".join(record(t, "nr_running", 1 | 1 << 16) for t in range(1, 100, 2))
    blocks = [block(reader.EVENTS_BLOCK, one), block(reader.EVENTS_BLOCK, two, cpu=1), END]
    events = events_of(tmp_path, *blocks).events.collect()
    assert events["ts_ns"].to_list() == [T0 + t for t in range(100)]
    assert events["cpu"].to_list() == [t % 2 for t in range(100)]


def test_names_follow_fork_exec_and_rename(tmp_path):
    a, b = name("second")
    records = b"".join(
        [
            record(10, "fork", 20 | 10 << 22),
            record(20, "switch", 10 | 20 << 22),
            record(30, "rename", 20), record(30, "name", a), record(30, "name", b, x=1),
            record(40, "switch", 20 | 0 << 22),
        ]
    )  # fmt: skip
    start = task(0, 10, 0, 2, comm=b"first")
    blocks = [block(reader.TASKS_BLOCK, start), block(reader.EVENTS_BLOCK, records), END]
    events = events_of(tmp_path, *blocks).events.collect()
    switches = events.filter(pl.col("kind") == "switch")
    assert switches["comm"].to_list() == ["first", "swapper/0"]
    assert switches["prev_comm"].to_list() == ["first", "second"]


def test_start_state_becomes_task_state_and_nr_running(tmp_path):
    start = task(5, 10, 1, 2, nr=2) + task(6, 11, 1, 1, nr=2, mask=2) + task(7, 12, 0, 0, nr=0)
    trace = events_of(tmp_path, block(reader.TASKS_BLOCK, start), END)
    events = trace.events.collect()
    states = events.filter(pl.col("kind") == "task_state")
    assert states["prev_state"].to_list() == ["running", "waiting", "sleeping"]
    queues = events.filter(pl.col("kind") == "nr_running").sort("cpu")
    assert queues.select("cpu", "nr_running").rows() == [(0, 0), (1, 2)]


def test_a_cpu_that_the_machine_could_have_is_not_online(tmp_path):
    """Two threads share CPU 0, the only one there is; the kernel has room for three more."""
    start = task(0, 10, 0, 2, nr=2) + task(0, 11, 0, 1, nr=2)
    records = record(1, "nr_running", 2 << 16)
    records += record(10**9, "switch", 10 | 11 << 22 | 120 << 44 | 120 << 52)
    blocks = [block(reader.TASKS_BLOCK, start), block(reader.EVENTS_BLOCK, records), END]
    trace = events_of(tmp_path, *blocks, cpus=4, cpus_online=[0])
    assert trace.header.cpus_online == [0]
    assert wastedcores.check(trace).verdict == "clean"
    everywhere = events_of(tmp_path, *blocks, cpus=4)
    assert wastedcores.check(everywhere).verdict == "violations"


@pytest.mark.parametrize("online", [[0, 4], [-1], [0, 10**12], ["x"], None, 1])
def test_online_cpus_that_cannot_be_are_refused(tmp_path, online):
    events = block(reader.EVENTS_BLOCK, record(1, "nr_running", 1 << 16))
    with pytest.raises(TraceFormatError, match="the header of a capture lacks a field"):
        events_of(tmp_path, events, END, cpus_online=online)


def test_a_switch_that_was_not_recorded_is_inserted(tmp_path):
    records = record(1, "switch", 10 | 75 << 22) + record(9, "switch", 15 | 10 << 22, x=1)
    trace = events_of(tmp_path, block(reader.EVENTS_BLOCK, records), END)
    events = trace.events.collect()
    switches = events.filter(pl.col("kind") == "switch").select("prev_pid", "pid", "prev_state")
    assert switches.rows() == [(10, 75, "R"), (75, 15, "S"), (15, 10, "S")]
    assert trace.header.provenance["unseen_switches"].startswith("1 ")


def test_the_length_of_a_queue_is_unknown_after_a_switch_that_was_not_recorded(tmp_path):
    """Three threads take turns on CPU 0, beside the idle CPU 1. Pid 75 runs between them, and the switch at its end is hidden."""
    start = b"".join(task(0, p, 0, 2 if p == 10 else 1, nr=3) for p in (10, 11, 12))
    start += task(0, 20, 1, 2, nr=1)
    woken = [
        record(10, "nr_running", 4 << 16),
        record(11, "wakeup", 75),
        record(12, "switch", 10 | 75 << 22),
    ]
    hidden_ns = 4_000_000
    turns = [
        record(hidden_ns * (k + 1), "switch", (10 + k % 3) | (10 + (k + 1) % 3) << 22)
        for k in range(60)
    ]
    slept = record(10, "nr_running", 1) + record(11, "switch", 20, x=1)
    blocks = [
        block(reader.TASKS_BLOCK, start),
        block(reader.EVENTS_BLOCK, b"".join(woken + turns)),
        block(reader.EVENTS_BLOCK, slept, cpu=1),
        END,
    ]
    trace = events_of(tmp_path, *blocks, cpus=2, cpus_online=[0, 1])
    counts = trace.only("nr_running").select("ts_ns", "cpu", "nr_running").collect().rows()
    assert (T0 + hidden_ns, 0, None) in counts
    found = wastedcores.check(trace)
    assert found.verdict == "violations"
    assert found.doubts.is_empty()


def test_a_count_after_the_switch_to_the_hidden_thread_is_believed(tmp_path):
    """Pid 75 runs on CPU 0, and the switch at its end is hidden. Then pid 10 is woken there, and the kernel counts it."""
    records = [record(10, "nr_running", 1 << 16), record(12, "switch", 0 | 75 << 22)]
    records += [record(50, "nr_running", 1 << 16), record(60, "switch", 0 | 10 << 22)]
    records += [record(90, "nr_running", 0), record(91, "switch", 10, x=1)]
    trace = events_of(tmp_path, block(reader.EVENTS_BLOCK, b"".join(records)), END)
    events = trace.events.collect()
    switches = events.filter(pl.col("kind") == "switch").select("prev_pid", "pid").rows()
    assert switches == [(0, 75), (75, 0), (0, 10), (10, 0)]
    assert events["nr_running"].drop_nulls().to_list() == [1, 1, 0]
    assert events.filter(pl.col("kind") == "nr_running").height == 3


def test_where_the_kernel_was_not_asked_for_its_counts_a_switch_that_was_not_recorded_is_lost(
    tmp_path,
):
    """The CPU may have been idle long before its next switch, and only a count would show it."""
    records = record(1, "switch", 10 | 75 << 22) + record(9, "switch", 15 | 10 << 22, x=1)
    trace = events_of(tmp_path, block(reader.EVENTS_BLOCK, records), END, events=["switch"])
    rows = trace.events.collect().select("ts_ns", "kind", "cpu", "prev_pid", "pid").rows()
    assert [row[1:] for row in rows] == [
        ("switch", 0, 10, 75),
        ("lost", 0, None, None),
        ("switch", 0, 15, 10),
    ]
    assert trace.header.lost == {0: 1}


def test_a_loss_after_the_last_event_becomes_an_event_at_the_end(tmp_path):
    counted = b"".join(struct.pack("<4Q", 0, 0, n, 0) for n in (0, 7, 0, 0))
    first = block(reader.EVENTS_BLOCK, record(1, "nr_running", 1 << 16))
    trace = events_of(tmp_path, first, block(reader.COUNTERS_BLOCK, counted), END)
    assert trace.header.lost == {1: 7}
    last = trace.events.collect().row(-1, named=True)
    assert (last["kind"], last["cpu"], last["value"]) == ("lost", 1, 7)
    assert wastedcores.check(trace).verdict == "unknown"


def test_masks_cut_off_by_overwriting_are_left_out(tmp_path):
    trace = events_of(
        tmp_path,
        block(
            reader.EVENTS_BLOCK,
            record(1, "nr_running", 1 << 16) + record(2, "affinity", 9 | 1 << 22),
        ),
        END,
    )
    assert trace.kinds() == {"nr_running": 1}


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b'{"format": "wastedcores.schedtrace", "version', "header of a capture is cut"),
        (header(version=9) + END, "version 9"),
        (header(record_bytes=20) + END, "20-byte records"),
        (header() + b"junk" * 20, "expected the beginning of a block"),
        (header() + END, "no event"),
    ],
)
def test_bad_files_are_explained(tmp_path, data, says):
    file = tmp_path / "bad.wct"
    file.write_bytes(data)
    with pytest.raises(WastedCoresError, match=says):
        wastedcores.open_trace(file).events.collect()


@pytest.mark.slow
@given(st.data())
def test_any_damage_gives_a_wastedcores_error_or_a_trace(tmp_path_factory, data):
    file = tmp_path_factory.mktemp("fuzz") / "t.wct"
    body = b"".join(record(t, "switch", 10 | 11 << 22) for t in range(20))
    good = (
        header()
        + block(reader.TASKS_BLOCK, task(0, 10, 0, 2))
        + block(reader.EVENTS_BLOCK, body)
        + END
    )
    bad = bytearray(good)
    for _ in range(data.draw(st.integers(1, 4))):
        bad[data.draw(st.integers(40, len(bad) - 1))] = data.draw(st.integers(0, 255))
    file.write_bytes(bytes(bad[: data.draw(st.integers(41, len(bad)))]))
    try:
        trace = wastedcores.open_trace(file)
        assert trace.events.collect()["ts_ns"].is_sorted()
    except WastedCoresError:
        pass


@pytest.mark.slow
def test_no_part_of_a_capture_passes_for_the_whole(tmp_path):
    body = b"".join(record(t, "switch", 10 | 11 << 22) for t in range(20))
    blocks = [block(reader.EVENTS_BLOCK, body, cpu=c) for c in (0, 1)]
    whole = header() + block(reader.TASKS_BLOCK, task(0, 10, 0, 2)) + b"".join(blocks) + END
    file = tmp_path / "t.wct"
    refused = 0
    for size in range(1, len(whole)):
        file.write_bytes(whole[:size])
        try:
            assert wastedcores.open_trace(file).header.truncated_last_line, size
        except WastedCoresError:
            refused += 1
    assert refused < len(whole) - 108  # most parts have events
    for why in ("disk full", None):
        end = block(reader.END_BLOCK, json.dumps({"why": why}).encode() if why else b"{")
        file.write_bytes(whole.removesuffix(END) + end)
        assert wastedcores.open_trace(file).header.truncated_last_line
    file.write_bytes(whole)
    assert wastedcores.open_trace(file).header.truncated_last_line is None


def test_errors_are_trace_format_errors(tmp_path):
    file = tmp_path / "bad.wct"
    file.write_bytes(header() + b"junk" * 20)
    with pytest.raises(TraceFormatError, match="byte"):
        wastedcores.open_trace(file)


def test_flight_recorder_with_more_than_a_batch_per_cpu_comes_out_in_order(tmp_path, monkeypatch):
    monkeypatch.setattr(reader, "BATCH_RECORDS", 100)
    step = 10_000_000  # each CPU's block spans 10 s: more than any reader may step back
    one, two = (
        b"".join(record(t * step + c, "switch", 10 | 10 << 22) for t in range(1000)) for c in (0, 1)
    )
    restricted = task(9, 77, 0, 0, allowed=1, mask=1)
    trace = events_of(
        tmp_path,
        block(reader.TASKS_BLOCK, restricted),
        block(reader.EVENTS_BLOCK, one),
        block(reader.EVENTS_BLOCK, two, cpu=1),
        END,
        flight_s=5,
    )
    events = trace.events.collect()
    assert events["ts_ns"].is_sorted()
    assert events.filter(pl.col("kind") == "switch").height == 2000
    assert events.row(0, named=True)["kind"] == "affinity"
    assert "task_state" not in trace.kinds()


def test_masks_that_a_flight_recorder_reads_at_its_end_were_not_those_before_a_change(tmp_path):
    """Tasks 77 and 78 are bound when the recording is written; 78 was bound within it, and nobody knows to what before."""
    bound = b"".join(task(9, p, 0, 0, allowed=1, mask=1) for p in (77, 78))
    events = record(1, "switch", 10 | 78 << 22) + record(5, "affinity", 78 | 1 << 22)
    trace = events_of(
        tmp_path,
        block(reader.TASKS_BLOCK, bound),
        block(reader.EVENTS_BLOCK, events + record(5, "mask", 1)),
        END,
        flight_s=5,
    )
    told = trace.only("affinity").select("ts_ns", "pid").collect().rows()
    assert told == [(T0 + 1, 77), (T0 + 5, 78)]


def test_reader_that_was_stopped_for_seconds_is_read_in_order(tmp_path, monkeypatch):
    monkeypatch.setattr(reader, "BATCH_RECORDS", 100)
    step = 10_000_000
    blocks = []
    for round_ in range(3):
        for c in (0, 1):
            stamps = range(round_ * 500, (round_ + 1) * 500)
            body = b"".join(record(t * step + c, "switch", 10 | 10 << 22) for t in stamps)
            blocks.append(block(reader.EVENTS_BLOCK, body, cpu=c, round_=round_ + 1))
    events = events_of(tmp_path, *blocks, END).events.collect()
    assert events["ts_ns"].is_sorted()
    assert events.height == 3000
