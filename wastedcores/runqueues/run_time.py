"""How long every task ran in a window."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from wastedcores.runqueues.run_time_jit import add_switches
from wastedcores.runqueues.stream import Runqueues


def run_times(rq: Runqueues, start_ns: int, end_ns: int) -> NDArray[np.int64]:
    """Return the time that every task was on a CPU."""
    since = np.zeros(rq.cpus, np.int64)
    runs = np.full(rq.cpus, -1, np.int32)
    ran_ns = np.zeros(rq.pids, np.int64)
    for batch in rq.trace.batches(["ts_ns", "cpu", "pid"], "switch"):
        ts_ns, cpu, pid = (batch[c].to_numpy() for c in ("ts_ns", "cpu", "pid"))
        add_switches(ts_ns, cpu, pid, start_ns, end_ns, since, runs, ran_ns)
    end = np.full(rq.cpus, rq.end_ns)
    idle = np.zeros(rq.cpus, np.int32)
    cpus = np.arange(rq.cpus, dtype=np.int32)
    add_switches(end, cpus, idle, start_ns, end_ns, since, runs, ran_ns)
    return ran_ns
