"""The right answer to the last task of lab 1. The lab itself uses this function, too, to draw fair variations."""

from __future__ import annotations


def episodes(rows: list[tuple[int, int, int]], start_ns: int, end_ns: int) -> list[tuple[int, int]]:
    """Return the times at which one of two CPUs is idle and the other one is overloaded.

    * ``rows``: the changes of the runqueues, as ``rows()`` of the lab returns them.
    * Returns the first and the last ns of each episode.
    """
    found, begin = [], None
    nr: dict[int, int] = {}
    inside = [(t, cpu, n) for t, cpu, n in rows if start_ns < t < end_ns]
    known = {cpu: n for t, cpu, n in rows if t <= start_ns}
    changes = [*((start_ns, cpu, n) for cpu, n in known.items()), *inside]
    for i, (t, cpu, n) in enumerate(changes):
        nr[cpu] = n
        if i + 1 < len(changes) and changes[i + 1][0] == t:
            continue
        bad = min(nr.values()) == 0 and max(nr.values()) >= 2
        if bad and begin is None:
            begin = t
        elif not bad and begin is not None:
            found.append((begin, t))
            begin = None
    return [*found, (begin, end_ns)] if begin is not None else found
