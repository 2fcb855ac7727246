"""Every format that tells it says whether a wakeup or a migration happened in a hardware interrupt."""

from __future__ import annotations

import polars as pl
import pyarrow.parquet as pq
import pytest
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb
from support import perf_file, trace_dat_file
from support.big_endian import big_endian

from wastedcores.trace.io import import_trace, open_trace
from wastedcores.trace.parquet import read_parquet
from wastedcores.trace.readers.text import scan

#: common_flags -> whether they say so: none, interrupts off, softirq, hardirq, hardirq in a softirq, NMI
FLAGS = {0: False, 0x01: False, 0x11: False, 0x09: True, 0x19: True, 0x41: True}
#: the same as 6.1 prints them
LETTERS = [".....", "d..1.", "d.s1.", "d.h1.", "d.H1.", "d.Z1."]
WAKE = "comm=a pid=7 prio=120 target_cpu=001"


def told(path, column="in_irq"):
    table = open_trace(path).events.filter(pl.col("kind").is_in(["wakeup", "migrate"]))
    return table.select(column).collect()[column].to_list()


@pytest.mark.parametrize("scan_from", [0, 1 << 40])
@pytest.mark.parametrize(
    ("line", "known"),
    [
        ("          <idle>-0       [001] {flags}  {ts:12.6f}: sched_wakeup: " + WAKE, True),
        ("  <idle>-0     [001] {flags}  {ts:12.6f}: sched_wakeup:         a:7 [120] CPU:001", True),
        ("  <idle>-0         1{flags}  {ts:12.6f}: sched_wakeup: " + WAKE, True),
        ("          <idle>-0       [001]  {ts:12.6f}: sched_wakeup: " + WAKE, False),
        ("         swapper     0 [001]  {ts:12.6f}: sched:sched_wakeup: " + WAKE, False),
    ],
    ids=["kernel", "trace-cmd", "latency format", "without flags", "perf script"],
)
def test_text(tmp_path, monkeypatch, scan_from, line, known):
    monkeypatch.setattr(scan, "WORTHWHILE_BYTES", scan_from)
    path = tmp_path / "t.txt"
    lines = [line.format(flags=flags, ts=1 + i / 1000) for i, flags in enumerate(LETTERS)]
    path.write_text("\n".join(lines) + "\n")
    assert told(path) == (list(FLAGS.values()) if known else [None] * len(FLAGS))


def test_perf_data_where_a_waking_stands_for_the_wakeup(tmp_path):
    data = b""
    for i, flags in enumerate(FLAGS):
        data += perf_file.sample(
            10**9 + 1000 * i, 0, 5, "sched_wakeup", b"a", 7, 120, 1, flags=flags
        )
        moved = (10**9 + 1000 * i + 1, 0, 5, "sched_migrate_task", b"a", 7, 120, 0, 1)
        data += perf_file.sample(*moved, flags=flags)
    path = tmp_path / "perf.data"
    path.write_bytes(perf_file.file_of(data + perf_file.ROUND, 2))
    assert told(path) == [f for f in FLAGS.values() for _ in range(2)]


@pytest.mark.parametrize("order", ["little", "big"])
def test_pages_of_the_ring_buffer(tmp_path, order):
    wakeups = [
        (1000 + i, perf_file.payload("sched_wakeup", b"a", 7, 120, 1, by=5, flags=flags))
        for i, flags in enumerate(FLAGS)
    ]
    whole = trace_dat_file.version_6(b"", [trace_dat_file.pages_of(wakeups)])
    path = tmp_path / "trace.dat"
    path.write_bytes(whole if order == "little" else big_endian(whole))
    assert told(path) == list(FLAGS.values())


@pytest.mark.parametrize("form", ["text", "perf.data", "trace.dat"])
def test_a_waking_beside_the_wakeup_is_an_event_of_its_own(tmp_path, form):
    """It names the CPU where the thread was, and who wakes it where; the wakeup follows on the CPU that was chosen."""
    path = tmp_path / "t"
    waking, wakeup = (b"a", 7, 120, 0), (b"a", 7, 120, 1)
    if form == "text":
        path.write_text(
            "    b-5     [003] d..1.     1.000001: sched_waking: comm=a pid=7 prio=120 target_cpu=000\n"
            "    <idle>-0       [001] d.h1.     1.000002: sched_wakeup: comm=a pid=7 prio=120 target_cpu=001\n"
        )
    elif form == "perf.data":
        data = perf_file.sample(10**9 + 1000, 3, 5, "sched_waking", *waking)
        data += perf_file.sample(10**9 + 2000, 1, 0, "sched_wakeup", *wakeup, flags=0x09)
        path.write_bytes(perf_file.file_of(data + perf_file.ROUND, 4))
    else:
        pages = [
            trace_dat_file.pages_of(
                [(10**9 + ns, perf_file.payload(name, *what, by=by, flags=flags))]
            )
            for ns, name, what, by, flags in (
                (1000, "sched_waking", waking, 5, 0),
                (2000, "sched_wakeup", wakeup, 0, 0x09),
            )
        ]
        path.write_bytes(trace_dat_file.version_6(b"", [pages[0], pages[1]]))
    trace = open_trace(path)
    assert not trace.header.wakings
    found = trace.events.select("kind", "cpu", "by_pid", "in_irq").collect().head(2).rows()
    assert found == [("waking", 0, 5, False), ("wakeup", 1, 0, True)]


def test_perfetto(tmp_path):
    trace = pb.Trace()
    bundle = trace.packet.add().ftrace_events
    bundle.cpu = 0
    for i, flags in enumerate([*FLAGS, None]):
        event = bundle.event.add()
        event.timestamp, event.pid = 1000 + i, 5
        if flags is not None:
            event.common_flags = flags
        w = event.sched_wakeup
        w.comm, w.pid, w.prio, w.target_cpu = "a", 7, 120, 1
    path = tmp_path / "t.pftrace"
    path.write_bytes(trace.SerializeToString())
    assert told(path) == [*FLAGS.values(), None]


@pytest.mark.parametrize("flagged", [True, False])
def test_perfettos_columns(tmp_path, flagged):
    trace = pb.Trace()
    bundle = trace.packet.add().ftrace_events
    bundle.cpu = 0
    compact = bundle.compact_sched
    compact.intern_table.append("a")
    for flags in FLAGS:
        compact.waking_timestamp.append(1000)
        compact.waking_pid.append(7)
        compact.waking_target_cpu.append(1)
        compact.waking_prio.append(120)
        compact.waking_comm_index.append(0)
        if flagged:
            compact.waking_common_flags.append(flags)
    path = tmp_path / "t.pftrace"
    path.write_bytes(trace.SerializeToString())
    assert told(path) == (list(FLAGS.values()) if flagged else [None] * len(FLAGS))


def test_our_own_file_keeps_it_and_an_older_one_does_not_tell(tmp_path):
    text = tmp_path / "t.txt"
    line = "  <idle>-0     [001] {}  {:12.6f}: sched_wakeup: " + WAKE
    text.write_text("\n".join(line.format(f, 1 + i / 1000) for i, f in enumerate(LETTERS)) + "\n")
    now, old = tmp_path / "now.parquet", tmp_path / "old.parquet"
    import_trace(text, now)
    assert told(now) == list(FLAGS.values())
    table = pq.read_table(now).drop_columns("in_irq")
    metadata = {k: v for k, v in pq.read_metadata(now).metadata.items() if k == b"wastedcores"}
    pq.write_table(table.replace_schema_metadata(metadata), old)
    assert told(old) == [None] * len(FLAGS)
    whole = read_parquet(now).events.drop("in_irq").collect()
    assert read_parquet(old).events.drop("in_irq").collect().equals(whole)
