"""Whatever a file contains, reading it gives events or a WastedCoresError of one paragraph, never a crash or a hang."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import RECORDINGS

from wastedcores.errors import WastedCoresError
from wastedcores.trace.io import open_trace
from wastedcores.trace.readers.text import scan

GOLDEN = sorted((Path(__file__).parent / "golden").glob("*.txt"))
TEXTS = [f.read_bytes() for f in GOLDEN]
JUNK = [
    b"",
    b"\n",
    b"\r",
    b"\0",
    b"\xff\xfe",
    b"-",
    b"99999999999999999999",
    b"[",
    b"]",
    b": ",
    b" ==> ",
    b"=",
    b"CPU:1 [LOST 5 EVENTS]\n",
    b"#",
    b"##### CPU 0 buffer started ####\n",
    b" nsecs RQ ",
    b"\t",
    b" " * 40,
]


def survive(data: bytes, folder: Path) -> None:
    """Read it by the patterns and by the scanner; only a WastedCoresError of one line may be raised."""
    path = folder / "fuzzed"
    path.write_bytes(data)
    for scan_from in (0, 1 << 40):
        with pytest.MonkeyPatch.context() as monkeypatch:
            monkeypatch.setattr(scan, "WORTHWHILE_BYTES", scan_from)
            message = ""
            try:
                trace = open_trace(path)
            except WastedCoresError as e:
                message = str(e)
            if message:
                assert "\n" not in message
                assert str(path) in message
                continue
            events = trace.events.collect()
            assert events.height == trace.header.events
            assert events["ts_ns"].is_sorted()
            cpus = events["cpu"].drop_nulls()
            assert cpus.is_between(0, (trace.header.cpus or 1) - 1).all()


@st.composite
def edited(draw):
    """Draw one of the golden files with bytes replaced, cut or doubled, or with lines moved."""
    data = bytearray(draw(st.sampled_from(TEXTS)))
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, max(len(data) - 1, 0)))
        match draw(st.sampled_from(["byte", "junk", "cut", "end", "swap", "double"])):
            case "byte" if data:
                data[at] = draw(st.integers(0, 255))
            case "junk":
                data[at:at] = draw(st.sampled_from(JUNK))
            case "cut":
                del data[at : at + draw(st.integers(0, 60))]
            case "end":
                del data[at:]
            case "swap":
                lines = bytes(data).splitlines(keepends=True)
                random.Random(at).shuffle(lines)
                data = bytearray(b"".join(lines))
            case "double":
                data[at:at] = data[at : at + 200]
    return bytes(data)


@pytest.mark.slow
@settings(max_examples=250)
@given(edited())
def test_edited_files(tmp_path_factory, data):
    survive(data, tmp_path_factory.getbasetemp())


@settings(max_examples=100)
@given(st.binary(max_size=400))
def test_random_bytes(tmp_path_factory, data):
    survive(data, tmp_path_factory.getbasetemp())


@pytest.mark.slow
@settings(max_examples=80)
@given(st.sampled_from(TEXTS), st.integers(0, 2000), st.binary(max_size=8))
def test_damaged_compressed_files(tmp_path_factory, text, at, junk):
    packed = bytearray(gzip.compress(text, mtime=0))
    packed[at : at + len(junk)] = junk
    survive(bytes(packed), tmp_path_factory.getbasetemp())


@pytest.mark.slow
@settings(max_examples=100)
@given(
    st.sampled_from(
        [b"# tracer: nop\n", b"cpus=4\n", b"# captured on : x\n", b"   1\t 10 nsecs RQ    0    1\n"]
    ),
    st.data(),
)
def test_lines_of_random_pieces_after_a_good_start(tmp_path_factory, start, data):
    words = [w for t in TEXTS for w in t.split(b" ")][:400] + JUNK
    lines = data.draw(
        st.lists(st.lists(st.sampled_from(words), max_size=14).map(b" ".join), max_size=6)
    )
    survive(start + b"\n".join(lines) + b"\n", tmp_path_factory.getbasetemp())


@pytest.mark.slow
def test_mutated_recordings(tmp_path):
    """Real recordings with a few bytes changed give events or an error; the changes are seeded."""
    rng = random.Random(4)
    for file in (*GOLDEN, *sorted(RECORDINGS.glob("gc-sgclit-*/trace.txt.xz"))):
        whole = bytearray(file.read_bytes())
        for _ in range(20):
            data = bytearray(whole)
            for _ in range(rng.randrange(1, 8)):
                data[rng.randrange(len(data))] = rng.randrange(256)
            survive(bytes(data), tmp_path)
