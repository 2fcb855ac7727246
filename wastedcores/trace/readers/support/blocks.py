"""Text files of any size, plain or compressed, as blocks of whole lines."""

from __future__ import annotations

import gzip
import hashlib
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
import polars as pl
import zstandard

from wastedcores.errors import TraceFormatError, WastedCoresError
from wastedcores.trace.readers.support.bytes_jit import PADDING
from wastedcores.trace.readers.support.held import Held
from wastedcores.trace.readers.support.memory import used

#: Decompressed bytes that are parsed at a time.
BLOCK_BYTES = 16 << 20
#: No trace line is this long; a "line" that is, is not text. 8192 CPUs of sched_profiler state are 164 kB.
MAX_LINE_BYTES = 1 << 20

_GZIP, _XZ, _ZSTD = b"\x1f\x8b", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd"


@dataclass(frozen=True)
class Block:
    """Whole lines of a text file.

    Attributes
    ----------
    memory
        uint8: bytes that end with a newline, and zeros that loads may look at (trace/readers/support/bytes_jit.py: PADDING).
    first_line
        Number of the first line in the file, from 1.
    lines
        How many.
    """

    memory: np.ndarray
    first_line: int
    lines: int

    @property
    def size(self) -> int:
        """How many bytes."""
        return self.memory.size - PADDING

    def text(self, most: int | None = None) -> str:
        """The bytes, or as many of them, as text."""
        return self.memory[: self.size][:most].tobytes().decode("utf-8", "replace")


@dataclass
class TextSource(Held):
    """A text file being read once, front to back.

    Attributes
    ----------
    sha256
        Of the file as it lies on disk, if ``hashed``; None until the blocks are consumed.
    bytes_read, lines
        Decompressed bytes and whole lines handed out so far.
    cut_line
        Number and beginning of a last line without a newline, which is not handed out unless ``complete`` says that
        its end is there: it may be cut anywhere, and a number cut short reads as another number.
    """

    path: Path
    complete: Callable[[str], bool] = lambda _: False
    hashed: bool = False
    sha256: str | None = None
    bytes_read: int = 0
    lines: int = 0
    cut_line: tuple[int, str] | None = None
    _hash: Any = field(default_factory=hashlib.sha256, repr=False)

    def blocks(self, size: int = BLOCK_BYTES) -> Iterator[Block]:
        """Read on, ``size`` bytes at a time, cut at line ends.

        Raises
        ------
        TraceFormatError
            A compressed stream that is cut short or damaged, or a "line" longer than any line of a trace.
        WastedCoresError
            The file cannot be read, or vanished.
        """
        with self.hold(_open_raw(self.path)) as raw:
            hashing = cast(IO[bytes], _HashingReader(raw, self._hash)) if self.hashed else raw
            stream = _decompressor(hashing, self.path)
            rest = b""
            while True:
                memory, end = self._read(stream, rest, size)
                if end == len(rest):
                    break
                cut = _after_last_newline(memory, end)
                rest = memory[cut:end].tobytes()
                if len(rest) > MAX_LINE_BYTES:
                    raise self._not_text()
                if cut:
                    block = _block(memory, cut, self.lines + 1)
                    self.lines += block.lines
                    yield block
            if rest and self.complete(rest.decode("utf-8", "replace")):
                memory = used(len(rest) + 1 + PADDING)
                memory[: len(rest) + 1] = np.frombuffer(rest + b"\n", np.uint8)
                yield _block(memory, len(rest) + 1, self.lines + 1)
            elif rest:
                self.cut_line = (self.lines + 1, rest[-200:].decode("utf-8", "replace"))
            if self.hashed:
                while hashing.read(1 << 20):  # bytes after the end of a compressed stream
                    pass
                self.sha256 = self._hash.hexdigest()

    def _read(self, stream: IO[bytes], rest: bytes, size: int) -> tuple[np.ndarray, int]:
        """Memory with ``rest`` and up to ``size`` bytes more, and how many are in it."""
        end = len(rest)
        memory = used(end + size + PADDING)
        memory[:end] = np.frombuffer(rest, np.uint8)
        full = end + size
        try:
            with memoryview(memory) as view:  # type: ignore[arg-type]
                while end < full and (n := stream.readinto(view[end:full])):  # type: ignore[attr-defined]
                    end += n
                    self.bytes_read += n
            return memory, end
        except (EOFError, zlib.error, lzma.LZMAError, zstandard.ZstdError, gzip.BadGzipFile) as e:
            raise TraceFormatError(
                f"{self.path}: the compressed stream ends or breaks after {self.bytes_read} decompressed bytes, line "
                f"{self.lines + 1} ({e}). The file is cut short or damaged: copy or record it again, or unpack what "
                "there is of it by hand and import that."
            ) from e
        except OSError as e:
            raise WastedCoresError(
                f"{self.path}: reading stopped after {self.bytes_read} bytes ({e.strerror or e})."
            ) from e

    def _not_text(self) -> TraceFormatError:
        return TraceFormatError(
            f"{self.path}, line {self.lines + 1}: more than {MAX_LINE_BYTES} bytes without a line end; expected a "
            "text trace (ftrace, trace-cmd report, perf script, sched_profiler) or our Parquet."
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


class _ZstdReader(io.RawIOBase):
    """Frames of zstd one after the other; unlike the library's own reader it notices a stream cut short."""

    def __init__(self, packed: IO[bytes]) -> None:
        self._packed = packed
        self._frame: Any = None
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready:
            chunk = self._packed.read(1 << 18)
            if not chunk:
                if self._frame is not None:
                    raise EOFError("the stream has no end")
                return 0
            parts = []
            while chunk:
                if self._frame is None:
                    self._frame = zstandard.ZstdDecompressor().decompressobj()
                parts.append(self._frame.decompress(chunk))
                chunk = b""
                if self._frame.eof:
                    chunk, self._frame = self._frame.unused_data, None
            self._ready = memoryview(b"".join(parts))
        n = min(len(self._ready), len(buffer))
        buffer[:n] = self._ready[:n]
        self._ready = self._ready[n:]
        return n


def _after_last_newline(memory: np.ndarray, end: int) -> int:
    """Where the last whole line of the first ``end`` bytes ends; 0 if there is none."""
    step = 1 << 16
    for at in range(end, 0, -step):
        begin = max(at - step, 0)
        found = memory[begin:at].tobytes().rfind(b"\n")
        if found >= 0:
            return begin + found + 1
    return 0


def _block(memory: np.ndarray, size: int, first_line: int) -> Block:
    """The first ``size`` bytes; what follows becomes zeros."""
    raw = memory[: size + PADDING]
    raw[size:] = 0
    step = 1 << 20
    lines = sum(int(np.count_nonzero(raw[i : i + step] == 10)) for i in range(0, size, step))
    return Block(raw, first_line, lines)


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
    if magic.startswith(_XZ):
        return cast(IO[bytes], lzma.LZMAFile(buffered))
    if magic.startswith(_ZSTD):
        return cast(IO[bytes], io.BufferedReader(_ZstdReader(buffered), 1 << 20))
    return buffered


def head(path: Path, size: int = 1 << 16) -> bytes:
    """The first ``size`` decompressed bytes, or as many as can be had."""
    with _open_raw(path) as raw:
        stream = _decompressor(raw, path, size)
        try:
            return stream.read(size)
        except (EOFError, zlib.error, lzma.LZMAError, zstandard.ZstdError, gzip.BadGzipFile) as e:
            raise TraceFormatError(
                f"{path}: compressed, but cannot be unpacked ({e}). The file is cut short or damaged: copy or record "
                "it again."
            ) from e
        except OSError as e:
            raise WastedCoresError(f"{path}: cannot be read ({e.strerror or e}).") from e


def split_lines(block: Block) -> pl.DataFrame:
    """Columns ``line`` (number in the file) and ``text`` (without the line end)."""
    lines = block.text().replace("\r\n", "\n").removesuffix("\n").split("\n")
    first = block.first_line
    return pl.DataFrame(
        {
            "line": pl.int_range(first, first + len(lines), dtype=pl.Int64, eager=True),
            "text": pl.Series(lines, dtype=pl.String),
        }
    )
