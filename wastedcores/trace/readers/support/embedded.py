"""Text traces that stand within another file: in a page of systrace or of KUtrace, or packed by atrace."""

from __future__ import annotations

import ctypes
import io
import zlib
from collections.abc import Iterator
from typing import IO, cast

import numpy as np

from wastedcores.trace.recognisers import ATRACE, KUTRACE_BLOCK, SYSTRACE_BLOCKS

_CHUNK = 1 << 20
#: Number of packed bytes that are unpacked at a time; zlib makes at most 1032 bytes of one byte.
_PACKED = 1 << 14
_BETWEEN_SPANS = b"], ["
#: Systrace's output_generator (catapult) writes a block per agent. Blocks without ftrace text begin with JSON, or with what the
#: agents android_process_data and android_cgroup write. The first _START bytes of a block are enough to recognise this.
_OTHER_AGENTS = (b"{", b"[", b"PROCESS DUMP", b"# tracer: CGROUP DUMP")
_START = 256
_memmem = ctypes.CDLL(None).memmem
_memmem.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t)
_memmem.restype = ctypes.c_void_p
_SCRIPT_ENDS, _STRING_ENDS, _JSON_ENDS = b"</script>", b'\\n";', b"';"


class Chunks(io.RawIOBase):
    """A file whose content comes from an iterator of bytes."""

    def __init__(self, chunks: Iterator[bytes | memoryview]) -> None:
        self._chunks = chunks
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        """Say that it can be read."""
        return True

    def readinto(self, buffer) -> int:  # type: ignore[no-untyped-def]
        """Fill the buffer with the next bytes."""
        while not self._ready:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._ready = memoryview(chunk)
        n = min(len(self._ready), len(buffer))
        buffer[:n] = self._ready[:n]
        self._ready = self._ready[n:]
        return n


def systrace_text(page: IO[bytes]) -> IO[bytes]:
    """Return the ftrace text in a page of systrace: the first block that no other agent wrote."""
    return cast(IO[bytes], io.BufferedReader(_SystraceText(page), _CHUNK))


def kutrace_json(page: IO[bytes]) -> IO[bytes]:
    """Return the JSON in a page of KUtrace with one span on each line; makeself puts all spans on one line."""
    return cast(IO[bytes], io.BufferedReader(Chunks(_kutrace(page)), _CHUNK))


def atrace_text(file: IO[bytes]) -> IO[bytes]:
    """Return the ftrace text that ``atrace -z`` packed."""
    return cast(IO[bytes], io.BufferedReader(Chunks(_atrace(file)), _CHUNK))


class _Scanner:
    """Reads a file up to given words. It uses one buffer again and again, because new memory is slow in a virtual machine."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._buffer = bytearray(_CHUNK)
        self._view = memoryview(self._buffer)
        #: where the bytes begin and end that were read and not yielded yet
        self._begin = self._end = 0
        #: the word that was found; empty at the end of the file
        self.word = b""

    def until(self, *words: bytes) -> Iterator[memoryview]:
        """Yield the bytes before the first place of any of the words, and go past that word; without one, yield all that is left.

        Each piece is valid until the next piece is asked for.
        """
        longest = max(map(len, words))
        while True:
            places = ((self._buffer.find(w, self._begin, self._end), w) for w in words)
            if found := [(at, w) for at, w in places if at >= 0]:
                at, self.word = min(found)
                yield self._view[self._begin : at]
                self._begin = at + len(self.word)
                return
            start, self._begin = self._begin, max(self._end - longest + 1, self._begin)
            yield self._view[start : self._begin]
            if not self._more():
                self.word = b""
                yield self._view[: self._end]
                self._begin = self._end
                return

    def starts_with(self, *words: bytes) -> bool:
        """Say whether the next bytes begin with one of the words; leading blanks, and the number of blanks, do not count."""
        while True:
            start = self._buffer[self._begin : min(self._begin + _START, self._end)]
            if len(start) == _START or not self._more():
                return b" ".join(start.split()).startswith(words)

    def skip(self, characters: bytes) -> None:
        """Go past these characters, but not beyond the bytes that were read already."""
        rest = self._buffer[self._begin : self._end]
        self._begin += len(rest) - len(rest.lstrip(characters))

    def readinto(self, buffer: memoryview) -> int:
        """Fill a buffer with the next bytes; if all bytes read so far were used, they come directly from the file."""
        if self._begin == self._end:
            return self._file.readinto(buffer)  # type: ignore[attr-defined,no-any-return]
        n = min(len(buffer), self._end - self._begin)
        buffer[:n] = self._view[self._begin : self._begin + n]
        self._begin += n
        return n

    def _more(self) -> int:
        """Move the rest to the front of the buffer, read more of the file after it, and return how many bytes were read."""
        left = self._end - self._begin
        self._view[:left] = self._view[self._begin : self._end]
        came: int = self._file.readinto(self._view[left:])  # type: ignore[attr-defined]
        self._begin, self._end = 0, left + came
        return came


class _SystraceText(io.RawIOBase):
    """The text in a page of systrace. It is read into the caller's memory, and its end is searched for there."""

    def __init__(self, page: IO[bytes]) -> None:
        self._page = _Scanner(page)
        #: the word that ends the text; None: the beginning of the text was not searched for yet; empty: nothing follows
        self._word: bytes | None = None
        #: the last bytes that were read, because the word that ends the text may begin in them
        self._held = b""

    def readable(self) -> bool:
        """Say that it can be read."""
        return True

    def readinto(self, buffer) -> int:  # type: ignore[no-untyped-def]
        """Fill the buffer with the next bytes; it must be longer than the word that ends the text."""
        if self._word is None:
            self._word = self._begin()
        view, size = memoryview(buffer), 0
        while self._word and not size:
            view[: len(self._held)] = self._held
            came = self._page.readinto(view[len(self._held) :])
            size = len(self._held) + came
            at = _find(view[:size], self._word)
            if at >= 0:  # the last line may have no end
                view[at : at + 1] = b"\n"
                size = at + 1
            if at >= 0 or not came:
                self._word = b""
                break
            keep = min(len(self._word) - 1, size)
            self._held = bytes(view[size - keep : size])
            size -= keep
        return size

    def _begin(self) -> bytes:
        """Go to the beginning of the text, and return the word that ends it; empty: there is no text."""
        while True:
            for _ in self._page.until(*SYSTRACE_BLOCKS):
                pass
            if not self._page.word:
                return b""
            if not self._page.starts_with(*_OTHER_AGENTS):
                # the text begins on the line after the tag, or after a backslash
                self._page.skip(b"\\\r\n")
                return _SCRIPT_ENDS if self._page.word == SYSTRACE_BLOCKS[0] else _STRING_ENDS


def _find(memory: memoryview, word: bytes) -> int:
    """Return the place of a word, or -1.

    The C library searches 3.7 times as fast as ``bytes.find`` (9.5 and 2.6 GB/s, measured 2026-11-29 on 140 MB), and other
    threads can run meanwhile.
    """
    begin = np.frombuffer(memory, np.uint8).ctypes.data
    at = _memmem(begin, len(memory), word, len(word))
    return -1 if at is None else at - begin


def _kutrace(page: IO[bytes]) -> Iterator[bytes]:
    scanner = _Scanner(page)
    for _ in scanner.until(KUTRACE_BLOCK):
        pass
    rest = b""
    for chunk in scanner.until(_JSON_ENDS):
        spans = (rest + chunk).split(_BETWEEN_SPANS)
        # _BETWEEN_SPANS may continue in the next chunk; other data follow after the last span, whose name is empty
        rest = spans.pop().replace(b'""] ', b'""]\n')
        yield b"".join(span + b"],\n[" for span in spans)
        keep = len(rest) - len(_BETWEEN_SPANS)
        if keep > 0:
            yield rest[:keep]
            rest = rest[keep:]
    yield rest + b"\n"


def _atrace(file: IO[bytes]) -> Iterator[bytes]:
    start = file.read(1 << 16)
    match = ATRACE.match(start)
    if match is None:
        raise zlib.error("no line 'TRACE:' with a stream of zlib behind it")
    packed = start[match.end() :]
    unpacker = zlib.decompressobj()
    while packed or (packed := file.read(_PACKED)):
        for at in range(0, len(packed), _PACKED):
            yield unpacker.decompress(packed[at : at + _PACKED])
        packed = b""
        if unpacker.eof:
            return
    if not unpacker.eof:
        raise EOFError("the stream has no end")
