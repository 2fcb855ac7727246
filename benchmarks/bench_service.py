"""The checker as a service: what a scrape costs with 1,000 control groups, and what the service costs a busy machine.

The first part needs nothing: ``python -m benchmarks.bench_service page``. The others need root and a quiet machine.
"""

from __future__ import annotations

import ctypes
import itertools
import json
import os
import platform
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks._crowd import Crowd
from wastedcores.capture import choose
from wastedcores.capture.backends import command

GROUPS, SCRAPES, THREADS, TURNS, PAIRS = 1000, 600, 10_000, 7, 61
#: how often the checker looks (M / 21.37) and takes samples
LOOK_NS, SAMPLE_NS = 4_679_457, 47_300_000
PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241}
SPIN = [sys.executable, "-I", "-S", "-c", "while True: pass"]
STATES = ["--chronic", "--tally"]


#: a process of its own asks as Prometheus does, in turns the service and the peer, and prints how long both took in ms
_SCRAPER = """
import http.client, sys, time
ask = {"Accept": "application/openmetrics-text;version=1.0.0", "Accept-Encoding": "gzip"}
for _ in range(int(sys.argv[1])):
    for address in sys.argv[2:]:
        began = time.perf_counter()
        link = http.client.HTTPConnection(address)
        link.request("GET", "/metrics", headers=ask)
        link.getresponse().read()
        link.close()
        print(1000 * (time.perf_counter() - began), end=" ", flush=True)
        time.sleep(0.05)
    print()
"""
#: the peer does nothing but answer with a page that never changes
_PEER = """
import sys
from wsgiref.simple_server import WSGIRequestHandler, make_server
class Quiet(WSGIRequestHandler):
    def log_message(self, *_): pass
body = b"x" * int(sys.argv[1])
def app(environ, start):
    start("200 OK", [])
    return [body]
server = make_server("127.0.0.1", 0, app, handler_class=Quiet)
print("%s:%d" % server.server_address, flush=True)
server.serve_forever()
"""


def page(folder: Path) -> list[dict]:
    """Measure the page of a machine with many groups over HTTP, with the kernel's counts of each read from files."""
    from prometheus_client import CollectorRegistry

    from wastedcores.capture.group_rows import GroupRows
    from wastedcores.capture.metrics import Metrics, serve

    (folder / "proc/self").mkdir(parents=True)
    (folder / "proc/self/mountinfo").write_text("36 35 0:30 / /cg rw - cgroup2 cgroup2 rw\n")
    ids = []
    for k in range(GROUPS):
        pod = folder / f"cg/kubepods.slice/kubepods-pod{k:032x}.slice"
        pod.mkdir(parents=True)
        (pod / "cpu.stat").write_text("usage_usec 1\nuser_usec 1\nthrottled_usec 5\n")
        ids.append(pod.stat().st_ino)
    (folder / "cg/cgroup.controllers").write_text("cpu\n")
    metrics = Metrics(GroupRows(GROUPS, root=folder))
    registry = CollectorRegistry()
    registry.register(metrics)
    host, port, served = serve(registry, ":0")
    told = itertools.count(1)

    def tell() -> None:
        n = next(told)
        sample = dict.fromkeys(("cut", "beside_ns", "wasted_ns", "kernel_ns", "cpu_s"), n)
        groups = [[i, 10**9, 10**8, 10**7, 10**6] for i in ids]
        metrics.message(
            {"event": "progress", "checks": n, "groups": groups, "sample": sample | {"samples": n, "resident": 1}}
        )  # fmt: skip
        served.update()

    tell()
    with urllib.request.urlopen(f"http://{host}:{port}/metrics") as answer:
        size = len(answer.read())
    spun = os.times()
    served.update(at_once=True)
    made_ms = 1000 * (sum(os.times()[:2]) - sum(spun[:2]))
    rows = [
        {
            "id": "page_bytes",
            "name": f"metrics: page with {GROUPS:,} control groups",
            "value": size,
            "unit": "B",
            "goal": "< 1,000,000",
            "met": size < 1_000_000,
            "note": f"making it takes {made_ms:.0f} ms of CPU time, at most every 5 s",
        }
    ]
    for kind, hogs in (("quiet", 0), ("loaded", 4 * (os.cpu_count() or 1))):
        took, peer = scraped(f"{host}:{port}", hogs, size // 10, tell)
        p99, p99_peer = float(np.percentile(took, 99)), float(np.percentile(peer, 99))
        rows.append(
            {
                "id": f"scrape_p99_{kind}",
                "name": f"metrics: scrape with {GROUPS:,} control groups, 99 %"
                + (f", beside {hogs} spinning processes" if hogs else ""),
                "value": round(p99, 1),
                "unit": "ms",
                "goal": "< 50",
                "met": p99 < 50,
                "peer": f"a server of one constant page: {p99_peer:.1f} ms",
                "note": f"{took.size} scrapes over HTTP while all groups change every second, and as many of the peer in turns; "
                f"medians {float(np.median(took)):.1f} and {float(np.median(peer)):.1f} ms",
            }
        )
    return rows


def scraped(address: str, hogs: int, size: int, tell: Callable[[], None]) -> np.ndarray:
    """Return how long scrapes of the service and of the peer took, in ms, beside so many processes that spin."""
    running = [subprocess.Popen(SPIN) for _ in range(hogs)]
    try:
        peer = subprocess.Popen([sys.executable, "-I", "-c", _PEER, str(size)], stdout=subprocess.PIPE, text=True)  # fmt: skip
        running.append(peer)
        assert peer.stdout is not None
        command = [sys.executable, "-I", "-c", _SCRAPER, str(SCRAPES), address, peer.stdout.readline().strip()]  # fmt: skip
        scraper = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        while scraper.poll() is None:
            tell()
            time.sleep(1)
        assert scraper.stdout is not None
        return np.array([[float(ms) for ms in line.split()] for line in scraper.stdout]).T
    finally:
        for process in running:
            process.kill()
            process.wait()


@contextmanager
def timers() -> Iterator[None]:
    """Only the timers, as perf events without a program:"""
    with ExitStack() as opened:
        for period_ns in (LOOK_NS, SAMPLE_NS):
            # struct perf_event_attr: PERF_TYPE_SOFTWARE, size, PERF_COUNT_SW_CPU_CLOCK, sample_period; of any task on CPU 0
            attr = ctypes.create_string_buffer(struct.pack("<IIQQ", 1, 128, 0, period_ns), 128)
            number = PERF_EVENT_OPEN[platform.machine()]
            event = ctypes.CDLL(None).syscall(number, attr, -1, 0, -1, 8)
            assert event >= 0
            opened.callback(os.close, event)
        yield


def overhead(folder: Path) -> list[dict]:
    """Measure what the checker with its samples costs beside many threads."""
    from benchmarks.bench_capture import Recording, cpu_share, throughput

    with Crowd(THREADS, folder) as crowd:
        return [
            cpu_share("checker with samples", STATES),
            throughput(
                "checker with samples",
                crowd,
                partial(Recording, "unclaimed.py", STATES),
                timers,
                PAIRS,
            ),
        ]


def started(folder: Path) -> tuple[float, str, subprocess.Popen[str]]:
    """Start the service; return how long it took until it looked, the address of its page, and its process."""
    began = time.monotonic()
    run = subprocess.Popen(
        [sys.executable, "-m", "wastedcores", "watch", "--serve", ":0", "-o", str(folder / "e")],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    assert run.stderr is not None
    address = ""
    for line in run.stderr:
        address = line.split()[-1] if line.startswith("metrics at") else address
        if line.strip() == "looking":
            break
    return time.monotonic() - began, address, run


def service(folder: Path) -> list[dict]:
    """Measure how long the service takes to look, and the memory of its two processes after a minute."""
    load, took = os.getloadavg()[0], []
    for n in range(TURNS):
        start_s, address, run = started(folder)
        took.append(start_s)
        if n < TURNS - 1:
            run.terminate()
            run.wait()
    start_s = float(np.median(took))
    time.sleep(60)
    with urllib.request.urlopen(address) as answer:
        lines = answer.read().decode().splitlines()
    run.terminate()
    run.wait()
    memory = {
        part: float(next(v for v in lines if v.startswith(f'wastedcores_resident_bytes{{part="{part}"')).split()[-1]) / 1e6
        for part in ("collector", "server")
    }  # fmt: skip
    goals = {"collector": 64, "server": 150}
    return [
        {
            "id": "service_start",
            "name": "service: from its start to its first look",
            "value": round(start_s, 2),
            "unit": "s",
            "goal": "< 2 (with a CO-RE object)",
            "met": start_s < 2,
            "note": f"with {choose('bpf', checker=True).why}; median of {TURNS} starts, {min(took):.2f} to {max(took):.2f} s, "
            f"load {load:.1f}",
        },
        *(
            {
                "id": f"service_{part}_memory",
                "name": f"service: memory of the {part}",
                "value": round(memory[part], 1),
                "unit": "MB",
                "goal": f"< {goals[part]}",
                "met": memory[part] < goals[part],
            }
            for part in goals
        ),
    ]


def ways(folder: Path) -> list[dict]:
    """Measure, in turns, how the checker starts with the object that was built before and with bcc."""
    took: dict[str, list[tuple[float, float]]] = {"object": [], "bcc": []}
    for _ in range(TURNS):
        for way, option in (("object", []), ("bcc", ["--bcc"])):
            arguments = ["--framed", *STATES, *option]
            began = time.monotonic()
            run = subprocess.Popen(
                command("unclaimed.py", arguments, choose("bpf", checker=True)),
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
            assert run.stdout is not None
            ready = json.loads(run.stdout.readline())
            start_s = time.monotonic() - began
            assert ready["way"] == way, ready
            run.terminate()
            run.stdout.close()
            _, run.returncode, used = os.wait4(run.pid, 0)
            took[way].append((start_s, used.ru_maxrss / 1e3))
    (start, memory), (start_bcc, memory_bcc) = (np.median(t, axis=0) for t in took.values())
    return [
        {
            "id": "collector_start",
            "name": "checker: from the start of its process to its first look, with the object",
            "value": round(float(start), 2),
            "unit": "s",
            "goal": "-",
            "peer": f"compiled by bcc: {start_bcc:.2f} s",
            "note": f"medians of {TURNS} turns",
        },
        {
            "id": "collector_peak",
            "name": "checker: most memory of a process while it starts, with the object",
            "value": round(float(memory), 1),
            "unit": "MB",
            "goal": "-",
            "peer": f"compiled by bcc: {memory_bcc:.1f} MB",
            "note": f"medians of {TURNS} turns",
        },
    ]


def run(parts=(page, ways, service, overhead)) -> list[dict]:
    """Return the rows for RESULTS.md."""
    rows = []
    for part in parts:
        with tempfile.TemporaryDirectory(prefix="wastedcores-bench-") as name:
            rows += part(Path(name))
    return rows


if __name__ == "__main__":
    every = (page, ways, service, overhead)
    print(
        json.dumps(
            run([part for part in every if part.__name__ in sys.argv[1:]] or every), indent=1
        )
    )
