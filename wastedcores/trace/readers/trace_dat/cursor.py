"""Reads the parts of a ``trace.dat`` file one after the other, and unpacks those that are compressed."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Literal

import numpy as np
import zstandard

from wastedcores.errors import TraceFormatError

#: The most bytes of a section. The sections with the formats and the symbols of a kernel have about 10 MB.
_MAX_SECTION = 1 << 28
#: Data that unpack to more than this many times their size are refused. zstd can make up to 32,768 bytes of one byte; trace-cmd's
#: pages have been seen to shrink to a tenth.
MOST_TIMES = 500


class Cursor:
    """Reads one part of the file after the other; a part that would lie outside of the file is refused."""

    def __init__(self, data: np.ndarray, path: Path, at: int = 0, begin: int = 0) -> None:
        self.data, self.path, self.at, self.begin = data, path, at, begin
        self.order: Literal["little", "big"] = "little"
        self.packing = b"zstd"
        self._view = memoryview(data)  # type: ignore[arg-type]  # a slice of it costs a third of one of the array

    def take(self, size: int, what: str) -> bytes:
        """Return the next bytes."""
        if size < 0 or size > _MAX_SECTION or self.at + size > len(self.data):
            raise TraceFormatError(
                f"{self.path}: byte {self.begin + self.at}: {what} should have {size} bytes here, of which "
                f"{max(len(self.data) - self.at, 0)} exist. The file is cut short or damaged: copy or record it again."
            )
        self.at += size
        return bytes(self._view[self.at - size : self.at])

    def number(self, size: int, what: str) -> int:
        """Return the next number, in the order of bytes of the machine that was recorded."""
        return int.from_bytes(self.take(size, what), self.order)

    def inside(self, content: bytes, begin: int) -> Cursor:
        """Return a cursor for a part of the file, which may have been unpacked; ``begin`` is the part's place, for messages."""
        part = Cursor(np.frombuffer(content, np.uint8), self.path, 0, begin)
        part.order, part.packing = self.order, self.packing
        return part

    def sized(self, size: int, what: str) -> bytes:
        """Read a number, and return as many of the bytes that follow it."""
        return self.take(self.number(size, what), what)

    def string(self, what: str) -> bytes:
        """Return the bytes up to the next zero byte, and go past it."""
        found = self.data[self.at : self.at + 4096].tobytes().find(b"\0")
        return self.take(found + 1 if found >= 0 else 4097, what)[:-1]

    def expect(self, word: bytes) -> None:
        """Go past a word; TraceFormatError if something else is there."""
        at, found = self.at, self.take(len(word), word.decode().strip("\0 "))
        if found != word:
            raise TraceFormatError(
                f"{self.path}: byte {self.begin + at}: expected {word.decode().strip(chr(0))!r}, found {found!r}. The "
                "file is damaged: copy or record it again."
            )


def unpack(
    content: bytes,
    size: int,
    path: Path,
    at: int,
    packing: bytes = b"zstd",
    unpacker: zstandard.ZstdDecompressor | None = None,
) -> bytes:
    """Unpack bytes that zstd or zlib packed."""
    try:
        if packing == b"zlib":
            return _inflated(content, size)
        if size > MOST_TIMES * max(len(content), 64):
            raise zstandard.ZstdError(f"{len(content)} bytes cannot be {size} bytes of a recording")
        stated = zstandard.frame_content_size(content)
        if stated > size:  # zstandard would allocate what a frame states, whatever the limit is
            raise zstandard.ZstdError(f"it states {stated} bytes instead of {size}")
        unpacker = unpacker or zstandard.ZstdDecompressor()
        plain = unpacker.decompress(content, max_output_size=max(size, 1))
        if len(plain) != size:
            raise zstandard.ZstdError(f"{len(plain)} bytes instead of {size}")
    except (zstandard.ZstdError, zlib.error) as e:
        raise TraceFormatError(
            f"{path}: byte {at}: what is compressed there is damaged ({e}). Copy or record the file again."
        ) from e
    return plain


def _inflated(content: bytes, size: int) -> bytes:
    unpacker = zlib.decompressobj()
    plain = unpacker.decompress(content, max(size, 1))
    if len(plain) != size or not unpacker.eof:
        raise zlib.error(f"{len(plain)} bytes instead of {size}, or more")
    return plain
