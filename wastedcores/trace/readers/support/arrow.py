"""Arrays of numbers, and bitmaps, handed to polars as they are.

polars takes numpy arrays without copying, but not with nulls. The Arrow C data interface carries both
(https://arrow.apache.org/docs/format/CDataInterface.html).
"""

from __future__ import annotations

import ctypes
import itertools
from typing import Any

import numpy as np
import polars as pl

_FORMATS = {"int64": b"l", "int32": b"i", "int16": b"s", "uint32": b"I", "uint8": b"C"}
_NULLABLE = 2


class _Schema(ctypes.Structure):
    pass


class _Array(ctypes.Structure):
    pass


_ReleaseSchema = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Schema))
_ReleaseArray = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Array))

_Schema._fields_ = [
    ("format", ctypes.c_char_p),
    ("name", ctypes.c_char_p),
    ("metadata", ctypes.c_char_p),
    ("flags", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("children", ctypes.c_void_p),
    ("dictionary", ctypes.c_void_p),
    ("release", _ReleaseSchema),
    ("private_data", ctypes.c_void_p),
]
_Array._fields_ = [
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.c_void_p),
    ("dictionary", ctypes.c_void_p),
    ("release", _ReleaseArray),
    ("private_data", ctypes.c_void_p),
]

#: what polars holds, until it lets go
_held: dict[int, Any] = {}
_numbers = itertools.count(1)


@_ReleaseSchema
def _release_schema(schema: Any) -> None:
    schema.contents.release = _ReleaseSchema()


@_ReleaseArray
def _release_array(array: Any) -> None:
    _held.pop(array.contents.private_data, None)
    array.contents.release = _ReleaseArray()


_capsule = ctypes.pythonapi.PyCapsule_New
_capsule.restype = ctypes.py_object
_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class _Column:
    def __init__(
        self, values: np.ndarray, valid: np.ndarray | None, nulls: int, length: int, kind: bytes
    ) -> None:
        self.values, self.valid, self.nulls = values, valid, nulls
        self.length, self.kind = length, kind

    def __arrow_c_array__(self, requested_schema: Any = None) -> tuple[Any, Any]:
        valid = None if self.valid is None else self.valid.ctypes.data
        buffers = (ctypes.c_void_p * 2)(valid, self.values.ctypes.data)
        self.schema = _Schema(format=self.kind, name=b"", flags=_NULLABLE, release=_release_schema)
        number = next(_numbers)
        self.array = _Array(
            length=self.length,
            null_count=self.nulls,
            n_buffers=2,
            buffers=buffers,
            release=_release_array,
            private_data=number,
        )
        _held[number] = (self.values, self.valid, buffers)
        return (
            _capsule(ctypes.addressof(self.schema), b"arrow_schema", None),
            _capsule(ctypes.addressof(self.array), b"arrow_array", None),
        )


def column(values: np.ndarray, valid: np.ndarray, nulls: int) -> pl.Series:
    """The numbers as a series, without a copy: they must not change any more.

    Parameters
    ----------
    values
        Contiguous int64, int32, int16, uint32 or uint8.
    valid
        uint8: a bit each, lowest first, 0: null. At least one byte for every 8 values.
    nulls
        How many are null.
    """
    assert values.flags.c_contiguous
    assert valid.size * 8 >= values.size
    if nulls == 0:
        return pl.Series(values)
    return pl.Series(_Column(values, valid, nulls, values.size, _FORMATS[values.dtype.name]))


def bits(bitmap: np.ndarray, n: int) -> pl.Series:
    """The first ``n`` bits as a Boolean series, without a copy: they must not change any more.

    Parameters
    ----------
    bitmap
        uint8, lowest bit first; at least one byte for every 8 bits.
    """
    assert bitmap.size * 8 >= n
    return pl.Series(_Column(bitmap, None, 0, n, b"b"))
