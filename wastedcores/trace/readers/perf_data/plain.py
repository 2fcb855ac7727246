"""Makes one ordinary perf.data file from what perf wrote to a pipe, or from the folder that `perf record --threads` writes.

Formats: tools/perf/Documentation/perf.data-file-format.txt (6.1), tools/perf/util/header.c: perf_event__synthesize_features,
tools/perf/util/data.c: perf_data__create_dir.
"""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
import zstandard

from wastedcores.errors import TraceFormatError, WastedCoresError
from wastedcores.trace.readers.perf_data import records_jit as pj
from wastedcores.trace.readers.perf_data.plain_jit import next_of_kind
from wastedcores.trace.readers.support.bytes_jit import PADDING

#: Number of packed bytes that are unpacked at a time; zstd can make up to 32,768 bytes of one byte.
PACKED_BYTES = 1 << 11
#: Records that unpack to more than this many times the file's size are refused. perf's were seen to shrink to a tenth.
MOST_TIMES = 500


def is_compressed(data: np.ndarray, begin: int, end: int) -> bool:
    """Return whether the data have compressed records.

    perf writes only a few records before the first compressed one, and no samples, so the search ends at the first sample.
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


#: tools/lib/perf/include/perf/event.h: perf_user_event_type, and PERF_RECORD_SAMPLE of the kernel
_ATTR, _TRACING_DATA, _FINISHED_ROUND, _FEATURE, _SAMPLE = 64, 66, 68, 80, 9
#: the number of the feature that has the formats of tracepoints
_TRACING = 1
#: the bits of features in the head (tools/perf/util/header.h: HEADER_FEAT_BITS)
_FEATURES = 256
#: size of the head of a file that perf wrote to a pipe, and of the head of any other file
PIPE_HEAD, _HEAD = 16, 104
#: The most records before the first sample that are looked at one by one, and the number of bytes that are copied at a time.
_MOST_RECORDS, _BLOCK = 1 << 21, 1 << 24


def from_pipe(data: np.ndarray, into: IO[bytes], path: Path) -> np.ndarray:
    """Write as a file what went through a pipe. The head of a pipe states only its own size; records state everything else."""
    attributes: list[tuple[bytes, bytes]] = []
    features: dict[int, bytes] = {}
    into.write(bytes(_HEAD))
    at = PIPE_HEAD
    for _ in range(_MOST_RECORDS):
        if at + 8 > len(data):
            break
        size = _size_at(data, at, path)
        kind = struct.unpack("<I", data[at : at + 4].tobytes())[0]
        if kind == _SAMPLE:
            break
        record = data[at + 8 : at + size].tobytes()
        whole = data[at : at + size].tobytes()
        at += size
        if kind == _ATTR and len(record) >= 8:
            length = struct.unpack_from("<I", record, 4)[0]
            attributes.append((record[:length], record[length:]))
        elif kind == _FEATURE and len(record) >= 8:
            number = struct.unpack_from("<Q", record)[0]
            if number < _FEATURES:
                features[number] = record[8:]
        elif kind == _TRACING_DATA and len(record) >= 4:
            length = struct.unpack_from("<I", record)[0]
            if length > len(data) - at:
                raise TraceFormatError(
                    f"{path}: byte {at}: the formats of its tracepoints should have {length} bytes, and the file ends before. "
                    "It is cut short: record it again."
                )
            features[_TRACING] = data[at : at + length].tobytes()
            at += length
        else:
            into.write(whole)
    _copy(data, at, len(data), into)
    return _finished(attributes, features, into, path)


def from_folder(folder: Path, into: IO[bytes]) -> np.ndarray:
    """Write the files of a folder as one file: first the head of ``data``, then the records of all files one after the other.

    The end of a round in one file says nothing about the other files, so the records that end rounds are left out.
    """
    main = _mapped(folder / "data")
    if len(main) < _HEAD or struct.unpack_from("<Q", main[:16].tobytes(), 8)[0] != _HEAD:
        raise TraceFormatError(
            f"{folder}: its file data has no head of perf.data. Copy or record the folder again."
        )
    raw = main[:_HEAD].tobytes()
    attr_size, attrs_at, attrs_size, data_at, data_size = struct.unpack_from("<5Q", raw, 16)
    bits = int.from_bytes(raw[72:104], "little")
    if data_at + data_size > len(main) or attrs_at + attrs_size > len(main) or attr_size < 64:
        raise TraceFormatError(
            f"{folder}: the head of its file data names {attrs_size} bytes of attributes and {data_size} bytes of records; "
            f"the file has {len(main)}. It is cut short or damaged: copy or record the folder again."
        )
    into.write(bytes(_HEAD))
    parts = sorted(
        folder.glob("data.[0-9]*"), key=lambda p: int(p.suffix[1:]) if p.suffix[1:].isdigit() else 0
    )
    for file in (folder / "data", *parts):
        part = main if file.name == "data" else _mapped(file)
        begin, end = (data_at, data_at + data_size) if part is main else (0, len(part))
        with tempfile.TemporaryFile() as plain:
            if is_compressed(part, begin, end):
                part, begin, end = decompress(part, begin, end, plain, file)
            _without_rounds(part, begin, end, into, file)
    attributes, features = [], {}
    for i in range(attrs_size // attr_size):
        entry = main[attrs_at + i * attr_size : attrs_at + (i + 1) * attr_size].tobytes()
        ids_at, ids_size = struct.unpack_from("<2Q", entry, attr_size - 16)
        attributes.append((entry[:-16], main[ids_at : ids_at + ids_size].tobytes()))
    at = data_at + data_size
    for number in (n for n in range(_FEATURES) if bits >> n & 1):
        if at + 16 <= len(main):
            where, size = struct.unpack("<2Q", main[at : at + 16].tobytes())
            features[number] = main[where : where + size].tobytes()
        at += 16
    return _finished(attributes, features, into, folder)


def files_of(folder: Path) -> list[Path]:
    """Return the files of a folder that `perf record --threads` wrote."""
    return sorted(p for p in folder.iterdir() if p.is_file())


def _mapped(file: Path) -> np.ndarray:
    try:
        return (
            np.asarray(np.memmap(file, np.uint8, "r"))
            if file.stat().st_size
            else np.zeros(0, np.uint8)
        )
    except (OSError, ValueError) as e:
        raise WastedCoresError(f"{file}: cannot be mapped ({e}).") from e


def _without_rounds(data: np.ndarray, at: int, end: int, into: IO[bytes], file: Path) -> None:
    """Copy the records up to the end of a file, except those that end a round."""
    while True:
        stop = next_of_kind(data, at, end, _FINISHED_ROUND)
        _copy(data, at, min(stop, end), into)
        if stop + 8 > end:
            return
        at = stop + _size_at(data, stop, file)


def _size_at(data: np.ndarray, at: int, file: Path) -> int:
    size = int.from_bytes(data[at + 6 : at + 8].tobytes(), "little")
    if size < 8:
        raise TraceFormatError(
            f"{file}: byte {at}: a record has {size} bytes; expected 8 or more. The file is damaged: record it again."
        )
    return size


def _copy(data: np.ndarray, begin: int, end: int, into: IO[bytes]) -> None:
    for at in range(begin, end, _BLOCK):
        into.write(data[at : min(at + _BLOCK, end)].tobytes())


def _finished(
    attributes: list[tuple[bytes, bytes]], features: dict[int, bytes], into: IO[bytes], path: Path
) -> np.ndarray:
    """Write what comes after the records in the file, then the head, and map the file."""
    sizes = {len(attr) for attr, _ in attributes}
    if len(sizes) != 1:
        raise TraceFormatError(
            f"{path}: its events are described in {len(sizes)} ways; expected one. The beginning of the file is damaged or "
            "missing: record it again."
        )
    data_end = into.tell()
    places = dict(_placed(features, data_end + 16 * len(features)))
    into.write(b"".join(struct.pack("<2Q", *places[number]) for number in sorted(features)))
    into.write(b"".join(features[number] for number in sorted(features)))
    ids_at = into.tell()
    into.write(b"".join(ids for _, ids in attributes))
    attrs_at = into.tell()
    for attr, ids in attributes:
        into.write(attr + struct.pack("<2Q", ids_at, len(ids)))
        ids_at += len(ids)
    size = sizes.pop() + 16
    into.seek(0)
    head = struct.pack(
        "<8s7Q",
        b"PERFILE2",
        _HEAD,
        size,
        attrs_at,
        size * len(attributes),
        _HEAD,
        data_end - _HEAD,
        0,
    )
    bits = sum(1 << number for number in features)
    into.write(head + bytes(8) + bits.to_bytes(32, "little"))
    into.flush()
    mapped: Any = np.memmap(into, np.uint8, "r")  # type: ignore[call-overload]
    return np.asarray(mapped)


def _placed(features: dict[int, bytes], at: int) -> Iterator[tuple[int, tuple[int, int]]]:
    for number in sorted(features):
        yield number, (at, len(features[number]))
        at += len(features[number])
