"""Text traces of any size, plain or compressed, read as blocks of whole lines."""

from __future__ import annotations

import gzip
import hashlib
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
import polars as pl
import zstandard

from wastedcores.errors import TraceFormatError, WastedCoresError
from wastedcores.trace.readers.support.bytes_jit import PADDING
from wastedcores.trace.readers.support.reading import Reading

#: Number of decompressed bytes per block.
BLOCK_BYTES = 16 << 20
#: No line of a trace is this long: the state of 8192 CPUs in sched_profiler's text has 164 kB.
MAX_LINE_BYTES = 1 << 18
#: In every trace, the average line is longer. A file of line ends only would take 30 times its size in memory.
SHORT_LINE_BYTES = 16
#: Number of packed bytes that are unpacked at a time. zstd can make up to 32,768 bytes of one byte, so this bounds the memory.
PACKED_BYTES = 1 << 11
#: The most memory that unpacking may ask for; `xz -9` needs 65 MB.
UNPACK_MEMORY = 256 << 20

_GZIP, _XZ, _ZSTD = b"\x1f\x8b", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd"
_DAMAGED = (EOFError, zlib.error, lzma.LZMAError, zstandard.ZstdError, gzip.BadGzipFile)


@dataclass(frozen=True)
class Block:
    """Whole lines of a text file."""

    #: uint8: bytes that end with a newline, then :data:`~wastedcores.trace.readers.support.bytes_jit.PADDING` zeros
    memory: np.ndarray
    first_line: int  #: number of the first line in the file, from 1
    lines: int

    @property
    def size(self) -> int:
        """Number of bytes without the padding."""
        return self.memory.size - PADDING

    def text(self, most: int | None = None) -> str:
        """Return the first ``most`` bytes as text; None: all of them."""
        return self.memory[: self.size][:most].tobytes().decode("utf-8", "replace")


class TextReading(Reading):
    """One pass over a text trace; subclasses turn its :meth:`blocks` into event tables.

    Parameters
    ----------
    path
        The file; it is opened at once.
    source_format
        Name of the format.
    complete
        Says whether a last line without a newline is whole. If it is not, it is left out, because a line may be cut anywhere,
        and a number that is cut reads as another number.
    hashed
        Whether to compute the SHA-256 of the file as it is stored.

    Raises
    ------
    WastedCoresError
        The file cannot be opened or read.
    """

    def __init__(
        self, path: Path, source_format: str, complete: Callable[[str], bool], *, hashed: bool
    ) -> None:
        super().__init__(path, source_format)
        self._complete = complete
        self._digest = hashlib.sha256() if hashed else None
        self._raw: IO[bytes] = self.resources.enter_context(_open_raw(path))
        if self._digest:
            self._raw = cast(IO[bytes], _HashingReader(self._raw, self._digest))
        # kept, because Python warns of a file that is dropped while it is open
        self._file = _decompressor(self._raw, path)
        self._stream = self._text_in(self._file)
        self._bytes_read = 0

    def _text_in(self, stream: IO[bytes]) -> IO[bytes]:
        """Return the text in the unpacked file; in some formats, this text lies within other data."""
        return stream

    def blocks(self) -> Iterator[Block]:
        """Yield the file as blocks of about :data:`BLOCK_BYTES`, cut at line ends."""
        rest = b""
        while True:
            memory, end = self._read(rest)
            if end == len(rest):
                break
            cut = _after_last_newline(memory, end)
            rest = memory[cut:end].tobytes()
            if len(rest) > MAX_LINE_BYTES:
                raise self._too_long(self.found.lines + 1)
            if cut:
                yield self._block(memory, cut)
        if rest and self._complete(rest.decode("utf-8", "replace")):
            last = np.frombuffer(rest + b"\n" + bytes(PADDING), np.uint8).copy()
            yield self._block(last, len(rest) + 1)
        elif rest:
            text = rest[-200:].decode("utf-8", "replace")
            self.found.truncated = (
                f"line {self.found.lines + 1} has no end and was left out: {text!r}"
            )
        if self._digest:
            while self._raw.read(1 << 20):  # bytes after the end of a compressed stream
                pass
            self.found.sha256 = self._digest.hexdigest()

    def _read(self, rest: bytes) -> tuple[np.ndarray, int]:
        """Return memory that holds ``rest`` and the next bytes of the file, and the number of these bytes together."""
        end = len(rest)
        full = end + BLOCK_BYTES
        memory = np.empty(full + PADDING, np.uint8)
        memory[:end] = np.frombuffer(rest, np.uint8)
        try:
            with memoryview(memory) as view:  # type: ignore[arg-type]
                while end < full and (n := self._stream.readinto(view[end:full])):  # type: ignore[attr-defined]
                    end += n
                    self._bytes_read += n
            return memory, end
        except _DAMAGED as e:
            raise TraceFormatError(
                f"{self.path}: the compressed stream ends or breaks after {self._bytes_read} decompressed bytes, line "
                f"{self.found.lines + 1} ({e}). The file is cut short or damaged: copy or record it again, or unpack "
                "what there is of it by hand and import that."
            ) from e
        except OSError as e:
            raise WastedCoresError(
                f"{self.path}: reading stopped after {self._bytes_read} bytes ({e.strerror or e})."
            ) from e

    def _block(self, memory: np.ndarray, size: int) -> Block:
        """Make a block of the first ``size`` bytes; the bytes of its padding become zeros."""
        padded = memory[: size + PADDING]
        padded[size:] = 0
        first = self.found.lines + 1
        for at in range(0, size, MAX_LINE_BYTES):
            lines = int(np.count_nonzero(padded[at : min(at + MAX_LINE_BYTES, size)] == 10))
            if at + MAX_LINE_BYTES <= size:
                if not lines:
                    raise self._too_long(self.found.lines + 1)
                if lines > MAX_LINE_BYTES // SHORT_LINE_BYTES:
                    raise TraceFormatError(
                        f"{self.path}, line {self.found.lines + 1}: the next {MAX_LINE_BYTES} bytes are {lines} lines; "
                        f"expected lines of a trace, which have more than {SHORT_LINE_BYTES} bytes on average. "
                        "Remove the empty lines if there is a trace between them."
                    )
            self.found.lines += lines
        return Block(padded, first, self.found.lines + 1 - first)

    def _too_long(self, line: int) -> TraceFormatError:
        return TraceFormatError(
            f"{self.path}, line {line}: more than {MAX_LINE_BYTES} bytes without a line end; expected a text trace "
            "(ftrace, trace-cmd report, perf script, sched_profiler) or a Parquet file of wastedcores."
        )


class _HashingReader(io.RawIOBase):
    """Feeds every byte that is read to a hash."""

    def __init__(self, raw: IO[bytes], digest: Any) -> None:
        self._raw, self._digest = raw, digest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        n = self._raw.readinto(buffer)  # type: ignore[attr-defined]
        self._digest.update(memoryview(buffer)[:n])
        return int(n)


class _UnpackingReader(io.RawIOBase):
    """Reads packed streams one after the other in a bounded amount of memory, and notices a stream that is cut short."""

    def __init__(self, packed: IO[bytes], new: Callable[[], Any]) -> None:
        self._packed, self._new = packed, new
        self._stream: Any = None
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready:
            chunk = self._packed.read(PACKED_BYTES)
            if not chunk:
                if self._stream is not None:
                    raise EOFError("the stream has no end")
                return 0
            parts = []
            while chunk:
                if self._stream is None:
                    chunk = chunk.lstrip(b"\0")  # xz pads streams like this
                    if not chunk:
                        break
                    self._stream = self._new()
                parts.append(self._stream.decompress(chunk))
                chunk = b""
                if self._stream.eof:
                    chunk, self._stream = self._stream.unused_data, None
            self._ready = memoryview(b"".join(parts))
        n = min(len(self._ready), len(buffer))
        buffer[:n] = self._ready[:n]
        self._ready = self._ready[n:]
        return n


def _xz() -> lzma.LZMADecompressor:
    return lzma.LZMADecompressor(memlimit=UNPACK_MEMORY)


def _zstd() -> Any:
    return zstandard.ZstdDecompressor(max_window_size=UNPACK_MEMORY).decompressobj()


def _after_last_newline(memory: np.ndarray, end: int) -> int:
    """Return the place after the last newline in the first ``end`` bytes; 0 if there is none."""
    step = 1 << 16
    for at in range(end, 0, -step):
        begin = max(at - step, 0)
        found = memory[begin:at].tobytes().rfind(b"\n")
        if found >= 0:
            return begin + found + 1
    return 0


def _open_raw(path: Path) -> IO[bytes]:
    try:
        return open(path, "rb", buffering=0)
    except OSError as e:
        raise WastedCoresError(f"{path}: cannot be opened ({e.strerror}).") from e


def _decompressor(raw: IO[bytes], path: Path, ahead: int = 1 << 20) -> IO[bytes]:
    buffered = io.BufferedReader(cast(io.RawIOBase, raw), ahead)
    try:
        magic = buffered.peek(8)[:8]
    except OSError as e:
        raise WastedCoresError(f"{path}: cannot be read ({e.strerror or e}).") from e
    if magic.startswith(_GZIP):
        return cast(IO[bytes], gzip.GzipFile(fileobj=buffered))
    for begins, new in ((_XZ, _xz), (_ZSTD, _zstd)):
        if magic.startswith(begins):
            return cast(IO[bytes], io.BufferedReader(_UnpackingReader(buffered, new), 1 << 20))
    return buffered


@contextmanager
def unpacked(path: Path) -> Iterator[IO[bytes]]:
    """Open a file and unpack it while it is read."""
    with _open_raw(path) as raw:
        try:
            yield _decompressor(raw, path, 1 << 16)
        except _DAMAGED as e:
            raise TraceFormatError(
                f"{path}: it is compressed, but cannot be unpacked ({e}). The file is cut short or damaged: copy or "
                "record it again."
            ) from e
        except OSError as e:
            raise WastedCoresError(f"{path}: cannot be read ({e.strerror or e}).") from e


def head(path: Path, size: int = 1 << 16) -> bytes:
    """Return the beginning of a file, decompressed."""
    with unpacked(path) as stream:
        return stream.read(size)


def split_lines(block: Block) -> pl.DataFrame:
    """Return the columns ``line`` (number in the file) and ``text`` (without the line end)."""
    lines = block.text().replace("\r\n", "\n").removesuffix("\n").split("\n")
    first = block.first_line
    return pl.DataFrame(
        {
            "line": pl.int_range(first, first + len(lines), dtype=pl.Int64, eager=True),
            "text": pl.Series(lines, dtype=pl.String),
        }
    )
