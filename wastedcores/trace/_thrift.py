"""Thrift's compact protocol, as far as Parquet's metadata need it.

Format: https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
"""

from __future__ import annotations

from collections.abc import Sequence

_TRUE, _FALSE, _I8, _I16, _I32, _I64, _BINARY, _LIST, _STRUCT = 1, 2, 3, 4, 5, 6, 8, 9, 12


class I8(int):
    """A number of 8 bits."""


class I16(int):
    """A number of 16 bits."""


class I64(int):
    """A number of 64 bits; a plain ``int`` has 32."""


class Struct(dict[int, object]):
    """Field number -> value, ascending; None: the field is not there."""


def number(value: int) -> bytes:
    """An unsigned number, 7 bits per byte."""
    out = bytearray()
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _signed(value: int) -> bytes:
    return number(2 * value if value >= 0 else -2 * value - 1)


def _kind(value: object) -> int:
    for kind, code in ((I8, _I8), (I16, _I16), (I64, _I64), (int, _I32), (Struct, _STRUCT)):
        if isinstance(value, kind):
            return code
    return _BINARY if isinstance(value, str | bytes) else _LIST


def _content(value: object) -> bytes:
    if isinstance(value, I8):
        return bytes([value & 255])
    if isinstance(value, int):
        return _signed(value)
    if isinstance(value, Struct):
        return struct(value)
    if isinstance(value, str | bytes):
        raw = value.encode() if isinstance(value, str) else value
        return number(len(raw)) + raw
    assert isinstance(value, Sequence)
    kind = _kind(value[0]) if value else _I32
    head = bytes([len(value) << 4 | kind]) if len(value) < 15 else bytes([0xF0 | kind])
    size = b"" if len(value) < 15 else number(len(value))
    return head + size + b"".join(_content(v) for v in value)


def struct(fields: Struct) -> bytes:
    """The bytes of a struct."""
    out = bytearray()
    before = 0
    for field, value in fields.items():
        if value is None:
            continue
        truth = isinstance(value, bool)
        kind = (_TRUE if value else _FALSE) if truth else _kind(value)
        step = field - before
        out += bytes([step << 4 | kind]) if step < 16 else bytes([kind]) + _signed(field)
        out += b"" if truth else _content(value)
        before = field
    out.append(0)
    return bytes(out)
