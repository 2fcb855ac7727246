"""Machines with little to do, whose kernel balances as it should: nothing in these recordings is worth an alarm."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from recorder import Load, record

LOADS = "/tmp/out/loads"
CPUS = os.cpu_count()
KERNEL = ".".join(os.uname().release.split(".")[:2])
FACTS = {
    "truth": "clean",
    "because": "free threads on a kernel that balances; what any thread waited is bounded by counted.waited_ns",
    "verdict": {"alone": ["clean", "unknown"], "with_snapshot": ["clean"]},
}
#: name, load, seconds, commands
QUIET = [
    ("idle", "nothing but the kernel's own threads", 10, []),
    ("pipes-30hz", "3 pairs over pipes, 30 Hz, 200 us", 6, ["pairs pipe 3 30 200"]),
    ("sockets-5hz", "4 pairs over sockets, 5 Hz, 300 us", 8, ["pairs socket 4 5 300"]),
    ("futexes-60hz", "3 pairs over futexes, 60 Hz, 100 us", 5, ["pairs futex 3 60 100"]),
    ("pipe-1000hz", "1 pair over a pipe, 1000 Hz at most, 20 us", 3, ["pairs pipe 1 1000 20"]),
    ("futex-1000hz", "1 pair over a futex, 1000 Hz at most, 20 us", 3, ["pairs futex 1 1000 20"]),
    ("compositor", "a 60 Hz timer that wakes 3 threads of 200 us each", 5, ["compositor 60 3 200"]),
    (
        "desktop",
        "a compositor, pairs over pipes of 30 Hz and over futexes of 1 Hz",
        5,
        ["compositor 60 3 300", "pairs pipe 2 30 300", "pairs futex 2 1 300"],
    ),
]
#: percent of the machine, requests per second for each CPU, microseconds of work per request
WEB = [(1, 1, 1500), (5, 6, 1500), (20, 25, 1500)]


def record_one(
    name: str, load: str, seconds: int, commands: list[str], how: str = "trace-cmd"
) -> None:
    commands = [c if c.startswith("busybox") else f"{LOADS} {c}" for c in commands]
    with Load(*commands):
        record(
            f"{name}-{KERNEL}-{CPUS}cpu",
            how,
            seconds,
            {"class": "idle machines", "load": load, "load_commands": commands, **FACTS},
        )


def main() -> None:
    only = sys.argv[1:]
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    www = Path("/tmp/www")
    www.mkdir()
    (www / "index.html").write_text("hello\n" * 200)
    rows = [(*row, "trace-cmd") for row in QUIET]
    rows.append(
        ("idle-recorded", "nothing but trace-cmd record and its readers", 6, [], "trace-cmd record")
    )
    for percent, rate, us in WEB:
        served = [f"server 8080 {2 * CPUS} {us}", f"client 8080 {rate * CPUS}"]
        rows.append(
            (
                f"web-{percent}",
                f"a server of {2 * CPUS} processes, {rate * CPUS} requests per second",
                5,
                served,
                "trace-cmd",
            )
        )
    served = ["busybox httpd -f -p 8081 -h /tmp/www", f"client 8081 {4 * CPUS}"]
    rows.append(
        (
            "httpd",
            f"busybox httpd, a process per request, {4 * CPUS} requests per second",
            5,
            served,
            "trace-cmd",
        )
    )
    for row in rows:
        if not only or row[0] in only:
            record_one(*row)


if __name__ == "__main__":
    main()
