"""Writes a trace.dat of version 6 as a big-endian machine would have written it (man trace-cmd.dat.v6)."""

from __future__ import annotations

import re
import struct

_FIELD = re.compile(r"field:([^;]*?)(\w+)(\[[^;]*\])?;\s*offset:(\d+);\s*size:(\d+);")
#: options of one number: their sizes in bytes come with them
_NUMBERS = (3, 8, 16)


def big_endian(data: bytes) -> bytes:
    """Return the same recording in the other order of bytes."""
    out, at = bytearray(data), 12
    out[at] = 1

    def turn(size: int) -> int:
        """Turn the number that comes next, and return it."""
        nonlocal at
        value = int.from_bytes(data[at : at + size], "little")
        out[at : at + size] = value.to_bytes(size, "big")
        at += size
        return value

    def skip(size: int) -> None:
        nonlocal at
        length = turn(size)
        at += length

    def word() -> None:
        nonlocal at
        at = data.index(b"\0", at) + 1

    at += 2
    page_bytes = turn(4)
    word()
    begin = at + 8
    skip(8)
    start = int(re.search(rb"char data;\s*offset:(\d+)", data[begin:at])[1])
    word()
    skip(8)
    formats: dict[int, list[tuple[int, int]]] = {}

    def events() -> None:
        nonlocal at
        for _ in range(turn(4)):
            size = turn(8)
            text = data[at : at + size].decode()
            at += size
            number = int(re.search(r"^ID: (\d+)", text, re.MULTILINE)[1])
            found = _FIELD.findall(text)
            formats[number] = [
                (int(where), int(length))
                for kind, _, array, where, length in found
                if int(length) in (2, 4, 8) and (not array or kind.startswith("__data_loc"))
            ]

    events()
    for _ in range(turn(4)):
        word()
        events()
    for size in (4, 4, 8):
        skip(size)
    cpus = turn(4)
    word()
    if data[at - 10 : at] == b"options  \0":
        while number := turn(2):
            size = turn(4)
            end = at + size
            if number in _NUMBERS:
                turn(4 if number == 8 else 8)
            at = end
        word()
    places = [(turn(8), turn(8)) for _ in range(cpus)]
    for where, size in places:
        for page in range(where, where + size, page_bytes):
            out[page : page + page_bytes] = _page(data[page : page + page_bytes], start, formats)
    return bytes(out)


def _page(page: bytes, start: int, formats: dict[int, list[tuple[int, int]]]) -> bytes:
    out = bytearray(page)

    def turn(at: int, size: int) -> int:
        value = int.from_bytes(page[at : at + size], "little")
        out[at : at + size] = value.to_bytes(size, "big")
        return value

    turn(0, 8)
    commit = turn(8, start - 8)
    stop = start + (commit & (1 << 27) - 1)
    if commit & 1 << 30:  # the number of lost events follows
        turn(stop, start - 8)
    at = start
    while at + 8 <= stop:
        word, more = struct.unpack_from("<II", page, at)
        kind, delta = word & 31, word >> 5
        struct.pack_into(">I", out, at, kind << 27 | delta)
        if kind == 29 and delta == 0:
            break
        if kind in (29, 30, 31):
            turn(at + 4, 4)
            at += 8 if kind != 29 else 4 + max(more, 4)
            continue
        data, size = (at + 4, 4 * kind) if kind else (at + 8, turn(at + 4, 4) - 4)
        number = int.from_bytes(page[data : data + 2], "little")
        for where, length in formats.get(number, [(0, 2), (4, 4)]):
            if where + length <= size:
                turn(data + where, length)
        at = data + (size + 3 & ~3)
    return bytes(out)
