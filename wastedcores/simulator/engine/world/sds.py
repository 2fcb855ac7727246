"""Columns of the row that holds ``struct sd_lb_stats``, the result of find_busiest_group()."""

from __future__ import annotations

(
    BUSIEST,  # row of the busiest group, -1 if there is none
    IMBALANCE,
    TOTAL_LOAD,
    TOTAL_CAPACITY,
    AVG_LOAD,
    PREFER_SIBLING,  # (v6.12)
) = range(6)
