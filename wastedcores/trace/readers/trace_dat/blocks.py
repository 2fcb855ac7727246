"""Finds the pages in what the collector ``tracefs.py`` writes: the head of a trace.dat, and the pages as they came.

trace-cmd writes the pages of each CPU into a file of its own and puts them together when the recording ends. The collector
writes them block by block into one file, so that a recorder that is killed leaves all that it had recorded.
"""

from __future__ import annotations

import struct

from wastedcores.errors import TraceFormatError
from wastedcores.limits import MAX_CPUS
from wastedcores.trace.readers.trace_dat.cursor import Cursor
from wastedcores.trace.readers.trace_dat.facts import DatHeader

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
