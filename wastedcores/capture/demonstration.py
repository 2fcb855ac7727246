"""A real violation on demand, for tests and teaching: load balancing is turned off while processes pile up on one CPU.

Every changed setting is put back when the block ends or fails. If this process is killed, a watchdog process does this.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from wastedcores.capture.live import live_check
from wastedcores.capture.live_result import LiveCheck, LiveOptions
from wastedcores.errors import CollectorError
from wastedcores.limits import PERSIST_NS

#: the setting of cgroup v1 (Documentation/admin-guide/cgroup-v1/cpusets.rst, section 1.7). Its counterpart in v2
#: (cpuset.cpus.partition) moves CPUs to another partition instead, so the counterpart is not used here.
SETTING = Path("/sys/fs/cgroup/cpuset/cpuset.sched_load_balance")

# the watchdog reads until its parent's end of the pipe is closed for whatever reason, and then writes the old value back
_WATCHDOG = 'trap \'\' INT TERM HUP; while read -r _; do :; done; printf %s "$1" > "$2"'
_FORKER = """
import os, subprocess, sys, time
os.sched_setaffinity(0, {int(sys.argv[3])})
everywhere = range(os.cpu_count())
kids = []
for _ in range(int(sys.argv[2])):
    if not os.fork():
        os.sched_setaffinity(0, everywhere)   # it may run anywhere, but nothing moves it
        end = time.monotonic() + float(sys.argv[1])
        while time.monotonic() < end:
            pass
        os._exit(0)
time.sleep(float(sys.argv[1]))
"""


def demonstrate(
    output: str | Path,
    *,
    seconds: float = 4.0,
    tasks: int = 3,
    period_ns: int = 1_000_000_000,
    persist_ns: int = PERSIST_NS,
    alone: bool = False,
    progress: Callable[[str], None] | None = None,
) -> LiveCheck:
    """Turn load balancing off while the online checker looks, and return what the checker found.

    Parameters
    ----------
    output
        Folder for the recordings.
    seconds
        How long load balancing is off.
    tasks
        Number of busy processes that pile up on CPU 0 during this time.
    period_ns, persist_ns
        As in :class:`~wastedcores.capture.live_result.LiveOptions`.
    alone
        Whether to first take CPU 1 offline for a moment, so that other work leaves it; otherwise a busy machine has no idle CPU.
    progress
        Called with a line of text now and then.

    Returns
    -------
    LiveCheck
        What the checker saw.

    Raises
    ------
    CollectorError
        This process is not root, or there is no cgroup v1 cpuset, or no backend works.
    """
    if not SETTING.exists():
        raise CollectorError(
            f"{SETTING} is absent: provoking a violation needs a cgroup v1 cpuset hierarchy. Use a recorded trace."
        )
    looking, over = threading.Event(), threading.Event()
    failures: list[Exception] = []

    def provoke() -> None:
        looking.wait()
        try:
            with balancing_off():
                if alone:
                    push_work_away()
                with pile_up(tasks, seconds + 1):
                    over.wait(seconds)
        except Exception as e:  # raised again below, in the caller's thread
            failures.append(e)

    def forward(line: str) -> None:
        if line == "looking":
            looking.set()
        if progress is not None:
            progress(line)

    worker = threading.Thread(target=provoke)
    worker.start()
    try:
        result = live_check(
            LiveOptions(period_ns, persist_ns, before_s=seconds),
            seconds=seconds + 2,
            output=output,
            progress=forward,
        )
    finally:
        over.set()
        looking.set()
        worker.join()
    if failures:
        raise failures[0]
    return result


@contextmanager
def _restored(setting: Path, value: str) -> Iterator[None]:
    """Let the block change a setting of the kernel, and set it to ``value`` afterwards, even if this process is killed."""
    watchdog = subprocess.Popen(
        ["/bin/sh", "-c", _WATCHDOG, "watchdog", value, str(setting)],
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        yield
    finally:
        assert watchdog.stdin is not None
        watchdog.stdin.close()
        watchdog.wait()


@contextmanager
def balancing_off() -> Iterator[None]:
    """Turn load balancing between CPUs off inside the block; new tasks stay where they are forked.

    If another process is inside a block of this kind, wait until it has left, so that each process puts back the value that it
    found.

    Raises
    ------
    CollectorError
        This process is not root, or there is no cgroup v1 cpuset.
    """
    try:
        held = SETTING.open()
    except OSError as e:
        raise _cannot_change(e) from e
    with held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with _restored(SETTING, held.read().strip()):
            try:
                SETTING.write_text("0")
            except OSError as e:
                raise _cannot_change(e) from e
            yield


def _cannot_change(e: OSError) -> CollectorError:
    return CollectorError(
        f"{SETTING}: {e.strerror}. Turning load balancing off needs root and a cgroup v1 cpuset hierarchy; "
        "without them use a recorded trace, see `wastedcores data`."
    )


@contextmanager
def pile_up(tasks: int = 3, seconds: float = 5.0, cpu: int = 0) -> Iterator[int]:
    """Run busy processes during the block; all are forked from one CPU and may run on any CPU.

    Parameters
    ----------
    tasks
        Number of processes.
    seconds
        For how long each process computes at most.
    cpu
        The CPU from which they are forked.

    Yields
    ------
    int
        The process that forks them; it sleeps.
    """
    spinner = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _FORKER, str(seconds), str(tasks), str(cpu)],
        start_new_session=True,
    )
    time.sleep(0.02)
    try:
        yield spinner.pid
    finally:
        with suppress(ProcessLookupError):
            os.killpg(spinner.pid, 15)
        spinner.wait()


@contextmanager
def online_again(cpu: int) -> Iterator[None]:
    """Let the block take ``cpu`` offline, and bring it online afterwards, even if this process is killed."""
    with _restored(_online(cpu), "1"):
        yield


def push_work_away(cpu: int = 1, *, sample_s: float = 0.1) -> bool:
    """Make other work of the machine leave ``cpu`` if it is not idle, and return whether this was necessary.

    The CPU goes offline and comes back. While the balancer is off (:func:`balancing_off`), the tasks that had to leave are not
    moved back.
    """
    before = _idle_s(cpu)
    time.sleep(sample_s)
    if _idle_s(cpu) - before >= 0.9 * sample_s:
        return False
    setting = _online(cpu)
    try:
        with online_again(cpu):
            setting.write_text("0")
    except OSError as e:
        raise CollectorError(f"{setting}: {e.strerror}. Taking a CPU offline needs root.") from e
    return True


def _online(cpu: int) -> Path:
    return Path(f"/sys/devices/system/cpu/cpu{cpu}/online")


def _idle_s(cpu: int) -> float:
    for line in Path("/proc/stat").read_text().splitlines():
        if line.startswith(f"cpu{cpu} "):
            return int(line.split()[4]) / os.sysconf("SC_CLK_TCK")
    return 0.0
