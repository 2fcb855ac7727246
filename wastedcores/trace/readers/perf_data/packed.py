"""Unpacks the records of ``perf record -z``."""

from __future__ import annotations

import struct
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import zstandard

from wastedcores.errors import TraceFormatError, WastedCoresError
from wastedcores.trace.readers.perf_data import records_jit as pj
from wastedcores.trace.readers.support.bytes_jit import PADDING

#: Packed bytes that are unpacked at a time; zstd makes up to 32,768 bytes of one.
PACKED_BYTES = 1 << 11
#: perf's records have been seen to shrink to a tenth.
MOST_TIMES = 500


def is_compressed(data: np.ndarray, begin: int, end: int) -> bool:
    """Return whether the data have compressed records.

    perf puts nothing but a few other records before the first one, so the search ends at the first sample.
    """
    at = begin
    raw = memoryview(data)  # type: ignore[arg-type]
    while at + 8 <= end:
        kind, _, size = struct.unpack_from("<IHH", raw, at)
        if kind in (pj.R_COMPRESSED, pj.R_COMPRESSED2):
            return True
        if kind == pj.R_SAMPLE or size < 8:
            return False
        at += size
    return False


def decompress(
    data: np.ndarray, begin: int, end: int, plain: Any, path: Path
) -> tuple[np.ndarray, int, int]:
    """Write all records uncompressed to a temporary file, and map that into memory.

    One zstd stream runs through all compressed records.
    """
    stream = zstandard.ZstdDecompressor().decompressobj()
    at = begin

    def unpack(i: int, j: int) -> None:
        for k in range(i, min(j, end), PACKED_BYTES):
            plain.write(stream.decompress(data[k : min(k + PACKED_BYTES, j)].tobytes()))
            if plain.tell() > MOST_TIMES * len(data):
                raise TraceFormatError(
                    f"{path}: byte {k}: its compressed records have more than {MOST_TIMES} times the size of the file, "
                    "which perf never packed. The file is damaged or made to fill a disk."
                )

    try:
        while at + 8 <= end:
            head = data[at : at + 16].tobytes()
            kind, size = int.from_bytes(head[:4], "little"), int.from_bytes(head[6:8], "little")
            if size < 8:
                raise TraceFormatError(
                    f"{path}: byte {at}: a record has {size} bytes; expected 8 or more."
                )
            if kind == pj.R_COMPRESSED:
                unpack(at + 8, at + size)
            elif kind == pj.R_COMPRESSED2:
                length = int.from_bytes(head[8:16], "little")
                unpack(at + 16, at + 16 + length)
            else:
                plain.write(data[at : at + size].tobytes())
            at += size
    except OSError as e:
        raise WastedCoresError(
            f"{path}: unpacking its compressed records to {tempfile.gettempdir()} failed ({e.strerror or e}). "
            "Set TMPDIR to a folder with room."
        ) from e
    except zstandard.ZstdError as e:
        raise TraceFormatError(f"{path}: byte {at}: a compressed record is damaged ({e}).") from e
    length = plain.tell()
    plain.write(bytes(PADDING))
    plain.flush()
    return np.memmap(plain, np.uint8, "r"), 0, length
