"""The hours of many machines from their metrics: a simulated day of 10,000 in a real Prometheus, which ``fleet`` asks."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import closing, suppress
from pathlib import Path

HOURS, STEP_S, MACHINES = 24, 600, 10_000

#: asks, and prints rows, seconds, and the growth of the memory in MB
_ASK = """
import json, resource, sys, time
from pathlib import Path
import polars as pl
from wastedcores.reports.fleet import write_fleet_page
from wastedcores.sweep.prometheus import machine_hours, wasted_by_group
pl.DataFrame({"a": [1]}).group_by("a").len()
def peak():
    return next(int(l.split()[1]) for l in open("/proc/self/status") if l.startswith("VmHWM")) / 1000
before, began = peak(), time.perf_counter()
address, hours, end, folder = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), Path(sys.argv[4])
table = machine_hours(address, hours, end)
table.write_parquet(folder / "t.parquet")
write_fleet_page(table, "fleet", folder / "t.html", wasted_by_group(address, hours, end))
print(json.dumps([table.height, time.perf_counter() - began, peak() - before, peak()]))
"""


def told(machines: int, end: int):
    """Yield what the machines would have told in a day, in OpenMetrics."""
    moments = range(end - HOURS * 3600 + STEP_S, end + 1, STEP_S)
    for name, labels, value in (
        ("wasted_cpu_seconds_total", "", lambda n, k: f"{k * (n % 7)}"),
        ("longest_wait_seconds", "", lambda n, k: f"{n % 7 / 100}"),
        ("verdict", ',wastedcores_verdict="violations"', lambda n, k: f"{int(n % 50 == 0)}"),
        ("verdict", ',wastedcores_verdict="unknown"', lambda n, k: f"{int(n % 70 == 0)}"),
        ("machine_info", ',kernel="6.%d.0",cpus="64"', lambda n, k: "1"),
        ("cgroup_seconds_total", ',cgroup="/g%d",state="wasted"', lambda n, k: f"{k}"),
    ):
        for n in range(machines):
            more = labels % (n % 9) if "%d" in labels else labels
            for k, at in enumerate(moments):
                yield f'wastedcores_{name}{{instance="h{n}:9969"{more}}} {value(n, k)} {at}\n'
    yield "# EOF\n"


def asked(port: int, end: int, folder: Path) -> tuple[int, float, float, float]:
    """Ask a Prometheus in a process of its own."""
    address = f"prometheus+http://127.0.0.1:{port}"
    command = [sys.executable, "-c", _ASK, address, str(HOURS), str(end), str(folder)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(run.stdout)


def run() -> list[dict]:
    """Return the rows for RESULTS.md."""
    if shutil.which("prometheus") is None:
        return []
    end = 1_700_000_400
    with tempfile.TemporaryDirectory(prefix="wastedcores-bench-") as name:
        folder = Path(name)
        with (folder / "told.txt").open("w") as file:
            file.writelines(told(MACHINES, end))
        began = time.perf_counter()
        store = ["promtool", "tsdb", "create-blocks-from", "openmetrics", "told.txt", "data"]
        subprocess.run(store, cwd=folder, check=True, capture_output=True)
        stored_s = time.perf_counter() - began
        (folder / "c.yml").write_text("scrape_configs: []\n")
        with closing(socket.create_server(("127.0.0.1", 0))) as free:
            port = free.getsockname()[1]
        server = subprocess.Popen(
            ["prometheus", "--config.file=c.yml", "--storage.tsdb.path=data", "--storage.tsdb.retention.time=100y",
             f"--web.listen-address=127.0.0.1:{port}"], cwd=folder, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            while True:
                if server.poll() is not None:
                    raise RuntimeError(f"Prometheus ended with code {server.returncode}.")
                with suppress(OSError):
                    urllib.request.urlopen(f"http://127.0.0.1:{port}/-/ready")
                    break
                time.sleep(0.2)
            rows, seconds, grown, peak = asked(port, end, folder)
        finally:
            server.terminate()
            server.wait()
    return [
        {
            "id": "fleet_metrics_seconds",
            "name": f"{HOURS} hours of {MACHINES:,} machines from their metrics: table and page",
            "value": round(seconds, 1),
            "unit": "s",
            "goal": "-",
            "note": f"{rows:,} rows, with the time of a Prometheus on the same machine, which had a sample every {STEP_S} s "
            f"(simulated, stored in {stored_s:.0f} s)",
        },
        {
            "id": "fleet_metrics_memory",
            "name": "memory of that",
            "value": round(peak),
            "unit": "MB",
            "goal": "-",
            "note": f"it grew by {grown:.0f} MB; the Prometheus is another process",
        },
    ]


if __name__ == "__main__":
    print(json.dumps(run(), indent=1))
