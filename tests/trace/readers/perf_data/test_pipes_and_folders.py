"""What perf writes to a pipe or into a folder, and every choice of fields of perf script, give the events of the file.

The pipe and the folder are made of a real recording as perf makes them; if perf is installed, it must read them, too.
"""

from __future__ import annotations

import lzma
import re
import shutil
import struct
import subprocess
from pathlib import Path

import pytest
import zstandard
from support import ROOT

from wastedcores.errors import TraceFormatError
from wastedcores.trace.io import import_trace, open_trace, sniff

RECORDED = ROOT / "tests" / "invariant" / "guest" / "perf-make.perf.xz"
needs_perf = pytest.mark.skipif(not shutil.which("perf"), reason="perf is not installed")


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    path = tmp_path_factory.mktemp("perf") / "perf.data"
    path.write_bytes(lzma.decompress(RECORDED.read_bytes()))
    return path


def parts(data: bytes) -> tuple[list[tuple[bytes, bytes]], dict[int, bytes], list[bytes]]:
    """Take a perf.data apart: attributes with their identifiers, features, and records."""
    attr_size, attrs_at, attrs_size, at, size = struct.unpack_from("<5Q", data, 16)
    attributes = []
    for i in range(attrs_at, attrs_at + attrs_size, attr_size):
        ids_at, ids_size = struct.unpack_from("<2Q", data, i + attr_size - 16)
        attributes.append((data[i : i + attr_size - 16], data[ids_at : ids_at + ids_size]))
    end, bits, features = at + size, int.from_bytes(data[72:104], "little"), {}
    for k, number in enumerate(n for n in range(256) if bits >> n & 1):
        where, length = struct.unpack_from("<2Q", data, end + 16 * k)
        features[number] = data[where : where + length]
    records = []
    while at < end:
        length = struct.unpack_from("<H", data, at + 6)[0]
        records.append(data[at : at + length])
        at += length
    return attributes, features, records


def record(kind: int, body: bytes) -> bytes:
    return struct.pack("<IHH", kind, 0, 8 + len(body)) + body


def piped(data: bytes) -> bytes:
    """The same recording as perf writes it to a pipe (tools/perf/util/header.c)."""
    attributes, features, records = parts(data)
    out = [b"PERFILE2" + struct.pack("<Q", 16)]
    out += [record(64, attr + ids) for attr, ids in attributes]
    out += [
        record(80, struct.pack("<Q", n) + f)
        for n, f in features.items()
        if n != 1 and len(f) < 60_000
    ]
    formats = features[1]
    padded = formats + bytes(-len(formats) % 8)
    out += [record(66, struct.pack("<I", len(padded)) + bytes(4)), padded]
    return b"".join(out + records)


def folder_of(data: bytes, folder: Path, *, packed: bool = False) -> Path:
    """The same recording in a folder: samples by CPU in files of their own (tools/perf/util/data.c: perf_data__create_dir)."""
    attributes, features, records = parts(data)
    sample_type = struct.unpack_from("<Q", attributes[0][0], 24)[0]
    # include/uapi/linux/perf_event.h: 8 bytes for each of IDENTIFIER, IP, TID, TIME, ADDR, ID and STREAM_ID stand before the CPU
    where = 8 + 8 * sum(bool(sample_type & bit) for bit in (1 << 16, 1, 2, 4, 8, 64, 512))
    samples: dict[int, list[bytes]] = {0: [], 1: []}
    others = []
    for r in records:
        if struct.unpack_from("<I", r)[0] == 9:
            samples[struct.unpack_from("<I", r, where)[0]].append(r)
        else:
            others.append(r)
    folder.mkdir()
    for cpu, mine in samples.items():
        stream = b"".join(mine)
        if packed:
            context = zstandard.ZstdCompressor().compressobj()
            stream = b"".join(
                record(
                    81,
                    context.compress(stream[i : i + 20_000])
                    + context.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK),
                )
                for i in range(0, len(stream), 20_000)
            )
        (folder / f"data.{cpu}").write_bytes(stream)
    middle = b"".join(others)
    end = 104 + len(middle)
    places, at = [], end + 16 * len(features)
    for f in features.values():
        places.append(struct.pack("<2Q", at, len(f)))
        at += len(f)
    ids_at, entries = at, b""
    for attr, ids in attributes:
        entries += attr + struct.pack("<2Q", at, len(ids))
        at += len(ids)
    size = len(attributes[0][0]) + 16
    head = (
        b"PERFILE2"
        + struct.pack("<7Q", 104, size, at, size * len(attributes), 104, len(middle), 0)
        + bytes(8)
    )
    head += sum(1 << n for n in features).to_bytes(32, "little")
    assert ids_at == end + 16 * len(features) + sum(map(len, features.values()))
    (folder / "data").write_bytes(
        head
        + middle
        + b"".join(places)
        + b"".join(features.values())
        + b"".join(i for _, i in attributes)
        + entries
    )
    return folder


def switches_of_perf(path: Path) -> int:
    done = subprocess.run(
        ["perf", "script", "-f", "-i", path], capture_output=True, text=True, check=False
    )
    return done.stdout.count("sched:sched_switch:")


def same(path: Path, recording: Path) -> None:
    assert sniff(path) == "perf.data"
    got, want = open_trace(path), open_trace(recording)
    columns = ["ts_ns", "cpu", "pid", "kind"]
    assert got.kinds() == want.kinds()
    assert got.events.collect().sort(columns).equals(want.events.collect().sort(columns))
    assert got.header.kernel_release == want.header.kernel_release
    assert got.header.cpus == want.header.cpus


def test_what_went_through_a_pipe_has_the_events_of_the_file(recording, tmp_path):
    path = tmp_path / "piped.data"
    path.write_bytes(piped(recording.read_bytes()))
    same(path, recording)
    if shutil.which("perf"):
        assert switches_of_perf(path) == open_trace(path).kinds()["switch"]


@pytest.mark.parametrize("packed", [False, True])
def test_a_folder_has_the_events_of_the_file(recording, tmp_path, packed):
    path = folder_of(recording.read_bytes(), tmp_path / "dir.data", packed=packed)
    same(path, recording)
    kept = import_trace(path, tmp_path / "kept.parquet")
    assert re.fullmatch(r"[0-9a-f]{64}", kept.header.provenance["source_sha256"])


def test_a_cut_pipe_is_refused_or_noted(recording, tmp_path):
    whole = piped(recording.read_bytes())
    path = tmp_path / "piped.data"
    path.write_bytes(whole[:-30])
    assert "cut short" in open_trace(path).header.truncated_last_line
    path.write_bytes(whole[:20_000])
    with pytest.raises(TraceFormatError, match="cut short: record it again"):
        open_trace(path)
    path.write_bytes(whole[:16] + record(80, bytes(16)) + whole[16:][:0])
    with pytest.raises(TraceFormatError, match="0 ways"):
        open_trace(path)


FIELDS = {
    "comm,tid,cpu,time,event,trace": (),
    "comm,pid,tid,cpu,time,event,trace": (),
    "comm,tid,cpu,time,event,trace,period": (),
    "comm,tid,cpu,time,event,trace,ip,sym": (),
    "comm,tid,cpu,time,event,trace,misc": (),
    "trace:comm,tid,cpu,time,event,trace,flags": (),
    "tid,cpu,time,event,trace": ("by_comm",),
    "pid,tid,cpu,time,event,trace": ("by_comm",),
    "comm,cpu,time,event,trace": ("by_pid",),
    "cpu,time,event,trace": ("by_comm", "by_pid"),
}
REFUSED = {
    "comm,tid,time,event,trace": r"-F \+cpu",
    "comm,tid,cpu,time,trace": r"-F \+event",
    "comm,tid,cpu,time,event": r"-F \+trace",
}


def script(recording: Path, into: Path, *words: str) -> Path:
    with into.open("wb") as out:
        subprocess.run(
            ["perf", "script", *words, "-f", "-i", recording],
            stdout=out,
            stderr=subprocess.DEVNULL,
            check=True,
        )
    return into


@needs_perf
@pytest.mark.parametrize("fields", FIELDS)
def test_perf_script_prints_the_events_whatever_its_fields(recording, tmp_path, fields):
    want = open_trace(script(recording, tmp_path / "usual")).events.collect()
    got = open_trace(script(recording, tmp_path / "text", "-F", fields)).events.collect()
    unknown = FIELDS[fields]
    assert got.drop(unknown).equals(want.drop(unknown))
    # a fork names the parent in its own fields
    others = got.filter(got["kind"] != "fork")
    assert all(others[c].null_count() == others.height for c in unknown)


@needs_perf
@pytest.mark.parametrize("fields", REFUSED)
def test_perf_script_without_a_needed_field_is_refused_with_the_option(recording, tmp_path, fields):
    with pytest.raises(TraceFormatError, match=REFUSED[fields]):
        open_trace(script(recording, tmp_path / "text", "-F", fields))


@needs_perf
def test_differences_of_times_are_refused(recording, tmp_path):
    with pytest.raises(TraceFormatError, match="--deltatime"):
        open_trace(script(recording, tmp_path / "text", "--deltatime"))
