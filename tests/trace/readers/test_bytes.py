"""Numbers, line ends and spaces that compiled code finds in bytes, beside what Python finds."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from wastedcores.trace.readers.support.bytes_jit import PADDING, line_end, number
from wastedcores.trace.readers.text.envelope_jit import spaces

TEXT = st.text("0123456789 \n[/:;\x80\xff\x00a", max_size=40).map(lambda t: t.encode("latin-1"))


def padded(text: bytes) -> np.ndarray:
    return np.frombuffer(text + bytes(PADDING), np.uint8).copy()


@given(TEXT, st.integers(0, 39))
@example(b"12345678", 0)
@example(b"123456789012345678/", 0)
@example(b"1234567890123456789", 0)
@example(b"7:", 0)
def test_numbers_line_ends_and_spaces(text, at):
    at = min(at, len(text))
    digits = len(text[at:]) - len(text[at:].lstrip(b"0123456789"))
    value = int(text[at : at + digits]) if 0 < digits <= 18 else 0
    assert number(padded(text), at) == (value, at + digits if digits <= 18 else at)
    end = text.find(b"\n", at)
    assert line_end(padded(text), at, len(text)) == (end if end >= 0 else len(text))
    assert spaces(padded(text), at) == len(text) - len(text[at:].lstrip(b" "))
