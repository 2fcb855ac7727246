"""Which of the three rows has the statistics of which group, counted from the first row of scratch."""

from __future__ import annotations

LOCAL, BUSIEST, SPARE = range(
    3
)  # the local group, the busiest one so far, and the one that is being looked at
