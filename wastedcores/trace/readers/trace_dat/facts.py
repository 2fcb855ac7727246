"""What the head of a ``trace.dat`` file tells: formats of events, names of tasks, and where the pages are."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Literal

from wastedcores.trace.readers.perf_data.header import Format


@dataclass
class Buffer:
    """One buffer of the file: the top one, whose name is empty, or that of an instance.

    Attributes
    ----------
    pages
        CPU, and where its pages begin and how many bytes they have in the file.
    compressed
        The pages are compressed.
    blocks
        CPU, place and number of bytes of pages that lie in the order in which they were recorded, instead of ``pages``.
    clock
        None if the file does not say.
    overrun, dropped
        Events per CPU that later ones overwrote, and events that found the buffer full.
    """

    clock: str | None = None
    pages: list[tuple[int, int, int]] = field(default_factory=list)
    compressed: bool = False
    blocks: list[tuple[int, int, int]] = field(default_factory=list)
    overrun: Counter[int] = field(default_factory=Counter)
    dropped: Counter[int] = field(default_factory=Counter)


@dataclass
class DatHeader:
    """All of the file but its pages.

    Attributes
    ----------
    page_start, page_bytes
        Where the events of a page begin, and the size of a page.
    formats
        The tracepoints that are read, by name.
    names
        The numbers of all tracepoints, with their names.
    comms
        Names of tasks by PID, as the kernel kept them.
    hotplug
        The addresses of ``sched_cpu_activate`` and ``sched_cpu_deactivate``; None if they are not known. None
        instead of a future: the file has no symbols.
    buffers
        By name; that of the top one is empty.
    offset_ns
        Is added to all times.
    truncated
        What is missing at the end of the file; None: nothing.
    release, host, cpus
        Facts about the recording.
    order, packing
        The order of the bytes of a number, and what packed the pages.
    """

    page_start: int = 16
    page_bytes: int = 4096
    formats: dict[str, Format] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    comms: dict[int, bytes] = field(default_factory=dict)
    hotplug: Future[tuple[int, int] | None] | None = None
    buffers: dict[str, Buffer] = field(default_factory=dict)
    offset_ns: int = 0
    truncated: str | None = None
    release: str | None = None
    host: str | None = None
    cpus: int | None = None
    order: Literal["little", "big"] = "little"
    packing: bytes = b"zstd"
