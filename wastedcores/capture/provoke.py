"""A true violation on demand: turn load balancing off, let processes pile up on one CPU. For tests and teaching.

The setting is put back when the block ends, when it fails, and, by a watchdog process, when we are killed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from wastedcores.errors import CollectorError

#: cgroup v1; Documentation/admin-guide/cgroup-v1/cpusets.rst, section 1.7. Its v2 counterpart (cpuset.cpus.partition)
#: moves CPUs instead, so it is not used here.
SETTING = Path("/sys/fs/cgroup/cpuset/cpuset.sched_load_balance")

# the watchdog: reads until its parent's end of the pipe is closed by whatever means, then restores
_WATCHDOG = 'trap \'\' INT TERM HUP; while read -r _; do :; done; printf %s "$1" > "$2"'
_FORKER = """
import os, subprocess, sys, time
os.sched_setaffinity(0, {int(sys.argv[3])})
everywhere = range(os.cpu_count())
kids = []
for _ in range(int(sys.argv[2])):
    if not os.fork():
        os.sched_setaffinity(0, everywhere)   # may run anywhere, but nobody moves it
        end = time.monotonic() + float(sys.argv[1])
        while time.monotonic() < end:
            pass
        os._exit(0)
time.sleep(float(sys.argv[1]))
"""


@contextmanager
def balancing_off() -> Iterator[None]:
    """Within: the kernel balances nothing between CPUs (new tasks stay where they are forked).

    Raises
    ------
    CollectorError
        Not root, or no cgroup v1 cpuset.
    """
    try:
        before = SETTING.read_text().strip()
        watchdog = subprocess.Popen(
            ["/bin/sh", "-c", _WATCHDOG, "watchdog", before, str(SETTING)],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as e:
        raise CollectorError(
            f"{SETTING}: {e.strerror}. Turning load balancing off needs root and a cgroup v1 cpuset hierarchy; "
            "without them use a recorded trace: wastedcores data list."
        ) from e
    try:
        try:
            SETTING.write_text("0")
        except OSError as e:
            raise CollectorError(
                f"{SETTING}: {e.strerror}. Turning load balancing off needs root."
            ) from e
        yield
    finally:
        assert watchdog.stdin is not None
        watchdog.stdin.close()
        watchdog.wait()


@contextmanager
def pile_up(tasks: int = 3, seconds: float = 5.0, cpu: int = 0) -> Iterator[None]:
    """Within: ``tasks`` busy processes that may run anywhere, forked from ``cpu``."""
    spinner = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _FORKER, str(seconds), str(tasks), str(cpu)],
        start_new_session=True,
    )
    time.sleep(0.02)
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            os.killpg(spinner.pid, 15)
        spinner.wait()


@contextmanager
def online_again(cpu: int) -> Iterator[None]:
    """Within: the caller may take ``cpu`` offline; afterwards, and when we are killed, it is online."""
    setting = Path(f"/sys/devices/system/cpu/cpu{cpu}/online")
    watchdog = subprocess.Popen(
        ["/bin/sh", "-c", _WATCHDOG, "watchdog", "1", str(setting)],
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        yield
    finally:
        assert watchdog.stdin is not None
        watchdog.stdin.close()
        watchdog.wait()


def push_work_away(cpu: int = 1, *, sample_s: float = 0.1) -> bool:
    """Other work of the machine leaves ``cpu`` if it is not idle; did it have to?

    The CPU goes offline and comes back. Within :func:`balancing_off` what left it stays away (until it wakes up where
    it last slept).

    Raises
    ------
    CollectorError
        Not root, or the CPU cannot go offline.
    """
    before = _idle_s(cpu)
    time.sleep(sample_s)
    if _idle_s(cpu) - before >= 0.9 * sample_s:
        return False
    setting = Path(f"/sys/devices/system/cpu/cpu{cpu}/online")
    try:
        with online_again(cpu):
            setting.write_text("0")
    except OSError as e:
        raise CollectorError(f"{setting}: {e.strerror}. Taking a CPU offline needs root.") from e
    return True


def _idle_s(cpu: int) -> float:
    for line in Path("/proc/stat").read_text().splitlines():
        if line.startswith(f"cpu{cpu} "):
            return int(line.split()[4]) / os.sysconf("SC_CLK_TCK")
    return 0.0
