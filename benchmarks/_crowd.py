"""Ten thousand threads that compute, and how much work they do per second of CPU time."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Self

import numpy as np

SOURCE = Path(__file__).with_name("_threads.c")


class Crowd:
    """Running threads in a session of their own. It has its own autogroup, so the rest of the machine keeps its share."""

    def __init__(self, threads: int, folder: Path) -> None:
        program, counts = folder / "threads", folder / "counts"
        subprocess.run(["gcc", "-O2", "-pthread", "-o", program, SOURCE], check=True)
        counts.write_bytes(bytes(64 * threads))
        self.counts = np.memmap(counts, np.uint64, "r").reshape(threads, 8)[:, 0]
        self.process = subprocess.Popen(
            [program, str(threads), counts], stdout=subprocess.PIPE, start_new_session=True
        )
        # the CPU clock of another process: include/linux/posix-timers_types.h, CPUCLOCK_SCHED
        self.clock = ~self.process.pid << 3 | 2

    def __enter__(self) -> Self:
        assert self.process.stdout is not None
        if self.process.stdout.readline() != b"there\n":
            raise RuntimeError(f"The threads gave up with exit code {self.process.wait()}.")
        return self

    def __exit__(self, *_: object) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def cost(self, seconds: float) -> float:
        """Return the CPU seconds per block of work in a window of some seconds."""
        cpu, done = time.clock_gettime(self.clock), int(self.counts.sum())
        time.sleep(seconds)
        return (time.clock_gettime(self.clock) - cpu) / (int(self.counts.sum()) - done)
