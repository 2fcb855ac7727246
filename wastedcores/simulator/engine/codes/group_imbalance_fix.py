"""Which fix of the group imbalance bug is on: none, the fix in the paper's text, or the fix in the authors' patch."""

NONE, PAPER, PATCH = range(3)
