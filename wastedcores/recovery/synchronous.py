"""Wakeups with the hint that the waker will sleep soon (WF_SYNC), as a write to a pipe or a Unix socket gives it.

No event tells it, but the CPU does that the kernel chose. Where the sleeper's last CPU was idle and has another last-level cache
than the waker, and the waker was alone on its CPU, an ordinary wakeup leaves the sleeper where it was, but a synchronous one
pulls it to the waker's cache (wake_affine_idle() in kernel/sched/fair.c of v6.1 and v6.12).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from wastedcores.recovery import stretches_jit as sj
from wastedcores.recovery.task_tables import Seen

I64 = NDArray[np.int64]

#: so many wakeups of a pair must tell; then the majority decides
ENOUGH = 3


def synchronous(seen: Seen, sleeps: I64, pair: I64, llc_of_cpu: I64 | None) -> NDArray[np.bool_]:
    """Return for each pair of a waker and a sleeper whether the one wakes the other synchronously."""
    pairs = int(pair.max(initial=-1)) + 1
    if llc_of_cpu is None or len(llc_of_cpu) < seen.cpus or not pairs:
        return np.zeros(pairs, np.bool_)
    when, before, after = sleeps[:, [sj.S_WAKER_NS, sj.S_FROM_CPU, sj.S_WAKE_CPU]].T
    waker = seen.cpu(sleeps[:, sj.S_WAKER], when)
    telling = (waker >= 0) & (llc_of_cpu[waker] != llc_of_cpu[before])
    telling &= (seen.runnable(waker, when) == 1) & (seen.runnable(before, when) == 0)
    pulled = telling & (llc_of_cpu[waker] == llc_of_cpu[after])
    all_of, of_those = (np.bincount(pair[told], minlength=pairs) for told in (telling, pulled))
    sync: NDArray[np.bool_] = (all_of >= ENOUGH) & (2 * of_those > all_of)
    return sync
