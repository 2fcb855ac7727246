"""Which fix of the bug group imbalance is on: none, that of the paper's text, or that of the authors' patch."""

from __future__ import annotations

NONE, PAPER, PATCH = range(3)
