"""Which fix of the bug group imbalance is on: none, that of the paper's text, or that of the authors' patch."""

NONE, PAPER, PATCH = range(3)
