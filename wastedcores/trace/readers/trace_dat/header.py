"""Reads the head of a ``trace.dat`` file, version 6 or 7: formats, names of tasks, options, and the places of the pages.

Formats: man trace-cmd.dat.v6 and trace-cmd.dat.v7 (trace-cmd 3.1); the options' numbers are in trace-cmd-private.h.

This module also finds the pages in a file of the collector ``tracefs.py``. Such a file has the head of a trace.dat and then the
pages in the order in which they were recorded.

trace-cmd writes the pages of each CPU into a separate file and puts these files together when the recording ends. The collector
writes the pages block by block into one file. If it is killed, the file holds all that was recorded until then.
"""

from __future__ import annotations

import re
import struct
from collections import Counter
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from wastedcores.errors import TraceFormatError
from wastedcores.limits import MAX_CPUS
from wastedcores.trace.readers.perf_data.events import EVENTS
from wastedcores.trace.readers.perf_data.header import Format, parse_formats
from wastedcores.trace.readers.trace_dat.cursor import Cursor, unpack
from wastedcores.trace.recognisers import TRACE_DAT


@dataclass
class Buffer:
    """One buffer of the file: the top buffer, whose name is empty, or the buffer of an instance."""

    clock: str | None = None  #: None if the file does not say
    #: for each CPU: its number, where its pages begin in the file, and how many bytes they have
    pages: list[tuple[int, int, int]] = field(default_factory=list)
    compressed: bool = False  #: the pages are compressed
    #: used instead of ``pages`` if the pages lie in the order in which they were recorded: CPU, place and size of each block
    blocks: list[tuple[int, int, int]] = field(default_factory=list)
    #: events per CPU that later events overwrote, and events that were dropped because the buffer was full
    overrun: Counter[int] = field(default_factory=Counter)
    dropped: Counter[int] = field(default_factory=Counter)


@dataclass
class DatHeader:
    """The facts of a file apart from its pages."""

    #: where the events of a page begin, and the size of a page
    page_start: int = 16
    page_bytes: int = 4096
    #: the tracepoints that are read, by name
    formats: dict[str, Format] = field(default_factory=dict)
    #: the numbers of all tracepoints, with their names
    names: dict[int, str] = field(default_factory=dict)
    #: names of tasks by PID, as the kernel kept them
    comms: dict[int, bytes] = field(default_factory=dict)
    #: gives the addresses of ``sched_cpu_activate`` and ``sched_cpu_deactivate``, or None if the symbols lack them. If the file
    #: has no symbols, there is no future.
    hotplug: Future[tuple[int, int] | None] | None = None
    #: by name; the name of the top buffer is empty
    buffers: dict[str, Buffer] = field(default_factory=dict)
    offset_ns: int = 0  #: an offset that is added to all times
    truncated: str | None = None  #: what is missing at the end of the file; None: nothing
    #: facts about the recording
    release: str | None = None
    host: str | None = None
    cpus: int | None = None
    #: the order of the bytes of a number, and the name of the compression of the pages
    order: Literal["little", "big"] = "little"
    packing: bytes = b"zstd"


#: collectors/tracefs.py
KIND = b"pages    \0"
#: the CPU of the block with the kernel's counts
END = 0xFFFFFFFF
_BLOCK = struct.Struct("<II")


def read_blocks(file: Cursor, header: DatHeader) -> str:
    """Note the places of all blocks."""
    size, blocks = len(file.data), header.buffers[""].blocks
    while file.at + _BLOCK.size <= size:
        begin = file.at
        cpu, length = _BLOCK.unpack(file.take(_BLOCK.size, "a block of pages"))
        if cpu == END and file.at + length > size:
            break
        if cpu == END:
            return file.take(length, "the kernel's counts").decode("utf-8", "replace")
        if cpu >= MAX_CPUS or not length or length % header.page_bytes:
            raise TraceFormatError(
                f"{file.path}: byte {begin}: a block of {length} bytes of CPU {cpu}; expected whole pages of "
                f"{header.page_bytes} bytes, and CPUs 0 to {MAX_CPUS - 1} at most. The file is damaged: copy or record it again."
            )
        there = min(length, (size - file.at) // header.page_bytes * header.page_bytes)
        blocks.append((cpu, file.at, there))
        file.at += length
    header.truncated = (
        "the end of the recording is missing: the collector was killed, or the disk was full"
    )
    return ""


_DONE, _DATE, _CPUSTAT, _BUFFER, _CLOCK, _UNAME, _OFFSET, _CPUCOUNT, _TSC2NSEC = (
    *range(6), 7, 8, 14,
)  # fmt: skip
_HEADERS, _FTRACE_EVENTS, _EVENT_FORMATS, _KALLSYMS, _CMDLINES = 16, 17, 18, 19, 21
_COMPRESSED = 1
_MAX_OPTIONS = 1 << 20
#: The possible sizes of a page in bytes (kernel/trace/ring_buffer.c: ring_buffer_subbuf_order_set)
_PAGE_BYTES = range(64, (1 << 27) + 1)
_FIELD = re.compile(r"field:[^;]*?(\w+);\s*offset:(\d{1,6});\s*size:(\d{1,6});")
_NAME = re.compile(rb"^name: (\S+)\nID: (\d{1,5})\n")
_COUNTED = re.compile(
    r"^CPU: (\d{1,5})$|^(overrun|commit overrun|dropped events): (\d{1,18})$", re.MULTILINE
)
#: ftrace's clocks that count nanoseconds (kernel/trace/trace.c, v6.12: trace_clocks); uptime counts ticks
_NANOSECONDS = ("local", "global", "perf", "mono", "mono_raw", "boot", "tai")


def read_header(data: np.ndarray, path: Path, pool: Executor) -> DatHeader:
    """Read the head of a file."""
    file = Cursor(data, path, len(TRACE_DAT))
    version = file.string("the version")
    if version not in (b"6", b"7"):
        raise _unread(
            path, f"a trace.dat of version {version[:8].decode('latin-1')!r}; expected 6 or 7"
        )
    file.order = "big" if file.number(1, "the byte order") else "little"
    file.number(1, "the size of a long")
    header = DatHeader(page_bytes=file.number(4, "the size of a page"), order=file.order)
    (_read_6 if version == b"6" else _read_7)(file, header, pool)
    if header.page_bytes not in _PAGE_BYTES:
        raise TraceFormatError(
            f"{path}: its pages have {header.page_bytes} bytes; expected {_PAGE_BYTES[0]} to {_PAGE_BYTES[-1]}. Its head is "
            "damaged: copy or record it again."
        )
    for one in header.buffers.values():
        if one.pages and one.clock and one.clock not in _NANOSECONDS:
            raise _unread(
                path, f"its times are of the clock {one.clock!r}, which does not count nanoseconds"
            )
    _require_places(header, len(data), path)
    return header


def _require_places(header: DatHeader, size: int, path: Path) -> None:
    """Refuse pages that lie outside of the file or that several CPUs share, and a buffer in which a CPU comes twice."""
    buffers = header.buffers.values()
    for one in buffers:
        cpus = [cpu for cpu, _, _ in one.pages]
        twice = next((cpu for cpu in cpus if cpus.count(cpu) > 1), None)
        if twice is not None:
            raise TraceFormatError(
                f"{path}: one buffer has the events of CPU {twice} in two places; expected one place per CPU. The file is "
                "damaged: copy or record it again."
            )
    places = sorted((a, n, cpu, b.compressed) for b in buffers for cpu, a, n in b.pages if n)
    before = 0
    for at, bytes_there, cpu, compressed in places:
        whole = compressed or bytes_there % header.page_bytes == 0
        if cpu >= MAX_CPUS or at < before or at + bytes_there > size or not whole:
            raise TraceFormatError(
                f"{path}: CPU {cpu} should have {bytes_there} bytes of events at byte {at}. Expected pages of "
                f"{header.page_bytes} bytes of their own, inside the file of {size} bytes, and CPUs 0 to {MAX_CPUS - 1} at "
                "most. The file is cut short or damaged: copy or record it again."
            )
        before = at + bytes_there


def _unread(path: Path, why: str) -> TraceFormatError:
    return TraceFormatError(
        f"{path}: {why}, and this reader does not know that. Import the text instead: trace-cmd report -t -N -i FILE > "
        "FILE.txt; a clock that counts nanoseconds is chosen by `trace-cmd record -C mono`."
    )


def _read_6(file: Cursor, header: DatHeader, pool: Executor) -> None:
    _page_format(file, header)
    _tracepoints(file, header, systems=False)
    _tracepoints(file, header, systems=True)
    header.hotplug = pool.submit(_hotplug, file.sized(4, "the symbols of the kernel"))
    file.sized(4, "the formats of trace_printk")
    _comms(file, header)
    cpus = file.number(4, "the number of CPUs")
    if cpus > MAX_CPUS:
        raise TraceFormatError(
            f"{file.path}: byte {file.at - 4}: it says that the machine had {cpus} CPUs; Linux has {MAX_CPUS} at most. Its "
            "head is damaged: copy or record it again."
        )
    header.cpus = cpus
    top = header.buffers[""] = Buffer()
    kind = file.take(10, "the kind of recording")
    places: list[tuple[str, int]] = []
    said = _Options(header)
    if kind == b"options  \0":
        while number := file.number(2, "an option"):
            option = file.inside(file.sized(4, "an option"), file.at)
            if number == _BUFFER:
                at = option.number(8, "the place of a buffer")
                places.append((_text(option.string("the name of a buffer")), at))
            else:
                said.learn(number, option)
        said.settle()
        kind = file.take(10, "the kind of recording")
    if kind == KIND:
        said.count_missed(read_blocks(file, header))
        return
    if kind != b"flyrecord\0":
        raise _unread(file.path, f"a recording of the kind {kind.strip(chr(0).encode() + b' ')!r}")
    top.pages = _places(file, cpus)
    for name, at in places:
        file.at = at
        file.expect(b"flyrecord\0")
        header.buffers.setdefault(name, Buffer()).pages = _places(file, cpus)


def _places(file: Cursor, cpus: int) -> list[tuple[int, int, int]]:
    words = np.frombuffer(
        file.take(16 * cpus, "the places of the CPUs' events"),
        ">u8" if file.order == "big" else "<u8",
    ).tolist()
    return [(cpu, *words[2 * cpu : 2 * cpu + 2]) for cpu in range(cpus)]


def _read_7(file: Cursor, header: DatHeader, pool: Executor) -> None:
    packing = file.string("the name of the compression")
    file.string("the version of the compression")
    if packing not in (b"zstd", b"zlib", b"none", b""):
        raise _unread(
            file.path, f"it is compressed by {_text(packing)[:20]!r}; only zstd and zlib are known"
        )
    file.packing = header.packing = packing or b"zstd"
    header.buffers[""] = Buffer()
    said = _Options(header)
    at, seen = file.number(8, "the place of the options"), 0
    sections: dict[int, int] = {}
    while at:
        options = _section(file, at, 0)
        at = 0
        while options.at < len(options.data):
            number = options.number(2, "an option")
            place = options.begin + options.at
            option = options.inside(options.sized(4, "an option"), place)
            seen += 1
            if seen > _MAX_OPTIONS:
                raise TraceFormatError(
                    f"{file.path}: more than {_MAX_OPTIONS} options. It is damaged."
                )
            if number == _DONE:
                at = option.number(8, "the place of more options")
                break
            if number == _BUFFER:
                _buffer(file, option, header)
            elif number >= _HEADERS and len(option.data) == 8:
                sections[number] = option.number(8, "the place of a section")
            else:
                said.learn(number, option)
    said.settle()
    if _KALLSYMS in sections:
        symbols = Cursor(file.data, file.path)
        symbols.order, symbols.packing = file.order, file.packing
        header.hotplug = pool.submit(_hotplug_in_section, symbols, sections[_KALLSYMS])
    for number, read in (
        (_HEADERS, _page_format),
        (_FTRACE_EVENTS, lambda f, h: _tracepoints(f, h, systems=False)),
        (_EVENT_FORMATS, lambda f, h: _tracepoints(f, h, systems=True)),
        (_CMDLINES, _comms),
    ):
        if number in sections:
            read(_section(file, sections[number], number), header)


def _section(file: Cursor, at: int, number: int) -> Cursor:
    """Return the content of a section, unpacked."""
    file.at = at
    found, flags = file.number(2, "a section"), file.number(2, "a section")
    file.number(4, "a section")
    size = file.number(8, "a section")
    if found != number:
        raise TraceFormatError(
            f"{file.path}: byte {at}: a section of kind {found}, expected {number}. The file is damaged: copy or record it "
            "again."
        )
    begin = file.at
    if not flags & _COMPRESSED:
        return file.inside(file.take(size, "a section"), begin)
    packed, plain = file.number(4, "a section"), file.number(4, "a section")
    content = file.take(packed, "a section")
    return file.inside(unpack(content, plain, file.path, begin, file.packing), begin)


def _buffer(file: Cursor, option: Cursor, header: DatHeader) -> None:
    """Learn from an option where the pages of a buffer are."""
    at = option.number(8, "the place of a buffer")
    name = _text(option.string("the name of a buffer"))
    clock = _text(option.string("the clock of a buffer"))
    page_bytes = option.number(4, "the size of a page")
    cpus = option.number(4, "the number of CPUs")
    found = header.buffers.setdefault(name, Buffer())
    # for the top buffer, trace-cmd asked the kernel; for others it also writes "local" if it was given no clock
    if name:
        found.clock = clock if clock != "local" else None
    if not cpus:
        return
    header.page_bytes = page_bytes
    row = ">u4, >u8, >u8" if file.order == "big" else "<u4, <u8, <u8"
    rows = np.frombuffer(option.take(20 * cpus, "the places of a buffer's events"), row)
    found.pages = [(int(c), int(a), int(s)) for c, a, s in rows.tolist()]
    file.at = at + 2
    found.compressed = bool(file.number(2, "the section of a buffer") & _COMPRESSED)


class _Options:
    """The options that state facts. Options about a buffer come after the option with the buffer's name."""

    def __init__(self, header: DatHeader) -> None:
        self.header = header
        self.about, self.cpu = header.buffers[""], 0
        self.clock: str | None = None

    def learn(self, number: int, option: Cursor) -> None:
        """Learn from one option."""
        text = option.data.tobytes().split(b"\0")[0].decode("utf-8", "replace")
        header = self.header
        if number == _CLOCK and (found := re.search(r"\[([\w-]+)\]", text)):
            header.buffers[""].clock = found[1]
        elif number == _UNAME and len(words := text.split()) == 4:
            header.host, header.release = words[1:3]
        elif number == _CPUCOUNT and len(option.data) >= 4:
            header.cpus = option.number(4, "the number of CPUs")
        elif number in (_DATE, _OFFSET):
            self._shift(text, 1000 if number == _DATE else 1, option)
        elif number == _TSC2NSEC:
            raise _unread(option.path, "its times are counts of the processor")
        elif number == _CPUSTAT:
            self._count(text)

    def _shift(self, text: str, unit_ns: int, option: Cursor) -> None:
        """Add an option's number to the offset of all times; trace-cmd takes decimal and hexadecimal numbers."""
        try:
            self.header.offset_ns += int(text, 0) * unit_ns
        except ValueError as e:
            raise TraceFormatError(
                f"{option.path}: byte {option.begin}: {text[:40]!r} should be added to its times, which is not a number. The "
                "file is damaged: copy or record it again."
            ) from e

    def _count(self, text: str) -> None:
        """Take the kernel's counts (per_cpu/cpuN/stats), or the name of the buffer to which the following counts belong."""
        if named := re.search(r"^Buffer: (.+)$", text, re.MULTILINE):
            self.about = self.header.buffers.setdefault(named[1], Buffer())
            return
        for cpu, what, n in _COUNTED.findall(text):
            if cpu:
                self.cpu = int(cpu)
            elif what == "overrun":
                self.about.overrun[self.cpu] += int(n)
            else:
                self.about.dropped[self.cpu] += int(n)

    def count_missed(self, text: str) -> None:
        """Take the kernel's counts from the time in which its buffers were emptied: an event overwritten then is missing."""
        self._count(text)
        self.about.dropped.update(self.about.overrun)
        self.about.overrun.clear()
        self.settle()

    def settle(self) -> None:
        """Drop the counts of zero."""
        for one in self.header.buffers.values():
            one.overrun, one.dropped = +one.overrun, +one.dropped


def _page_format(file: Cursor, header: DatHeader) -> None:
    """Learn the format of a page: where its events begin, and its size if this differs from that of a page of memory."""
    file.expect(b"header_page\0")
    text = _text(file.sized(8, "the format of a page"))
    file.expect(b"header_event\0")
    file.sized(8, "the format of an event")
    page_format(text, header, file)


def page_format(text: str, header: DatHeader, file: Cursor) -> None:
    """Learn where the events of a page begin, and the size of a page."""
    found = {name: (int(offset), int(size)) for name, offset, size in _FIELD.findall(text)}
    start, size = found.get("data", (0, 0))
    if start not in (12, 16) or found.get("commit", (8, 0))[1] != start - 8:
        raise _unread(file.path, "a page of its ring buffer has a format of its own")
    header.page_start, header.page_bytes = start, start + size


def _tracepoints(file: Cursor, header: DatHeader, *, systems: bool) -> None:
    """Learn the formats of ftrace's own events, or of all systems' events."""
    for _ in range(file.number(4, "the number of systems") if systems else 1):
        if systems:
            file.string("the name of a system")
        for _ in range(file.number(4, "the number of formats")):
            text = file.sized(8, "the format of an event")
            if found := _NAME.match(text):
                name = _text(found[1])
                header.names.setdefault(int(found[2]), name)
                if name in EVENTS:
                    for other, format in parse_formats(_text(text)).items():
                        header.formats.setdefault(other, format)


def _hotplug_in_section(file: Cursor, at: int) -> tuple[int, int] | None:
    section = _section(file, at, _KALLSYMS)
    return _hotplug(section.sized(4, "the symbols of the kernel"))


def _hotplug(text: bytes) -> tuple[int, int] | None:
    """Return the addresses of the kernel's two functions that CPU hotplug events name; None if the symbols lack one."""
    found = [
        re.search(rb"^([0-9a-f]{8,16}) \w %s$" % name, _around(text, name), re.MULTILINE)
        for name in (b"sched_cpu_activate", b"sched_cpu_deactivate")
    ]
    if not all(found):
        return None
    activate, deactivate = (
        struct.unpack("<q", int(f[1], 16).to_bytes(8, "little"))[0] for f in found if f
    )
    return (activate, deactivate) if activate and deactivate else None


def _around(text: bytes, name: bytes) -> bytes:
    """Return the line of a symbol; a regular expression would take longer to search millions of bytes."""
    at = text.find(b" " + name + b"\n")
    return text[text.rfind(b"\n", 0, at) + 1 : at + len(name) + 2] if at >= 0 else b""


def _comms(file: Cursor, header: DatHeader) -> None:
    for line in file.sized(8, "the names of tasks").split(b"\n"):
        pid, _, name = line.partition(b" ")
        if name and pid.isdigit() and len(pid) <= 9:
            header.comms[int(pid)] = name


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")
