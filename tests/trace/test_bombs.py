"""Files that are made to hang a reader or to fill its memory are refused, or read, in time in proportion to their size."""

from __future__ import annotations

import gzip
import lzma
import os
import signal
import struct
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import zstandard
from polars.testing import assert_frame_equal
from support import ROOT, perf_file

from wastedcores.errors import TraceFormatError, UsageError, WastedCoresError
from wastedcores.trace.formats import FOREIGN
from wastedcores.trace.io import import_trace, open_trace, sniff
from wastedcores.trace.readers.perf_data.header import parse_formats

GOLDEN = Path(__file__).parent / "golden"
TEXTS = {name: f for name, f in FOREIGN.items() if f.line}
ROOM = 700 << 20


@contextmanager
def within(seconds: int):
    """Raise TimeoutError when the block takes longer."""

    def late(*_: object) -> None:
        raise TimeoutError(f"more than {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def cost(path: Path) -> tuple[str, int]:
    """Open a trace in another process: what it printed, and the memory it took beyond that of an empty one."""
    code = """
import resource, sys
from wastedcores.errors import WastedCoresError
from wastedcores.trace.io import open_trace
def most():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
before = most()
try:
    print(open_trace(sys.argv[1]).header.events, end=" ")
except WastedCoresError as e:
    print(e, end=" ")
print(most() - before)
"""
    run = subprocess.run(
        [sys.executable, "-c", code, str(path)],
        capture_output=True,
        text=True,
        timeout=40,
        check=True,
    )
    said, _, memory = run.stdout.rpartition(" ")
    return said, int(memory)


JUNK = {
    "blanks": " ",
    "digits": "1",
    "envelopes": "a-1 [0] 1.1: ",
    "perf's": "a 1 [0] 1.1: ",
    "minus": "1 -",
    "records": " 1 nsecs RQ 1",
    "json": '{"events":[ ',
    "locations": "[1] ",
}


@pytest.mark.parametrize("junk", JUNK)
@pytest.mark.parametrize("format", [None, *TEXTS])
def test_a_long_line_takes_no_longer_than_many_short_ones(tmp_path, junk, format):
    path = tmp_path / "t.txt"
    for size in (2_500, 100_000):
        line = (JUNK[junk] * size)[:size]
        path.write_text(f"{line}\n{line}!\n{line}-\n" + line)
        with within(10), pytest.raises(WastedCoresError):
            open_trace(path, format)


@pytest.mark.slow
def test_a_long_line_after_a_good_beginning(tmp_path):
    path = tmp_path / "t.txt"
    for golden in GOLDEN.glob("*.txt"):
        for junk in JUNK.values():
            path.write_bytes(golden.read_bytes() + (junk * 200_000)[:200_000].encode() + b"\n")
            with within(20), suppress(TraceFormatError):
                assert open_trace(path).header.events


def test_columns_that_can_be_read_in_many_ways(tmp_path):
    path = tmp_path / "t.txt"
    path.write_text("1" * 399 + "-\t1 nsecs RQ    0    1\n")
    with within(10):
        open_trace(path)


def test_a_line_that_no_trace_has(tmp_path):
    path = tmp_path / "t.txt"
    text = (GOLDEN / "ftrace_4.1.txt").read_text()
    path.write_text(text + "#" * 2_000_000 + "\n" + text)
    with pytest.raises(
        TraceFormatError, match=r"line 31: more than 262144 bytes without a line end"
    ):
        open_trace(path)


PACKERS = {
    "gz": lambda text: gzip.compress(text, 9),
    "xz": lzma.compress,
    "zst": zstandard.ZstdCompressor(level=19).compress,
}


@pytest.mark.slow
@pytest.mark.parametrize("packer", PACKERS)
@pytest.mark.parametrize("byte", [b"\n", b"\0"])
def test_bomb(tmp_path, packer, byte):
    path = tmp_path / "t.packed"
    text = (GOLDEN / "ftrace_4.1.txt").read_bytes()
    # the first line is alone in what fits into a page, so that the file is a trace
    path.write_bytes(PACKERS[packer](text + byte * 300_000_000))
    said, memory = cost(path)
    assert "line" in said
    assert memory < ROOM


@pytest.mark.slow
def test_many_short_lines_need_little_memory(tmp_path):
    path = tmp_path / "t.txt.gz"
    path.write_bytes(
        gzip.compress((GOLDEN / "ftrace_4.1.txt").read_bytes() + b"# 3456789012345\n" * 6_000_000)
    )
    said, memory = cost(path)
    assert int(said) > 0
    assert memory < ROOM


def test_xz_that_wants_much_memory(tmp_path):
    path = tmp_path / "t.xz"
    big = [
        {"id": lzma.FILTER_LZMA2, "dict_size": 1 << 29, "mode": lzma.MODE_FAST, "mf": lzma.MF_HC3}
    ]
    try:
        path.write_bytes(lzma.compress(b"# tracer: nop\n", filters=big))
    except MemoryError:
        pytest.skip("no memory to make the file")
    with pytest.raises(TraceFormatError, match=r"[Mm]emory"):
        open_trace(path)


def test_padded_and_joined_xz(tmp_path):
    path = tmp_path / "t.xz"
    text = (GOLDEN / "ftrace_4.1.txt").read_bytes().splitlines(keepends=True)
    first, second = b"".join(text[:12]), b"".join(text[12:])
    path.write_bytes(lzma.compress(first) + bytes(8) + lzma.compress(second) + bytes(4))
    whole = open_trace(GOLDEN / "ftrace_4.1.txt").events.collect()
    assert open_trace(path).events.collect().equals(whole)


def feed(path: Path, data: bytes) -> threading.Thread:
    thread = threading.Thread(target=lambda: path.write_bytes(data), daemon=True)
    thread.start()
    return thread


@pytest.mark.parametrize("name", ["ftrace_4.1.txt", "perf_script.txt", "own.parquet", "perf.data"])
def test_pipe(tmp_path, name):
    file = tmp_path / name
    if name.endswith("txt"):
        file = GOLDEN / name
    elif name == "perf.data":
        file.write_bytes(perf_file.build())
    else:
        import_trace(GOLDEN / "ftrace_4.1.txt", file)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    expected = open_trace(file).events.collect()
    with within(30):
        thread = feed(pipe, file.read_bytes())
        assert open_trace(pipe).events.collect().equals(expected)
        thread.join()
        if name != "own.parquet":
            thread = feed(pipe, file.read_bytes())
            read = import_trace(pipe, tmp_path / "out.parquet")
            assert read.events.collect().equals(expected)
            assert read.header.provenance["source"] == "pipe"
            thread.join()


def test_pipe_with_rubbish_is_named(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    thread = feed(pipe, b"rubbish\n")
    with within(30), pytest.raises(TraceFormatError) as caught:
        open_trace(pipe)
    thread.join()
    assert str(caught.value).startswith(f"{pipe}: not a trace")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["-", "/dev/stdin", "/proc/self/fd/0"])
def test_standard_input(name):
    text = (GOLDEN / "ftrace_4.1.txt").read_bytes()
    run = subprocess.run(
        [sys.executable, "-c", "from wastedcores.cli import main; main()", "info", name],
        input=text,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == 0, run.stderr.decode()
    assert b"4.1" in run.stdout or b"ftrace" in run.stdout


def test_devices():
    for device in ("/dev/zero", "/dev/null"):
        with within(10), pytest.raises(TraceFormatError, match="this is a device"):
            open_trace(device)


def test_terminal(monkeypatch):
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    with pytest.raises(UsageError, match="terminal"):
        open_trace("-")


def test_bytes_after_a_perf_data_are_noted(tmp_path):
    path = tmp_path / "perf.data"
    whole = perf_file.build()
    path.write_bytes(whole)
    assert "bytes at the end" not in open_trace(path).header.provenance
    path.write_bytes(whole + whole)
    note = open_trace(path).header.provenance["bytes at the end"]
    assert note.startswith(f"{len(whole)} bytes follow the recording")


def test_identifiers_that_all_attributes_share(tmp_path):
    """Each of 16,384 attributes claims the same 4 MB of identifiers: 8 billion numbers from a file of 6 MB."""
    path = tmp_path / "perf.data"
    whole = bytearray(perf_file.build())
    ids_at = len(whole)
    whole += bytes(4 << 20)
    attribute = bytearray(whole[112 : 112 + 144])
    struct.pack_into("<2Q", attribute, 128, ids_at, 4 << 20)
    struct.pack_into("<2Q", whole, 24, len(whole), 144 << 14)
    path.write_bytes(whole + bytes(attribute) * (1 << 14))
    with within(20), pytest.raises(TraceFormatError, match="bytes of identifiers"):
        open_trace(path)


@pytest.mark.parametrize(
    "text",
    [
        "name: a\nID: 1\nformat:\n" * 40_000,
        "field:" * 100_000,
        "name: a\nID: 1\n\tfield:" + "a" * 100_000 + "!;\toffset:1;\tsize:4;\n",
        "name: a\nID: 1\n\tfield:" + "a[" * 50_000 + "];\toffset:1;\tsize:4;\nprint fmt: 1\n",
    ],
)
def test_formats_that_never_end(text):
    with within(10):
        parse_formats(text)


def test_compressed_records_that_fill_a_disk(tmp_path):
    path = tmp_path / "perf.data"
    whole = bytearray(perf_file.build(lost=0))
    bomb = zstandard.ZstdCompressor(level=1).compress(bytes(1_000_000_000))
    assert len(bomb) < 65_000
    body = bomb + bytes(-len(bomb) % 8)
    record = struct.pack("<IHH", 81, 0, len(body) + 8) + body
    at, size = struct.unpack_from("<QQ", whole, 40)
    assert len(record) < size
    whole[at : at + len(record)] = record
    path.write_bytes(whole)
    with within(20), pytest.raises(TraceFormatError, match="more than 500 times the size"):
        open_trace(path)


def test_every_text_format_is_detected_by_its_lines():
    assert {sniff(f) for f in GOLDEN.glob("*.txt")} == {"ftrace", "perf-script", "sched_profiler"}


@pytest.mark.parametrize("name", ["perf.data", "trace.dat"])
def test_a_packed_binary_file_opens_like_the_file_itself(tmp_path, name):
    """Their readers map the file, so it is unpacked beside."""
    data = lzma.decompress((ROOT / "datasets" / "warmup" / f"{name}.xz").read_bytes())
    (tmp_path / name).write_bytes(data)
    whole = open_trace(tmp_path / name)
    for ending, pack in (
        (".gz", gzip.compress),
        (".xz", lzma.compress),
        (".zst", zstandard.compress),
    ):
        packed = tmp_path / f"{name}{ending}"
        packed.write_bytes(pack(data))
        assert sniff(packed) in ("perf.data", "trace.dat")
        assert_frame_equal(open_trace(packed).events.collect(), whole.events.collect())


def test_a_packed_binary_file_that_is_mostly_zeros_is_refused(tmp_path):
    bomb = tmp_path / "trace.dat.zst"
    bomb.write_bytes(zstandard.compress(b"\x17\x08\x44tracing6\0" + bytes(1 << 27)))
    with within(20), pytest.raises(TraceFormatError, match="unpacks to more than 2000 times"):
        open_trace(bomb)
