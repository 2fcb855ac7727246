"""What the head of a ``trace.dat`` file tells: formats of events, names of tasks, and where the pages are."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Literal

from wastedcores.trace.readers.perf_data.header import Format


@dataclass
class Buffer:
    """One buffer of the file: the top one, whose name is empty, or that of an instance."""

    clock: str | None = None  #: None if the file does not say
    #: CPU, and where its pages begin and how many bytes they have in the file
    pages: list[tuple[int, int, int]] = field(default_factory=list)
    compressed: bool = False  #: the pages are compressed
    #: CPU, place and number of bytes of pages that lie in the order in which they were recorded, instead of ``pages``
    blocks: list[tuple[int, int, int]] = field(default_factory=list)
    #: events per CPU that later ones overwrote, and events that found the buffer full
    overrun: Counter[int] = field(default_factory=Counter)
    dropped: Counter[int] = field(default_factory=Counter)


@dataclass
class DatHeader:
    """All of the file but its pages."""

    #: where the events of a page begin, and the size of a page
    page_start: int = 16
    page_bytes: int = 4096
    #: the tracepoints that are read, by name
    formats: dict[str, Format] = field(default_factory=dict)
    #: the numbers of all tracepoints, with their names
    names: dict[int, str] = field(default_factory=dict)
    #: names of tasks by PID, as the kernel kept them
    comms: dict[int, bytes] = field(default_factory=dict)
    #: the addresses of ``sched_cpu_activate`` and ``sched_cpu_deactivate``; None if they are not known. None instead of a
    #: future: the file has no symbols.
    hotplug: Future[tuple[int, int] | None] | None = None
    #: by name; that of the top one is empty
    buffers: dict[str, Buffer] = field(default_factory=dict)
    offset_ns: int = 0  #: is added to all times
    truncated: str | None = None  #: what is missing at the end of the file; None: nothing
    #: facts about the recording
    release: str | None = None
    host: str | None = None
    cpus: int | None = None
    #: the order of the bytes of a number, and what packed the pages
    order: Literal["little", "big"] = "little"
    packing: bytes = b"zstd"
