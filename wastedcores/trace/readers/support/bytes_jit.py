"""Loads of numbers from any place of a byte array, and comparisons of texts of up to 24 bytes by means of these loads.

Loads are not checked: the caller pads its arrays, so that :data:`PADDING` bytes exist after the last byte of the data.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.core.imputils import impl_ret_untracked
from numba.extending import intrinsic
from numpy.typing import NDArray

from wastedcores.jit.compile import lean

#: Number of bytes that must exist after the last byte of the data.
PADDING = 32

#: The first 8 bytes of a text and a mask of those that are compared; bytes 8 to 15 and their mask; bytes 16 to 23 and their mask;
#: the length of the text.
Word: TypeAlias = tuple[np.uint64, np.uint64, np.uint64, np.uint64, np.uint64, np.uint64, int]


def _loader(bits: int, result: Any) -> Any:
    def load(typingctx: Any, array: Any, index: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            data = context.make_array(signature.args[0])(context, builder, args[0]).data
            place = builder.gep(data, [args[1]])
            pointer = builder.bitcast(place, ir.IntType(bits).as_pointer())
            value = builder.load(pointer)
            value.align = 1
            return impl_ret_untracked(context, builder, result, value)

        return result(array, types.intp), codegen

    return intrinsic(load)


#: ``load64(b, i)``: the little-endian number of the 8 bytes that begin at ``b[i]``.
load64 = _loader(64, types.uint64)
load32 = _loader(32, types.uint32)
load16 = _loader(16, types.uint16)


def _prefetcher(typingctx: Any, array: Any, index: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        place = builder.gep(data, [args[1]])
        flag = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [place.type, flag, flag, flag])
        name = "llvm.prefetch.p0i8"
        function = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
        builder.call(function, [place, flag(0), flag(3), flag(1)])  # to read, keep, data
        return context.get_dummy_value()

    return types.none(array, types.intp), codegen


#: ``prefetch(b, i)``: load the cache line of ``b[i]`` into the cache; ``i`` may lie outside of the array
prefetch: Any = intrinsic(_prefetcher)


def word(text: str) -> Word:
    """Prepare a text of up to 24 bytes for :func:`is_word`."""
    raw = text.encode()
    assert len(raw) <= 24
    parts: list[np.uint64] = []
    for k in (0, 8, 16):
        piece = raw[k : k + 8]
        parts += [
            np.uint64(int.from_bytes(piece, "little")),
            np.uint64((1 << (8 * len(piece))) - 1),
        ]
    return (*parts, len(raw))  # type: ignore[return-value]


@lean
def is_word(b: NDArray[np.uint8], i: int, w: Word) -> bool:
    """Return whether the text ``w`` stands at ``b[i]``."""
    if (load64(b, i) & w[1]) != w[0]:
        return False
    if w[6] <= 8:
        return True
    if (load64(b, i + 8) & w[3]) != w[2]:
        return False
    return w[6] <= 16 or (load64(b, i + 16) & w[5]) == w[4]


@lean
def line_end(b: NDArray[np.uint8], i: int, size: int) -> int:
    """Return the place of the first newline from ``i`` on, or ``size``."""
    ones = np.uint64(0x0101010101010101)
    highs = np.uint64(0x8080808080808080)
    while i < size:
        x = load64(b, i) ^ (np.uint64(10) * ones)
        if ((x - ones) & ~x & highs) != 0:
            break
        i += 8
    while i < size and b[i] != 10:
        i += 1
    return min(i, size)


@lean
def number(b: NDArray[np.uint8], i: int) -> tuple[int, int]:
    """Return the decimal number at ``i`` and the place after it; (0, i) if there is no digit or there are more than 18."""
    v: Any = 0
    j = i
    while True:
        d = np.int64(b[j]) - 48
        if d < 0 or d > 9:
            break
        v = v * 10 + d
        j += 1
    if j - i > 18:
        return 0, i
    return v, j


@lean
def signed31(b: NDArray[np.uint8], i: int) -> tuple[int, int]:
    """Return a number that may have a minus sign, and the place after it; (0, i) if it does not fit into 31 bits."""
    start = i + 1 if b[i] == 45 else i
    v, j = number(b, start)
    if j == start or v >= 2**31:
        return 0, i
    return (-v if start > i else v), j
