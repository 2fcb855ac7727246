"""Reads the head of a ``perf.data`` file: attributes, layouts of samples, features, formats of tracepoints.

Formats: tools/perf/Documentation/perf.data-file-format.txt, tools/perf/util/header.h (6.1),
include/uapi/linux/perf_event.h.
"""

from __future__ import annotations

import re
import string
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from wastedcores.errors import TraceFormatError
from wastedcores.limits import MAX_CPUS
from wastedcores.trace.readers.perf_data import records_jit as pj
from wastedcores.trace.schedstat import has_counters

_TYPE_TRACEPOINT = 2
# PERF_SAMPLE_*
_IP, _TID, _TIME, _ADDR, _READ, _CHAIN, _ID, _CPU, _PERIOD, _STREAM, _RAW = (
    1 << n for n in range(11)
)
_IDENTIFIER = 1 << 16
_SAMPLE_ID_ALL, _COMM_OR_TASK = 1 << 18, 1 << 9 | 1 << 13
#: set by perf record --overwrite: the kernel keeps the newest records of each CPU, and nothing counts the overwritten records
_WRITE_BACKWARD = 1 << 27
# features, tools/perf/util/header.h
_TRACING, _HOSTNAME, _RELEASE, _NRCPUS, _CMDLINE, _CLOCKID = 1, 3, 4, 7, 11, 23
#: No recording has more than an attribute for each tracepoint of the kernel, and 8192 CPUs.
_MAX_ATTRIBUTES, _MAX_IDS = 1 << 14, 1 << 20
#: The most bytes of a feature. The formats of all tracepoints of a kernel have about 3 MB.
_MAX_FEATURE_BYTES = 1 << 26
#: If all identifiers lie within this distance, an array by distance is used, which gives the layout in one step.
_DENSE = 1 << 16
_FIELD = re.compile(r"([^;]+);\s*offset:(\d{1,6});\s*size:(\d{1,6});")
_PREEMPTED = re.compile(r'prev_state & (0x[0-9a-f]{1,9}|[1-9]\d{0,8}) \? "\+"')
_WORD = string.ascii_letters + string.digits + "_"
_CLOCKS = {0: "realtime", 1: "monotonic", 4: "monotonic_raw", 7: "boottime", 11: "tai"}


@dataclass
class Format:
    """A tracepoint: its number, its fields by name as (type, offset, bytes), and how perf prints it."""

    name: str
    number: int
    fields: dict[str, tuple[str, int, int]]
    print_fmt: str


class Samples(NamedTuple):
    """The layouts of a file's samples: see :class:`~wastedcores.trace.readers.perf_data.records_jit.Formats`."""

    layouts: np.ndarray
    ids: np.ndarray
    which: np.ndarray
    dense: bool
    id_at: int = 8
    id_last: bool = False
    tracking: int = 0


#: For files that have no samples of perf.
NO_SAMPLES = Samples(
    np.full((1, pj.N_LAYOUT), -1), np.zeros(0, np.uint64), np.zeros(0, np.int32), False
)


@dataclass
class PerfHeader:
    """The facts of a file apart from its records."""

    data: tuple[int, int]  #: where the records begin and end
    samples: Samples  #: the layouts of the samples
    formats: dict[str, Format] = field(default_factory=dict)  #: tracepoints by name
    end: int = 0  #: where the last part of the file ends
    #: facts about the recording
    release: str | None = None
    host: str | None = None
    cpus: int | None = None
    all_online: bool = True
    clock: str | None = None
    overwrites: bool = False  #: the kernel kept only the newest records of each CPU
    notes: dict[str, str] = field(default_factory=dict)


def read_header(data: np.ndarray, path: Path) -> PerfHeader:
    """Read the head of a file."""
    raw = data[:104].tobytes()
    if len(raw) < 104 or struct.unpack_from("<Q", raw, 8)[0] != 104:
        raise TraceFormatError(
            f"{path}: a perf.data file with a head this reader does not know. Record with "
            "`perf record -o FILE`, or import the text: perf script --show-lost-events -F +cpu -i FILE > FILE.txt."
        )
    attr_size, attrs_at, attrs_size, data_at, data_size = struct.unpack_from("<5Q", raw, 16)
    bits = int.from_bytes(raw[72:104], "little")
    if data_size == 0 or data_at + data_size > len(data):
        raise TraceFormatError(
            f"{path}: its data should reach to byte {data_at + data_size}, the file has {len(data)} (perf writes the "
            "size when it ends). It is cut short or was not closed: `perf inject -i FILE -o NEW` may save it."
        )
    if has_counters(data[: 1 << 20].tobytes()):
        raise TraceFormatError(
            f"{path}: this is what `perf sched stats record` writes: the scheduler's counters of /proc/schedstat, per CPU and "
            "domain. They tell how often CPUs balanced and how long threads waited in all, but not whether a CPU was idle "
            f"meanwhile. `wastedcores schedstat {path.name}` prints them; for a verdict record a trace: perf sched record -o "
            "perf.data sleep 10."
        )
    samples, overwrites = _attributes(data, (attr_size, attrs_at, attrs_size), path)
    header = PerfHeader((data_at, data_at + data_size), samples, overwrites=overwrites)
    header.end = max(data_at + data_size, attrs_at + attrs_size)
    _features(data, data_at + data_size, bits, header, path)
    if header.end < len(data):
        header.notes["bytes at the end"] = (
            f"{len(data) - header.end} bytes follow the recording and were left out; they may be another recording"
        )
    return header


def _numbers(data: np.ndarray, at: int, size: int) -> np.ndarray:
    """Return ``size`` bytes as u64, or as many as the file has."""
    raw = data[at : at + size].tobytes()
    return np.frombuffer(raw[: len(raw) // 8 * 8], np.uint64)


def _attributes(data: np.ndarray, where: tuple[int, int, int], path: Path) -> tuple[Samples, bool]:
    """Return the layouts, the layout of each identifier of samples, and whether a buffer overwrote its oldest records."""
    size, at, total = where
    if size < 64 or size > 1024 or at + total > len(data) or total // size > _MAX_ATTRIBUTES:
        raise TraceFormatError(
            f"{path}: {total} bytes of event attributes, {size} each, at byte {at}; expected up to {_MAX_ATTRIBUTES} of "
            "64 to 1024 bytes inside the file. Its head is damaged: record again."
        )
    layouts: list[tuple[int, ...]] = []
    pairs: list[tuple[int, int]] = []
    all_ids = 0
    id_at, id_last, tracking, overwrites = 8, True, -1, False
    for i in range(total // size):
        raw = data[at + i * size : at + (i + 1) * size].tobytes()
        kind, _ = struct.unpack_from("<II", raw, 0)
        sample_type, read_format, flags = struct.unpack_from("<3Q", raw, 24)
        overwrites |= kind == _TYPE_TRACEPOINT and bool(flags & _WRITE_BACKWARD)
        if not sample_type & _IDENTIFIER:
            id_last = False
            id_at = 8 + 8 * (sample_type & (_IP | _TID | _TIME | _ADDR)).bit_count()
        ids_at, ids_size = struct.unpack_from("<2Q", raw, size - 16)
        all_ids += ids_size
        if all_ids > 8 * _MAX_IDS or ids_at + ids_size > len(data):
            raise TraceFormatError(
                f"{path}: event attribute {i} has {ids_size} bytes of identifiers at byte {ids_at}; expected up to "
                f"{8 * _MAX_IDS} inside the file for all attributes. Its head is damaged: record again."
            )
        layout = _layout(sample_type, read_format, flags) if kind == _TYPE_TRACEPOINT else None
        layout = layout or tuple([-1] * 5 + list(_id_layout(sample_type, flags)))
        if layout not in layouts:
            layouts.append(layout)
        if len(layouts) > pj.MAX_LAYOUTS:
            raise TraceFormatError(
                f"{path}: more than {pj.MAX_LAYOUTS} kinds of sample; perf records fewer. Its head is damaged: record "
                "again."
            )
        numbers = _numbers(data, ids_at, ids_size)
        number = layouts.index(layout)
        if tracking < 0 and flags & _COMM_OR_TASK:
            tracking = number
        pairs += [(n, number) for n in numbers.tolist()]
    if not any(layout[pj.L_TIME] >= 0 for layout in layouts):
        raise TraceFormatError(
            f"{path}: no tracepoint in it was recorded with time, CPU and raw data. Record the scheduler's: "
            "perf sched record, or perf record -a -R -e 'sched:*'."
        )
    if len(layouts) == 1:
        pairs = []
    pairs.sort()
    rest = (id_at, id_last, max(tracking, 0))
    ids = np.array([p[0] for p in pairs], np.uint64)
    which = np.array([p[1] for p in pairs], np.int32)
    if not pairs or pairs[-1][0] - pairs[0][0] > _DENSE:
        return Samples(np.array(layouts, np.int64), ids, which, False, *rest), overwrites
    by_distance = np.full(pairs[-1][0] - pairs[0][0] + 1, -1, np.int32)
    by_distance[(ids - ids[0]).astype(np.int64)] = which
    return Samples(np.array(layouts, np.int64), ids[:1], by_distance, True, *rest), overwrites


def _layout(sample_type: int, read_format: int, flags: int) -> tuple[int, ...] | None:
    """Return the offsets in a sample (perf_event.h, comment at PERF_RECORD_SAMPLE); None if a needed part is absent."""
    at = 8
    found: dict[int, int] = {}
    for bit in (_IDENTIFIER, _IP, _TID, _TIME, _ADDR, _ID, _STREAM, _CPU, _PERIOD):
        if sample_type & bit:
            found[bit] = at
            at += 8
    if sample_type & _READ:
        if read_format & 8:  # the samples of a group have as many values as the group has counters
            return None
        at += 8 * (1 + bin(read_format & 0b10111).count("1"))
    chain = at if sample_type & _CHAIN else -1
    raw = -1 if sample_type & _CHAIN else at
    if not sample_type & _RAW or any(b not in found for b in (_TIME, _CPU, _TID)):
        return None
    return (found[_TIME], found[_CPU], found[_TID], raw, chain, *_id_layout(sample_type, flags))


def _id_layout(sample_type: int, flags: int) -> tuple[int, int]:
    """Return the places of time and CPU in a record that is not a sample, as negative offsets from its end; 0: absent."""
    if not flags & _SAMPLE_ID_ALL:
        return 0, 0
    found = {}
    at = 0
    for bit in (_IDENTIFIER, _CPU, _STREAM, _ID, _TIME, _TID):
        if sample_type & bit:
            at -= 8
            found[bit] = at
    return found.get(_TIME, 0), found.get(_CPU, 0)


def _features(data: np.ndarray, at: int, bits: int, header: PerfHeader, path: Path) -> None:
    for number in range(256):
        if not bits >> number & 1:
            continue
        if at + 16 > len(data):
            raise TraceFormatError(f"{path}: the list of features at byte {at} is cut short.")
        where, size = struct.unpack("<2Q", data[at : at + 16].tobytes())
        at += 16
        header.end = max(header.end, at, where + size)
        if number not in (_TRACING, _HOSTNAME, _RELEASE, _NRCPUS, _CMDLINE, _CLOCKID):
            continue
        if where + size > len(data) or size > _MAX_FEATURE_BYTES:
            raise TraceFormatError(
                f"{path}: feature {number} has {size} bytes at byte {where}; expected up to {_MAX_FEATURE_BYTES} inside "
                "the file. Its head is damaged: record again."
            )
        section = data[where : where + size].tobytes()
        if number == _TRACING:
            header.formats = parse_formats(section.decode("utf-8", "replace"))
        elif number == _NRCPUS and len(section) >= 8:
            header.cpus, online = struct.unpack_from("<2I", section)
            header.all_online = header.cpus <= online
            if header.cpus > MAX_CPUS:
                raise TraceFormatError(
                    f"{path}: byte {where}: it says that the machine had {header.cpus} CPUs; Linux has "
                    f"{MAX_CPUS} at most. Its head is damaged: record again."
                )
        elif number == _CLOCKID and len(section) >= 8:
            number_of_clock = struct.unpack_from("<Q", section)[0]
            header.clock = _CLOCKS.get(number_of_clock, f"clock {number_of_clock}")
        elif number == _RELEASE:
            header.release = _string(section)
        elif number == _HOSTNAME:
            header.host = _string(section)
        elif number == _CMDLINE and len(section) >= 4:
            header.notes["source cmdline"] = _strings(section)


def _string(section: bytes) -> str:
    return section[4:].split(b"\0")[0].decode("utf-8", "replace")


def _strings(section: bytes) -> str:
    count, at = struct.unpack_from("<I", section)[0], 4
    words: list[str] = []
    while len(words) < min(count, 1000) and at + 4 <= len(section):
        size = struct.unpack_from("<I", section, at)[0]
        words.append(_string(section[at : at + 4 + size]))
        at += 4 + size
    return " ".join(words)


def parse_formats(text: str) -> dict[str, Format]:
    """Return the tracepoints by name, from the kernel's ``format`` files as perf copies them."""
    formats: dict[str, Format] = {}
    name, number, fields = "", -1, dict[str, tuple[str, int, int]]()
    for line in text.split("\n"):
        begin, _, rest = line.lstrip("\t").partition(":")
        rest = rest.strip()
        if begin.endswith("name"):  # the size of the format comes before it
            name, number, fields = rest, -1, {}
        elif begin == "ID" and rest.isdecimal() and len(rest) <= 5:
            number = int(rest)
        elif begin == "field" and (found := _FIELD.match(rest)):
            declared, offset, size = found.groups()
            declared = declared.strip()
            array = declared[declared.rfind("[") :] if declared.endswith("]") else ""
            before = declared.removesuffix(array)
            kind = before.rstrip(_WORD)
            fields[before[len(kind) :]] = (kind.strip() + array, int(offset), int(size))
        elif begin == "print fmt" and 0 <= number < 1 << 16:  # common_type has 16 bits
            formats.setdefault(name, Format(name, number, fields, rest))
            number = -1
    return formats


def state_names(print_fmt: str) -> list[str]:
    """Return the texts that sched_switch prints for all values of prev_state, in the order of the values.

    The letters and their bits differ from kernel to kernel. The print format states them, and it states the bit of the "+" of a
    preempted task (include/trace/events/sched.h): TASK_STATE_MAX up to 4.13, later TASK_REPORT_MAX, the bit above the letters.
    """
    letters = {
        int(v, 16 if v.startswith("0x") else 10): t
        for v, t in re.findall(r"\{ *(0x[0-9a-f]{1,9}|\d{1,9}), *\"([^\"]*)\" *\}", print_fmt)
    }
    letters.pop(0, None)
    if not letters or any(v & (v - 1) for v in letters) or max(letters) > 1 << 14:
        letters = {1: "S", 2: "D", 4: "T", 8: "t", 16: "X", 32: "Z", 64: "P", 128: "I"}
    bits = max(letters).bit_length()
    plus = _PREEMPTED.search(print_fmt)
    if plus and (bit := int(plus[1], 0)) & (bit - 1) == 0 and max(letters) < bit <= 1 << 15:
        bits = bit.bit_length() - 1
    names, known = [""], 0
    for bit in (1 << n for n in range(bits)):
        letter = letters.get(bit)
        known |= bit if letter else 0
        names += [(f"{n}|{letter}" if n else letter) if letter else n for n in names]
    rest = [value & ~known for value in range(len(names))]
    if any(rest):
        names = ["|".join(filter(None, (n, hex(r) if r else ""))) for n, r in zip(names, rest, strict=True)]  # fmt: skip
    names[0] = "R"
    return names + [n + "+" for n in names]
