"""The memory of a polars series: its numbers, and the bitmap of what is not null, without a copy.

By the Arrow C stream interface (https://arrow.apache.org/docs/format/CStreamInterface.html), which is public in polars.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import polars as pl

_TYPES = {b"l": np.int64, b"i": np.int32, b"s": np.int16, b"I": np.uint32, b"S": np.uint16, b"C": np.uint8}  # fmt: skip


class _Schema(ctypes.Structure):
    _fields_ = [
        ("format", ctypes.c_char_p),
        ("name", ctypes.c_char_p),
        ("metadata", ctypes.c_char_p),
        ("flags", ctypes.c_int64),
        ("n_children", ctypes.c_int64),
        ("children", ctypes.c_void_p),
        ("dictionary", ctypes.c_void_p),
        ("release", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
        ("private_data", ctypes.c_void_p),
    ]


class _Array(ctypes.Structure):
    _fields_ = [
        ("length", ctypes.c_int64),
        ("null_count", ctypes.c_int64),
        ("offset", ctypes.c_int64),
        ("n_buffers", ctypes.c_int64),
        ("n_children", ctypes.c_int64),
        ("buffers", ctypes.POINTER(ctypes.c_void_p)),
        ("children", ctypes.c_void_p),
        ("dictionary", ctypes.c_void_p),
        ("release", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
        ("private_data", ctypes.c_void_p),
    ]


_Getter = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


class _Stream(ctypes.Structure):
    _fields_ = [
        ("get_schema", _Getter),
        ("get_next", _Getter),
        ("get_last_error", ctypes.c_void_p),
        ("release", ctypes.c_void_p),
        ("private_data", ctypes.c_void_p),
    ]


_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype = ctypes.c_void_p
_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


class Buffers:
    """What a series of numbers is made of.

    Attributes
    ----------
    values
        (rows,), polars' own memory: not to be changed, nor used once this object is gone.
    valid
        Bitmap, lowest bit first; empty if nothing is null.
    skip
        The bit of row 0.
    nulls
        How many are null.
    """

    def __init__(self, series: pl.Series) -> None:
        self._array = _Array()
        self.nulls = series.null_count()
        self.skip = 0
        self.valid = np.zeros(0, np.uint8)
        if not series.len():
            self.values = series.to_numpy()
            return
        capsule = series.rechunk().__arrow_c_stream__()
        stream = _Stream.from_address(_pointer(capsule, b"arrow_array_stream"))
        schema = _Schema()
        for get, into in ((stream.get_schema, schema), (stream.get_next, self._array)):
            if get(ctypes.addressof(stream), ctypes.addressof(into)):
                raise RuntimeError(f"polars did not hand over the series {series.name!r}")
        dtype = np.dtype(_TYPES[schema.format])
        schema.release(ctypes.addressof(schema))
        n, at = self._array.length, self._array.offset
        self.values = _view(self._array.buffers[1], (at + n) * dtype.itemsize).view(dtype)[at:]
        if self.nulls:
            self.skip = at % 8
            self.valid = _view(self._array.buffers[0], (at + n + 7) // 8)[at // 8 :]

    def __del__(self) -> None:
        if self._array.release:
            self._array.release(ctypes.addressof(self._array))


def _view(address: Any, size: int) -> np.ndarray:
    return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))
