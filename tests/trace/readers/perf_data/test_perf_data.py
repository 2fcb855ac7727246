"""Reading perf.data directly gives the events that ``perf script`` prints."""

from __future__ import annotations

import os
import random
import shutil
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest
from support.summary import summary

from wastedcores.errors import TraceFormatError, WastedCoresError
from wastedcores.trace.io import open_trace
from wastedcores.trace.readers.perf_data import decoding
from wastedcores.trace.readers.perf_data.header import state_names

PERF = shutil.which("perf")
BENCH = ("bench", "sched", "messaging", "-g", "2", "-l", "50")
needs_perf = pytest.mark.skipif(
    PERF is None or os.geteuid() != 0, reason="needs perf (Debian: linux-perf) and root"
)


def record(folder: Path, *options: str) -> Path:
    """Make a short real recording of this machine's scheduler."""
    path = folder / "perf.data"
    run = subprocess.run(
        [
            str(PERF),
            "record",
            "-q",
            "-a",
            "-m",
            "8M",
            "-o",
            str(path),
            *options,
            "--",
            str(PERF),
            *BENCH,
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if run.returncode or not path.exists():
        pytest.skip(f"perf cannot record here: {run.stderr.strip()[-200:]}")
    return path


def printed(path: Path) -> Path:
    text = path.with_suffix(".txt")
    command = [
        str(PERF),
        "script",
        "--header",
        "--show-lost-events",
        "--ns",
        "-F",
        "+cpu",
        "-i",
        str(path),
    ]
    with text.open("wb") as out:
        subprocess.run(command, stdout=out, stderr=subprocess.DEVNULL, timeout=120, check=True)
    return text


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    return record(tmp_path_factory.mktemp("perf"), "-e", "sched:*", "-e", "power:cpu_idle")


@pytest.mark.slow
@pytest.mark.root
@needs_perf
@pytest.mark.parametrize(
    "options",
    [
        ("-e", "sched:*", "-e", "power:cpu_idle"),
        ("-e", "sched:sched_switch,sched:sched_waking,sched:sched_migrate_task"),
        ("-g", "-e", "sched:sched_switch,sched:sched_wakeup"),
        ("-z", "-e", "sched:*"),
        ("-e", "sched:sched_switch", "-e", "cpu-clock"),
        ("-R", "-e", "sched:sched_switch", "-e", "cpu-clock"),  # alike, so that they have an ID
    ],
    ids=["all", "waking only", "call chains", "compressed", "two layouts", "one layout"],
)
def test_same_events_as_perf_script(tmp_path, options):
    path = record(tmp_path, *options)
    both = [open_trace(path), open_trace(printed(path))]
    direct, text = map(summary, both)
    if (
        "sched:*" not in options
    ):  # the ends of threads come from records that perf script does not print
        ended = [e for e in direct["events"] if e["kind"] == "exit"]
        assert ended
        direct["events"] = [e for e in direct["events"] if e["kind"] != "exit"]
        direct["header"]["events"] -= len(ended)
    for event in direct["events"]:
        event.pop("in_irq", None)  # perf script does not print it
    assert direct["events"] == text["events"]
    assert len(direct["events"]) > 500
    keys = ["kernel_release", "cpus", "events", "every_switch", "lost"]
    for key in keys + ["start_ns", "end_ns"] * ("sched:*" in options):
        assert direct["header"][key] == text["header"][key], key
    assert [t.header.wakings for t in both] == ["sched:sched_waking" in options[-1]] * 2
    assert direct["header"]["source_format"] == "perf.data"


@pytest.mark.root
@needs_perf
def test_chunks_change_nothing(recorded, monkeypatch):
    whole = open_trace(recorded).events.collect()
    monkeypatch.setattr(decoding, "CHUNK_RECORDS", 1009)
    monkeypatch.setattr(decoding, "CHUNK_ROWS", 77)
    monkeypatch.setattr(decoding, "TABLE_ROWS", 501)
    assert open_trace(recorded).events.collect().equals(whole)


@pytest.mark.root
@needs_perf
def test_lost_records_are_counted(recorded, tmp_path):
    data = bytearray(recorded.read_bytes())
    (at,) = struct.unpack_from("<Q", data, 40)
    # turn the first sample after the first thousand records into PERF_RECORD_LOST of 77
    for _ in range(1000):
        at += struct.unpack_from("<H", data, at + 6)[0]
    while (
        struct.unpack_from("<I", data, at)[0] != 9 or struct.unpack_from("<H", data, at + 6)[0] < 72
    ):
        at += struct.unpack_from("<H", data, at + 6)[0]
    size = struct.unpack_from("<H", data, at + 6)[0]
    # a record that is no sample ends in its time and CPU (sample_id_all): borrow a fork's, exit's or comm's
    other = at
    while struct.unpack_from("<I", data, other)[0] not in (3, 4, 7):
        other += struct.unpack_from("<H", data, other + 6)[0]
    end = other + struct.unpack_from("<H", data, other + 6)[0]
    data[at + size - 40 : at + size] = data[end - 40 : end]
    struct.pack_into("<I", data, at, 2)
    struct.pack_into("<Q", data, at + 16, 77)
    path = tmp_path / "lost.data"
    path.write_bytes(data)
    before, trace = open_trace(recorded), open_trace(path)
    assert trace.header.lost_total - before.header.lost_total == 77


@pytest.mark.root
@needs_perf
def test_damaged_files_are_refused_in_one_paragraph(recorded, tmp_path):
    whole = recorded.read_bytes()
    path = tmp_path / "damaged.data"
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(TraceFormatError, match="cut short"):
        open_trace(path)
    path.write_bytes(whole[:8] + struct.pack("<Q", 16) + whole[16:])
    with pytest.raises(TraceFormatError, match="byte 16: a record has 0 bytes"):
        open_trace(path)
    rng = random.Random(5)
    begin, size = struct.unpack_from("<2Q", whole, 40)
    for _ in range(60):
        data = bytearray(whole)
        for _ in range(rng.randrange(1, 30)):
            where = rng.randrange(104) if rng.random() < 0.2 else rng.randrange(len(data))
            data[where] = rng.randrange(256)
        path.write_bytes(data)
        message = ""
        try:
            open_trace(path)
        except WastedCoresError as e:
            message = str(e)
        assert "\n" not in message
    assert begin + size < len(whole)


def test_states_are_printed_as_the_kernel_does():
    old = '{ 1, "S"} , { 2, "D" }'  # 4.1 has no space before some brackets
    assert state_names(old)[0] == "R"
    new = '{ 0x00000001, "S" }, { 0x00000002, "D" }, { 0x00000080, "I" }'
    names = state_names(new)
    assert [names[i] for i in (0, 1, 2, 3, 0x80, 0x100)] == ["R", "S", "D", "S|D", "I", "R+"]
    assert np.array_equal(len(names), 512)
