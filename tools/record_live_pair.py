"""Record a real violation and its control on this machine (root, cgroup v1 cpuset, BPF or tracefs).

    sudo .venv/bin/python tools/record_live_pair.py -o out/

This writes out/live-balancing-off.parquet, out/live-balancing-on.parquet and facts about the machine. With
``cpuset.sched_load_balance`` = 0 the root cpuset has no scheduling domains (kernel/cgroup/cpuset-v1.c;
Documentation/admin-guide/cgroup-v1/cpusets.rst, section 1.7). There is no periodic, newidle or wakeup balancing left, so
processes that are forked from CPU 0 pile up there while the other CPUs idle. The control is the same with the setting at 1.
The setting is put back whatever happens. Record on a machine that is otherwise idle: each task that wakes on an idle CPU ends
an episode there.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import polars as pl

from wastedcores.capture.backends import SYSTEM_PYTHON
from wastedcores.capture.demonstration import SETTING, balancing_off, pile_up, push_work_away
from wastedcores.capture.record import capture
from wastedcores.trace.header import Window
from wastedcores.trace.trace import Trace
from wastedcores.trace.window import find_window

NAMES = {"live-balancing-off": balancing_off, "live-balancing-on": nullcontext}


#: argv: how many busy processes, and for how many seconds; they are forked from CPU 0 and may run anywhere
WORKLOAD = """
import os, sys, time
def name(comm):
    with open("/proc/self/comm", "w") as f:
        f.write(comm)
name("workload")
anywhere = os.sched_getaffinity(0)
os.sched_setaffinity(0, {min(anywhere)})
os.sched_setaffinity(0, anywhere)
until = time.monotonic() + float(sys.argv[2])
for _ in range(int(sys.argv[1])):
    if not os.fork():
        name("burn")
        while time.monotonic() < until:
            pass
        os._exit(0)
for _ in range(int(sys.argv[1])):
    os.wait()
"""


def work(trace: Trace) -> Window:
    """Return the time from the birth of the first busy process to the end of their parent; all if they were there before."""
    exits = trace.only("exit").filter(pl.col("comm") == "burn").select("pid").collect()
    hogs = trace.only("wakeup_new").filter(pl.col("pid").is_in(exits["pid"].to_list()))
    began = hogs.select(pl.col("ts_ns").min()).collect().item()
    if began is None:
        return Window(start_ns=trace.header.start_ns, end_ns=trace.header.end_ns)
    ended = trace.only("exit").filter(pl.col("comm") == "workload").select("ts_ns")
    found = find_window(trace, (began, ended.collect().item()))
    assert found is not None
    return found


@contextmanager
def piled_up(children: int) -> Iterator[Callable[[str], None]]:
    """Run the busy processes around the block, which begins when all of them compute, until a recording is complete.

    The value prints a recording's messages and knows by them when that is.
    """

    def told(line: str) -> None:
        print(line, flush=True)
        if line == "writing Parquet":
            os.killpg(forker, signal.SIGTERM)

    with pile_up(children, 600) as forker:
        while len(Path(f"/proc/{forker}/task/{forker}/children").read_text().split()) < children:
            time.sleep(0.1)
        time.sleep(1)
        yield told


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
    parser.add_argument(
        "--load", default="not otherwise idle", help="how busy this machine is, in the data"
    )
    parser.add_argument("--tool", default=Path(__file__).name, help=argparse.SUPPRESS)
    parser.add_argument("--backend", choices=("bpf", "tracefs"), default="bpf")
    parser.add_argument(
        "--pairs", type=int, help="record so many pairs, into the folders 1, 2, ... of OUTPUT"
    )
    options = parser.parse_args()
    if os.geteuid() != 0 or not SETTING.exists():
        sys.exit(f"This needs root and a cgroup v1 cpuset hierarchy ({SETTING}).")
    folders = [options.output / str(i + 1) for i in range(options.pairs or 0)] or [options.output]
    for folder in folders:
        record(folder, options)


def record(folder: Path, options: argparse.Namespace) -> None:
    """Record one pair.

    Through tracefs, which records neither affinity nor its changes, the processes are there before and after the recording, so
    that the snapshots at its ends tell where they may run.
    """
    folder.mkdir(parents=True, exist_ok=True)
    argv = [str(options.children), str(options.seconds)]
    run = [SYSTEM_PYTHON, "-I", "-S", "-c", WORKLOAD, *argv]  # its path will be in the data
    for name, balancing in NAMES.items():
        file = folder / f"{name}.parquet"
        with balancing():
            push_work_away()
            if options.backend == "tracefs":
                with piled_up(options.children) as told:
                    capture(file, seconds=options.seconds, backend="tracefs", progress=told)
            else:
                capture(file, run=run, backend="bpf", progress=print)
    cpuinfo = Path("/proc/cpuinfo").read_text().splitlines()
    models = (s.partition(":")[2].strip() for s in cpuinfo if "model name" in s)
    facts = {
        "name": options.name,
        "model": next(models, platform.machine()),
        "children": options.children,
        "seconds": options.seconds,
        "backend": {"bpf": "BPF"}.get(options.backend, options.backend),
        "tool": options.tool,
        "load": options.load,
    }
    (folder / "machine.json").write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main()
