"""The recording that an export for Perfetto carries: the recording's Parquet file, in packets that Perfetto skips.

Perfetto's format cannot hold many facts on which a verdict rests: the machine, the affinity of threads, their state before the
first event, recorded lengths of runqueues. So the file of ``wastedcores export`` holds the recording itself in a field that
Perfetto does not know. The packets with this field come after the first packet and before all others.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import IO

from wastedcores.errors import TraceFormatError, WastedCoresError
from wastedcores.trace.parquet import read_parquet, write_parquet
from wastedcores.trace.recognisers import OWN
from wastedcores.trace.spool import kept_until_exit
from wastedcores.trace.trace import Trace

#: The number of bytes of the recording in one packet, and the most bytes that the file's first packet can have.
_PIECE, _FIRST = 1 << 20, 1 << 16
#: How the content of the field begins in a file that shows two runs and therefore carries no recording.
_TWO_RUNS = b"two runs\n"


def varint(value: int) -> bytes:
    """Return a number as protobuf writes it."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out) + bytes([value])


def _packet(piece: bytes) -> bytes:
    content = varint(OWN << 3 | 2) + varint(len(piece)) + piece
    return b"\n" + varint(len(content)) + content


def packets(trace: Trace) -> Iterator[bytes]:
    """Yield the packets that carry a recording."""
    with tempfile.TemporaryDirectory(prefix="wastedcores-") as folder:
        written = write_parquet(trace, Path(folder) / "trace.parquet")
        with written.open("rb") as file:
            while piece := file.read(_PIECE):
                yield _packet(piece)


def two_runs(names: tuple[str, str]) -> bytes:
    """Return the packet that says which two recordings a file shows side by side."""
    return _packet(_TWO_RUNS + "\n".join(names).encode())


def carried(path: Path) -> Trace | None:
    """Open the recording that an export carries; None if the file carries none, like the traces that Perfetto records."""
    from wastedcores.trace.readers.support.text_reading import unpacked

    with unpacked(path) as stream:
        pieces = _pieces(stream)
        first = next(pieces, None)
        if first is None:
            return None
        if first.startswith(_TWO_RUNS):
            names = first[len(_TWO_RUNS) :].decode("utf-8", "replace").split("\n")
            raise TraceFormatError(
                f"{path}: this file shows two recordings side by side, for Perfetto's UI. Name one of those that `wastedcores "
                f"compare` read: {' and '.join(names)}."
            )
        copy = kept_until_exit() / path.name
        with copy.open("wb") as out:
            out.write(first)
            out.writelines(pieces)
    try:
        return replace(read_parquet(copy), path=path)
    except WastedCoresError as e:
        e.args = (str(e).replace(str(copy), str(path)), *e.args[1:])
        raise


def _pieces(stream: IO[bytes]) -> Iterator[bytes]:
    """Yield the pieces of the recording in the packets at the beginning of the file, up to a packet that is cut short."""
    own = False
    for number in range(1 << 24):
        if stream.read(1) != b"\n":
            return
        size = _number(stream)
        if not 0 < size <= (_PIECE + 16 if number else _FIRST):
            return
        content = stream.read(size)
        head = varint(OWN << 3 | 2)
        if content.startswith(head):
            own = True
            at = len(head)
            while at < len(content) and content[at] > 127:
                at += 1
            yield content[at + 1 :]
        elif own or number:
            return


def _number(stream: IO[bytes]) -> int:
    value = 0
    for shift in range(0, 70, 7):
        byte = stream.read(1)
        if not byte:
            return -1
        value |= (byte[0] & 127) << shift
        if byte[0] < 128:
            return value
    return -1
