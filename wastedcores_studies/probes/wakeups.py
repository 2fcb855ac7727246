"""Measures with a futex between two processes how long an idle CPU needs to run a woken thread, by how long it was idle."""

from __future__ import annotations

import ctypes
import mmap
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

import polars as pl

from wastedcores.errors import UsageError

_LIMIT = "/dev/cpu_dma_latency"
_CPUIDLE = "cpuidle/state*"
_SYSFS = Path("/sys/devices/system/cpu")
#: number of futex(2) by machine
_FUTEX = {"x86_64": 202, "aarch64": 98}
_WAIT, _WAKE = 0, 1
#: offsets in the memory that both processes share: the futex, and the time at which the woken process ran (int64)
_WORD, _RAN = 0, 8
_LONGEST_NS = 100_000_000

_now = time.monotonic_ns


def idle_states(cpu: int = 0, sysfs: Path = _SYSFS) -> pl.DataFrame:
    """Read which idle states the kernel knows for a CPU.

    Parameters
    ----------
    cpu, sysfs
        The CPU, and the folder that describes CPUs.

    Returns
    -------
    polars.DataFrame
        Columns name, latency_us, residency_us and usage. It has no rows if this kernel has no cpuidle, as in many guests.
    """
    rows = []
    for folder in sorted((sysfs / f"cpu{cpu}").glob(_CPUIDLE)):
        read = {
            f: (folder / f).read_text().strip() for f in ("name", "latency", "residency", "usage")
        }
        rows.append((read["name"], *(int(read[f]) for f in ("latency", "residency", "usage"))))
    return pl.DataFrame(
        rows,
        schema={
            "name": pl.String,
            "latency_us": pl.Int64,
            "residency_us": pl.Int64,
            "usage": pl.Int64,
        },
        orient="row",
    )


def wake_latencies(
    gaps_ns: Sequence[int] = (1_000, 10_000, 100_000, 1_000_000, 10_000_000),
    runs: int = 50,
    cpus: tuple[int, int] | None = None,
    polling: bool = False,
) -> pl.DataFrame:
    """Wake a thread of another CPU with a futex after that CPU was idle for some time, and measure when it runs.

    Parameters
    ----------
    gaps_ns
        Times for which the CPU is left idle.
    runs
        Number of wakeups for each of these times.
    cpus
        CPU of the waker, which spins meanwhile, and CPU of the woken thread; by default two that this process may use.
    polling
        Forbid idle states that take time to leave, by writing 0 to /dev/cpu_dma_latency, which needs root.

    Returns
    -------
    polars.DataFrame
        One row per time: gap_us, median_us, low_us and high_us (5th and 95th percentile) from just before futex() to the first
        instruction after it; this time includes about 2 us of Python. If gap_us is short, the thread may not sleep yet.

    Raises
    ------
    UsageError
        There are not two CPUs to use, a time is impossible, this is no Linux on x86-64 or arm64, or the kernel does not let this
        user forbid idle states.
    """
    number = _FUTEX.get(os.uname().machine)
    allowed = sorted(os.sched_getaffinity(0)) if sys.platform.startswith("linux") else []
    pair = cpus or tuple(allowed[:2])
    if number is None or len(set(pair)) < 2 or not set(pair) <= set(allowed):
        raise UsageError(
            f"Wakeups need two CPUs of a Linux machine; this process may use {allowed}."
        )
    if runs < 1 or not all(0 < gap <= _LONGEST_NS for gap in gaps_ns):
        raise UsageError("Wakeups need at least 1 run, and times of up to 100 ms.")
    with _latency_limit(polling):
        return _between(pair, number, gaps_ns, runs)


@contextmanager
def _latency_limit(polling: bool) -> Iterator[None]:
    """Forbid idle states until this context ends, if ``polling`` is true."""
    if not polling:
        yield
        return
    with ExitStack() as stack:
        try:
            limit = stack.enter_context(open(_LIMIT, "wb", buffering=0))
        except OSError as e:
            raise UsageError(
                f"{_LIMIT}: {e.strerror}; idle states can be forbidden as root only."
            ) from None
        limit.write((0).to_bytes(4, sys.byteorder))
        yield


def _between(pair: tuple[int, ...], number: int, gaps_ns: Sequence[int], runs: int) -> pl.DataFrame:
    """Start the process to be woken on its CPU, and measure from the other CPU."""
    before = os.sched_getaffinity(0)
    fd = os.memfd_create("wakeups")
    os.ftruncate(fd, mmap.PAGESIZE)
    child = subprocess.Popen(
        [sys.executable, "-c", _CHILD, str(fd), str(pair[1]), str(number)], pass_fds=(fd,)
    )
    try:
        os.sched_setaffinity(0, {pair[0]})
        return _measure(mmap.mmap(fd, mmap.PAGESIZE), number, child, gaps_ns, runs)
    finally:
        child.kill()
        child.wait()
        os.close(fd)
        os.sched_setaffinity(0, before)


#: the code of the woken process: it waits until the futex changes, notes the time, and waits again
_CHILD = """
import ctypes, mmap, os, sys, time
fd, cpu, futex = map(int, sys.argv[1:])
os.sched_setaffinity(0, {cpu})
memory = mmap.mmap(fd, mmap.PAGESIZE)
word = ctypes.c_int32.from_buffer(memory, 0)
ran = ctypes.c_int64.from_buffer(memory, 8)
call, at = ctypes.CDLL(None).syscall, ctypes.byref(word)
now, seen = time.monotonic_ns, 0
ran.value = 1
while True:
    while word.value == seen:
        call(futex, at, 0, seen, None)
    ran.value = now()
    seen = word.value
"""


def _measure(
    memory: mmap.mmap,
    number: int,
    child: subprocess.Popen[bytes],
    gaps_ns: Sequence[int],
    runs: int,
) -> pl.DataFrame:
    """Wake the child again and again; the first wakeups only warm it up."""
    word, ran = ctypes.c_int32.from_buffer(memory, _WORD), ctypes.c_int64.from_buffer(memory, _RAN)
    call, at, rows = ctypes.CDLL(None).syscall, ctypes.byref(word), []
    limit = _now() + 10_000_000_000
    while not ran.value:
        _alive(child, limit)
    for gap in gaps_ns:
        took = []
        for _ in range(runs + 3):
            until = _now() + gap
            while _now() < until:
                pass
            ran.value = 0
            word.value += 1
            start = _now()
            call(number, at, _WAKE, 1)
            while not ran.value:
                _alive(child, start + 1_000_000_000)
            took.append(ran.value - start)
        found = sorted(took[3:])
        low, high = found[len(found) // 20], found[-1 - len(found) // 20]
        rows.append((gap / 1e3, median(found) / 1e3, low / 1e3, high / 1e3))
    return pl.DataFrame(rows, schema=["gap_us", "median_us", "low_us", "high_us"], orient="row")


def _alive(child: subprocess.Popen[bytes], limit_ns: int) -> None:
    """Refuse to wait for a process that has ended or does not run."""
    if _now() > limit_ns:
        state = "does not run" if child.poll() is None else "has ended"
        raise UsageError(f"The woken process {state}; the other CPU may be taken by other work.")
