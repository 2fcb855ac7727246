"""Makes of a perf.data what perf writes to a pipe, and the folder of `perf record --threads`."""

from __future__ import annotations

import struct
from pathlib import Path

import zstandard


def parts(data: bytes) -> tuple[list[tuple[bytes, bytes]], dict[int, bytes], list[bytes]]:
    """Take a perf.data apart: attributes with their identifiers, features, and records."""
    attr_size, attrs_at, attrs_size, at, size = struct.unpack_from("<5Q", data, 16)
    attributes = []
    for i in range(attrs_at, attrs_at + attrs_size, attr_size):
        ids_at, ids_size = struct.unpack_from("<2Q", data, i + attr_size - 16)
        attributes.append((data[i : i + attr_size - 16], data[ids_at : ids_at + ids_size]))
    end, bits, features = at + size, int.from_bytes(data[72:104], "little"), {}
    for k, number in enumerate(n for n in range(256) if bits >> n & 1):
        where, length = struct.unpack_from("<2Q", data, end + 16 * k)
        features[number] = data[where : where + length]
    records = []
    while at < end:
        length = struct.unpack_from("<H", data, at + 6)[0]
        records.append(data[at : at + length])
        at += length
    return attributes, features, records


def record(kind: int, body: bytes) -> bytes:
    return struct.pack("<IHH", kind, 0, 8 + len(body)) + body


def piped(data: bytes) -> bytes:
    """The same recording as perf writes it to a pipe (tools/perf/util/header.c)."""
    attributes, features, records = parts(data)
    out = [b"PERFILE2" + struct.pack("<Q", 16)]
    out += [record(64, attr + ids) for attr, ids in attributes]
    out += [
        record(80, struct.pack("<Q", n) + f)
        for n, f in features.items()
        if n != 1 and len(f) < 60_000
    ]
    formats = features[1]
    padded = formats + bytes(-len(formats) % 8)
    out += [record(66, struct.pack("<I", len(padded)) + bytes(4)), padded]
    return b"".join(out + records)


def folder_of(data: bytes, folder: Path, *, packed: bool = False) -> Path:
    """The same recording in a folder: samples by CPU in files of their own (tools/perf/util/data.c: perf_data__create_dir)."""
    attributes, features, records = parts(data)
    sample_type = struct.unpack_from("<Q", attributes[0][0], 24)[0]
    # include/uapi/linux/perf_event.h: 8 bytes for each of IDENTIFIER, IP, TID, TIME, ADDR, ID and STREAM_ID stand before the CPU
    where = 8 + 8 * sum(bool(sample_type & bit) for bit in (1 << 16, 1, 2, 4, 8, 64, 512))
    samples: dict[int, list[bytes]] = {0: [], 1: []}
    others = []
    for r in records:
        if struct.unpack_from("<I", r)[0] == 9:
            samples[struct.unpack_from("<I", r, where)[0] % 2].append(r)
        else:
            others.append(r)
    folder.mkdir(exist_ok=True)
    for cpu, mine in samples.items():
        stream = b"".join(mine)
        if packed:
            context = zstandard.ZstdCompressor().compressobj()
            stream = b"".join(
                record(
                    81,
                    context.compress(stream[i : i + 20_000])
                    + context.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK),
                )
                for i in range(0, len(stream), 20_000)
            )
        (folder / f"data.{cpu}").write_bytes(stream)
    middle = b"".join(others)
    end = 104 + len(middle)
    places, at = [], end + 16 * len(features)
    for f in features.values():
        places.append(struct.pack("<2Q", at, len(f)))
        at += len(f)
    ids_at, entries = at, b""
    for attr, ids in attributes:
        entries += attr + struct.pack("<2Q", at, len(ids))
        at += len(ids)
    size = len(attributes[0][0]) + 16
    head = (
        b"PERFILE2"
        + struct.pack("<7Q", 104, size, at, size * len(attributes), 104, len(middle), 0)
        + bytes(8)
    )
    head += sum(1 << n for n in features).to_bytes(32, "little")
    assert ids_at == end + 16 * len(features) + sum(map(len, features.values()))
    (folder / "data").write_bytes(
        head
        + middle
        + b"".join(places)
        + b"".join(features.values())
        + b"".join(i for _, i in attributes)
        + entries
    )
    return folder
