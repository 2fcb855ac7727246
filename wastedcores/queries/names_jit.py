"""The names of tasks, carried from event to event, through fork and exec, by one compiled pass."""

from __future__ import annotations

import numpy as np

from wastedcores.jit.compile import jit


@jit
def carry_names(kind, pid, comm, by_pid, by_comm, names):
    """Fill in the names that events do not have."""
    for i in range(kind.size):
        p, b = pid[i], by_pid[i]
        if b >= 0:
            if by_comm[i] >= 0:
                names[b] = by_comm[i]
            else:
                by_comm[i] = names[b]
        if p < 0:
            continue
        if kind[i] == 1 and comm[i] < 0:
            # a new task has its parent's name, even if another task had its pid before
            names[p] = names[b] if b >= 0 else -1
        if comm[i] >= 0:
            names[p] = comm[i]
        elif kind[i] != 2:  # an exec whose new name was not recorded leaves the name unknown
            comm[i] = names[p]
        else:
            names[p] = -1
        if kind[i] == 3:
            names[p] = -1


#: in the lengths: there is no length; in ``opened``: no span is open
NONE = np.iinfo(np.int64).min


@jit
def pair(
    ts, begins, ends, breaks, forgets, begin_key, end_key, break_key, begin_check, end_check, opened, at_end
):  # fmt: skip
    """Return the length of the span that each event begins or, with ``at_end``, ends; :data:`NONE` if there is no length.

    ``ts`` are rising times. The keys are numbers of the CPU or task whose span begins, ends or is broken, -1 for none. Where
    ``forgets`` is true, all open spans are broken.
    ``begin_check`` and ``end_check`` must agree in both events; with one element nothing is compared. ``opened`` has a place per
    key, :data:`NONE` everywhere.
    """
    out = np.full(ts.size, NONE, np.int64)
    first = 0  # spans that began before this event are forgotten
    for i in range(ts.size):
        if forgets[i]:
            first = i
        k = break_key[i]
        if breaks[i] and k >= 0:
            opened[k] = NONE
        k = end_key[i]
        if ends[i] and k >= 0 and opened[k] >= first:
            at = opened[k]
            if begin_check.size == 1 or begin_check[at] == end_check[i]:
                out[i if at_end else at] = ts[i] - ts[at]
            opened[k] = NONE
        k = begin_key[i]
        if begins[i] and k >= 0 and opened[k] < first:
            opened[k] = i
    return out
