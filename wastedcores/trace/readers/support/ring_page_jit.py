"""The format of a page of ftrace's ring buffer: a time, the number of bytes in use, and events.

Formats: kernel/trace/ring_buffer.c (struct buffer_data_page, enum ring_buffer_type, rb_event_data_length; 4.1 to 6.18).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from wastedcores.jit.compile import lean
from wastedcores.trace.readers.support.bytes_jit import load32

U8 = NDArray[np.uint8]

#: Bits of a page's second word: the number of bytes in use, and what the kernel says about events lost before the page.
PAGE_BYTES = (1 << 27) - 1
MISSED_STORED, MISSED_EVENTS = 1 << 30, 1 << 31
#: Types of entries; all lower types are events with data.
PADDING_TYPE, TIME_EXTEND, TIME_STAMP = 29, 30, 31
#: An entry begins with its type; the bits above the type hold the time since the previous entry.
TYPE_BITS, DELTA_BITS = 5, 27


@lean
def event_at(b: U8, at: int) -> tuple[Any, Any]:
    """Return where the data of the event at ``at`` begin, and how many bytes they have."""
    words = np.int64(load32(b, at)) & ((1 << TYPE_BITS) - 1)
    if words:
        return at + 4, 4 * words
    return at + 8, np.int64(load32(b, at + 4)) - 4
