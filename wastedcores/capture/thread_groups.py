"""A program to record: groups of 1, 2, ... threads that checksum 240 KB each (Sites, Anomalies in Linux Processor Use).

    wastedcores capture -o rr.parquet -- python -m wastedcores.capture.thread_groups --policy rr --most 8 --work 0.2

The recording has what :mod:`wastedcores.analysis.thread_groups` and :func:`wastedcores.figures.group_stays` need. SCHED_FIFO and
SCHED_RR need root. Each thread does the same number of checksums, which takes ``--work`` seconds on an otherwise idle CPU.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from wastedcores.capture.thread_groups_jit import checksum

ARRAY_BYTES = 240_000
POLICIES = {"other": os.SCHED_OTHER, "fifo": os.SCHED_FIFO, "rr": os.SCHED_RR}
#: the same values as in the recordings of guests
PRIORITY, REST_S = 50, 0.05


def calibrated(array: np.ndarray, work_s: float) -> int:
    """Return how many checksums take ``work_s``, from the fastest of five trials, since other work only makes trials slower."""
    checksum(array, 1)
    fastest = np.inf
    for _ in range(5):
        began = time.thread_time()
        checksum(array, 50)
        fastest = min(fastest, (time.thread_time() - began) / 50)
    return max(1, round(work_s / fastest))


def run_groups(most: int, work_s: float, policy: str) -> None:
    """Run the groups one after the other."""
    array = np.arange(ARRAY_BYTES // 8, dtype=np.int64)
    times = calibrated(array, work_s)
    if policy != "other":
        os.sched_setscheduler(0, POLICIES[policy], os.sched_param(PRIORITY))

    def work(name: str) -> None:
        Path(f"/proc/self/task/{threading.get_native_id()}/comm").write_text(name)
        checksum(array, times)

    for n in range(1, most + 1):
        threads = [threading.Thread(target=work, args=(f"g{n}-{i}",)) for i in range(n)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        time.sleep(REST_S)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program and return its exit code."""
    p = argparse.ArgumentParser(
        prog="python -m wastedcores.capture.thread_groups", description=__doc__.partition("\n")[0]
    )
    p.add_argument("--most", type=int, default=12, help="threads of the last group (default: 12)")
    p.add_argument(
        "--work", type=float, default=1.0, help="CPU seconds of each thread (default: 1)"
    )
    p.add_argument("--policy", choices=list(POLICIES), default="other", help="default: other")
    a = p.parse_args(argv)
    if not 1 <= a.most <= 64 or not 0 < a.work < 1000:
        p.error("expected 1 to 64 threads and more than 0 seconds of work")
    try:
        run_groups(a.most, a.work, a.policy)
    except PermissionError:
        print(
            f"SCHED_{a.policy.upper()} needs root (or CAP_SYS_NICE); --policy other does not",
            file=sys.stderr,
        )
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
