"""Tasks that may not use every CPU, or not all the time; and tasks that may, and are kept from it by the kernel.

The first are no waste, however long they wait beside an idle CPU. The second are: balancing is switched off for their CPUs
(an isolated partition of cgroup version 2, or ``cpuset.sched_load_balance`` of version 1), so they stay on the CPU on which
they began although they may run on the other one, too.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from recorder import Load, record

LOADS = "/tmp/out/loads"
GROUPS = Path("/sys/fs/cgroup")
CLEAN = {"alone": ["clean", "unknown"], "with_snapshot": ["clean", "unknown"]}
TOLD = {"alone": ["clean", "unknown"], "with_snapshot": ["clean"]}
WASTE = {"alone": ["violations", "unknown"], "with_snapshot": ["violations"]}
SHORT = {"alone": ["unknown"], "with_snapshot": ["unknown"]}
REFUSED = {"alone": ["refused", "unknown"], "with_snapshot": ["refused", "unknown"]}

LIMITED: list[tuple[str, Callable[[str], None]]] = []
VERSION_1: list[tuple[str, Callable[[str], None]]] = []


def named(
    name: str, rows: list[tuple[str, Callable[[str], None]]] = LIMITED
) -> Callable[[Any], Any]:
    def add(function: Callable[[str], None]) -> Callable[[str], None]:
        rows.append((name, function))
        return function

    return add


@contextmanager
def group(name: str, **settings: str) -> Iterator[str]:
    """Make a control group of version 2; the value is the start of a shell command that enters it."""
    made = GROUPS / name
    made.mkdir()
    for file, text in settings.items():
        (made / file.replace("__", ".")).write_text(text)
    try:
        yield f"sh -c 'echo $$ > {made}/cgroup.procs; exec \"$@\"' sh"
    finally:
        for _ in range(50):
            with suppress(OSError):  # until its processes are gone
                made.rmdir()
            if not made.exists():
                break
            time.sleep(0.1)


def facts(
    truth: str, because: str, verdict: dict[str, list[str]], load: str, *commands: str
) -> dict[str, Any]:
    return {
        "class": "limited tasks",
        "load": load,
        "load_commands": list(commands),
        "truth": truth,
        "because": because,
        "verdict": verdict,
    }


def in_two_cpus(name: str, how: str, enter: str, kept: str) -> None:
    load = f"{enter} {LOADS} fork 4 30"
    with Load(load):
        record(
            name,
            how,
            4,
            facts(
                "clean",
                f"the four loops may use CPUs 0 and 1 only ({kept}), which are busy",
                TOLD,
                "four loops that fork a child of 30 ms and wait for it",
                load,
            ),
        )


@named("cpuset-v2")
def cpuset_v2(name: str) -> None:
    with group("two", cpuset__cpus="0-1") as enter:
        for how, end in (("trace-cmd record", "dat"), ("perf", "perf"), ("ftrace", "txt")):
            in_two_cpus(f"{name}-{end}", how, enter, "cpuset.cpus")


@named("taskset")
def taskset(name: str) -> None:
    load = f"taskset -c 0,1 {LOADS} spin 4 40 5"
    for how, end in (("trace-cmd record", "dat"), ("perf", "perf")):
        with Load(load):
            record(
                f"{name}-{end}",
                how,
                4,
                facts(
                    "clean",
                    "four threads that may use CPUs 0 and 1 only",
                    TOLD,
                    "four threads that compute 40 ms and sleep 5 ms",
                    load,
                ),
            )


@named("repinned")
def repinned(name: str) -> None:
    load = f"{LOADS} spin 2 100000 0"
    with Load(load):
        record(
            name,
            "trace-cmd record",
            3.5,
            facts(
                "clean",
                "two free threads on CPUs of their own until `taskset -ap 1`, and from then on bound to CPU 0",
                CLEAN,
                "two threads that compute",
                load,
            ),
            during="sleep 1.5; taskset -ap 1 $(pidof loads) >/dev/null",
        )


@named("quota")
def quota(name: str) -> None:
    load = f"{LOADS} spin 4 100000 0"
    for period, limit in (
        ("100ms", "50000 100000"),
        ("20ms", "4000 20000"),
        ("20ms-most", "19000 20000"),
    ):
        with group("quota", cpu__max=limit) as enter, Load(f"{enter} {load}"):
            record(
                f"{name}-{period}",
                "trace-cmd record",
                4,
                facts(
                    "clean",
                    "a throttled thread may not run anywhere (counted.throttled); all may use every CPU",
                    CLEAN,
                    "four threads that compute, in a group with cpu.max",
                    f"cpu.max={limit}",
                    load,
                ),
            )


@named("hotplug")
def hotplug(name: str) -> None:
    load = f"{LOADS} spin 2 40 15"
    cpu = "/sys/devices/system/cpu/cpu3/online"
    with Load(load):
        record(
            name,
            "trace-cmd record",
            1.5,
            facts(
                "clean",
                "two free threads, and never less than three CPUs",
                CLEAN,
                "two threads that compute 40 ms and sleep 15 ms",
                load,
            ),
            during=f"sleep 1; echo 0 > {cpu}; sleep 1; echo 1 > {cpu}",
        )


@named("pid-reuse")
def pid_reuse(name: str) -> None:
    limit = Path("/proc/sys/kernel/pid_max")
    old = limit.read_text()
    load = f"{LOADS} pidreuse 4 20"
    limit.write_text("400")
    try:
        with Load(load):
            record(
                name,
                "trace-cmd record",
                4,
                facts(
                    "clean",
                    "each parent and its children are bound to CPU 0 or to CPU 1; with pid_max=400 children soon have the "
                    "pid of a dead one of the other CPU",
                    CLEAN,
                    "four parents that fork children of 20 ms",
                    load,
                ),
            )
    finally:
        limit.write_text(old)


@named("unrecorded")
def unrecorded(name: str) -> None:
    load = f"taskset -c 0,1 {LOADS} spin 4 40 5"
    for how, cpus, end in (
        ("trace-cmd record", "e", "dat"),
        ("perf", "1-3", "perf"),
        ("ftrace", "e", "txt"),
    ):
        with Load(load):
            record(
                f"{name}-{end}",
                how,
                3,
                facts(
                    "clean",
                    "CPU 0, which was not recorded, was busy; CPUs 2 and 3 are not allowed",
                    CLEAN,
                    "four threads that may use CPUs 0 and 1 only",
                    load,
                ),
                cpus=cpus,
            )


@named("free")
def free(name: str) -> None:
    for kind, words in (("spin", "spin 2 40 15"), ("fork", "fork 2 30")):
        with Load(f"{LOADS} {words}"):
            record(
                f"{name}-{kind}",
                "trace-cmd record",
                4,
                facts(
                    "clean",
                    "two free threads on four CPUs, and a kernel that balances",
                    TOLD,
                    "at most two at a time compute",
                    f"{LOADS} {words}",
                ),
            )


@contextmanager
def unbalanced() -> Iterator[str]:
    """Run three threads in an isolated partition of CPUs 2 and 3, where all stay where they began."""
    with group("apart", cpuset__cpus="2-3", cpuset__cpus__partition="isolated") as enter:
        load = f"{enter} {LOADS} spin 3 100000 0"
        with Load(load):
            yield load


APART = "three threads may use CPUs 2 and 3 and are all on one of them (counted.tasks, counted.cpus): the other one idles"


@named("partition")
def partition(name: str) -> None:
    with unbalanced() as load:
        for how, end in (("trace-cmd record", "dat"), ("perf", "perf"), ("ftrace", "txt")):
            record(
                f"{name}-{end}",
                how,
                3,
                facts("violations", APART, WASTE, "three threads that compute", load),
            )


@named("clock")
def clock(name: str) -> None:
    with unbalanced() as load:
        for time_of in ("mono", "boot", "global", "local", "uptime", "counter", "x86-tsc"):
            counts = time_of in ("uptime", "counter", "x86-tsc")
            record(
                f"{name}-{time_of}",
                "trace-cmd",
                1.2,
                facts(
                    "violations",
                    APART + ("; the clock does not count ns" if counts else ""),
                    REFUSED if counts else WASTE,
                    "three threads that compute",
                    load,
                ),
                clock=time_of,
            )
        for time_of in ("uptime", "counter", "x86-tsc"):
            record(
                f"{name}-{time_of}-txt",
                "ftrace",
                1.2,
                facts(
                    "violations",
                    APART + "; the clock does not count ns",
                    REFUSED,
                    "three threads that compute",
                    load,
                ),
                clock=time_of,
            )


@named("short")
def short(name: str) -> None:
    with unbalanced() as load:
        for ms in (4, 50):
            record(
                f"{name}-{ms}ms",
                "window",
                ms / 1000,
                facts(
                    "violations",
                    APART + f"; but {ms} ms are shorter than an episode has to be",
                    SHORT,
                    "three threads that compute",
                    load,
                ),
            )


@named("cpuset-v1", VERSION_1)
def cpuset_v1(name: str) -> None:
    two = GROUPS / "cpuset/two"
    two.mkdir()
    (two / "cpuset.cpus").write_text("0-1")
    (two / "cpuset.mems").write_text("0")
    in_two_cpus(
        f"{name}-dat",
        "trace-cmd record",
        f"sh -c 'echo $$ > {two}/tasks; exec \"$@\"' sh",
        "cpuset.cpus",
    )


@named("unbalanced-v1", VERSION_1)
def unbalanced_v1(name: str) -> None:
    flag = GROUPS / "cpuset/cpuset.sched_load_balance"
    flag.write_text("0")
    load = f"{LOADS} spin 3 100000 0"
    try:
        with Load(load):
            record(
                f"{name}-dat",
                "trace-cmd record",
                3,
                facts(
                    "violations",
                    "three threads may use all CPUs, and stay on the one on which they began (counted.cpus), because "
                    "the root cpuset does not balance",
                    WASTE,
                    "three threads that compute",
                    load,
                ),
            )
    finally:
        flag.write_text("1")


@named("clock-v1", VERSION_1)
def clock_of_two(name: str) -> None:
    """Record with clocks that do not count ns; in a machine of two CPUs (--cpus 2)."""
    flag = GROUPS / "cpuset/cpuset.sched_load_balance"
    flag.write_text("0")
    load = f"{LOADS} spin 3 100000 0"
    why = (
        "three threads stay on one of two CPUs, which are not balanced; the clock does not count ns"
    )
    try:
        with Load(load):
            for time_of in ("uptime", "counter", "x86-tsc"):
                told = facts("violations", why, REFUSED, "three threads that compute", load)
                for how, end in (("trace-cmd", "dat"), ("ftrace", "txt")):
                    record(f"{name}-{time_of}-{end}", how, 1.2, told, clock=time_of)
    finally:
        flag.write_text("1")


@named("hotplug-2cpu", VERSION_1)
def hotplug_of_two(name: str) -> None:
    load = f"{LOADS} spin 2 40 15"
    cpu = "/sys/devices/system/cpu/cpu1/online"
    with Load(load):
        why = "two free threads share CPU 0 while CPU 1 is off; in a machine of two CPUs (--cpus 2)"
        what = "two threads that compute 40 ms and sleep 15 ms"
        during = f"sleep 1; echo 0 > {cpu}; sleep 1; echo 1 > {cpu}"
        told = facts("clean", why, CLEAN, what, load)
        record(name, "trace-cmd", 1.5, told, during=during)


@named("unrecorded-2cpu", VERSION_1)
def unrecorded_of_two(name: str) -> None:
    load = f"taskset -c 0,1 {LOADS} spin 4 40 5"
    with Load(load):
        why = "CPU 0, which was not recorded, was busy; in a machine of two CPUs (--cpus 2)"
        what = "four threads that compute 40 ms and sleep 5 ms"
        record(name, "perf", 3, facts("clean", why, CLEAN, what, load), cpus="1")


MAKEFILE = """
all: $(shell seq 24)
%:
\t@head -c 60000 /tmp/out/loads | gzip -9 | sha256sum > /tmp/made.$@
"""


@named("perf-make", VERSION_1)
def perf_make(name: str) -> None:
    Path("/tmp/Makefile").write_text(MAKEFILE)
    record(
        name,
        "perf sched",
        0,
        facts(
            "clean",
            "free processes on a kernel that balances",
            TOLD,
            "make -j2 of 24 short pipelines",
        ),
        during="make -s -f /tmp/Makefile -j2",
    )


def main() -> None:
    version, *only = sys.argv[1:]
    if version == "v1":
        subprocess.run(["mount", "-t", "tmpfs", "none", GROUPS], check=True)
        (GROUPS / "cpuset").mkdir()
        subprocess.run(
            ["mount", "-t", "cgroup", "-o", "cpuset", "none", GROUPS / "cpuset"], check=True
        )
    else:
        subprocess.run(["mount", "-t", "cgroup2", "none", GROUPS], check=True)
        (GROUPS / "cgroup.subtree_control").write_text("+cpu +cpuset")
    failed = []
    for name, function in VERSION_1 if version == "v1" else LIMITED:
        if not only or name in only:
            try:
                function(name)
            except (OSError, subprocess.CalledProcessError) as e:
                failed.append(f"{name}: {e}")
    print("\n".join(failed))
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
