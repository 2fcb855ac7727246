"""Record a load in the guest and note what the kernel itself counted meanwhile, which tells the truth beside the trace.

The kernel's own counts are read before and after the recording and do not come from any event: how long each task waited
(``/proc/PID/task/TID/schedstat``), how long each CPU's tasks waited in all and how long it was busy (``/proc/schedstat``),
and how often each control group was throttled (``cpu.stat``).
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from wastedcores.capture.snapshot import write_snapshot

OUT = Path("/tmp/out")
TRACING = Path("/sys/kernel/tracing")
EVENTS = (
    "switch",
    "wakeup",
    "wakeup_new",
    "migrate_task",
    "process_fork",
    "process_exit",
    "process_exec",
)
_LISTED = [word for e in EVENTS for word in ("-e", f"sched:sched_{e}")]


def _cpus() -> dict[str, dict[str, int]]:
    """Return per CPU how long it ran tasks and how long its tasks waited, in ns."""
    found = {}
    for line in Path("/proc/schedstat").read_text().splitlines():
        if line.startswith("cpu"):
            cpu, *fields = line.split()
            found[cpu] = {"busy_ns": int(fields[6]), "run_delay_ns": int(fields[7])}
    return found


def _tasks() -> dict[int, dict[str, Any]]:
    found = {}
    for folder in Path("/proc").glob("[0-9]*/task/[0-9]*"):
        try:
            ran, waited, _ = (folder / "schedstat").read_text().split()
            status = (folder / "status").read_text().splitlines()
            comm = (folder / "comm").read_text().strip()
        except OSError:
            continue  # the task has ended
        allowed = next(s.split()[1] for s in status if s.startswith("Cpus_allowed_list:"))
        found[int(folder.name)] = {
            "comm": comm,
            "allowed": allowed,
            "ran_ns": int(ran),
            "waited_ns": int(waited),
        }
    return found


def _throttled() -> dict[str, dict[str, int]]:
    found = {}
    for file in Path("/sys/fs/cgroup").rglob("cpu.stat"):
        lines = dict(s.split() for s in file.read_text().splitlines())
        if int(lines.get("nr_periods", 0)):
            found[str(file.parent)] = {
                k: int(v) for k, v in lines.items() if "thrott" in k or "nr_" in k
            }
    return found


def counted() -> dict[str, Any]:
    """Return the kernel's own counts now."""
    return {
        "monotonic_ns": time.monotonic_ns(),
        "cpus": _cpus(),
        "tasks": _tasks(),
        "throttled": _throttled(),
    }


def between(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """Return what was counted in between, with the tasks that ran or waited for at least 0.1 ms."""
    tasks = []
    for pid, task in after["tasks"].items():
        old = before["tasks"].get(pid, {"ran_ns": 0, "waited_ns": 0, "allowed": None})
        ran, waited = task["ran_ns"] - old["ran_ns"], task["waited_ns"] - old["waited_ns"]
        if max(ran, waited) >= 100_000:
            row = {"pid": pid, **task, "ran_ns": ran, "waited_ns": waited}
            if old["allowed"] not in (None, task["allowed"]):
                row["allowed_before"] = old["allowed"]
            tasks.append(row)
    cpus = {
        cpu: {k: v - before["cpus"][cpu][k] for k, v in now.items()}
        for cpu, now in after["cpus"].items()
        if cpu in before["cpus"]
    }
    return {
        "seconds": (after["monotonic_ns"] - before["monotonic_ns"]) / 1e9,
        "waited_ns": sum(c["run_delay_ns"] for c in cpus.values()),
        "busy_ns": sum(c["busy_ns"] for c in cpus.values()),
        "cpus": cpus,
        "tasks": sorted(tasks, key=lambda t: -t["ran_ns"]),
        "throttled": {
            group: {k: v - before["throttled"].get(group, {}).get(k, 0) for k, v in now.items()}
            for group, now in after["throttled"].items()
        },
    }


class Load:
    """Processes in a group of their own that are killed when the block ends."""

    def __init__(self, *commands: str, settle: float = 0.7) -> None:
        self.commands, self.settle = commands, settle

    def __enter__(self) -> Load:
        self.running = [
            subprocess.Popen(["sh", "-c", "exec " + c], start_new_session=True, cwd="/")
            for c in self.commands
        ]
        time.sleep(self.settle)
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.running:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def record(
    name: str,
    how: str,
    seconds: float,
    facts: dict[str, Any],
    *,
    clock: str = "mono",
    cpus: str = "",
    during: str = "",
    kib: int = 6000,
) -> None:
    """Record for some seconds into NAME.dat, NAME.perf or NAME.txt, with a snapshot from before and NAME.json.

    Parameters
    ----------
    how
        ``trace-cmd`` (started, stopped and extracted, so nothing else runs meanwhile), ``trace-cmd record`` (whose
        readers run meanwhile), ``perf``, ``ftrace`` (the kernel's text), ``window`` (the same, of an interval as short as
        asked for), ``perf sched`` (``perf sched record`` of the command ``during``, as people type it)
    clock
        the trace clock, of which perf has one only
    cpus
        a mask in hexadecimal (ftrace) or a list (perf) of the CPUs to record; empty: all
    during
        a shell command that runs while it is recorded, and ends before
    kib
        the size of the buffer of each CPU
    """
    write_snapshot(OUT / f"{name}.snapshot.json")
    (OUT / f"{name}.started").touch()
    before = counted()
    sleep = ["sh", "-c", f"{during}; exec sleep {seconds}"] if during else ["sleep", str(seconds)]
    file = (
        OUT
        / f"{name}.{ {'perf': 'perf', 'perf sched': 'perf', 'ftrace': 'txt', 'window': 'txt'}.get(how, 'dat') }"
    )
    commands: list[list[str]]
    if how == "perf":
        events = [w for e in EVENTS for w in ("-e", f"sched:sched_{e}")]
        where = ["-C", cpus] if cpus else ["-a"]
        commands = [["perf", "record", "-q", *where, *events, "-o", "/tmp/perf.data", "--", *sleep]]
        kept = "/tmp/perf.data"
    elif how == "perf sched":
        commands = [["perf", "sched", "record", "-o", "/tmp/perf.data", "--", "sh", "-c", during]]
        kept = "/tmp/perf.data"
    elif how == "trace-cmd record":
        mask = ["-M", cpus] if cpus else []
        commands = [
            [
                "trace-cmd",
                "record",
                "-q",
                "-C",
                clock,
                "-b",
                str(kib),
                *mask,
                *_LISTED,
                "--compression",
                "none",
                "-o",
                "/tmp/trace.dat",
                *sleep,
            ]
        ]
        kept = "/tmp/trace.dat"
    else:
        mask = ["-M", cpus] if cpus else []
        commands = [
            ["trace-cmd", "start", "-C", clock, "-b", str(kib), *mask, *_LISTED],
            *([] if how == "window" else [sleep]),
            ["trace-cmd", "stop"],
        ]
        kept = "/tmp/trace.dat"
    for command in commands:
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    if how == "window":
        (TRACING / "trace").write_text("")
        (TRACING / "tracing_on").write_text("1")
        time.sleep(seconds)
        (TRACING / "tracing_on").write_text("0")
    after = counted()
    (OUT / f"{name}.started").unlink()
    if how in ("ftrace", "window"):
        kept = str(TRACING / "trace")
    elif how == "trace-cmd":
        # xz packs it better than trace-cmd does
        packing = ["--compression", "none", "-o", "/tmp/trace.dat"]
        subprocess.run(["trace-cmd", "extract", *packing], check=True, stdout=subprocess.DEVNULL)
    shutil.copyfile(kept, file)
    lost = 0
    if not how.startswith("perf"):
        for stats in TRACING.glob("per_cpu/cpu*/stats"):
            lost += sum(
                int(s.partition(":")[2])
                for s in stats.read_text().splitlines()
                if s.startswith(("overrun", "dropped"))
            )
        subprocess.run(
            ["trace-cmd", "reset"],
            check=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    told = {
        "name": name,
        "kernel": platform.release(),
        "cpus": os.cpu_count(),
        "recorder": how,
        "clock": "perf" if how.startswith("perf") else clock,
        "commands": [" ".join(c) for c in commands],
        **facts,
        "events_lost": lost,
        "counted": between(before, after),
    }
    (OUT / f"{name}.json").write_text(json.dumps(told, indent=1) + "\n")
    print(f"recorded {name}", flush=True)
