"""Record a real violation and its control on this machine (root, cgroup v1 cpuset; standard library only).

    python3 tools/record_live_pair.py -o out/

This writes out/live-balancing-off.txt and out/live-balancing-on.txt. With ``cpuset.sched_load_balance`` = 0 the root
cpuset has no scheduling domains (kernel/cgroup/cpuset-v1.c; Documentation/admin-guide/cgroup-v1/cpusets.rst, section
1.7). There is no periodic, newidle or wakeup balancing left, so processes that are forked from CPU 0 pile up there while
the other CPUs idle. The control is the same with the setting at 1. The setting is put back whatever happens: by
``finally``, and by a watchdog process that outlives this one.

The recording uses a tracefs instance of its own, so it does not disturb other tracers. It is written as ftrace text.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import time
from pathlib import Path

KNOB = Path("/sys/fs/cgroup/cpuset/cpuset.sched_load_balance")
TRACEFS = Path("/sys/kernel/tracing")
EVENTS = (
    "sched_switch",
    "sched_wakeup",
    "sched_wakeup_new",
    "sched_migrate_task",
    "sched_process_fork",
    "sched_process_exec",
    "sched_process_exit",
)


def watchdog(value: str, seconds: float) -> int:
    """Fork a process that restores the setting after ``seconds``, or earlier if this process ends, and return its pid."""
    read, write = os.pipe()
    pid = os.fork()
    if pid:
        os.close(read)
        return pid
    os.close(write)
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    import select

    # the pipe reaches its end of file when the recorder is gone, however it ended
    select.select([read], [], [], seconds)
    KNOB.write_text(value)
    os._exit(0)


class Instance:
    """A tracefs instance, until :meth:`remove`."""

    def __init__(self, name: str, buffer_kb: int) -> None:
        if not (TRACEFS / "events").is_dir():
            subprocess.run(["mount", "-t", "tracefs", "tracefs", str(TRACEFS)], check=True)
        self.path = TRACEFS / "instances" / name
        self.path.mkdir()
        self.set("tracing_on", "0")
        self.set("buffer_size_kb", str(buffer_kb))
        # one monotonic clock for all CPUs, so that the order of events across CPUs is meaningful
        self.set("trace_clock", "mono")
        for event in EVENTS:
            self.set(f"events/sched/{event}/enable", "1")

    def set(self, name: str, value: str) -> None:
        (self.path / name).write_text(value)

    def mark(self, text: str) -> None:
        self.set("trace_marker", text)

    def remove(self) -> None:
        self.set("tracing_on", "0")
        self.path.rmdir()


def burn(until: float) -> None:
    x = 1
    while time.monotonic() < until:
        for _ in range(2000):
            x = (x * 1103515245 + 12345) & 0x7FFFFFFF


def workload(children: int, seconds: float) -> None:
    """Fork ``children`` busy processes from CPU 0; each is free to run anywhere."""
    every_cpu = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(every_cpu)})
    os.sched_setaffinity(0, every_cpu)
    until = time.monotonic() + seconds
    pids = []
    for _ in range(children):
        pid = os.fork()
        if pid == 0:
            Path("/proc/self/comm").write_text("burn")
            burn(until)
            os._exit(0)
        pids.append(pid)
    for pid in pids:
        os.waitpid(pid, 0)


def record(out: Path, balance: str, children: int, seconds: float) -> None:
    before = KNOB.read_text().strip()
    trace = Instance(f"wastedcores-{os.getpid()}", 65536)
    try:
        keeper = watchdog(before, seconds + 10)
        runner = os.fork()
        if runner == 0:
            try:
                Path("/proc/self/comm").write_text("workload")
                # move to CPU 0 before changing the setting: without domains nothing would move this process there
                cpus = os.sched_getaffinity(0)
                os.sched_setaffinity(0, {min(cpus)})
                os.sched_setaffinity(0, cpus)
                KNOB.write_text(balance)
                trace.set("tracing_on", "1")
                trace.mark(f"rec: start sched_load_balance={balance}")
                workload(children, seconds)
                trace.mark("rec: end")
                trace.set("tracing_on", "0")
            finally:
                KNOB.write_text(before)
                os._exit(0)
        os.waitpid(runner, 0)
        KNOB.write_text(before)
        os.kill(keeper, signal.SIGKILL)
        os.waitpid(keeper, 0)
        text = (trace.path / "trace").read_text()
        for cpu in sorted((trace.path / "per_cpu").iterdir()):
            lost = [
                s
                for s in (cpu / "stats").read_text().splitlines()
                if s.startswith(("overrun", "dropped"))
            ]
            print(cpu.name, *lost, file=sys.stderr)
        out.write_text(text)
    finally:
        KNOB.write_text(before)
        trace.remove()
    if KNOB.read_text().strip() != before:
        sys.exit(f"{KNOB} is not back at {before}; restore it by hand.")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-o", "--output", type=Path, required=True, help="the folder to write into")
    parser.add_argument("--children", type=int, default=4, help="number of busy processes")
    parser.add_argument("--seconds", type=float, default=1.2, help="how long they run")
    parser.add_argument(
        "--name", default="a virtual machine", help="the name of this machine in the data"
    )
    options = parser.parse_args()
    if os.geteuid() != 0 or not KNOB.exists():
        sys.exit(f"This needs root and a cgroup v1 cpuset hierarchy ({KNOB}).")
    options.output.mkdir(parents=True, exist_ok=True)
    for name, balance in (("off", "0"), ("on", "1")):
        record(
            options.output / f"live-balancing-{name}.txt",
            balance,
            options.children,
            options.seconds,
        )
    facts = {
        "name": options.name,
        "model": next(
            (
                s.partition(":")[2].strip()
                for s in Path("/proc/cpuinfo").read_text().splitlines()
                if "model name" in s
            ),
            platform.machine(),
        ),
        "cpus": os.cpu_count(),
        "kernel": platform.release(),
        "children": options.children,
        "seconds": options.seconds,
    }
    (options.output / "machine.json").write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main()
