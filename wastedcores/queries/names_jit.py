"""The names of tasks, carried from event to event, through fork and exec, by one compiled pass."""

from __future__ import annotations

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
        if (
            kind[i] == 1 and comm[i] < 0
        ):  # a new task has its parent's name, whoever had its pid before
            names[p] = names[b] if b >= 0 else -1
        if comm[i] >= 0:
            names[p] = comm[i]
        elif kind[i] != 2:  # an exec whose new name was not recorded leaves the name unknown
            comm[i] = names[p]
        else:
            names[p] = -1
        if kind[i] == 3:
            names[p] = -1
