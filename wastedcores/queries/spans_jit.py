"""Pairs of events that begin and end a span, found in one compiled pass."""

from __future__ import annotations

import numpy as np

from wastedcores.jit.compile import jit

#: in the lengths and in ``opened``: there is none
NONE = np.iinfo(np.int64).min


@jit
def pair(ts, begins, ends, begin_key, end_key, begin_check, end_check, opened, at_end):
    """Return the length of the span that each event begins, or, ``at_end``, of the one that it ends; :data:`NONE` without.

    ``ts`` are rising times. ``begin_key`` and ``end_key`` are numbers of the CPU or task whose span it is, -1 for none.
    ``begin_check`` and ``end_check`` must agree in both events; with one element nothing is compared. ``opened`` has a place per
    key, :data:`NONE` everywhere.
    """
    out = np.full(ts.size, NONE, np.int64)
    for i in range(ts.size):
        k = end_key[i]
        if ends[i] and k >= 0 and opened[k] != NONE:
            at = opened[k]
            if begin_check.size == 1 or begin_check[at] == end_check[i]:
                out[i if at_end else at] = ts[i] - ts[at]
            opened[k] = NONE
        k = begin_key[i]
        if begins[i] and k >= 0 and opened[k] == NONE:
            opened[k] = i
    return out
