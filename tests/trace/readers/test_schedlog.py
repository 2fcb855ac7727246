"""SchedLog's rings, constructed from its struct and hooks, because no real recording was available."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from support import recorders

from wastedcores.errors import TraceFormatError, WastedCoresError
from wastedcores.invariant import check
from wastedcores.trace.io import import_trace, open_trace, sniff
from wastedcores.trace.readers import schedlog

#: kernel/sched/log.h before WAIT_PID was added: its enum sched_log_traced_event
FIRST = (
    *("EXEC", "EXIT", "WAKEUP", "WAKEUP_NEW", "BLOCK", "BLOCK_IO", "FORK", "TICK", "CTX_SWITCH", "MIGRATE", "RQ_SIZE"),
    *("WAIT_FUTEX", "WAKE_FUTEX", "WAKER_FUTEX"),
)  # fmt: skip


def ring(*records: tuple, names: tuple[str, ...] = recorders.SCHEDLOG) -> bytes:
    """Return a ring of records (ts, pid, event, arg0, arg1), the last two of which are optional."""
    whole = [(*r, *(0,) * (5 - len(r))) for r in records]
    return b"".join(struct.pack("<Qiiii", t, p, names.index(e), a, b) for t, p, e, a, b in whole)


def folder_of(place: Path, *rings: bytes) -> Path:
    place.mkdir(parents=True, exist_ok=True)
    for cpu, data in enumerate(rings):
        (place / str(cpu)).write_bytes(data)
    return place


def comm(name: str) -> tuple[int, int]:
    """Return the two arguments of EXEC: core.c, sched_exec logs ((u64 *)comm)[0] >> 32 first, then its lower half."""
    whole = int.from_bytes(name.encode()[:8].ljust(8, b"\0"), "little")
    high, low = whole >> 32, whole & 0xFFFFFFFF
    return struct.unpack("<ii", struct.pack("<II", high, low))


#: CPU 0: two tasks from 1000 to 5000; CPU 1: idle all along, but for a short visit at the beginning
OVERLOADED = ring(
    (1000, 7, "RQ_SIZE", 2, 1),
    (1000, 8, "WAKEUP"),
    (3000, 7, "CTX_SWITCH", 8),
    (5000, 8, "RQ_SIZE", 1, -1),
    (5000, 8, "BLOCK"),
    (5000, 8, "CTX_SWITCH", 7),
    (6000, 7, "TICK", 0, 2_400_000),
)
IDLE = ring(
    (900, 9, "RQ_SIZE", 0, -1), (900, 9, "BLOCK_IO"), (900, 9, "CTX_SWITCH", 0), (7000, 0, "TICK")
)


def test_events_of_a_ring(tmp_path):
    folder = folder_of(tmp_path / "tracer", OVERLOADED, IDLE)
    assert sniff(folder) == "schedlog"
    trace = open_trace(folder)
    result = check(trace)
    assert result.source == "nr_running"
    assert (result.wall_ns, result.thread_ns) == (4000, 4000)
    assert result.episodes["idle_cpus"].to_list() == [[1]]
    header = trace.header
    assert (header.source_format, header.cpus, header.cpus_online) == ("schedlog", 2, [0, 1])
    assert header.every_switch
    assert not header.lost
    assert "log.h @0a82429c" in header.provenance["event_numbers"]
    table = trace.only("switch").select("cpu", "pid", "prev_pid", "prev_state").collect()
    assert table.rows() == [(1, 0, 9, "D"), (0, 8, 7, "R"), (0, 7, 8, "S")]
    assert trace.only("frequency").select("cpu", "value").collect().rows() == [(0, 2_400_000)]


def test_every_event(tmp_path):
    data = ring(
        (10, 1, "EXEC", *comm("make")),
        (20, 50, "FORK", 1),
        (21, 50, "WAKEUP_NEW"),
        (30, 50, "MIGRATE", 0, 1),
        (40, 1, "WAIT_PID", 1, 0),
        (50, 50, "EXEC", *comm("collect2")),
        (60, 50, "EXIT"),
        (70, 1, "IDL_BLN_FAIR_BEG", 5, 6),
        (80, 1, "WAIT_FUTEX", 1, 2),
    )
    trace = open_trace(
        folder_of(tmp_path / "t", data, ring((10, 0, "RQ_SIZE", 1, 1), (99, 0, "RQ_SIZE", 2, 1)))
    )
    events = trace.events.collect()
    by_kind = {k: events.filter(kind=k).to_dicts()[0] for k in trace.kinds()}
    assert by_kind["fork"]["pid"] == 50
    assert by_kind["fork"]["by_pid"] == 1
    assert by_kind["fork"]["by_comm"] == "make"
    assert by_kind["wakeup_new"]["comm"] is None
    assert (by_kind["migrate"]["src_cpu"], by_kind["migrate"]["cpu"]) == (0, 1)
    assert by_kind["exit"]["comm"] == "collect2"
    assert by_kind["balance"]["op"] == "idl_bln_fair_beg"
    assert trace.header.provenance["skipped"] == "1 WAIT_PID, 1 WAIT_FUTEX"


@pytest.mark.parametrize(
    "names", [FIRST, *schedlog.NUMBERINGS.values()], ids=["first", "a", "b", "c"]
)
def test_the_numbering_that_fits_is_found(tmp_path, names):
    run = recorders.random_run(1)
    right = open_trace(recorders.as_schedlog(run, tmp_path / "right"))
    other = open_trace(recorders.as_schedlog(run, tmp_path / "other", names))
    assert other.events.collect().equals(right.events.collect())


def test_numbers_from_the_kernels_table(tmp_path):
    names = (*FIRST[::-1], "NEW_EVENT")
    run = recorders.random_run(1)
    place = recorders.as_schedlog(run, tmp_path / "OUT" / "sched_log" / "tracer", names)
    with pytest.raises(TraceFormatError, match="fit none that is known"):
        open_trace(place)
    table = "".join(f"{i} {n}\n" for i, n in enumerate(names))
    (tmp_path / "OUT" / "sched_log_traced_events.start").write_text(table)
    right = open_trace(recorders.as_schedlog(run, tmp_path / "right"))
    for name in (place, place / "1", tmp_path / "OUT"):
        found = open_trace(name)
        assert found.events.collect().equals(right.events.collect())
        assert found.header.provenance["event_numbers"] == "from sched_log_traced_events.start"
    (tmp_path / "OUT" / "sched_log_traced_events.start").write_text("0 EXEC\nrubbish\n")
    with pytest.raises(TraceFormatError, match=r"traced_events.start, line 2: .*'rubbish'"):
        open_trace(place)


def test_a_full_ring_has_lost_events(tmp_path):
    # log.c: sched_log_tracer_init takes whole MiB; log.h leaves one record of them free
    records = (1 << 20) // 24 - 1
    data = ring((500, 7, "RQ_SIZE", 2, 1), (600, 7, "RQ_SIZE", 1, -1))
    size = recorders.SCHEDLOG.index("RQ_SIZE")
    ups_and_downs = ((1, -1), (2, 1))
    many = b"".join(
        struct.pack("<Qiiii", 2000 + i, 7, size, *ups_and_downs[i % 2]) for i in range(records)
    )
    trace = open_trace(folder_of(tmp_path / "t", data, many))
    assert trace.header.lost == {1: -1}
    assert trace.header.overwritten == {1: -1}
    assert "full_rings" in trace.header.provenance
    result = check(trace)
    assert result.verdict == "unknown"
    assert check(trace, between=("0.000003", "1"), persist_ns=100).verdict == "clean"


def test_switches_without_blocks_are_left_out(tmp_path):
    data = ring((10, 7, "RQ_SIZE", 1, -1), (11, 7, "CTX_SWITCH", 8), (20, 8, "CTX_SWITCH", 7))
    trace = open_trace(folder_of(tmp_path / "t", data))
    assert trace.kinds() == {"nr_running": 1}
    assert not trace.header.every_switch
    assert "BLOCK events were not recorded" in trace.header.provenance["switches"]


def test_time_steps_back_within_a_ring(tmp_path):
    data = ring((1000, 7, "RQ_SIZE", 2, 1), (990, 8, "WAKEUP"), (3000, 7, "RQ_SIZE", 1, -1))
    events = open_trace(folder_of(tmp_path / "t", data)).events.collect()
    assert events["ts_ns"].to_list() == [990, 1000, 3000]


def test_cut_ring(tmp_path):
    folder = folder_of(tmp_path / "t", OVERLOADED[:-5], IDLE)
    trace = open_trace(folder)
    assert "19 bytes at the end of 0" in (trace.header.truncated_last_line or "")
    assert any("cut short" in note for note in check(trace).notes)


def test_empty_ring_is_a_cpu_without_events(tmp_path):
    trace = open_trace(folder_of(tmp_path / "t", OVERLOADED, IDLE, b""))
    assert trace.header.cpus == 3
    assert check(trace).unknown_cpus == [2]


def test_import(tmp_path):
    folder = folder_of(tmp_path / "tracer", OVERLOADED, IDLE)
    trace = import_trace(folder, tmp_path / "out.parquet")
    assert check(trace).wall_ns == 4000
    assert trace.header.provenance["source"] == "tracer"
    assert len(trace.header.provenance["source_sha256"]) == 64


def test_bad_input(tmp_path):
    def refused(path: Path, *words: str) -> None:
        with pytest.raises(WastedCoresError) as caught:
            open_trace(path)
        text = str(caught.value)
        assert "\n" not in text
        assert all(w in text for w in (str(path), *words)), text

    text = b"123456 CTX_SWITCH 7 8\n" * 40
    folder = folder_of(tmp_path / "text", OVERLOADED, text)
    (folder / "note.txt").write_text("not a ring")
    refused(folder, "1: not a ring of SchedLog", "text")
    refused(folder / "1", "not a trace")
    refused(folder_of(tmp_path / "only", text), "none of", "SchedLog's rings")
    (tmp_path / "ring").write_bytes(OVERLOADED)
    refused(tmp_path / "ring", "not the number of its CPU")
    refused(folder_of(tmp_path / "none"), "is a folder")
    refused(folder_of(tmp_path / "empty", b"", b""), "is a folder")
    only_ticks = ring(*((t, 7, "TICK") for t in range(1, 9)))
    refused(folder_of(tmp_path / "ticks", only_ticks), "fit none")
    far = ring((1, 7, "RQ_SIZE", 1, 1), (2, 7, "MIGRATE", 0, 70_000), (3, 7, "RQ_SIZE", 2, 1))
    refused(folder_of(tmp_path / "far", far), "70000")


def test_a_missing_record_is_a_loss(tmp_path):
    """The sizes and switches of a ring follow from one another, so a record that is missing between them shows."""
    folder = recorders.as_schedlog(recorders.random_run(2), tmp_path / "rings")
    assert not open_trace(folder).header.lost
    file = folder / "1"
    records = [file.read_bytes()[i : i + 24] for i in range(0, file.stat().st_size, 24)]
    size = recorders.SCHEDLOG.index("RQ_SIZE")
    third = [i for i, r in enumerate(records) if r[12:16] == struct.pack("<i", size)][2]
    file.write_bytes(b"".join(records[:third] + records[third + 1 :]))
    trace = open_trace(folder)
    assert trace.header.lost == {1: 1}
    assert check(trace).verdict == "unknown"
