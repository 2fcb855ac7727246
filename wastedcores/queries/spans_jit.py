"""Pairs of events that begin and end a span, found in one compiled pass."""

from __future__ import annotations

import numpy as np

from wastedcores.jit.compile import jit

#: in the lengths and in ``opened``: there is none
NONE = np.iinfo(np.int64).min


@jit
def pair(ts, begins, ends, begin_key, end_key, begin_check, end_check, opened, at_end):
    """Return the length of the span that each event begins, or of the one that it ends.

    Parameters
    ----------
    ts : int64 (n,)
        Times, rising.
    begins, ends : bool (n,)
        Whether the event begins a span, and whether it ends one.
    begin_key, end_key : int32 (n,)
        The number of the CPU or task whose span it is; -1 is none.
    begin_check, end_check : int32 (n,) or (1,)
        Numbers of both events that must agree; with one element nothing is compared.
    opened : int64 (keys,)
        :data:`NONE` everywhere.
    at_end : bool
        Whether the lengths stand at the events that end a span.

    Returns
    -------
    int64 (n,)
        Lengths; :data:`NONE` where no span begins (ends), or where its end is not known.
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
