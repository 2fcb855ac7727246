"""Cut the wakeups of a group into the rounds of its barrier."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from wastedcores.jit.compile import jit

I64 = NDArray[np.int64]


@jit
def split(wake_ns: I64, out_ns: I64, gap_ns: int, release_ns: int, cuts: I64) -> int:
    """Write the positions where rounds begin into ``cuts``, and return the number of rounds.

    A new round begins with the wakeup of a task that fell asleep after the last round's release. It also begins with a wakeup
    that comes too long after the wakeup before it, or after the last round's release.
    """
    n, release, before = 0, 0, 0
    for i in range(len(wake_ns)):
        ts = wake_ns[i]
        if i == 0 or out_ns[i] > release or ts - before > gap_ns or ts - release > release_ns:
            release = ts
            cuts[n] = i
            n += 1
        before = ts
    return n
